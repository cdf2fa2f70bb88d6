"""Costs that must not grow with the store: counted in steps of SQLite's machine and in bytes, never in time.

Inner parts, on no face: ``tellback.vectorstore.index.namespace_index``, ``tellback.vectorstore.index.vectors``.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tellback.vectorstore import Entry, Space, SqliteStore
from tellback.vectorstore.index.namespace_index import NamespaceIndex
from tellback.vectorstore.index.vectors import VectorMatrix

SPACE = Space("toy", 8)
EVERY = 10
"""Steps between two calls of the counter."""


def filled(path: Path, rows: int, namespace: str = "") -> SqliteStore:
    store = SqliteStore(path, space=SPACE)
    vectors = np.random.default_rng(1).standard_normal((rows, 8))
    texts = (f"text number {i} of words w{i % 50}" for i in range(rows))
    store.upsert((Entry(f"e{i:05}", vectors[i], text) for i, text in enumerate(texts)), namespace=namespace)
    store.search(vectors[0], namespace=namespace)
    store.search_text("number", namespace=namespace)
    return store


def steps(store: SqliteStore, action: Callable[[], object]) -> int:
    """Return how many steps SQLite takes for *action*, on every connection of the store, in tens."""
    action()  # statements are compiled, connections opened
    count = 0

    def counted() -> bool:
        nonlocal count
        count += 1
        return False

    connections = store.database._transactions._connections()
    for connection in connections:
        connection.set_progress_handler(counted, EVERY)
    action()
    for connection in connections:
        connection.set_progress_handler(None)
    return count


def grows_little(small: int, large: int) -> bool:
    return 0 < large <= 1.5 * small + 5


@pytest.fixture
def sizes(tmp_path: Path) -> tuple[SqliteStore, SqliteStore]:
    return filled(tmp_path / "small.db", 200), filled(tmp_path / "large.db", 6000)


@pytest.mark.slow
def test_an_upsert_takes_as_many_sqlite_steps_in_a_large_store_as_in_a_small(
    sizes: tuple[SqliteStore, SqliteStore],
) -> None:
    numbers = iter(range(100))

    def write(store: SqliteStore) -> Callable[[], object]:
        return lambda: store.upsert([Entry(f"new{next(numbers)}", np.ones(8), "text number of words")])

    assert grows_little(*(steps(store, write(store)) for store in sizes))


@pytest.mark.slow
def test_opening_a_view_takes_as_many_sqlite_steps_in_a_large_store_as_in_a_small(
    sizes: tuple[SqliteStore, SqliteStore],
) -> None:
    def look(store: SqliteStore) -> Callable[[], object]:
        def action() -> None:
            with store.view([""]) as view:
                view.count()

        return action

    assert grows_little(*(steps(store, look(store)) for store in sizes))


def test_a_search_after_a_write_reads_only_that_write(sizes: tuple[SqliteStore, SqliteStore]) -> None:
    numbers = iter(range(100))
    for store in sizes:
        store.search_many([np.ones(8)] * 3, 1)  # the first questions are the file's

    def follow(store: SqliteStore) -> Callable[[], object]:
        def action() -> None:
            store.upsert([Entry(f"new{next(numbers)}", np.ones(8), "text number of words")])
            assert store.search(np.ones(8), 1)[0].entry.id.startswith("new")
            assert store.search_text("words", 1)

        return action

    assert grows_little(*(steps(store, follow(store)) for store in sizes))


@pytest.mark.slow
def test_a_namespace_costs_the_same_beside_many_others(tmp_path: Path) -> None:
    alone, crowded = filled(tmp_path / "alone.db", 100, "mine"), filled(tmp_path / "crowded.db", 100, "mine")
    with crowded.transaction():
        for i in range(600):
            crowded.upsert([Entry("one", np.ones(8), f"text number {i}")], namespace=f"other{i}")
    numbers = iter(range(100))

    def use(store: SqliteStore) -> Callable[[], object]:
        def action() -> None:
            store.upsert([Entry(f"new{next(numbers)}", np.ones(8), "text number of words")], namespace="mine")
            store.search(np.ones(8), namespace="mine")
            store.search_text("number", namespace="mine")
            store.count(namespace="mine")
            store.changes(namespace="mine")

        return action

    assert grows_little(*(steps(store, use(store)) for store in (alone, crowded)))
    opened = [SqliteStore(tmp_path / name) for name in ("alone.db", "crowded.db")]
    loading = [steps(store, lambda store=store: _loaded_again(store)) for store in opened]
    assert grows_little(*loading)


def _loaded_again(store: SqliteStore) -> None:
    store._indexes.forget()
    store.search(np.ones(8), namespace="mine")
    store.search_text("number", namespace="mine")


def test_loading_a_vector_matrix_holds_only_one_block_beside_it() -> None:
    rows, dimension, together = 20_000, 64, 500
    space = Space("toy", dimension)
    core = NamespaceIndex(range(rows), [str(row) for row in range(rows)], space=space)
    draw = np.random.default_rng(2)
    starts = range(0, rows, together)
    whole = 4 * rows * dimension
    tracemalloc.start()
    core.load_matrix(
        (range(start, start + together), draw.standard_normal((together, dimension), dtype=np.float32))
        for start in starts
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(core.matrix, VectorMatrix)
    assert whole <= peak < 1.3 * whole
