"""People in the statements of one namespace: the names and kin words of each row, and the names behind kin words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TypeVar

from memory.retrieval.languages.statements import is_kin

_Key = TypeVar("_Key", bound=Hashable)


class PeopleMentions:
    """The people of each row, as ``StatementAnalysis`` writes them; its subject first where that is a person."""

    def __init__(self) -> None:
        self._of_row: dict[int, tuple[str, ...]] = {}
        self._rows: Counter[str] = Counter()
        self._subject_of: dict[int, str] = {}
        self._subjects: Counter[str] = Counter()
        self._relations: Counter[tuple[str, str]] = Counter()
        self._relations_of: dict[int, tuple[tuple[str, str], ...]] = {}

    def __contains__(self, person: str) -> bool:
        """Return whether any row mentions *person*."""
        return person in self._rows

    def is_person(self, mention: str) -> bool:
        """Return whether *mention* is surely a person: a kin word, a name behind one, or the subject of a statement."""
        return mention in self._subjects or (mention in self._rows and is_kin(mention)) or self._is_related(mention)

    def add(self, row: int, mention: str, *, is_subject: bool = False) -> None:
        """Add a person that *row* mentions, or a relation: kin word, blank, name.

        *is_subject*: the first person of *row* is the subject of its statement.
        """
        kin, _, name = mention.partition(" ")
        if name:
            self._relations_of[row] = (*self._relations_of.get(row, ()), (kin, name))
            self._relations[kin, name] += 1
        else:
            self._of_row[row] = (*self._of_row.get(row, ()), mention)
            self._rows[mention] += 1
            if is_subject and row not in self._subject_of:
                self._subject_of[row] = mention
                self._subjects[mention] += 1

    def remove(self, row: int) -> None:
        """Remove all mentions of *row*."""
        _subtract(self._rows, self._of_row.pop(row, ()))
        if row in self._subject_of:
            _subtract(self._subjects, [self._subject_of.pop(row)])
        _subtract(self._relations, self._relations_of.pop(row, ()))

    def of(self, row: int) -> tuple[str, ...]:
        """Return the people of *row*."""
        return self._of_row.get(row, ())

    def with_relations(self, people: Iterable[str]) -> frozenset[str]:
        """Return *people*, the names behind their kin words and the kin words of their names ("Ana is my sister")."""
        given = frozenset(people)
        related = [pair for pair in self._relations if not given.isdisjoint(pair)]
        return given.union(*related)

    def _is_related(self, mention: str) -> bool:
        return any(mention in pair for pair in self._relations)


def _subtract(counts: Counter[_Key], keys: Iterable[_Key]) -> None:
    for key in keys:
        counts[key] -= 1
        if not counts[key]:
            del counts[key]
