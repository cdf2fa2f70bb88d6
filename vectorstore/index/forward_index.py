"""Forward index: the terms of each entry as numbers, in order, with repeats.

First the context's terms, then the text's, with 0 after the last term of each sentence. Numbers come from a
dictionary per namespace that starts at 1 and never uses a number twice. In memory the sequences of many entries stand
end to end, by slot, in the order of writing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from vectorstore.analyzer import Analyzer
from vectorstore.index.growable_array import GrowableArray


@dataclass(frozen=True, slots=True)
class ForwardIndexState:
    """The terms of entries end to end: 1 is the first of *terms*, 0 is the end of a sentence.

    *lengths* says how many of *numbers* belong to each entry, *contexts* how many of those to its context.
    """

    terms: Sequence[str]
    numbers: NDArray[np.int32]
    lengths: NDArray[np.int64]
    contexts: NDArray[np.int32]


SENTENCE_END = 0


@dataclass(frozen=True, slots=True)
class AnalyzedText:
    """The terms of one entry: of its context, and of each sentence of its text."""

    context: tuple[str, ...]
    sentences: tuple[tuple[str, ...], ...]

    def distinct(self) -> set[str]:
        """Every term once."""
        return set(chain(self.context, *self.sentences))

    def numbered(self, number: Mapping[str, int] | Callable[[str], int]) -> tuple[NDArray[np.int32], int]:
        """Return (the sequence, how many of it belong to the context)."""
        lookup = number if callable(number) else number.__getitem__
        numbers = list(map(lookup, self.context))
        for sentence in self.sentences:
            numbers.extend(map(lookup, sentence))
            numbers.append(SENTENCE_END)
        return np.array(numbers, dtype=np.int32), len(self.context)


@dataclass(frozen=True, slots=True)
class ForwardBlock:
    """The sequences of some entries end to end: *sizes* says how long each is, *contexts* how much of it is context."""

    keys: Sequence[int]
    numbers: NDArray[np.int32]
    sizes: Sequence[int]
    contexts: Sequence[int]


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


def distinct_term_numbers(sequences: Iterable[NDArray[np.int32]]) -> NDArray[np.int32]:
    """Return every term number of *sequences* once, sorted, without the sentence ends."""
    arrays = [np.unique(sequence) for sequence in sequences]
    numbers = np.unique(np.concatenate(arrays)) if arrays else np.empty(0, dtype=np.int32)
    found: NDArray[np.int32] = numbers[numbers != SENTENCE_END]
    return found


class TermSequences:
    """Sequences by slot; ``lengths`` counts the terms of each, ``total`` those of all."""

    def __init__(self) -> None:
        self._flat: GrowableArray[np.int32] = GrowableArray(np.int32)
        self._end: GrowableArray[np.int64] = GrowableArray(np.int64)
        self._context: GrowableArray[np.int32] = GrowableArray(np.int32)
        self._length: GrowableArray[np.int32] = GrowableArray(np.int32)

    def __len__(self) -> int:
        return len(self._end)

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
        ends = np.cumsum(np.array(block.sizes, dtype=np.int64))
        words = np.concatenate(([0], np.cumsum(block.numbers != SENTENCE_END)))
        before = len(self._flat)
        self._flat.extend(block.numbers)
        self._end.extend(ends + before)
        self._context.extend(np.array(block.contexts, dtype=np.int32))
        self._length.extend(np.diff(words[ends], prepend=0).astype(np.int32))

    def append(self, sequence: NDArray[np.int32], context_length: int) -> int:
        """Add a slot; return how many terms it has."""
        length = int(np.count_nonzero(sequence != SENTENCE_END))
        self._flat.extend(sequence)
        self._end.append(len(self._flat))
        self._context.append(context_length)
        self._length.append(length)
        return length

    def sequence(self, slot: int) -> NDArray[np.int32]:
        """Return the numbers of a slot; they must not be changed."""
        start = int(self._end.rows[slot - 1]) if slot else 0
        return self._flat.rows[start : int(self._end.rows[slot])]

    def context_length(self, slot: int) -> int:
        """Return how many of a slot's numbers belong to its context."""
        return int(self._context.rows[slot])

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
