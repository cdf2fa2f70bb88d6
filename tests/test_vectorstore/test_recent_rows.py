"""Row cache: answers equal those of the file, and its size is bounded."""

from pathlib import Path

import numpy as np
import pytest

from tellback.vectorstore import DamageError, Entry, Space, SqliteStore
from tellback.vectorstore.sqlite import index_cache


@pytest.fixture
def store(tmp_path: Path):
    with_vectors = SqliteStore(tmp_path / "s.db", space=Space("s", 2))
    yield with_vectors
    with_vectors.close()


def found(store: SqliteStore, k: int = 10) -> list[Entry]:
    return [match.entry for match in store.search([1.0, 0.5], k)]


def test_changing_a_search_result_does_not_change_the_next_result(store: SqliteStore) -> None:
    store.upsert([Entry("a", [1, 2], "text", metadata={"tags": ["one"]})])
    (first,) = found(store)
    assert first.vector is not None
    first.vector[:] = 7
    first.metadata["tags"].append("two")
    (second,) = found(store)
    assert second.metadata == {"tags": ["one"]}
    np.testing.assert_array_equal(second.vector, [1, 2])


def test_an_intact_row_is_cached_until_it_changes(store: SqliteStore) -> None:
    store.upsert([Entry("a", [1, 2], "before"), Entry("b", [2, 1], "beside")])
    assert [hit.text for hit in found(store)] == ["beside", "before"]
    with store.database.write() as connection:  # past the change log: only a row that is read again shows it
        connection.execute("UPDATE entries SET text = 'damaged'")
    assert [hit.text for hit in found(store)] == ["beside", "before"]
    store.upsert([Entry("a", [1, 2], "after")])
    assert [hit.text for hit in found(store)] == ["beside", "after"]


def test_a_damaged_row_raises_damage_error_on_every_search(store: SqliteStore) -> None:
    store.upsert([Entry("a", [1, 2], "before")])
    with store.database.write() as connection:
        connection.execute("UPDATE entries SET text = 'damaged'")
    for _ in range(2):
        with pytest.raises(DamageError, match="a"):
            found(store)


def test_the_row_cache_stays_within_its_byte_limit_for_longer_results(store: SqliteStore) -> None:
    store._indexes.recent._limit = 3000
    store.upsert(Entry(f"e{i}", [i, 1], f"number {i}") for i in range(50))
    for k in (50, 3, 50, 7):
        assert found(store, k) == store.get([hit.id for hit in found(store, k)])
        assert 0 < store._indexes.recent._bytes <= 3000
    with store.view([""]) as view:
        assert [hit.text for hit in view.get(["e9", "e0"])] == ["number 9", "number 0"]


def test_a_very_long_row_is_not_kept(store: SqliteStore) -> None:
    store.upsert([Entry("a", [1, 2], "long " * (index_cache._LARGEST_ROW // 4))])
    assert len(found(store)) == 1
    assert store._indexes.recent._bytes == 0


def test_erasing_an_entry_removes_the_cached_rows_of_its_namespace(store: SqliteStore) -> None:
    store.upsert([Entry("a", [1, 2], "one"), Entry("b", [2, 1], "two")])
    found(store)
    store.erase(["a"])
    assert store._indexes.recent._bytes == 0
    assert [hit.text for hit in found(store)] == ["two"]
