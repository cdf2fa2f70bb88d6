"""Engines answer alike: the same random operations on each, and on the plain model.

Inner parts, on no face: ``tellback.vectorstore.testing.parity``.
"""

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tellback.vectorstore import Entry, Match, Metric, NumpyStore, Space, SqliteStore, VectorStore
from tellback.vectorstore.testing import ModelStore
from tests.support.slow import first_fast
from tests.support.spaces_model import SpacesModel
from tests.support.store_parity import OperationGenerator, ParityError, StoreOperation, check_parity

SPACES = [None, *(Space(f"toy-{metric}", 3, metric) for metric in Metric)]
TOLERANCE = {"model": 1e-6}


def engines(folder: Path, space: Space | None, fields: tuple[str, ...] = ()) -> Callable[[], dict[str, VectorStore]]:
    """Return a maker of each engine and the model, new at every call."""
    number = itertools.count()

    def make() -> dict[str, VectorStore]:
        run = folder / f"run{next(number)}"
        run.mkdir()
        return {
            "numpy": NumpyStore(space=space, fields=fields),
            "sqlite": SqliteStore(run / "memory.db", space=space, fields=fields),
            "sqlite without a matrix": SqliteStore(run / "sql.db", space=space, fields=fields, matrix_limit=0),
            "model": SpacesModel(space=space, fields=fields),
        }

    return make


def reopen(name: str, store: VectorStore) -> VectorStore:
    if not isinstance(store, SqliteStore):
        return store
    path = store.database.path
    store.close()
    return SqliteStore(path, matrix_limit=0 if name == "sqlite without a matrix" else None)


@pytest.mark.parametrize("fields", [(), ("a", "c.d")], ids=["undeclared", "declared"])
@pytest.mark.parametrize("space", first_fast(SPACES), ids=lambda space: str(space and space.metric))
def test_engines_and_the_model_answer_alike(tmp_path: Path, space: Space | None, fields: tuple[str, ...]) -> None:
    seed = 1000 * SPACES.index(space) + len(fields)
    check_parity(engines(tmp_path, space, fields), seed=seed, space=space, steps=150, tolerance=TOLERANCE)


@pytest.mark.parametrize("seed", first_fast([1, 2, 3]))
def test_engines_answer_alike_with_transactions_and_reopening(tmp_path: Path, seed: int) -> None:
    space = Space("toy", 4, Metric.COSINE)
    check_parity(
        engines(tmp_path, space, ("b",)),
        seed=seed,
        space=space,
        steps=150,
        tolerance=TOLERANCE,
        transactions=True,
        reopen=reopen,
    )


@pytest.mark.parametrize("seed", first_fast([1, 2, 3, 4]))
def test_engines_answer_alike_during_a_space_migration_and_after_the_switch(tmp_path: Path, seed: int) -> None:
    spaces = [Space(f"toy-{metric}", 3, metric) for metric in Metric]
    check_parity(
        engines(tmp_path, spaces[0], ("b",)),
        seed=seed,
        space=spaces[0],
        steps=200,
        tolerance=TOLERANCE,
        transactions=True,
        spaces=[*spaces[1:], Space("toy-like", 3)],
        reopen=reopen,
    )


