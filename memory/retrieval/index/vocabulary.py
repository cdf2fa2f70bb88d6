"""The vocabulary of one namespace: its terms by number, their surface forms, and a word vector for each term.

A term's vector is that of its commonest surface form, made on first use. The mean vector of common words is subtracted
from each: it is what all words share, and says nothing about any of them (Mu and Viswanath, All-but-the-Top, 2018). A
fixed list does as well as the mean over a memory's own words, and a vector then depends on its word alone.

A vector is kept on a grid of integers (unit length is ``GRID``), so that products of vectors stay exact in float32 and
float64: neither the order of writes nor that of a matrix product ever changes a score.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.protocol import WordVectors
from tellback.vectorstore.internals import GrowableArray, sorted_distinct

NO_TERM = 0
"""The number of no term: marks the end of a sentence."""


class Vocabulary:
    """Numbers of terms (from 1), and the surface forms counted for each. Numbers are given once and kept."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._terms: list[str] = [""]
        self._form_numbers: dict[str, int] = {}
        self._forms: list[str] = []
        self._term_of_form = GrowableArray(np.int32)
        self._counts = GrowableArray(np.int64)
        self._lower_case_counts = GrowableArray(np.int64)
        self._forms_of_term: dict[int, list[int]] = {}
        self._touched: list[NDArray[np.int64]] = []

    def __len__(self) -> int:
        return len(self._terms)

    def numbers(self, terms: Sequence[str]) -> list[int]:
        """Return the numbers of *terms*, which differ; a new term gets the next one."""
        fresh = [term for term in terms if term not in self._numbers]
        self._numbers.update(zip(fresh, range(len(self._terms), len(self._terms) + len(fresh)), strict=True))
        self._terms += fresh
        return list(map(self._numbers.__getitem__, terms))

    def find(self, term: str) -> int:
        """Return the number of *term*, ``NO_TERM`` if it was never given one."""
        return self._numbers.get(term, NO_TERM)

    def term(self, number: int) -> str:
        """Return the term of a number."""
        return self._terms[number]

    def form_numbers(self, forms: Sequence[str], terms: Sequence[int]) -> NDArray[np.int32]:
        """Return the numbers of the small-letter surface forms *forms*, which differ, each of one of *terms*.

        A new form gets the next number.
        """
        numbers, first = self._form_numbers, len(self._forms)
        fresh = [(form, term) for form, term in zip(forms, terms, strict=True) if form not in numbers]
        for number, (form, term) in enumerate(fresh, start=first):
            numbers[form] = number
            self._forms_of_term.setdefault(term, []).append(number)
        self._forms += [form for form, _ in fresh]
        self._term_of_form.extend([term for _, term in fresh])
        for counts in (self._counts, self._lower_case_counts):
            counts.extend(np.zeros(len(fresh), dtype=np.int64))
        return np.array(list(map(numbers.__getitem__, forms)), dtype=np.int32)

    def count(self, marks: NDArray[np.integer], sign: int = 1) -> None:
        """Add the occurrences *marks* to the counts, or subtract them with *sign* -1.

        A mark is twice the number of a surface form, and 1 more where it began with a small letter.
        """
        if not len(marks):
            return
        forms = marks >> 1
        add_counts(self._counts.rows, forms, sign)
        add_counts(self._lower_case_counts.rows, forms[marks & 1 > 0], sign)
        is_touched = np.zeros(len(self), dtype=np.bool_)
        is_touched[self._term_of_form.rows[forms]] = True
        self._touched.append(np.flatnonzero(is_touched))

    def take_touched(self) -> list[NDArray[np.int64]]:
        """Return the terms whose forms were counted since the last call of this method."""
        touched, self._touched = self._touched, []
        return touched

    def lower_case_count(self, word: str) -> int:
        """Return how often *word* was written with a small initial letter."""
        form = self._form_numbers.get(word.lower(), -1)
        return int(self._lower_case_counts.rows[form]) if form >= 0 else 0

    def written_form(self, term: int) -> str:
        """Return the commonest surface form of *term* as text; the term itself where none is counted."""
        form = self.commonest_form(term)
        return self._forms[form] if form >= 0 else self._terms[term]

    def commonest_form(self, term: int) -> int:
        """Return the number of the commonest surface form of *term*, ties by text; -1 where none is counted."""
        counts = self._counts.rows
        forms = [form for form in self._forms_of_term.get(term, ()) if counts[form] > 0]
        if len(forms) < 2:
            return forms[0] if forms else -1
        return min(forms, key=lambda form: (-int(counts[form]), self._forms[form]))

    def commonest_terms(self, limit: int) -> NDArray[np.int64]:
        """Return all terms, or, where there are more than *limit*, the terms that occur more often than the rest."""
        if len(self) <= limit:
            return np.arange(len(self))
        frequencies = np.zeros(len(self), dtype=np.int64)
        np.add.at(frequencies, self._term_of_form.rows, self._counts.rows)
        rest = int(np.partition(frequencies, len(frequencies) - limit - 1)[len(frequencies) - limit - 1])
        return np.flatnonzero(frequencies > rest)

    def form_text(self, form: int) -> str:
        """Return the text of a surface form; an empty one for -1."""
        return self._forms[form] if form >= 0 else ""


