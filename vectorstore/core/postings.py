"""For each term of a run of slots: in which of them it occurs, and how often. Built once, never changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_SLOT_BITS = 32


@dataclass(frozen=True, slots=True)
class Postings:
    """The slots from *first* up; term ``numbers[i]`` has ``slots[offsets[i]:offsets[i + 1]]`` and their counts."""

    first: int
    size: int
    """How many terms, with repeats, it was made of."""
    numbers: NDArray[np.int32]
    offsets: NDArray[np.int64]
    slots: NDArray[np.int32]
    counts: NDArray[np.integer]

    def frequencies(self) -> NDArray[np.int64]:
        """In how many slots each of ``numbers`` occurs."""
        return np.diff(self.offsets)

    def of(self, number: int) -> slice:
        """Where the slots and counts of a term stand."""
        at = int(np.searchsorted(self.numbers, number))
        if at == len(self.numbers) or self.numbers[at] != number:
            return slice(0, 0)
        return slice(int(self.offsets[at]), int(self.offsets[at + 1]))


def build(first: int, slots: NDArray[np.int64], numbers: NDArray[np.int32]) -> Postings:
    """Return the postings of the terms *numbers*, each of which stands in the slot beside it, in any order."""
    pairs = numbers.astype(np.int64)
    pairs <<= _SLOT_BITS
    pairs |= slots
    pairs.sort()
    size = len(pairs)
    starts = _starts(pairs)
    pairs = pairs[starts]  # each pair once
    counts: NDArray[np.integer] = np.empty(len(starts), dtype=np.int32)
    np.subtract(starts[1:], starts[:-1], out=counts[:-1], casting="unsafe")
    counts[-1:] = size - starts[-1:]
    counts = counts.astype(np.min_scalar_type(counts.max(initial=0)))  # few terms stand in one text 256 times
    del starts
    held = pairs.astype(np.int32)  # the lower half, which is the slot
    pairs >>= _SLOT_BITS
    offsets = _starts(pairs)
    return Postings(
        first=first,
        size=size,
        numbers=pairs[offsets].astype(np.int32),
        offsets=np.append(offsets, len(pairs)),
        slots=held,
        counts=counts,
    )


def _starts(ordered: NDArray[np.signedinteger]) -> NDArray[np.int64]:
    """Where each run of equal values begins."""
    if not len(ordered):
        return np.empty(0, dtype=np.int64)
    return np.concatenate(([0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1))
