"""A memory over a wrapped store is the memory over the store: history, operations, tombstones, recall."""

from pathlib import Path
from typing import Any

import pytest

from tellback.memory import LongTermMemory, run_sync
from tellback.memory.testing import WrappedMemoryContract
from tellback.vectorstore import UnsupportedError, VectorStore, WrapperStore, open_store
from tellback.vectorstore.testing import ModelStore


class NumpyInside(WrappedMemoryContract):
    def make_store(self, path: Path) -> VectorStore:
        return open_store("numpy:")


class SqliteInside(WrappedMemoryContract):
    persists = True

    def make_store(self, path: Path) -> VectorStore:
        return open_store(f"sqlite:///{path / 'memory.db'}")


def plainly(self: WrappedMemoryContract, store: VectorStore) -> VectorStore:
    return WrapperStore(store)


class TestPlainWrapperOfNumpy(NumpyInside):
    wrap = plainly


class TestPlainWrapperOfSqlite(SqliteInside):
    wrap = plainly


class Losing(WrapperStore):
    """Wrapper without the database of its store."""

    database = None  # type: ignore[assignment]


def test_the_contract_notices_a_wrapper_that_loses_the_file(tmp_path: Path) -> None:
    class Contract(SqliteInside):
        def wrap(self, store: VectorStore) -> VectorStore:
            return Losing(store)

    for test in (
        Contract.test_its_parts_are_kept_where_they_are_kept_without_the_wrapper,
        Contract.test_a_memory_written_through_the_wrapper_reads_the_same_without_it,
    ):
        folder = tmp_path / test.__name__
        folder.mkdir()
        with pytest.raises(AssertionError):
            test(Contract(), folder)


def refuse(*values: Any, **options: Any) -> Any:
    raise PermissionError("not for you")


@pytest.mark.parametrize(
    ("changed", "asked"),
    [("search", "view"), ("get", "view"), ("count", "view"), ("scan", "scan_by"), ("delete", "erase")],
)
def test_a_wrapper_whose_own_method_a_memory_would_pass_by_is_refused_with_the_reason(
    changed: str, asked: str, tmp_path: Path
) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    checking = type("Checking", (WrapperStore,), {changed: refuse})
    for wrapped in (checking(store), WrapperStore(checking(store))):
        with pytest.raises(
            UnsupportedError, match=f"Checking changes '{changed}', and a memory asks '{asked}' instead"
        ):
            LongTermMemory(wrapped)
    store.close()


def test_a_wrapper_of_a_store_with_data_alone_is_asked_itself() -> None:
    store = type("Checking", (WrapperStore,), {"search_text": refuse})(ModelStore())
    memory = LongTermMemory(store)
    run_sync(memory.remember("The code of the gate is 4417."))
    with pytest.raises(PermissionError, match="not for you"):
        run_sync(memory.recall("What is the code of the gate?"))


def test_a_memory_uses_the_view_of_a_wrapper(tmp_path: Path) -> None:
    class Checking(WrapperStore):
        view = search = search_text = refuse

    store = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    memory = LongTermMemory(Checking(store))
    run_sync(memory.remember("The code of the gate is 4417."))
    with pytest.raises(PermissionError, match="not for you"):
        run_sync(memory.recall("What is the code of the gate?"))
    run_sync(memory.close())
