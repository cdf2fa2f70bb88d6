"""Comparison of a store with the plain model: contents and answers."""

from __future__ import annotations

import random
from typing import Any

from tests.test_faults.workload import NAMESPACES, WORDS

_FILTERS = ({"n": {"$lt": 4}}, {"tags": {"$contains": "zorb"}}, {"$not": {"even": True}})


def rows(store: Any) -> tuple[Any, ...]:
    """Return every content of a store as a comparable value."""
    held = tuple(tuple(row(entry) for entry in store.scan(namespace=name)) for name in NAMESPACES)
    filling = store.filling()
    progress = None if filling is None else (filling.space, filling.filled, sorted(filling.pending.items()))
    return (store.space, store.namespaces(), held, progress)


def disagreements(store: Any, model: Any, seed: object) -> list[str]:
    """Return the faults: findings of ``verify``, and answers that differ from the model's."""
    rng = random.Random(f"{seed}")
    wrong = [f"verify: {finding}" for finding in store.verify()]
    if rows(store) != rows(model):
        wrong.append("rows differ from the model")
    for name in NAMESPACES:
        where = rng.choice([None, *_FILTERS])
        if store.count(where=where, namespace=name) != model.count(where=where, namespace=name):
            wrong.append(f"count where {where}")
        vector = [rng.gauss(0, 1) for _ in range(model.space.dimension)]
        asked = {"where": where, "namespace": name}
        wrong += _compared("search", store.search(vector, 5, **asked), model.search(vector, 5, **asked))
        words = " ".join(rng.choices(WORDS, k=3))
        found, expected = store.search_text(words, 5, **asked), model.search_text(words, 5, **asked)
        wrong += _compared(f"search_text {words!r}", found, expected)
    return wrong


def row(entry: Any) -> tuple[Any, ...]:
    vector = None if entry.vector is None else entry.vector.tobytes()
    metadata = sorted(entry.metadata.items())
    return (entry.id, entry.revision, entry.text, entry.context, str(metadata), vector, entry.no_vector)


def _compared(what: str, found: list[Any], expected: list[Any]) -> list[str]:
    """Scores rank by rank; which of two equal ones comes last is the model's rounding."""
    if len(found) != len(expected):
        return [f"{what}: {len(found)} found, not {len(expected)}"]
    for hit, other in zip(found, expected, strict=True):
        if abs(hit.score - other.score) > 1e-4 * max(1.0, abs(other.score)):
            return [f"{what}: {hit.entry.id} {hit.score} where {other.entry.id} {other.score} belongs"]
    return []
