"""Fast search: its guarantees and its exact cases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tellback.vectorstore.index.vectors
from tellback.vectorstore import (
    ArgumentError,
    Entry,
    Metric,
    NumpyStore,
    SearchMode,
    Space,
    SqliteStore,
    open_store,
)
from tellback.vectorstore.testing import (
    FilterContract,
    LifecycleContract,
    VectorStoreContract,
)
from tests.support.slow import first_fast
from tests.support.store_parity import check_parity

DIMENSION = 24
ROWS = 3000
ENGINES = first_fast(["sqlite", "numpy"])


@pytest.fixture
def few_rows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bits are used for any number of rows and any k, so that small stores go through them."""
    monkeypatch.setattr(tellback.vectorstore.index.vectors, "QUANTIZED_FROM_ROWS", 0)
    monkeypatch.setattr(tellback.vectorstore.index.vectors, "SHORTLIST_LARGEST_SHARE", np.inf)


@pytest.fixture
def lossy(few_rows_too: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """So few rows are kept that the true nearest are often lost."""
    monkeypatch.setattr(tellback.vectorstore.index.vectors, "SHORTLIST_LEAST", 20)
    monkeypatch.setattr(tellback.vectorstore.index.vectors, "SHORTLIST_PER_MATCH", 2)


def clustered(rows: int = ROWS, seed: int = 1) -> np.ndarray:
    print("seed", seed)
    draw = np.random.default_rng(seed)
    centres = draw.standard_normal((30, DIMENSION)) + 1.5
    points = centres[draw.integers(0, 30, rows)] + draw.standard_normal((rows, DIMENSION))
    return points.astype(np.float32)


def entries(vectors: np.ndarray) -> Iterator[Entry]:
    for i, vector in enumerate(vectors):
        yield Entry(f"e{i:05}", vector, metadata={"kind": "abc"[i % 3], "n": i})


def make(engine: str, folder: Path, vectors: np.ndarray, **options: Any) -> NumpyStore | SqliteStore:
    space = options.pop("space", Space("toy", DIMENSION))
    if engine == "numpy":
        store: Any = NumpyStore(space=space, fields=("kind",), search="fast")
    else:
        store = SqliteStore(folder / "fast.db", space=space, fields=("kind",), search="fast", **options)
    store.upsert(entries(vectors))
    return store


@pytest.mark.slow
class TestFastNumpyStore(VectorStoreContract, FilterContract, LifecycleContract):
    persists = True

    @pytest.fixture(autouse=True)
    def _through_the_bits(self, few_rows_too: None) -> None:
        pass

    def make_store(self, path: Path, *, space: Space | None, fields: tuple[str, ...] = ()) -> NumpyStore:
        return NumpyStore(space=space, fields=fields, search="fast")

    def reopen(self, store: Any, path: Path) -> NumpyStore:
        store.save(path / "memory.snapshot")
        store.close()
        return NumpyStore.open(path / "memory.snapshot", search="fast")

    def restore(self, backup: Path, path: Path) -> NumpyStore:
        return NumpyStore.open(backup, search="fast")


@pytest.mark.slow
class TestFastSqliteStore(VectorStoreContract, FilterContract, LifecycleContract):
    persists = True
    shares = True

    @pytest.fixture(autouse=True)
    def _through_the_bits(self, few_rows_too: None) -> None:
        pass

    def make_store(self, path: Path, *, space: Space | None, fields: tuple[str, ...] = ()) -> SqliteStore:
        return SqliteStore(path / "memory.db", space=space, fields=fields, search="fast")

    def reopen(self, store: Any, path: Path) -> SqliteStore:
        store.close()
        return SqliteStore(path / "memory.db", search="fast")

    def open_beside(self, store: Any, path: Path) -> SqliteStore:
        return SqliteStore(path / "memory.db", search="fast")

    def restore(self, backup: Path, path: Path) -> SqliteStore:
        return SqliteStore(backup, search="fast")


@pytest.mark.parametrize("seed", [1, 2])
def test_fast_stores_answer_random_operations_on_few_rows_like_exact_stores(
    tmp_path: Path, few_rows_too: None, seed: int
) -> None:
    space = Space("toy", 3)
    runs = iter(range(1000))

    def stores() -> dict[str, Any]:
        folder = tmp_path / str(next(runs))
        folder.mkdir()
        return {
            "exact": NumpyStore(space=space),
            "fast": NumpyStore(space=space, search="fast"),
            "fast sqlite": SqliteStore(folder / "memory.db", space=space, search="fast"),
        }

    check_parity(stores, seed=seed, space=space, steps=150)


@pytest.mark.parametrize("engine", ENGINES)
def test_fast_search_gives_exact_scores_and_respects_filter_and_threshold(
    tmp_path: Path, lossy: None, engine: str
) -> None:
    vectors = clustered()
    store = make(engine, tmp_path, vectors)
    kinds: list[dict[str, Any] | None] = [None, {"kind": "b"}, {"n": {"$lt": 40}}]
    lost = 0
    with store.view([""], search="exact") as view:
        for query in clustered(20, seed=2):
            for where in kinds:
                true = view.nearest(query, ROWS, where=where)
                found = [(match.entry.id, match.score) for match in store.search(query, 15, where=where)]
                assert len(found) == 15
                assert set(found) <= set(true)
                assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))
                lost += found != true[:15]
                cut = found[7][1]
                above = [(match.entry.id, match.score) for match in store.search(query, 15, where=where, min_score=cut)]
                assert above == [pair for pair in found if pair[1] >= cut]
    assert lost  # else nothing approximate was seen
    store.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_fast_search_finds_all_rows_of_one_vector_in_order_of_id(tmp_path: Path, lossy: None, engine: str) -> None:
    vectors = clustered()
    vectors[100:160] = vectors[100]
    store = make(engine, tmp_path, vectors)
    found = [match.entry.id for match in store.search(vectors[100], 60)]
    assert found == [f"e{i:05}" for i in range(100, 160)]
    store.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_fast_search_sees_written_changed_and_deleted_entries_at_once(tmp_path: Path, lossy: None, engine: str) -> None:
    vectors = clustered()
    store = make(engine, tmp_path, vectors)
    query = np.full(DIMENSION, -3.0, dtype=np.float32)
    assert store.search(query, 1)[0].score < 0.9
    store.upsert([Entry("new", query)])
    assert [match.entry.id for match in store.search(query, 1)] == ["new"]
    store.put_vectors({"e00007": query, "new": vectors[0]})
    assert [match.entry.id for match in store.search(query, 1)] == ["e00007"]
    store.delete(["e00007", *(f"e{i:05}" for i in range(20, 40))])
    assert store.search(query, 1)[0].score < 0.9
    assert not {match.entry.id for match in store.search(vectors[25], 100)} & {f"e{i:05}" for i in range(20, 40)}
    store.close()


