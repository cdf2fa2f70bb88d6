"""A memory over a wrapped store is the memory over the store: history, operations, tombstones, recall."""

from pathlib import Path

import pytest

from memory.testing import WrappedMemoryContract
from vectorstore import ObservableStore, VectorStore, WrapperStore, open_store


class NumpyInside(WrappedMemoryContract):
    def make_store(self, path: Path) -> VectorStore:
        return open_store("numpy:")


class SqliteInside(WrappedMemoryContract):
    persists = True

    def make_store(self, path: Path) -> VectorStore:
        return open_store(f"sqlite:///{path / 'memory.db'}")


def plainly(self: WrappedMemoryContract, store: VectorStore) -> VectorStore:
    return WrapperStore(store)


def observing(self: WrappedMemoryContract, store: VectorStore) -> VectorStore:
    return ObservableStore(store, lambda event: None)


class TestPlainWrapperOfNumpy(NumpyInside):
    wrap = plainly


class TestPlainWrapperOfSqlite(SqliteInside):
    wrap = plainly


class TestObservableOfNumpy(NumpyInside):
    wrap = observing


class TestObservableOfSqlite(SqliteInside):
    wrap = observing


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
