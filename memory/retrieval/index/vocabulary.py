"""The vocabulary of one namespace: numbers of its terms, and how often each surface form of a term occurs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vectorstore.internals import GrowableArray

NO_TERM = 0
"""The number of no term: marks the end of a sentence."""


class Vocabulary:
    """Numbers of terms (from 1), and the surface forms counted for each. Numbers are given once and kept."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: list[str] = [""]
        self._surfaces: dict[str, int] = {}
        self._forms: list[str] = []
        self._term_of = GrowableArray(np.int32)
        self._counts = GrowableArray(np.int64)
        self._small = GrowableArray(np.int64)
        self._forms_of: dict[int, list[int]] = {}
        self._touched: list[NDArray[np.int32]] = []

    def __len__(self) -> int:
        return len(self._names)

    def number(self, term: str) -> int:
        """Return the number of *term*, giving it one if it is new."""
        found = self._numbers.get(term)
        if found is None:
            found = self._numbers[term] = len(self._names)
            self._names.append(term)
        return found

    def find(self, term: str) -> int:
        """Return the number of *term*, ``NO_TERM`` if the store never had it."""
        return self._numbers.get(term, NO_TERM)

    def name(self, number: int) -> str:
        """Return the term of a number."""
        return self._names[number]

    def surface(self, form: str, term: int) -> int:
        """Return the number of the small-letter *form* of *term*, giving it one if it is new."""
        found = self._surfaces.get(form)
        if found is None:
            found = self._surfaces[form] = self._counts.append(0)
            self._small.append(0)
            self._forms.append(form)
            self._term_of.append(term)
            self._forms_of.setdefault(term, []).append(found)
        return found

    def count(self, marks: NDArray[np.int32], sign: int = 1) -> None:
        """Count *marks* in (or out, with *sign* -1): twice a surface form, and 1 where it began with a small letter."""
        if not len(marks):
            return
        surfaces = marks >> 1
        np.add.at(self._counts.rows, surfaces, sign)
        np.add.at(self._small.rows, surfaces[marks & 1 > 0], sign)
        self._touched.append(np.unique(self._term_of.rows[surfaces]))

    def touched(self) -> list[NDArray[np.int32]]:
        """Return, once, the terms whose forms were counted since this was asked."""
        touched, self._touched = self._touched, []
        return touched

    def small(self, word: str) -> int:
        """Return how often *word* was written with a small letter."""
        found = self._surfaces.get(word.lower(), -1)
        return int(self._small.rows[found]) if found >= 0 else 0

    def form(self, number: int) -> str:
        """Return how a term is mostly written here; itself where it is no single word."""
        surface = self.commonest(number)
        return self._forms[surface] if surface >= 0 else self._names[number]

    def commonest(self, term: int) -> int:
        """Return the commonest surface form of *term*, of equals the first by text; -1 where none is counted."""
        forms = self._forms_of.get(term, ())
        counts = self._counts.rows
        there = [surface for surface in forms if counts[surface] > 0]
        if len(there) < 2:
            return there[0] if there else -1
        return min(there, key=lambda surface: (-int(counts[surface]), self._forms[surface]))

    def commonest_terms(self, count: int) -> NDArray[np.int64]:
        """Return all terms, or, where there are more than *count*, those that occur more often than the rest."""
        if len(self) <= count:
            return np.arange(len(self))
        often = np.zeros(len(self), dtype=np.int64)
        np.add.at(often, self._term_of.rows, self._counts.rows)
        rest = int(np.partition(often, len(often) - count - 1)[len(often) - count - 1])
        return np.flatnonzero(often > rest)

    def written(self, surface: int) -> str:
        """Return the text of a surface form; an empty one for -1."""
        return self._forms[surface] if surface >= 0 else ""
