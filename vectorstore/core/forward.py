"""The forward index of one entry: its terms as numbers, in order, with repeats.

First the context's terms, then the text's, with 0 after the last term of each sentence. Numbers come from a
dictionary per namespace that starts at 1 and never uses a number twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from vectorstore.analysis import Analyzer

SENTENCE_END = 0


@dataclass(frozen=True, slots=True)
class Analysed:
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


def analyse(analyzer: Analyzer, text: str, context: str) -> Analysed:
    """Return the terms of a text and its context; sentences without a term are left out."""
    sentences = (tuple(sentence) for sentence in analyzer.sentences(text)) if text else ()
    return Analysed(tuple(analyzer.terms(context)) if context else (), tuple(s for s in sentences if s))


def named(sequence: NDArray[np.int32], context_length: int, name: Callable[[int], str]) -> tuple[tuple[str, ...], ...]:
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


def distinct_numbers(sequences: Iterable[NDArray[np.int32]]) -> NDArray[np.int32]:
    """Return every term number of *sequences* once, sorted, without the sentence ends."""
    arrays = [np.unique(sequence) for sequence in sequences]
    numbers = np.unique(np.concatenate(arrays)) if arrays else np.empty(0, dtype=np.int32)
    found: NDArray[np.int32] = numbers[numbers != SENTENCE_END]
    return found