def test_random_parity_runs_include_space_switches(tmp_path: Path) -> None:
    switched = []

    class Watched(SpacesModel):
        def commit_space(self, space: Space) -> None:
            super().commit_space(space)
            switched.append(space)

    spaces = [Space(f"toy-{metric}", 3, metric) for metric in Metric]
    for seed in (1, 2, 3, 4):
        check_parity(
            lambda: {"model": Watched(space=spaces[0])},
            seed=seed,
            space=spaces[0],
            transactions=True,
            spaces=[*spaces[1:], Space("toy-like", 3)],
            reopen=lambda _, store: store,
        )
    assert len(set(switched)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("metric", first_fast(Metric))
def test_engines_cut_many_equal_and_nearly_equal_scores_alike(tmp_path: Path, metric: Metric) -> None:
    seed = 11
    rng = random.Random(seed)
    space = Space("toy", 6, metric)
    stores = engines(tmp_path, space, ("declared",))()
    vectors = [[float(rng.randint(-1, 1)) for _ in range(5)] + [1.0] for _ in range(1500)]
    vectors += [[value + rng.choice([-1e-7, 0.0, 1e-7]) for value in vectors[0]] for _ in range(500)]
    entries = [
        Entry(f"e{i:04}", vector, metadata={"declared": i % 7, "other": i % 50}) for i, vector in enumerate(vectors)
    ]
    for store in stores.values():
        store.upsert(rng.sample(entries, len(entries)))
    everything = [m.score for m in stores["numpy"].search(vectors[0], 2000)]
    for query in (vectors[0], vectors[1], [rng.gauss(0, 1) for _ in range(6)]):
        for k in (1, 10, 300, 2000):
            for where in (None, {"declared": 3}, {"other": 7}, {"other": {"$ne": 7}}):
                for least in (None, everything[50], everything[700]):
                    found = {
                        name: [(m.entry.id, m.score) for m in store.search(query, k, where=where, min_score=least)]
                        for name, store in stores.items()
                        if name != "model"
                    }
                    assert found["numpy"] == found["sqlite"] == found["sqlite without a matrix"], (
                        seed,
                        k,
                        where,
                        least,
                    )
    assert len(set(everything)) < 1500
    for store in stores.values():
        store.close()


def test_a_seed_draws_the_same_operations() -> None:
    space = Space("toy", 3)
    first, again = (OperationGenerator(7, space).draw(50, transactions=True) for _ in range(2))
    assert [str(operation) for operation in first] == [str(operation) for operation in again]
    assert [str(operation) for operation in OperationGenerator(8, space).draw(50)] != [
        str(operation) for operation in first
    ]


def test_operations_of_every_kind_are_drawn() -> None:
    drawn = OperationGenerator(1, Space("toy", 3)).draw(500, transactions=True, reopening=True)
    assert {operation.method for operation in drawn} == {
        *("upsert", "patch", "put_vectors", "delete", "get", "search", "search_many", "search_text"),
        *("count", "scan", "namespaces", "commit", "abandon", "reopen"),
    }


class Forgetful(ModelStore):
    """Store that does not delete the id "b" in a batch."""

    def delete(self, ids: Iterable[str] = (), **options: Any) -> int:
        named = list(ids)
        kept = [name for name in named if name != "b" or len(set(named)) == 1]
        return super().delete(kept, **options) if kept or not named else 0


class Careless(ModelStore):
    """Store whose ``search_many`` scores are a little too high."""

    def search_many(self, vectors: Any, k: int = 10, **options: Any) -> list[list[Match]]:
        return [
            [Match(match.entry, match.score * (1 + 1e-5)) for match in found]
            for found in super().search_many(vectors, k, **options)
        ]


class Untrue(ModelStore):
    """Store that returns true as 1."""

    def get(self, ids: Sequence[str], **options: Any) -> list[Entry | None]:
        return [
            kept
            and Entry(
                kept.id,
                kept.vector,
                kept.text,
                kept.context,
                _numbered(kept.metadata),
                kept.revision,
                kept.no_vector,
            )
            for kept in super().get(ids, **options)
        ]


def _numbered(metadata: Any) -> dict[str, Any]:
    return {name: 1 if value is True else value for name, value in metadata.items()}


@pytest.mark.parametrize("broken", first_fast([Careless, Forgetful, Untrue]))
def test_the_parity_check_finds_a_broken_store(broken: type[ModelStore]) -> None:
    space = Space("toy", 3)
    with pytest.raises(ParityError) as caught:
        check_parity(
            lambda: {"model": ModelStore(space=space), "broken": broken(space=space)},
            seed=5,
            space=space,
            steps=400,
            tolerance={"broken": 1e-6},
        )
    assert "seed 5" in str(caught.value)
    assert "broken answered" in str(caught.value)
    assert 2 <= len(caught.value.operations) <= 12
    assert all(isinstance(operation, StoreOperation) for operation in caught.value.operations)
