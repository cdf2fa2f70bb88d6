"""BM25 over the terms of a namespace: the forward index, postings, frequencies, scores.

The *forward index* has the terms of each entry as numbers, in order, with repeats: first the context's, then the
text's, with 0 after the last term of each sentence. Numbers come from a dictionary per namespace that starts at 1 and
never uses a number twice. In memory the sequences of many entries stand end to end, by slot.

Every write takes a new *slot*; the slot of an earlier version dies. Postings are built over runs of slots when a
question first needs them, and small runs are merged, so a write costs little and a question asks few. All statistics
are integers, so the order of writing never moves a score.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009. N and the average length are
those of all entries, with or without terms; a length counts context and text; a repeated term of the question counts
once; terms are added up in order of their text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore.analyzer import Analyzer
from tellback.vectorstore.index.growable_array import GrowableArray, sorted_distinct

BM25_K1: Final = 0.9
"""Saturation: no term counts more than its weight times ``BM25_K1 + 1``. 0.9 and 0.4 are Anserini's for short texts."""
BM25_B: Final = 0.4
"""Weight of the length of a text: 0 not at all, 1 in full."""
SENTENCE_END: Final = 0
"""Number after the last term of a sentence."""
_NO_SLOT: Final = -1
_SLOT_BITS: Final = 32
_MERGE_FACTOR: Final = 3
"""A run of postings is merged into the next newer one unless it is this many times larger."""
_BLOCK_POSTINGS: Final = 1 << 20
"""Postings that are scored at once: about 30 MB."""
_MIN_PARTIAL_SLOTS: Final = 8_192
"""Slots from which on postings of a question's terms alone are made first; to sort all of fewer is soon done."""
_MAX_PARTIAL_INDEXES: Final = 4
"""Partial indexes before all postings are made, which a process that asks on needs; one question may take several."""
_DEAD_NUMBERS_LIMIT: Final = 1 << 16
"""Dead numbers of the forward index that are not worth a clean-up."""


def idf(count: int, frequency: int) -> float:
    """Return the inverse document frequency of a term that *frequency* of *count* texts have."""
    return math.log(1.0 + (count - frequency + 0.5) / (frequency + 0.5))


