"""Vectors of a space migration: what the entries of one namespace have in the space that is being filled.

Each change leaves an undo in *journal*, as those of the namespace do. Nothing is searched here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from vectorstore.types import Entry, Vector

VectorOrReason: TypeAlias = Vector | str
"""A vector of the second space, or the reason for none."""


class PendingVectors:
    """Vectors and reasons by id; an entry that has neither, and no reason of its own, is pending."""

    def __init__(self, journal: list[Callable[[], object]]) -> None:
        self._journal = journal
        self._vectors: dict[str, VectorOrReason] = {}

    @property
    def given(self) -> Mapping[str, VectorOrReason]:
        """What entries have."""
        return self._vectors

    def load(self, vectors: Mapping[str, VectorOrReason]) -> None:
        """Take what entries had when it was written down."""
        self._vectors = dict(vectors)

    def give(self, id: str, vector: VectorOrReason) -> None:
        """Set what an entry has."""
        self._undo_to(id)
        self._vectors[id] = vector

    def forget(self, id: str) -> None:
        """Drop what an entry has."""
        if id in self._vectors:
            self._undo_to(id)
            del self._vectors[id]

    def clear(self) -> None:
        """Drop everything."""
        before, self._vectors = self._vectors, {}
        self._journal.append(lambda: self._put_back(before))

    def is_pending(self, entry: Entry) -> bool:
        """Whether an entry still blocks the switch."""
        return entry.id not in self._vectors and entry.no_vector is None

    def filled(self) -> int:
        """How many entries have a vector."""
        return sum(not isinstance(vector, str) for vector in self._vectors.values())

    def switched(self, entries: Iterable[Entry]) -> dict[str, Entry]:
        """Return *entries* by id with what they have here; their own reason stays where nothing was given."""
        return {entry.id: self._switched(entry) for entry in entries}

    def _switched(self, entry: Entry) -> Entry:
        vector = self._vectors.get(entry.id)
        if isinstance(vector, str):
            return replace(entry, vector=None, no_vector=vector)
        return replace(entry, vector=vector, no_vector=entry.no_vector if vector is None else None)

    def _undo_to(self, id: str) -> None:
        before = self._vectors.get(id)

        def undo() -> None:
            if before is None:
                self._vectors.pop(id, None)
            else:
                self._vectors[id] = before

        self._journal.append(undo)

    def _put_back(self, before: dict[str, VectorOrReason]) -> None:
        self._vectors = before
