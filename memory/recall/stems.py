"""The terms of one namespace as small numbers, and a word vector for each, by its commonest surface form.

A vector is kept on a grid of integers (unit length is ``GRID``): sums and products of them stay exact in
float32 and float64, so that neither the order of writing nor that of a matrix product ever moves a score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from memory.embedders.protocol import WordVectors
from memory.recall.growing import Growing

GRID = 4000.0
"""Its square, with what rounding adds, is below 2**24: a product of two such vectors is exact in float32."""

_ONE_THREAD = 250_000
"""Multiplications that BLAS libraries do without waking another thread."""

NOTHING = 0
"""The number of no term: marks the end of a sentence."""


class Stems:
    """Numbers of terms (from 1), the surface forms counted for each, and vectors that follow them."""

    def __init__(self, word_vectors: WordVectors | None, stem: Callable[[str], Sequence[str]]) -> None:
        self._word_vectors = word_vectors
        self._stem = stem
        self._numbers: dict[str, int] = {}
        self._names: list[str] = [""]
        self._surfaces: dict[str, int] = {}
        self._marks: dict[str, int] = {}
        self._forms: list[str] = []
        self._term_of: list[int] = []
        self._counts = Growing(np.int64)
        self._small = Growing(np.int64)
        self._forms_of: dict[int, list[int]] = {}
        self._form: dict[int, int] = {}
        self._touched: set[int] = set()
        self._rows: Growing | None = None
        self._squares = Growing(np.int64)
        self._sum: NDArray[np.int64] | None = None
        self._known = 0

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
        """Return the number of *term*, ``NOTHING`` if the store never had it."""
        return self._numbers.get(term, NOTHING)

    def name(self, number: int) -> str:
        """Return the term of a number."""
        return self._names[number]

    def form(self, number: int) -> str:
        """Return how a term is mostly written here; itself where it is no single word."""
        surface = self._commonest(number)
        return self._forms[surface] if surface >= 0 else self._names[number]

    def marked(self, words: Sequence[str]) -> list[int]:
        """Return the surface forms of *words* as they are counted: twice the number, and 1 for a small letter.

        What is not one term (a stop word, a compound) is left out.
        """
        marks = self._marks
        for word in words:
            if word not in marks:
                marks[word] = self._mark(word)
        return [mark for word in words if (mark := marks[word]) >= 0]

    def _mark(self, word: str) -> int:
        form = word.lower()
        found = self._surfaces.get(form)
        if found is None:
            terms = self._stem(form)
            found = -1
            if len(terms) == 1:
                found = self._counts.append(0)
                self._small.append(0)
                term = self.number(terms[0])
                self._forms.append(form)
                self._term_of.append(term)
                self._forms_of.setdefault(term, []).append(found)
            self._surfaces[form] = found
        return -1 if found < 0 else 2 * found + word[:1].islower()

    def count(self, marked: Sequence[int], sign: int = 1) -> None:
        """Count marked surface forms in (or out, with *sign* -1)."""
        counts, small = self._counts.values, self._small.values
        for mark in marked:
            surface = mark >> 1
            counts[surface] += sign
            small[surface] += sign * (mark & 1)
            self._touched.add(self._term_of[surface])

    def small(self, word: str) -> int:
        """Return how often *word* was written with a small letter."""
        found = self._surfaces.get(word.lower(), -1)
        return int(self._small.values[found]) if found >= 0 else 0

    def settle(self) -> None:
        """Bring the vectors up to date with the counts; before the first question after a change."""
        touched, self._touched = self._touched, set()
        if self._word_vectors is None:
            return
        moved = [(term, form) for term in sorted(touched) if (form := self._commonest(term)) != self._form.get(term)]
        if not moved:
            return
        given = on_grid(self._word_vectors.words([self._forms[form] if form >= 0 else "" for _, form in moved]))
        if self._rows is None or self._sum is None:
            self._rows = Growing(np.float32, given.shape[1])
            self._sum = np.zeros(given.shape[1], dtype=np.int64)
        missing = len(self._names) - len(self._rows)
        if missing > 0:
            self._rows.extend(np.zeros((missing, given.shape[1]), dtype=np.float32))
            self._squares.extend(np.zeros(missing, dtype=np.int64))
        for (term, form), vector in zip(moved, given, strict=True):
            wanted = vector if form >= 0 else np.zeros_like(vector)
            before = self._rows.values[term]
            self._known += int(bool(wanted.any())) - int(bool(before.any()))
            self._sum += wanted.astype(np.int64) - before.astype(np.int64)
            self._rows.values[term] = wanted
            self._squares.values[term] = (wanted.astype(np.int64) ** 2).sum()
            self._form[term] = form

    def cosines(self, queries: NDArray[np.float32], terms: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Return centred cosines of *terms* (None: all) with grid vectors *queries*, shape (terms, queries).

        0 where either side has no vector.
        """
        rows, total = self._rows, self._sum
        wanted = len(self._names) if terms is None else len(terms)
        result = np.zeros((wanted, len(queries)))
        if rows is None or total is None or not self._known:
            return result
        mean = self._mean(total)
        held, own = rows.values, self._squares.values
        if terms is not None:
            at = np.where(terms < len(rows), terms, NOTHING)
            held, own = held[at], own[at]
        sides = np.concatenate([queries, mean[None, :]])
        products = _products(held, sides)
        by_mean = _products(sides, mean[None, :])[:, 0]
        centre = by_mean[-1]
        left = own - 2 * products[:, -1] + centre
        right = (queries.astype(np.float64) ** 2).sum(axis=1) - 2 * by_mean[:-1] + centre
        inner = products[:, :-1] - products[:, -1:] - by_mean[:-1] + centre
        cosines = inner / np.sqrt(np.maximum(left[:, None] * right, 1.0))
        cosines[own == 0] = 0.0
        cosines[:, ~queries.any(axis=1)] = 0.0
        result[: len(cosines)] = cosines
        return result

    def cosines_of(self, some: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return centred cosines of terms with terms, shape (some, others); 0 where either has no vector."""
        left, right = self.centred(some), self.centred(others)
        lengths = np.sqrt((left * left).sum(axis=1)[:, None] * (right * right).sum(axis=1)[None, :])
        inner = left @ right.T
        return np.asarray(np.divide(inner, lengths, out=np.zeros_like(inner), where=lengths > 0))

    def centred(self, terms: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the vectors of *terms* less the mean of all, shape (terms, dimension); zeros where there is none."""
        if self._rows is None:
            return np.zeros((len(terms), 1))
        return self.centre(self._rows.values[np.where(terms < len(self._rows), terms, NOTHING)])

    def centre(self, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return grid *vectors* less the mean of all terms'; rows of zeros stay."""
        if self._sum is None or not self._known:
            return np.zeros(vectors.shape)
        there = vectors.any(axis=1, keepdims=True)
        return np.where(there, vectors.astype(np.float64) - self._mean(self._sum), 0.0)

    def _mean(self, total: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.asarray(np.rint(total / self._known), dtype=np.float32)

    def vectors(self, terms: Sequence[str], forms: Sequence[str]) -> NDArray[np.float32] | None:
        """Return a grid vector for each question term: the store's own, else that of the form in the
        question.
        """
        if self._word_vectors is None or self._rows is None:
            return None
        result = np.zeros((len(terms), self._rows.values.shape[1]), dtype=np.float32)
        unknown = []
        for at, term in enumerate(terms):
            number = self.find(term)
            if NOTHING < number < len(self._rows) and self._rows.values[number].any():
                result[at] = self._rows.values[number]
            else:
                unknown.append(at)
        if unknown:
            result[unknown] = on_grid(self._word_vectors.words([forms[at] for at in unknown]))
        return result

    def nearest(self, queries: NDArray[np.float32]) -> list[str]:
        """Return the term nearest to each of *queries*; an empty text where none is near."""
        cosines = self.cosines(queries)
        best = cosines.max(axis=0, initial=0.0)
        ties = (np.flatnonzero(column == top) if top > 0 else () for column, top in zip(cosines.T, best, strict=True))
        return [min((self._names[at] for at in tied), default="") for tied in ties]

    def _commonest(self, term: int) -> int:
        counts = self._counts.values
        there = [surface for surface in self._forms_of.get(term, ()) if counts[surface] > 0]
        return min(there, key=lambda surface: (-int(counts[surface]), self._forms[surface]), default=-1)


def _products(rows: NDArray[np.float32], sides: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return rows @ sides.T in blocks small enough to stay on one thread: waking others takes longer than that.

    The grid makes every product exact, so that blocks change nothing.
    """
    result = np.empty((len(rows), len(sides)))
    step = max(1, _ONE_THREAD // max(sides.size, 1))
    for start in range(0, len(rows), step):
        result[start : start + step] = rows[start : start + step] @ sides.T
    return result


def on_grid(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return unit vectors (or rows of zeros) rounded to the integer grid."""
    rows = np.asarray(vectors, dtype=np.float64)
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    unit = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return np.asarray(np.rint(unit * GRID), dtype=np.float32)
