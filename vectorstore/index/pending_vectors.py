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
        self._given: dict[str, VectorOrReason] = {}

    @property
    def given(self) -> Mapping[str, VectorOrReason]:
        """What entries have."""
        return self._given

    def load(self, given: Mapping[str, VectorOrReason]) -> None:
        """Take what entries had when it was written down."""
        self._given = dict(given)

    def give(self, id: str, given: VectorOrReason) -> None:
        """Set what an entry has."""
        self._undo_to(id)
        self._given[id] = given

    def forget(self, id: str) -> None:
        """Drop what an entry has."""
        if id in self._given:
            self._undo_to(id)
            del self._given[id]

    def clear(self) -> None:
        """Drop everything."""
        before, self._given = self._given, {}
        self._journal.append(lambda: self._put_back(before))

    def is_pending(self, entry: Entry) -> bool:
        """Whether an entry still blocks the switch."""
        return entry.id not in self._given and entry.no_vector is None

    def filled(self) -> int:
        """How many entries have a vector."""
        return sum(not isinstance(given, str) for given in self._given.values())

    def switched(self, entries: Iterable[Entry]) -> dict[str, Entry]:
        """Return *entries* by id with what they have here; their own reason stays where nothing was given."""
        return {entry.id: self._switched(entry) for entry in entries}

    def _switched(self, entry: Entry) -> Entry:
        given = self._given.get(entry.id)
        if isinstance(given, str):
            return replace(entry, vector=None, no_vector=given)
        return replace(entry, vector=given, no_vector=entry.no_vector if given is None else None)

    def _undo_to(self, id: str) -> None:
        before = self._given.get(id)

        def undo() -> None:
            if before is None:
                self._given.pop(id, None)
            else:
                self._given[id] = before

        self._journal.append(undo)

    def _put_back(self, before: dict[str, VectorOrReason]) -> None:
        self._given = before
