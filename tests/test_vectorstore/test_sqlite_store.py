"""The SQLite store keeps the contract, with its vectors in memory and without, and before they are loaded."""

import random
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import apsw
import numpy as np
import pytest

from tellback.vectorstore import DamageError, Entry, Metric, NumpyStore, Space, SqliteStore, VectorStore
from tellback.vectorstore.testing import FilterContract, LifecycleContract, VectorStoreContract
from tests.support.slow import first_fast


class TestSqliteStore(VectorStoreContract, FilterContract, LifecycleContract):
    persists = True
    shares = True
    matrix_limit: ClassVar[int | None] = None

    def make_store(self, path: Path, *, space: Space | None, fields: tuple[str, ...] = ()) -> SqliteStore:
        return SqliteStore(path / "memory.db", space=space, fields=fields, matrix_limit=self.matrix_limit)

    def reopen(self, store: VectorStore, path: Path) -> SqliteStore:
        store.close()
        return SqliteStore(path / "memory.db", matrix_limit=self.matrix_limit)

    def open_beside(self, store: VectorStore, path: Path) -> SqliteStore:
        return SqliteStore(path / "memory.db", matrix_limit=self.matrix_limit)

    def restore(self, backup: Path, path: Path) -> SqliteStore:
        return SqliteStore(backup, matrix_limit=self.matrix_limit)


@pytest.mark.slow
class TestSqliteStoreWithoutAMatrix(TestSqliteStore):
    matrix_limit = 0


def many_entries(rng: np.random.Generator) -> list[Entry]:
    """So many that the first questions are answered by the file."""
    vectors = rng.integers(-3, 4, size=(1200, 8)).astype(np.float32)  # with ties
    vectors[:, 0] += 4
    return [
        Entry(f"e{position:04}", vector, f"text {position % 7}", metadata={"n": position % 5})
        for position, vector in enumerate(vectors)
    ]


@pytest.mark.parametrize("metric", first_fast(Metric))
def test_the_first_searches_of_a_process_equal_its_later_searches(tmp_path: Path, metric: Metric) -> None:
    rng = np.random.default_rng(7)
    stores: list[VectorStore] = [
        SqliteStore(tmp_path / "memory.db", space=Space("toy", 8, metric), fields=("n",)),
        NumpyStore(space=Space("toy", 8, metric), fields=("n",)),
    ]
    for store in stores:
        store.upsert(many_entries(np.random.default_rng(7)))
    cold, chances = SqliteStore(tmp_path / "memory.db"), random.Random(7)
    for step in range(14):
        query, where = rng.normal(size=8).astype(np.float32), chances.choice((None, {"n": {"$gt": 2}}))
        expected = stores[1].search(query, 9, where=where)
        assert cold.search(query, 9, where=where) == expected, step
        with cold.view([""]) as view:
            found = view.similarity(query, [match.entry.id for match in expected])
        assert found.tolist() == [match.score for match in expected], step
        assert cold.search_text("text 3", 5, where=where) == stores[1].search_text("text 3", 5, where=where), step
        for store in stores:
            store.upsert([Entry(f"new{step}", query + 1, "text 3 again", metadata={"n": 4})])
            store.delete([expected[0].entry.id])


def test_matrices_stay_within_the_limit_and_the_namespace_used_last_is_kept(tmp_path: Path) -> None:
    names, size = ["a", "b", "c"], 4 * 8 * 1200
    with closing(SqliteStore(tmp_path / "m.db", space=Space("toy", 8), matrix_limit=2 * size)) as store:
        for name in names:
            store.upsert(many_entries(np.random.default_rng(7)), namespace=name)
        expected = store.search([1, 0, 0, 0, 0, 0, 0, 0], 9, namespace="a")
        for name in [*names, *names[::-1], "a"] * 2:
            for _ in range(3):  # the first two are answered by the file
                assert store.search([1, 0, 0, 0, 0, 0, 0, 0], 9, namespace=name) == expected
            assert 0 < store._indexes.matrix_bytes() <= 2 * size
            assert store._indexes.is_loaded(name)


def test_repeated_filters_on_undeclared_fields_give_the_same_answer(tmp_path: Path) -> None:
    chances, space, query = random.Random(3), Space("toy", 4), [1, 0, 0, 1]
    model = NumpyStore(space=space)
    with (
        closing(SqliteStore(tmp_path / "m.db", space=space)) as store,
        closing(SqliteStore(tmp_path / "m.db")) as other,
    ):
        for step in range(90):
            id, values = f"e{chances.randrange(30)}", (step, "x", None, [1])
            entry = Entry(id, query, "text", metadata={f"f{n}": chances.choice(values) for n in range(12)})
            for changed in (model, other):
                changed.delete([id]) if step % 5 == 4 else changed.upsert([entry])
            field = f"f{chances.randrange(12 if step > 40 else 2)}"  # more fields than become columns
            for where in ({field: "x"}, {field: {"$ne": "x"}}, {field: {"$gt": step - 9}}, {f"{field}.g": None}):
                assert store.search(query, 99, where=where) == model.search(query, 99, where=where), (step, where)


def test_the_first_search_of_a_process_raises_damage_error_for_lost_rows(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with closing(SqliteStore(path, space=Space("toy", 8))) as store:
        store.upsert(many_entries(np.random.default_rng(7)))
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM vectors WHERE key = 600")
    connection.close()
    with closing(SqliteStore(path)) as store:
        for _ in range(4):
            with pytest.raises(DamageError, match="missing"):
                store.search([1.0] * 8)