def test_fast_search_sees_writes_of_another_handle(tmp_path: Path, lossy: None) -> None:
    store = make("sqlite", tmp_path, clustered())
    other = SqliteStore(tmp_path / "fast.db")
    query = np.full(DIMENSION, -3.0, dtype=np.float32)
    store.search(query)
    other.upsert([Entry("theirs", query)])
    assert store.search(query, 1)[0].entry.id == "theirs"
    other.delete(["theirs"])
    assert store.search(query, 1)[0].score < 0.9
    other.close()
    store.close()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("metric", first_fast([Metric.L2, Metric.DOT]))
def test_fast_search_is_exact_under_dot_and_l2(tmp_path: Path, lossy: None, engine: str, metric: Metric) -> None:
    store = make(engine, tmp_path, clustered(), space=Space("toy", DIMENSION, metric))
    with store.view([""], search="exact") as view:
        for query in clustered(10, seed=2):
            assert [(m.entry.id, m.score) for m in store.search(query, 15)] == view.nearest(query, 15)
    store.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_fast_search_is_exact_for_few_rows_large_k_and_query_batches(
    tmp_path: Path, lossy: None, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    store = make(engine, tmp_path, clustered())
    questions = clustered(10, seed=2)
    with store.view([""], search="exact") as view:
        true = [view.nearest(query, 15) for query in questions]
        thirds = [view.nearest(query, 15, where={"kind": "a"}) for query in questions]
    many = [[(m.entry.id, m.score) for m in found] for found in store.search_many(questions, 15)]
    assert many == true
    single = [[(m.entry.id, m.score) for m in store.search(query, 15)] for query in questions]
    assert single != true
    monkeypatch.setattr(tellback.vectorstore.index.vectors, "QUANTIZED_FROM_ROWS", ROWS // 2)
    filtered = [[(m.entry.id, m.score) for m in store.search(q, 15, where={"kind": "a"})] for q in questions]
    assert filtered == thirds
    monkeypatch.setattr(tellback.vectorstore.index.vectors, "SHORTLIST_LARGEST_SHARE", 0.009)
    assert [[(m.entry.id, m.score) for m in store.search(query, 15)] for query in questions] == true
    store.close()


def test_fast_search_is_exact_beyond_the_matrix_limit(tmp_path: Path, lossy: None) -> None:
    store = make("sqlite", tmp_path, clustered(), matrix_limit=0)
    exact = SqliteStore(tmp_path / "fast.db")
    for query in clustered(10, seed=2):
        assert store.search(query, 15) == exact.search(query, 15)
    exact.close()
    store.close()


def test_the_search_mode_belongs_to_the_store_object_and_not_to_the_file(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/memory.db", space=Space("toy", 2), search="fast")
    again = open_store(f"sqlite:///{tmp_path}/memory.db")
    assert isinstance(store, SqliteStore)
    assert isinstance(again, SqliteStore)
    assert (store.search_mode, again.search_mode) == (SearchMode.FAST, SearchMode.EXACT)
    store.close()
    again.close()
    snapshot = tmp_path / "a.snapshot"
    assert NumpyStore(search=SearchMode.FAST).search_mode is SearchMode.FAST
    NumpyStore(search="fast").save(snapshot)
    assert NumpyStore.open(snapshot).search_mode is SearchMode.EXACT
    kept = open_store(f"numpy:///{snapshot}", search="fast")
    assert isinstance(kept, NumpyStore)
    assert kept.search_mode is SearchMode.FAST


@pytest.mark.parametrize("mode", ["quick", "", None, True, 1])
def test_an_unknown_search_mode_is_refused_by_name(tmp_path: Path, mode: Any) -> None:
    for url in ("numpy:", f"sqlite:///{tmp_path}/memory.db"):
        with pytest.raises(ArgumentError, match="search"):
            open_store(url, search=mode)
    assert not (tmp_path / "memory.db").exists()