def idf_array(count: int, frequencies: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``idf`` for each of *frequencies*, float64 of the same shape."""
    return np.asarray(np.log(1 + (count - frequencies + 0.5) / (frequencies + 0.5)))


def bm25_shares(
    idfs: NDArray[np.float64] | float,
    counts: NDArray[np.integer],
    lengths: NDArray[np.integer],
    average: float,
) -> NDArray[np.float64]:
    """Return what a term adds to the score of texts that have it *counts* times among *lengths* terms."""
    weights = BM25_K1 * (1.0 - BM25_B + BM25_B * lengths.astype(np.float64) / average)
    shares: NDArray[np.float64] = idfs * counts.astype(np.float64) * (BM25_K1 + 1.0) / (counts + weights)
    return shares


@dataclass(frozen=True, slots=True)
class AnalyzedText:
    """The terms of one entry: of its context, and of each sentence of its text."""

    context: tuple[str, ...]
    sentences: tuple[tuple[str, ...], ...]

    def distinct(self) -> set[str]:
        """Every term once."""
        return set(chain(self.context, *self.sentences))

    def numbered(self, number_of: Mapping[str, int]) -> tuple[NDArray[np.int32], int]:
        """Return (the sequence, how many of it belong to the context)."""
        numbers = list(map(number_of.__getitem__, self.context))
        for sentence in self.sentences:
            numbers.extend(map(number_of.__getitem__, sentence))
            numbers.append(SENTENCE_END)
        return np.array(numbers, dtype=np.int32), len(self.context)


@dataclass(frozen=True, slots=True)
class ForwardBlock:
    """The sequences of some entries end to end: *sizes* says how long each is, *contexts* how much of it is context."""

    keys: Sequence[int]
    """The engine's row keys of the entries; none in a snapshot."""
    numbers: NDArray[np.int32]
    sizes: NDArray[np.int64]
    contexts: NDArray[np.int32]


def analyze_text(analyzer: Analyzer, text: str, context: str) -> AnalyzedText:
    """Return the terms of a text and its context; sentences without a term are left out."""
    sentences = (tuple(sentence) for sentence in analyzer.sentences(text)) if text else ()
    return AnalyzedText(tuple(analyzer.terms(context)) if context else (), tuple(s for s in sentences if s))


def decode_terms(
    sequence: NDArray[np.int32], context_length: int, name: Callable[[int], str]
) -> tuple[tuple[str, ...], ...]:
    """Return the terms of a sequence: first the context's, then each sentence's."""
    parts: list[tuple[str, ...]] = [tuple(name(n) for n in sequence[:context_length].tolist())]
    sentence: list[str] = []
    for number in sequence[context_length:].tolist():
        if number == SENTENCE_END:
            parts.append(tuple(sentence))
            sentence = []
        else:
            sentence.append(name(number))
    return tuple(parts)


class TermSequences:
    """Sequences by slot; ``lengths`` counts the terms of each, ``total`` those of all."""

    def __init__(self) -> None:
        self._flat: GrowableArray[np.int32] = GrowableArray(np.int32)
        self._end: GrowableArray[np.int64] = GrowableArray(np.int64)
        self._context: GrowableArray[np.int32] = GrowableArray(np.int32)
        self._length: GrowableArray[np.int32] = GrowableArray(np.int32)

    @property
    def size(self) -> int:
        """Return how many numbers there are, sentence ends included."""
        return len(self._flat)

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Return how many terms each slot has, sentence ends not counted."""
        return self._length.rows

    def extend(self, block: ForwardBlock) -> None:
        """Add the sequences of a block, slot by slot."""
        ends = np.cumsum(block.sizes)
        words = np.concatenate(([0], np.cumsum(block.numbers != SENTENCE_END)))
        before = len(self._flat)
        self._flat.extend(block.numbers)
        self._end.extend(ends + before)
        self._context.extend(block.contexts)
        self._length.extend(np.diff(words[ends], prepend=0).astype(np.int32))

    def append(self, sequence: NDArray[np.int32], context_length: int) -> int:
        """Add a slot; return how many terms it has."""
        length = int(np.count_nonzero(sequence != SENTENCE_END))
        self._flat.extend(sequence)
        self._end.append(len(self._flat))
        self._context.append(context_length)
        self._length.append(length)
        return length

    def sequence(self, slot: int) -> tuple[NDArray[np.int32], int]:
        """Return (the numbers of a slot, how many belong to its context); they must not be changed."""
        start = int(self._end.rows[slot - 1]) if slot else 0
        return self._flat.rows[start : int(self._end.rows[slot])], int(self._context.rows[slot])

    def joined(self, slots: NDArray[np.signedinteger]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the place in *slots*, which rise, of the owner of each number, and the numbers."""
        if not len(slots):
            return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
        ends = self._end.rows[slots]
        starts = np.where(slots > 0, self._end.rows[slots - 1], 0)
        sizes = ends - starts
        owners = np.repeat(np.arange(len(slots), dtype=np.int32), sizes)
        if slots[-1] - slots[0] + 1 == len(slots):
            return owners, self._flat.rows[starts[0] : ends[-1]]
        shifts = starts - (np.cumsum(sizes) - sizes)
        return owners, self._flat.rows[np.arange(len(owners)) + np.repeat(shifts, sizes)]

    def keep(self, slots: NDArray[np.signedinteger]) -> None:
        """Drop all slots but *slots*, which rise and are numbered anew."""
        sizes = np.diff(self._end.rows, prepend=0)[slots]
        _, numbers = self.joined(slots)
        self._flat.load(numbers.copy())
        self._end.load(np.cumsum(sizes))
        self._context.load(self._context.rows[slots])
        self._length.load(self._length.rows[slots])


@dataclass(frozen=True, slots=True)
class Postings:
    """The slots from *first* up; term ``numbers[i]`` has ``slots[offsets[i]:offsets[i + 1]]`` and their counts."""

    first: int
    size: int
    """Number of terms, with repeats, of which it was made."""
    numbers: NDArray[np.int32]
    offsets: NDArray[np.int64]
    slots: NDArray[np.int32]
    counts: NDArray[np.integer]

    def of(self, number: int) -> slice:
        """Return where the slots and counts of a term are."""
        index = int(np.searchsorted(self.numbers, number))
        if index == len(self.numbers) or self.numbers[index] != number:
            return slice(0, 0)
        return slice(int(self.offsets[index]), int(self.offsets[index + 1]))


def build_postings(first: int, slots: NDArray[np.int64], numbers: NDArray[np.int32]) -> Postings:
    """Return the postings of the terms *numbers*, each of which is in the slot beside it, in any order."""
    pairs = numbers.astype(np.int64)
    pairs <<= _SLOT_BITS
    pairs |= slots
    pairs.sort()
    size = len(pairs)
    starts = _run_starts(pairs)
    pairs = pairs[starts]  # each pair once
    counts: NDArray[np.integer] = np.empty(len(starts), dtype=np.int32)
    np.subtract(starts[1:], starts[:-1], out=counts[:-1], casting="unsafe")
    counts[-1:] = size - starts[-1:]
    counts = counts.astype(np.min_scalar_type(counts.max(initial=0)))  # few terms are 256 times in one text
    del starts
    posting_slots = pairs.astype(np.int32)  # the lower half, which is the slot
    pairs >>= _SLOT_BITS
    starts = _run_starts(pairs)
    term_numbers, offsets = pairs[starts].astype(np.int32), np.append(starts, len(pairs))
    return Postings(first, size, term_numbers, offsets, posting_slots, counts)


def _run_starts(ordered: NDArray[np.signedinteger]) -> NDArray[np.int64]:
    """Return where each run of equal values begins."""
    return np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))[: len(ordered)]


