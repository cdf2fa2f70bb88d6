"""The forward index of many entries end to end: the term numbers of each slot, in the order of writing.

Slots are only added at the end; ``keep`` lays the wanted ones out anew.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vectorstore.core.forward import SENTENCE_END, ForwardBlock
from vectorstore.core.growing import Growing


class Sequences:
    """Sequences by slot; ``lengths`` counts the terms of each, ``total`` those of all."""

    def __init__(self) -> None:
        self._flat: Growing[np.int32] = Growing(np.int32)
        self._end: Growing[np.int64] = Growing(np.int64)
        self._context: Growing[np.int32] = Growing(np.int32)
        self._length: Growing[np.int32] = Growing(np.int32)

    def __len__(self) -> int:
        return len(self._end)

    @property
    def size(self) -> int:
        """How many numbers there are, sentence ends included."""
        return len(self._flat)

    @property
    def lengths(self) -> NDArray[np.int32]:
        """How many terms each slot has, sentence ends not counted."""
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
