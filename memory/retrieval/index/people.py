"""People in the statements of one namespace: the names and kin words of each row, and the names behind kin words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tellback.memory.retrieval.languages.statements import is_kin
from tellback.vectorstore.internals import GrowableArray

_REMOVED = -1


class PeopleMentions:
    """The people of each row, as ``StatementAnalysis`` writes them; its subject first where that is a person."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._counts = GrowableArray(np.int64)
        self._subject_counts = GrowableArray(np.int64)
        self._rows = GrowableArray(np.int64)
        self._mentions = GrowableArray(np.int32)
        self._are_subjects = GrowableArray(np.bool_)
        self._relations: Counter[tuple[str, str]] = Counter()
        self._relations_of: dict[int, list[tuple[str, str]]] = {}

    def __contains__(self, person: str) -> bool:
        """Return whether any row mentions *person*."""
        return self._count_of(person, self._counts) > 0

    def is_person(self, mention: str) -> bool:
        """Return whether *mention* is surely a person: a kin word, a name behind one, or the subject of a statement."""
        is_subject = self._count_of(mention, self._subject_counts) > 0
        return is_subject or (mention in self and is_kin(mention)) or self._is_related(mention)

    def extend(
        self,
        people: Sequence[str],
        mentions: NDArray[np.integer],
        rows: NDArray[np.int64],
        about_person: NDArray[np.bool_],
    ) -> None:
        """Add *mentions*, positions in *people*, each by the row in *rows*: ascending, behind all rows before.

        One of *people* is a person, or a relation: kin word, blank, name. *about_person*, one a mention: the first
        person of its row is the subject of its statement.
        """
        relations = [person.partition(" ")[::2] if " " in person else ("", "") for person in people]
        is_relation = np.array([bool(name) for _, name in relations], dtype=np.bool_)[mentions]
        for row, number in zip(rows[is_relation].tolist(), mentions[is_relation].tolist(), strict=True):
            self._relations_of.setdefault(row, []).append(relations[number])
            self._relations[relations[number]] += 1
        numbers = np.array(
            [_REMOVED if name else self._number(person) for person, (_, name) in zip(people, relations, strict=True)],
            dtype=np.int32,
        )[mentions[~is_relation]]
        rows = rows[~is_relation]
        is_first = np.append(True, rows[1:] != rows[:-1])[: len(rows)]
        are_subjects = is_first & about_person[~is_relation]
        self._rows.extend(rows)
        self._mentions.extend(numbers)
        self._are_subjects.extend(are_subjects)
        np.add.at(self._counts.rows, numbers, 1)
        np.add.at(self._subject_counts.rows, numbers[are_subjects], 1)

    def remove(self, row: int) -> None:
        """Remove all mentions of *row*."""
        span = self._span(row)
        numbers = self._mentions.rows[span]
        np.add.at(self._counts.rows, numbers, -1)
        np.add.at(self._subject_counts.rows, numbers[self._are_subjects.rows[span]], -1)
        self._mentions.rows[span] = _REMOVED
        for relation in self._relations_of.pop(row, ()):
            self._relations[relation] -= 1
            if not self._relations[relation]:
                del self._relations[relation]

    def of(self, row: int) -> tuple[str, ...]:
        """Return the people of *row*."""
        return tuple(self._names[number] for number in self._mentions.rows[self._span(row)].tolist() if number >= 0)

    def mentions_any(self, rows: NDArray[np.int64], people: Iterable[str]) -> NDArray[np.bool_]:
        """Return which of *rows*, in any order, mention any of *people*."""
        numbers = [self._numbers[person] for person in people if person in self._numbers]
        return np.isin(rows, self._rows.rows[np.isin(self._mentions.rows, numbers)])

    def with_relations(self, people: Iterable[str]) -> frozenset[str]:
        """Return *people*, the names behind their kin words and the kin words of their names ("Ana is my sister")."""
        names = frozenset(people)
        related = [pair for pair in self._relations if not names.isdisjoint(pair)]
        return names.union(*related)

    def _number(self, person: str) -> int:
        number = self._numbers.get(person)
        if number is None:
            number = self._numbers[person] = len(self._names)
            self._names.append(person)
            self._counts.append(0)
            self._subject_counts.append(0)
        return number

    def _count_of(self, person: str, counts: GrowableArray[np.int64]) -> int:
        number = self._numbers.get(person)
        return 0 if number is None else int(counts.rows[number])

    def _span(self, row: int) -> slice:
        rows = self._rows.rows
        return slice(int(rows.searchsorted(row)), int(rows.searchsorted(row, "right")))

    def _is_related(self, mention: str) -> bool:
        return any(mention in pair for pair in self._relations)
