"""A numpy array that grows by appending, with room to spare, so that a write costs the same at any size."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_SMALLEST = 64


class Growing:
    """Rows of one dtype; ``values`` is a view of those in use, to be read anew after each append."""

    def __init__(self, dtype: DTypeLike, width: int | None = None) -> None:
        self._width: tuple[int, ...] = () if width is None else (width,)
        self._room: NDArray[Any] = np.empty((0, *self._width), dtype=dtype)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def values(self) -> NDArray[Any]:
        """The rows in use."""
        return self._room[: self._length]

    def append(self, value: object) -> int:
        """Add one row; return its number."""
        self._reserve(self._length + 1)
        self._room[self._length] = value
        self._length += 1
        return self._length - 1

    def extend(self, values: Any) -> int:
        """Add several rows; return the number of the first."""
        start, count = self._length, len(values)
        self._reserve(start + count)
        self._room[start : start + count] = values
        self._length += count
        return start

    def _reserve(self, needed: int) -> None:
        if needed > len(self._room):
            room = np.empty((max(needed, _SMALLEST, len(self._room) * 5 // 4), *self._width), dtype=self._room.dtype)
            room[: self._length] = self.values
            self._room = room