class PartialIndex(NamedTuple):
    """Postings of the term *numbers* alone, over the slots below *end*; the last of as many as were *made*."""

    made: int = 0
    end: int = -1
    numbers: frozenset[int] = frozenset()


class TermIndex:
    """Terms by row of the index, which reports each row that comes, goes or moves."""

    def __init__(self, rows: int = 0) -> None:
        self._number_of: dict[str, int] = {}
        self._term_of: dict[int, str] = {}
        self._slot: GrowableArray[np.int32] = GrowableArray(np.int32)  # by row
        self._slot.load(np.full(rows, _NO_SLOT, dtype=np.int32))
        self._row: GrowableArray[np.int32] = GrowableArray(np.int32)  # by slot
        self._sequences = TermSequences()
        self._total = 0
        self._dead = 0
        self._runs: list[Postings] = []
        self._indexed = 0
        self._partial = PartialIndex()
        self._df = np.zeros(1, dtype=np.int64)
        self._sums = np.zeros(0)
        self._marks = np.zeros(0, dtype=np.int64)

    # Writing.

    def load(self, dictionary: Mapping[str, int], forward: Iterable[tuple[NDArray[np.intp], ForwardBlock]]) -> None:
        """Fill these terms, which are empty, from blocks of sequences beside the rows that they belong to."""
        self._add_terms(dictionary)
        for rows, block in forward:
            self._sequences.extend(block)
            self._row.extend(rows.astype(np.int32))
        self._slot.rows[self._row.rows] = np.arange(len(self._row), dtype=np.int32)
        self._total = int(self._sequences.lengths.sum())

    def append(self) -> None:
        """Add a row without terms."""
        self._slot.append(_NO_SLOT)

    def put(self, row: int, sequence: NDArray[np.int32], context_length: int, dictionary: Mapping[str, int]) -> None:
        """Set the terms of *row*; *dictionary* names the numbers that may be new."""
        self._add_terms(dictionary)
        self._drop(row)
        self._slot.rows[row] = len(self._row)
        self._row.append(row)
        self._total += self._sequences.append(sequence, context_length)
        self._compact_slots()

    def swap_delete(self, row: int) -> None:
        """Remove *row*; the last one takes its place."""
        self._drop(row)
        self._slot.swap_delete(row)
        if row < len(self._slot) and self._slot.rows[row] != _NO_SLOT:
            self._row.rows[self._slot.rows[row]] = row
        self._compact_slots()

    # Reading.

    def sequence(self, row: int) -> tuple[NDArray[np.int32], int] | None:
        """Return (the forward index of *row*, how much of it is context); it must not be changed."""
        slot = int(self._slot.rows[row])
        return None if slot == _NO_SLOT else self._sequences.sequence(slot)

    def term(self, number: int) -> str:
        """Return the term of a number."""
        return self._term_of[number]

    def known(self, numbers: Collection[int]) -> bool:
        """Return whether each of *numbers* has a term."""
        return self._term_of.keys() >= set(numbers)

    def df(self, terms: Sequence[str]) -> list[int]:
        """Return in how many entries each term occurs."""
        self._index(terms)
        return [self._frequency(self._number_of.get(term, 0)) for term in terms]

    def vocabulary(self) -> dict[str, int]:
        """Every term in use with its document frequency."""
        self._index()
        used = np.flatnonzero(self._df).tolist()
        return dict(zip(map(self._term_of.__getitem__, used), self._df[used].tolist(), strict=True))

    def scores(self, terms: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Return (rows, BM25) of all entries that share a term with *terms*."""
        self._index(terms)
        weights = self._term_weights(terms)
        if not weights:
            return np.empty(0, dtype=np.int32), np.empty(0)
        if len(self._sums) < len(self._row):
            room = len(self._row) * 5 // 4
            self._sums, self._marks = np.zeros(room), np.zeros(room, dtype=np.int64)
        sums = self._sums
        blocks = self._posting_blocks(weights)
        for block in blocks:
            slots, counts, idfs = self._postings(block)
            shares = self._term_scores(idfs, counts, self._sequences.lengths[slots])
            np.add.at(sums, slots, shares)  # one after the other: term by term, in order of their text
        touched = self._distinct_slots(slots) if len(blocks) == 1 else np.flatnonzero(sums[: len(self._row)])
        touched_sums = sums[touched]
        sums[touched] = 0.0
        rows = self._row.rows[touched]
        alive = rows != _NO_SLOT
        return (rows, touched_sums) if alive.all() else (rows[alive], touched_sums[alive])

    def scores_of(self, terms: Sequence[str], rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return BM25 of *rows*, to the last bit as ``scores`` gives it; 0 where nothing matches."""
        self._index(terms)
        scores = np.zeros(len(rows))
        weights = self._term_weights(terms)
        slots = self._slot.rows[rows]
        present = np.flatnonzero(slots != _NO_SLOT)
        if not weights or not len(present):
            return scores
        slots, places = np.unique(slots[present], return_inverse=True)
        owners, numbers = self._sequences.joined(slots)
        lengths = self._sequences.lengths[slots]
        sums = np.zeros(len(slots))
        for number, weight in weights:
            counts = np.bincount(owners[numbers == number], minlength=len(slots))
            hit = np.flatnonzero(counts)
            sums[hit] += self._term_scores(weight, counts[hit], lengths[hit])
        scores[present] = sums[places]
        return scores

    # Inside.

    def _term_weights(self, terms: Sequence[str]) -> list[tuple[int, float]]:
        """The number and weight of each distinct term that is in use, in order of text."""
        total, weights = len(self._slot), []
        for term in sorted(set(terms)):
            number = self._number_of.get(term, 0)
            frequency = self._frequency(number)
            if frequency:
                weights.append((number, idf(total, frequency)))
        return weights

    def _term_scores(
        self, idfs: NDArray[np.float64] | float, counts: NDArray[np.integer], lengths: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        return bm25_shares(idfs, counts, lengths, self._total / len(self._slot))

    def _posting_blocks(self, weights: list[tuple[int, float]]) -> list[list[tuple[int, float]]]:
        """Cut *weights* into blocks of terms whose postings take little memory; a long question names many."""
        before = np.cumsum([0, *(self._frequency(number) for number, _ in weights)])[:-1]
        starts = np.flatnonzero(np.diff(before // _BLOCK_POSTINGS, prepend=-1)).tolist()
        return [weights[start:stop] for start, stop in pairwise([*starts, len(weights)])]

    def _postings(
        self, weights: list[tuple[int, float]]
    ) -> tuple[NDArray[np.intp], NDArray[np.integer], NDArray[np.float64]]:
        """The slots, counts and weights of the terms of *weights*, one term after the other."""
        slots, counts, sizes = [], [], []
        for number, _ in weights:
            size = 0
            for run in self._runs:
                part = run.of(number)
                slots.append(run.slots[part])
                counts.append(run.counts[part])
                size += part.stop - part.start
            sizes.append(size)
        idfs = np.repeat(np.array([idf for _, idf in weights]), sizes)
        return np.concatenate(slots).astype(np.intp), np.concatenate(counts), idfs

    def _distinct_slots(self, slots: NDArray[np.intp]) -> NDArray[np.intp]:
        """Each of *slots* once."""
        if 4 * len(slots) > len(self._row):
            return np.flatnonzero(self._sums[: len(self._row)])
        places = np.arange(len(slots))
        self._marks[slots] = places
        once: NDArray[np.intp] = slots[self._marks[slots] == places]
        return once

    def _frequency(self, number: int) -> int:
        return int(self._df[number]) if 0 < number < len(self._df) else 0

    def _index(self, terms: Sequence[str] | None = None) -> None:
        """Make postings of the slots that have none, together with older runs that are not much larger.

        While no slot has any, the first questions of a process get those of their *terms* alone, without sorting all.
        """
        end = len(self._row)
        if self._indexed == end or (terms is not None and self._index_partly(terms, end)):
            return
        if self._partial.made and not self._indexed:
            self._runs, self._partial = [], PartialIndex(_MAX_PARTIAL_INDEXES)
            self._df[:] = 0
        run = self._run(self._indexed, end)
        if len(run.numbers) and run.numbers[-1] >= len(self._df):
            self._df = np.concatenate((self._df, np.zeros(int(run.numbers[-1]) + 1 - len(self._df), dtype=np.int64)))
        self._df[run.numbers] += np.diff(run.offsets)
        first, size = run.first, run.size
        while self._runs and self._runs[-1].size < _MERGE_FACTOR * size:
            older = self._runs.pop()
            first, size = older.first, size + older.size
        self._runs.append(run if first == run.first else self._run(first, end))
        self._indexed = end

    def _index_partly(self, terms: Sequence[str], end: int) -> bool:
        """Make postings of *terms* over all slots, if that pays; return whether they are there."""
        known, wanted = self._partial, frozenset(self._number_of.get(term, 0) for term in terms)
        if known.end == end and wanted <= known.numbers:
            return True
        if self._indexed or end < _MIN_PARTIAL_SLOTS or known.made >= _MAX_PARTIAL_INDEXES:
            return False
        numbers = wanted | known.numbers if known.end == end else wanted
        run = self._run(0, end, only=numbers)
        self._runs, self._df = [run], np.zeros(max(numbers, default=0) + 1, dtype=np.int64)
        self._df[run.numbers] = np.diff(run.offsets)
        self._partial = PartialIndex(known.made + 1, end, numbers)
        return True

    def _run(self, first: int, end: int, *, only: Collection[int] | None = None) -> Postings:
        """Build postings over the living slots from *first* to *end*; of the terms *only*, where they are given."""
        slots = first + np.flatnonzero(self._row.rows[first:end] != _NO_SLOT)
        owners, numbers = self._sequences.joined(slots)
        if only is None:
            words = numbers != SENTENCE_END
        else:
            is_wanted = np.zeros(max(int(numbers.max(initial=0)), max(only, default=0)) + 1, dtype=np.bool_)
            is_wanted[list(only)] = True
            is_wanted[SENTENCE_END] = False
            words = is_wanted[numbers]
        return build_postings(first, slots[owners[words]], numbers[words])

    def _drop(self, row: int) -> None:
        slot = int(self._slot.rows[row])
        if slot == _NO_SLOT:
            return
        sequence, _ = self._sequences.sequence(slot)
        if slot < self._indexed:
            self._df[sorted_distinct(sequence[sequence != SENTENCE_END])] -= 1
        self._partial = PartialIndex(self._partial.made)
        self._total -= int(self._sequences.lengths[slot])
        self._dead += len(sequence) + 1
        self._row.rows[slot] = _NO_SLOT
        self._slot.rows[row] = _NO_SLOT

    def _compact_slots(self) -> None:
        """Lay the living slots out anew when most of the forward index is dead."""
        if self._dead <= _DEAD_NUMBERS_LIMIT or 2 * self._dead < self._sequences.size + len(self._row):
            return
        living = np.flatnonzero(self._row.rows != _NO_SLOT)
        self._sequences.keep(living)
        self._row.load(self._row.rows[living])
        self._slot.rows[self._row.rows] = np.arange(len(living), dtype=np.int32)
        self._dead, self._runs, self._indexed, self._partial = 0, [], 0, PartialIndex(_MAX_PARTIAL_INDEXES)
        self._df[:] = 0

    def _add_terms(self, dictionary: Mapping[str, int]) -> None:
        if dictionary:
            self._number_of.update(dictionary)
            self._term_of.update({number: term for term, number in dictionary.items()})