def add_counts(counts: NDArray[np.int64], numbers: NDArray[np.integer], sign: int) -> None:
    """Add to *counts* in place how often each of *numbers* occurs, or subtract it with *sign* -1."""
    if len(numbers) > len(counts):
        counts += sign * np.bincount(numbers, minlength=len(counts))
    else:
        np.add.at(counts, numbers, sign)


def renumber(numbers: NDArray[np.integer], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct *numbers* (all below *size*), ascending, and the position of each of *numbers* in them."""
    occurs = np.zeros(size, dtype=np.bool_)
    occurs[numbers] = True
    distinct = np.flatnonzero(occurs)
    positions = np.empty(size, dtype=np.int64)
    positions[distinct] = np.arange(len(distinct))
    return distinct, positions[numbers]


@cache
def common_words() -> tuple[str, ...]:
    """Return the common words whose mean vector is subtracted; they are in a file beside this one."""
    return tuple(Path(__file__).with_name("common_words.txt").read_text("utf-8").split())


GRID = 4000.0
"""Its square, with what rounding adds, is below 2**24: a product of two such vectors is exact in float32."""

_MAX_SINGLE_THREAD_PRODUCTS = 250_000
"""Multiplications that BLAS libraries do without waking another thread."""
_MAX_NEAREST_TERMS = 2048
"""Terms among which the nearest is searched: making their vectors takes tens of milliseconds in a new process."""
_NEAREST_BATCH = 64
"""Words whose nearest terms are searched at once."""
_VECTOR_BATCH = 1024
"""Vectors made at once."""
_ROUGH_BATCH = 2048
_SHORTEST = 1e-9
_NO_FORM_YET = -2
"""The form of a term whose vector was never needed."""

VectorRows = NDArray[np.float32]


class TermVectors:
    """Centred vectors of the terms of *vocabulary*; without *word_vectors* there are none.

    A term's vector lies in a slot of the grid, slot 0 being that of terms without a vector. A term is *fresh* while its
    slot holds the vector of its commonest form.
    """

    def __init__(self, word_vectors: WordVectors | None, vocabulary: Vocabulary) -> None:
        self._word_vectors = word_vectors
        self._vocabulary = vocabulary
        self._centre: VectorRows | None = None
        self._rows = GrowableArray(np.int16)  # a grid fits, in half the memory
        self._squares = GrowableArray(np.int64)
        self._slot = GrowableArray(np.int32)
        self._form = GrowableArray(np.int64)
        self._searched = False
        self._rough: dict[int, VectorRows] = {}
        """Centred vectors of forms that were made for the first search, and are not on the grid yet."""
        self._fresh = GrowableArray(np.bool_)

    def of_question(self, terms: Sequence[str], forms: Sequence[str]) -> VectorRows | None:
        """Return a grid vector for each question term: that of the namespace, else that of its form in the question."""
        if self._word_vectors is None:
            return None
        numbers = np.array([self._vocabulary.find(term) for term in terms], dtype=np.int64)
        vectors = self._of_terms(numbers)
        unknown = np.flatnonzero(~vectors.any(axis=1))
        if len(unknown):
            vectors[unknown] = self._of_words([forms[i] for i in unknown.tolist()])
        return vectors

    def cosines(self, queries: VectorRows, terms: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return cosines of *terms* with grid vectors *queries*, shape (terms, queries); 0 where a side has none."""
        if self._word_vectors is None:
            return np.zeros((len(terms), len(queries)))
        slots = self._slots(terms)
        query_squares = (queries.astype(np.float64) ** 2).sum(axis=1)
        lengths = np.sqrt(np.maximum(self._squares.rows[slots][:, None] * query_squares, 1.0))
        return np.asarray(_dot_products(self._rows.rows, slots, queries) / lengths)

    def unit(self, terms: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the vectors of *terms* at length 1, shape (terms, dimension); zeros where there is none."""
        if self._word_vectors is None:
            return np.zeros((len(terms), 1))
        return np.asarray(self._of_terms(terms) / GRID)

    def nearest(self, queries: VectorRows) -> list[str]:
        """Return the term nearest to each of *queries*, ties by text; an empty text where no cosine is above 0.

        The rarest terms of a large vocabulary are not searched.
        """
        common = self._vocabulary.commonest_terms(_MAX_NEAREST_TERMS)
        nearest_terms: list[str] = []
        for start in range(0, len(queries), _NEAREST_BATCH):
            terms = self._possibly_nearest(queries[start : start + _NEAREST_BATCH], common)
            cosines = self.cosines(queries[start : start + _NEAREST_BATCH], terms)
            best = cosines.max(axis=0, initial=0.0)
            ties = (terms[column == top] if top > 0 else () for column, top in zip(cosines.T, best, strict=True))
            nearest_terms += [min((self._vocabulary.term(int(number)) for number in tied), default="") for tied in ties]
        return nearest_terms

    def _possibly_nearest(self, queries: VectorRows, terms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return *terms* without such as are surely not the nearest to one of *queries*.

        The first time they are sorted out by vectors that are not put on the grid, which takes half the time; to keep
        the vectors of all terms pays off when it is asked again.
        """
        if self._searched or not len(terms):  # of a large vocabulary whose terms are all as rare, none is searched
            return terms
        self._searched = True
        parts = []
        for start in range(0, len(terms), _ROUGH_BATCH):
            forms = list(map(self._vocabulary.commonest_form, terms[start : start + _ROUGH_BATCH].tolist()))
            vectors = self._centred(list(map(self._vocabulary.form_text, forms)))
            self._rough.update(zip(forms, vectors, strict=True))
            lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
            parts.append(
                _dot_products(vectors, np.arange(len(vectors)), queries) / np.maximum(lengths, _SHORTEST)[:, None]
            )
        cosines = np.concatenate(parts) / np.maximum(np.sqrt((queries * queries).sum(axis=1)), 1.0)
        margin = 4 * np.sqrt(queries.shape[1]) / GRID  # several times what rounding to the grid moves a cosine by
        return np.asarray(terms[(cosines >= cosines.max(axis=0) - margin).any(axis=1)])

    def _of_terms(self, terms: NDArray[np.int64]) -> VectorRows:
        slots = self._slots(terms)
        return np.asarray(self._rows.rows[slots], dtype=np.float32)

    def _slots(self, terms: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the slots of the vectors of *terms*, making vectors that are missing."""
        self._follow_vocabulary()
        missing = terms[~self._fresh.rows[terms]]
        if len(missing):
            missing = sorted_distinct(missing)
            for start in range(0, len(missing), _VECTOR_BATCH):
                self._make_vectors(missing[start : start + _VECTOR_BATCH])
        return np.asarray(self._slot.rows[terms])

    def _follow_vocabulary(self) -> None:
        """Make room for new terms, and mark those whose forms were counted as not fresh."""
        if not len(self._rows):
            zeros = np.zeros_like(self._of_words(["word"]))
            self._rows = GrowableArray(np.int16, zeros.shape[1])
            self._rows.extend(zeros)
            self._squares.append(0)
        lacking = len(self._vocabulary) - len(self._fresh)
        if lacking > 0:
            self._slot.extend(np.zeros(lacking, dtype=np.int32))
            self._form.extend(np.full(lacking, _NO_FORM_YET))
            self._fresh.extend(np.zeros(lacking, dtype=np.bool_))
        for touched in self._vocabulary.take_touched():
            self._fresh.rows[touched] = False
        self._fresh.rows[NO_TERM] = True

    def _make_vectors(self, terms: NDArray[np.int64]) -> None:
        """Make the vectors of those of *terms* whose commonest form is another than that of their slot."""
        forms = np.array([self._vocabulary.commonest_form(term) for term in terms.tolist()], dtype=np.int64)
        is_changed = forms != self._form.rows[terms]
        changed = terms[is_changed]
        if len(changed):
            vectors = self._of_forms(forms[is_changed].tolist())
            new = changed[self._slot.rows[changed] == 0]
            self._slot.rows[new] = np.arange(len(self._rows), len(self._rows) + len(new))
            self._rows.extend(np.zeros((len(new), vectors.shape[1]), dtype=np.int16))
            self._squares.extend(np.zeros(len(new), dtype=np.int64))
            slots = self._slot.rows[changed]
            self._rows.rows[slots] = vectors
            self._squares.rows[slots] = (vectors.astype(np.int64) ** 2).sum(axis=1)
        self._form.rows[terms] = forms
        self._fresh.rows[terms] = True

    def _of_forms(self, forms: Sequence[int]) -> VectorRows:
        """Return centred grid vectors of surface forms, -1 for none; what was made for the first search is used up."""
        rough = [self._rough.pop(form, None) for form in forms]
        vectors = np.empty((len(forms), self._rows.rows.shape[1]), dtype=np.float32)
        lacking = [position for position, vector in enumerate(rough) if vector is None]
        for position, vector in enumerate(rough):
            if vector is not None:
                vectors[position] = vector
        if lacking:
            vectors[lacking] = self._centred([self._vocabulary.form_text(forms[position]) for position in lacking])
        return round_to_grid(vectors)

    def _of_words(self, words: Sequence[str]) -> VectorRows:
        """Return centred grid vectors of *words*; a row of zeros for a word without a vector."""
        return round_to_grid(self._centred(words))

    def _centred(self, words: Sequence[str]) -> VectorRows:
        assert self._word_vectors is not None
        if self._centre is None:
            common = self._word_vectors.words(common_words()).astype(np.float64)
            self._centre = common.mean(axis=0).astype(np.float32)
        vectors = self._word_vectors.words(list(words))
        return np.where(vectors.any(axis=1, keepdims=True), vectors - self._centre, np.float32(0))


def _dot_products(rows: NDArray[Any], slots: NDArray[np.integer], queries: VectorRows) -> NDArray[np.float64]:
    """Return rows[slots] @ queries.T, in blocks so small that BLAS stays on one thread: waking others takes longer.

    The grid makes every product of its rows exact, so that blocks change nothing.
    """
    products = np.empty((len(slots), len(queries)))
    step = max(1, _MAX_SINGLE_THREAD_PRODUCTS // max(queries.size, 1))
    for start in range(0, len(slots), step):
        products[start : start + step] = rows[slots[start : start + step]].astype(np.float32) @ queries.T
    return products


def round_to_grid(vectors: NDArray[np.floating]) -> VectorRows:
    """Return *vectors* at unit length (or rows of zeros) rounded to the integer grid."""
    rows = np.asarray(vectors, dtype=np.float64)
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    unit = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return np.asarray(np.rint(unit * GRID), dtype=np.float32)
