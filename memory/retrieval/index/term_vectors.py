"""Term vectors of one namespace: a word vector for each term by its commonest surface form, made on first use.

The mean vector of common words is subtracted from each: it is what all words share, and says nothing about any of them
(Mu and Viswanath, All-but-the-Top, 2018). A fixed list does as well as the mean over a memory's own words, and a vector
then depends on its word alone.

A vector is kept on a grid of integers (unit length is ``GRID``), so that products of vectors stay exact in float32 and
float64: neither the order of writes nor that of a matrix product ever changes a score.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memory.embedders.protocol import WordVectors
from memory.retrieval.index.vocabulary import NO_TERM, Vocabulary
from vectorstore.internals import GrowableArray

_ENGLISH_WORDS = """
age air animal answer area art ask back bad begin big black blue body book boy bread break bright bring build
business busy buy call car care carry case change city clean close cold colour community company cook cut dance
dark day deep different doctor door draw drive early easy eat education empty end eye face fact family far fast
fear feel find finish fix fly food foot force free friend full game garden girl give good government green group
grow guy hand happy hard hate head health hear heavy help high history hold holiday home hope hot hour house
idea important information issue job keep kind know language late law leave letter level life light like line
listen local long look lose lot loud love low machine make man market meet member minute moment money month
morning mother move music name national near need new night number office old open paint pair paper parent part
party pay people person place plan plant play point policy poor possible power president price problem program
public question quiet read ready reason receive red remember research rich river road room run sad save say
school see sell send service short show sick side simple sing sister sleep slow small soft song special speak
spend stand start state stay stop story street strong student study summer sure swim system table take talk
teach teacher team tell test thing think time town travel tree trip true try turn understand use visit voice
wait walk want war warm wash watch water weak wear weather week white wide win window winter woman word work
world write year young
"""
COMMON_WORDS = tuple(_ENGLISH_WORDS.split())

GRID = 4000.0
"""Its square, with what rounding adds, is below 2**24: a product of two such vectors is exact in float32."""

_MAX_SINGLE_THREAD_PRODUCTS = 250_000
"""Multiplications that BLAS libraries do without waking another thread."""
_MAX_NEAREST_TERMS = 20_000
"""Terms among which the nearest is looked for: their vectors take 10 MB."""
_VECTOR_BATCH = 1024
"""Vectors made at once."""
_NO_FORM_YET = -2
"""Stands for the form of a term whose vector was not asked for yet."""

VectorRows = NDArray[np.float32]


class TermVectors:
    """Centred vectors of the terms of *stems*; without *word_vectors* there are none."""

    def __init__(self, word_vectors: WordVectors | None, stems: Vocabulary) -> None:
        self._word_vectors = word_vectors
        self._stems = stems
        self._centre: VectorRows | None = None
        self._rows: GrowableArray[np.int16] | None = None
        self._squares = GrowableArray(np.int64)
        self._slot = GrowableArray(np.int32)
        self._form = GrowableArray(np.int64)
        self._fresh = GrowableArray(np.bool_)

    def of_question(self, terms: Sequence[str], forms: Sequence[str]) -> VectorRows | None:
        """Return a grid vector for each question term: the namespace's own, else that of the form in the question."""
        if self._word_vectors is None:
            return None
        numbers = np.array([self._stems.find(term) for term in terms], dtype=np.int64)
        result = self._of(numbers)
        unknown = np.flatnonzero(~result.any(axis=1))
        if len(unknown):
            result[unknown] = self._made([forms[at] for at in unknown.tolist()])
        return result

    def cosines(self, queries: VectorRows, terms: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return cosines of *terms* with grid vectors *queries*, shape (terms, queries); 0 where a side has none."""
        if self._word_vectors is None:
            return np.zeros((len(terms), len(queries)))
        slots = self._slots(terms)
        asked = (queries.astype(np.float64) ** 2).sum(axis=1)
        lengths = np.sqrt(np.maximum(self._squares.rows[slots][:, None] * asked, 1.0))
        return np.asarray(_dot_products(self._grid, slots, queries) / lengths)

    def cosines_of(self, some: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return cosines of terms with terms, shape (some, others); 0 where either has no vector."""
        if self._word_vectors is None:
            return np.zeros((len(some), len(others)))
        return self.cosines(self._of(others), some)

    def unit(self, terms: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the vectors of *terms* at length 1, shape (terms, dimension); zeros where there is none."""
        if self._word_vectors is None:
            return np.zeros((len(terms), 1))
        return np.asarray(self._of(terms) / GRID)

    def nearest(self, queries: VectorRows) -> list[str]:
        """Return the term nearest to each of *queries*; an empty text where none is near.

        Of a large vocabulary the rarest terms are not looked at.
        """
        among = self._stems.commonest_terms(_MAX_NEAREST_TERMS)
        cosines = self.cosines(queries, among)
        best = cosines.max(axis=0, initial=0.0)
        ties = (among[column == top] if top > 0 else () for column, top in zip(cosines.T, best, strict=True))
        return [min((self._stems.name(int(at)) for at in tied), default="") for tied in ties]

    def _of(self, terms: NDArray[np.int64]) -> VectorRows:
        """Return grid vectors of *terms*, making those that are not there."""
        slots = self._slots(terms)
        return np.asarray(self._grid[slots], dtype=np.float32)

    @property
    def _grid(self) -> NDArray[np.int16]:
        assert self._rows is not None, "terms have slots once there are rows"
        return self._rows.rows

    def _slots(self, terms: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return where the vectors of *terms* stand, making those that are not there."""
        rows = self._up_to_date()
        missing = terms[~self._fresh.rows[terms]]
        if len(missing):
            missing = np.unique(missing)
            for start in range(0, len(missing), _VECTOR_BATCH):
                self._make(rows, missing[start : start + _VECTOR_BATCH])
        return np.asarray(self._slot.rows[terms])

    def _up_to_date(self) -> GrowableArray[np.int16]:
        if self._rows is None:
            none = np.zeros_like(self._made(["word"]))  # the vector of what has none
            self._rows = GrowableArray(np.int16, none.shape[1])  # a grid fits, in half the memory
            self._rows.extend(none)
            self._squares.append(0)
        lacking = len(self._stems) - len(self._fresh)
        if lacking > 0:
            self._slot.extend(np.zeros(lacking, dtype=np.int32))
            self._form.extend(np.full(lacking, _NO_FORM_YET))
            self._fresh.extend(np.zeros(lacking, dtype=np.bool_))
        for touched in self._stems.touched():
            self._fresh.rows[touched] = False
        self._fresh.rows[NO_TERM] = True
        return self._rows

    def _make(self, rows: GrowableArray[np.int16], terms: NDArray[np.int64]) -> None:
        forms = np.array([self._stems.commonest(term) for term in terms.tolist()], dtype=np.int64)
        moved = terms[forms != self._form.rows[terms]]
        if len(moved):
            vectors = self._made([self._stems.written(self._stems.commonest(term)) for term in moved.tolist()])
            new = moved[self._slot.rows[moved] == 0]
            self._slot.rows[new] = np.arange(len(rows), len(rows) + len(new))
            rows.extend(np.zeros((len(new), vectors.shape[1]), dtype=np.int16))
            self._squares.extend(np.zeros(len(new), dtype=np.int64))
            slots = self._slot.rows[moved]
            rows.rows[slots] = vectors
            self._squares.rows[slots] = (vectors.astype(np.int64) ** 2).sum(axis=1)
        self._form.rows[terms] = forms
        self._fresh.rows[terms] = True

    def _made(self, words: Sequence[str]) -> VectorRows:
        assert self._word_vectors is not None
        if self._centre is None:
            common = self._word_vectors.words(COMMON_WORDS).astype(np.float64)
            self._centre = common.mean(axis=0).astype(np.float32)
        vectors = self._word_vectors.words(list(words))
        return round_to_grid(np.where(vectors.any(axis=1, keepdims=True), vectors - self._centre, 0.0))


def _dot_products(rows: NDArray[np.int16], slots: NDArray[np.int32], sides: VectorRows) -> NDArray[np.float64]:
    """Return rows[slots] @ sides.T in blocks small enough to stay on one thread: waking others takes longer than that.

    The grid makes every product exact, so that blocks change nothing.
    """
    result = np.empty((len(slots), len(sides)))
    step = max(1, _MAX_SINGLE_THREAD_PRODUCTS // max(sides.size, 1))
    for start in range(0, len(slots), step):
        result[start : start + step] = rows[slots[start : start + step]].astype(np.float32) @ sides.T
    return result


def round_to_grid(vectors: NDArray[np.floating]) -> VectorRows:
    """Return *vectors* at unit length (or rows of zeros) rounded to the integer grid."""
    rows = np.asarray(vectors, dtype=np.float64)
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    unit = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return np.asarray(np.rint(unit * GRID), dtype=np.float32)
