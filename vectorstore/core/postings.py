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
    counts: NDArray[np.int32]

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
    starts = _starts(pairs)
    counts = np.diff(starts, append=len(pairs)).astype(np.int32)
    distinct = pairs[starts]
    of_term = (distinct >> _SLOT_BITS).astype(np.int32)
    offsets = _starts(of_term)
    return Postings(
        first=first,
        size=len(pairs),
        numbers=of_term[offsets],
        offsets=np.append(offsets, len(distinct)),
        slots=(distinct & ((1 << _SLOT_BITS) - 1)).astype(np.int32),
        counts=counts,
    )


def _starts(ordered: NDArray[np.signedinteger]) -> NDArray[np.int64]:
    """Where each run of equal values begins."""
    if not len(ordered):
        return np.empty(0, dtype=np.int64)
    return np.concatenate(([0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1))
