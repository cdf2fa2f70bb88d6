"""People in the statements of one namespace: the names and kin words of each row, and the names behind kin words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TypeVar

_Key = TypeVar("_Key", bound=Hashable)


class PeopleMentions:
    """The people of each row, as ``StatementAnalysis`` writes them; its subject first where that is a person."""

    def __init__(self) -> None:
        self._of_row: dict[int, tuple[str, ...]] = {}
        self._rows: Counter[str] = Counter()
        self._relations: Counter[tuple[str, str]] = Counter()
        self._relations_of: dict[int, tuple[tuple[str, str], ...]] = {}

    def __contains__(self, person: str) -> bool:
        """Return whether any row mentions *person*."""
        return person in self._rows

    def add(self, row: int, mention: str) -> None:
        """Add a person that *row* mentions, or a relation: kin word, blank, name."""
        kin, _, name = mention.partition(" ")
        if name:
            self._relations_of[row] = (*self._relations_of.get(row, ()), (kin, name))
            self._relations[kin, name] += 1
        else:
            self._of_row[row] = (*self._of_row.get(row, ()), mention)
            self._rows[mention] += 1

    def remove(self, row: int) -> None:
        """Remove all mentions of *row*."""
        _subtract(self._rows, self._of_row.pop(row, ()))
        _subtract(self._relations, self._relations_of.pop(row, ()))

    def of(self, row: int) -> tuple[str, ...]:
        """Return the people of *row*."""
        return self._of_row.get(row, ())

    def with_relations(self, people: Iterable[str]) -> frozenset[str]:
        """Return *people*, the names behind their kin words and the kin words of their names ("Ana is my sister")."""
        given = frozenset(people)
        related = [pair for pair in self._relations if not given.isdisjoint(pair)]
        return given.union(*related)


def _subtract(counts: Counter[_Key], keys: Iterable[_Key]) -> None:
    for key in keys:
        counts[key] -= 1
        if not counts[key]:
            del counts[key]
