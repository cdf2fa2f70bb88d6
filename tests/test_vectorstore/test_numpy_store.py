"""The numpy store keeps the contract; what lasts of it is its snapshot, and a loaded index is searched without SQL."""

from pathlib import Path

import pytest

from tellback.vectorstore import Entry, NumpyStore, Space, VectorStore
from tellback.vectorstore.testing import FilterContract, LifecycleContract, VectorStoreContract


@pytest.mark.slow  # of a store of this kind, the one in a file is daily
class TestNumpyStore(VectorStoreContract, FilterContract, LifecycleContract):
    persists = True

    def make_store(self, path: Path, *, space: Space | None, fields: tuple[str, ...] = ()) -> NumpyStore:
        return NumpyStore(space=space, fields=fields)

    def reopen(self, store: VectorStore, path: Path) -> NumpyStore:
        assert isinstance(store, NumpyStore)
        store.save(path / "memory.snapshot")
        store.close()
        return NumpyStore.open(path / "memory.snapshot")

    def restore(self, backup: Path, path: Path) -> NumpyStore:
        return NumpyStore.open(backup)


TOY = Space("toy", 2)


def entries(count: int, text: str = "zorb") -> list[Entry]:
    return [Entry(f"e{i}", [1, i], f"{text} {i}", metadata={"x": i % 2}) for i in range(count)]


def found(store: NumpyStore) -> list[list[str]]:
    near = store.search([1, 0], 9, where={"x": 1})
    with store.view([""]) as view:
        scores = view.similarity([1, 0], ["e1"])
    assert scores.shape == (1,)
    return [[match.entry.text for match in matches] for matches in (near, store.search_text("zorb quil", 9))]


def test_a_search_of_a_loaded_namespace_runs_no_sql() -> None:
    store = NumpyStore(space=TOY, fields=("x",))
    store.upsert(entries(20))
    first = found(store)
    statements: list[str] = []
    with store.database.read() as connection:
        connection.exec_trace = lambda cursor, sql, bindings: bool(statements.append(sql)) or True
    assert found(store) == first
    assert statements == []
    store.upsert([Entry("e1", [1, 0], "quil", metadata={"x": 1})])
    assert "quil" in found(store)[0]
    assert statements != []


def test_fields_declared_in_a_transaction_that_searches_are_columns_afterwards() -> None:
    store = NumpyStore(space=TOY)
    store.upsert(entries(5))
    with store.transaction():
        store.declare_fields(["x"])
        found(store)
    found(store)
    statements: list[str] = []
    with store.database.read() as connection:
        connection.exec_trace = lambda cursor, sql, bindings: bool(statements.append(sql)) or True
    assert found(store)[0] == ["zorb 1", "zorb 3"]
    assert statements == []


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("view", [False, True])
def test_a_search_inside_a_transaction_that_fails_leaves_nothing_in_later_searches(outer: bool, view: bool) -> None:
    """The revisions and keys that it used are given again, so the index cannot tell by them what it has read."""
    store, expected = NumpyStore(space=TOY), NumpyStore(space=TOY)
    for one in (store, expected):
        one.upsert(entries(5))
    found(store)

    def fail() -> None:
        with pytest.raises(KeyError), store.transaction():  # noqa: PT012 - the block is what fails
            store.upsert([Entry("e1", [1, 0], "zorb lost"), Entry("lost", [1, 0], "quil lost")])
            if view:
                with store.view([""]) as opened:
                    assert opened.count() == 6
            assert found(store) != found(expected)
            raise KeyError

    if outer:
        with store.transaction():
            fail()
    else:
        fail()
    for one in (store, expected):
        one.upsert([Entry("e2", [1, 0], "zorb kept", metadata={"x": 1}), Entry("kept", [1, 0], "quil kept")])
    assert found(store) == found(expected)
    assert store.verify() == []
