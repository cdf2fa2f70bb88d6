"""A seeded run of writes that any store can repeat: step *n* is the same call on a real store and on the plain model.

A step is one transaction, so a store that died is in the state after some step, whole. Steps follow a schedule and are
numbered for ever; what a step does depends on the seed, its number and what is in the store.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from tellback.vectorstore import Entry, Metric, Space

SPACES = (Space("one", 12), Space("two", 20, Metric.DOT), Space("three", 12, Metric.L2))
NAMESPACES = ("", "other's notes")
WORDS = ("zorb", "quil", "vexa", "morp", "tulk", "prax", "日本語", "Dönner", "run", "runs", "3.52", "snake_case")
IDS = tuple(f"id{number:03}" for number in range(60))

SCHEDULES: Mapping[str, tuple[str, ...]] = {
    "everything": (
        *("upsert", "both", "erase", "begin", "upsert", "fill", "delete", "patch", "fill"),
        *("put_vectors", "upsert", "delete_where", "both", "fill", "commit", "upsert", "erase"),
    ),
    "upsert": ("upsert", "upsert", "both", "patch", "put_vectors"),
    "delete": ("upsert", "delete", "erase", "upsert", "delete_where", "erase"),
    "switch": ("upsert", "begin", "fill", "commit"),
    "compaction": ("upsert", "delete", "compact"),
}


class Workload:
    """The steps of *seed*, in the order of a schedule that begins anew at its end."""

    def __init__(self, seed: object, schedule: str = "everything") -> None:
        self.seed = seed
        self.kinds: Sequence[str] = SCHEDULES[schedule]

    def kind(self, number: int) -> str:
        """Return what step *number* does."""
        return self.kinds[number % len(self.kinds)]

    def apply(self, number: int, store: Any) -> None:
        """Make step *number* on *store*."""
        draw = _Draw(f"{self.seed}/{number}", number)
        getattr(draw, self.kind(number))(store)


class _Draw:
    def __init__(self, seed: str, number: int) -> None:
        self.rng = random.Random(seed)
        self.number = number

    def upsert(self, store: Any) -> None:
        store.upsert(self._entries(store), namespace=self._namespace())

    def both(self, store: Any) -> None:
        with store.transaction():
            for namespace in NAMESPACES:
                store.upsert(self._entries(store), namespace=namespace)
                store.delete(self._ids(3), namespace=namespace)

    def delete(self, store: Any) -> None:
        store.delete(self._ids(25), namespace=self._namespace())

    def delete_where(self, store: Any) -> None:
        store.delete(where={"n": {"$gte": self.rng.randint(0, 9)}, "even": True}, namespace=self._namespace())

    def erase(self, store: Any) -> None:
        getattr(store, "erase", store.delete)(self._ids(12), namespace=self._namespace())

    def patch(self, store: Any) -> None:
        store.patch({id: {"n": self.number} for id in self._ids(20)}, namespace=self._namespace())

    def put_vectors(self, store: Any) -> None:
        vectors = {id: self._vector(store.space) for id in self._ids(15)}
        store.put_vectors(vectors, namespace=self._namespace())

    def begin(self, store: Any) -> None:
        names = [space.fingerprint for space in SPACES]
        store.begin_space(SPACES[(names.index(store.space.fingerprint) + 1) % len(SPACES)])

    def fill(self, store: Any) -> None:
        space, namespace = store.filling().space, self._namespace()
        some = list(store.unfilled(namespace=namespace))[: self.rng.randint(1, 40)]
        reasons = {entry.id: "no words" for entry in some if not entry.text}
        vectors = {entry.id: self._vector(space) for entry in some if entry.text}
        store.fill_space(space, vectors, no_vector=reasons, namespace=namespace)

    def commit(self, store: Any) -> None:
        space = store.filling().space
        with store.transaction():
            for namespace in NAMESPACES:
                pending = [entry.id for entry in store.unfilled(namespace=namespace)]
                store.fill_space(space, {id: self._vector(space) for id in pending}, namespace=namespace)
            store.commit_space(space)

    def compact(self, store: Any) -> None:
        if hasattr(store, "compact"):  # the model has nothing to compact
            store.compact()

    def _namespace(self) -> str:
        return self.rng.choice(NAMESPACES)

    def _ids(self, most: int) -> list[str]:
        return self.rng.sample(IDS, self.rng.randint(1, most))

    def _entries(self, store: Any) -> list[Entry]:
        return [self._entry(id, store.space) for id in self._ids(30)]

    def _entry(self, id: str, space: Space) -> Entry:
        length = self.rng.choice([0, 3, 8, 20, 20, 200])
        text = " ".join(self.rng.choices(WORDS, k=length))
        metadata = {"n": self.rng.randint(0, 9), "even": self.number % 2 == 0, "tags": [self.rng.choice(WORDS)]}
        fate = self.rng.random()
        vector = self._vector(space) if fate < 0.8 else None
        return Entry(id, vector, text, f"step {self.number}", metadata, 0, "no words" if fate > 0.95 else None)

    def _vector(self, space: Space) -> list[float]:
        return [self.rng.gauss(0, 1) for _ in range(space.dimension)]
