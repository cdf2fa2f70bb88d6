"""A numpy array that grows at its end and loses rows by moving the last one into the hole; distinct numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

_LARGE_COUNT = 50_000

T = TypeVar("T", bound=np.generic)


class GrowableArray(Generic[T]):
    """Rows of one dtype; ``rows`` is a view of those in use, to be read anew after each append."""

    def __init__(self, dtype: type[T] | np.dtype[T], width: int | None = None) -> None:
        self._shape: tuple[int, ...] = () if width is None else (width,)
        self._held: NDArray[T] = np.zeros((0, *self._shape), dtype=dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> NDArray[T]:
        """The rows in use."""
        return self._held[: self._count]

    def load(self, rows: NDArray[T]) -> None:
        """Replace everything by *rows*, which now belong to this object."""
        self._held = np.ascontiguousarray(rows, dtype=self._held.dtype)
        self._count = len(rows)

    def append(self, row: ArrayLike) -> int:
        """Add one row; return its number."""
        self.make_room(1)
        self._held[self._count] = row
        self._count += 1
        return self._count - 1

    def extend(self, rows: Sequence[Any] | NDArray[Any]) -> int:
        """Add rows; return the number of the first."""
        start = self._count
        self.make_room(len(rows))
        self._held[start : start + len(rows)] = rows
        self._count += len(rows)
        return start

    def swap_delete(self, row: int) -> None:
        """Remove *row*; the last one takes its place."""
        self._count -= 1
        self._held[row] = self._held[self._count]

    def make_room(self, more: int) -> None:
        """Make room for *more* rows: grow by half when full, by a quarter when large."""
        needed = self._count + more
        if needed > len(self._held):
            share = 1.25 if needed > _LARGE_COUNT else 1.5
            grown = np.zeros((max(needed, int(len(self._held) * share), 16), *self._shape), dtype=self._held.dtype)
            grown[: self._count] = self.rows
            self._held = grown


def sorted_distinct(numbers: NDArray[T]) -> NDArray[T]:
    """Return the distinct *numbers* (of one dimension, none NaN), ascending.

    As ``numpy.unique``, which imports the masked arrays at its first call: a tenth of the start of a process.
    """
    ordered = np.sort(numbers)
    return ordered[_are_first(ordered)]


def distinct_counts(numbers: NDArray[T]) -> tuple[NDArray[T], NDArray[np.int64]]:
    """Return the distinct *numbers* as ``sorted_distinct`` does, and how often each occurs."""
    ordered = np.sort(numbers)
    firsts = np.flatnonzero(_are_first(ordered))
    return ordered[firsts], np.diff(firsts, append=len(ordered))


def _are_first(ordered: NDArray[T]) -> NDArray[np.bool_]:
    """Return which of *ordered* numbers differ from the one before."""
    are_first = np.ones(len(ordered), dtype=np.bool_)
    are_first[1:] = ordered[1:] != ordered[:-1]
    return are_first
