"""Binary quantization: one bit per direction, the side of the centre on which a vector lies.

Rows that share most bits are likely near. Centring keeps the bits telling where all vectors point into one half of the
space, as those of many models do. With less than 512 dimensions the signs along 512 fixed directions are taken, since
fewer bits lose too much. The bits of a row stand in planes of 64, plane after plane, which is the order that they are
read in.

Charikar, "Similarity Estimation Techniques from Rounding Algorithms", 2002.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore.types import Vector

FEWEST_BITS: Final = 512
_WORD_BITS: Final = 64
_BLOCK_ROWS: Final = 32_768
_WORDS_PER_BYTE_SUM: Final = 3
"""Words of which no more than 255 bits differ, so that they are added up in one byte."""
_CODED_ROWS: Final = 4096
_GATHER_SHARE: Final = 0.125
_RECENTRE_FACTOR: Final = 2
"""Growth or shrinkage of the number of rows, as a factor, after which the centre is computed anew."""


class BinaryCodes:
    """Bits of *rows* rows of a matrix, which reports each row that comes, goes, changes or moves.

    What changed is coded together, at the next ``follow``.
    """

    def __init__(self, dimension: int, rows: int) -> None:
        self._directions = _random_directions(dimension) if dimension < FEWEST_BITS else None
        words = -(-max(dimension, FEWEST_BITS) // _WORD_BITS)
        self._planes = np.zeros((words, 0), dtype=np.uint64)
        self._centre = np.zeros(dimension, dtype=np.float32)
        self._centred_at = 0
        self._count = rows
        self._waiting: set[int] = set()

    def __len__(self) -> int:
        return self._count

    def append(self) -> None:
        """Add a row."""
        self._waiting.add(self._count)
        self._count += 1

    def put(self, row: int) -> None:
        """Take notice that *row* has another vector."""
        self._waiting.add(row)

    def swap_delete(self, row: int) -> None:
        """Remove *row*; the last one takes its place."""
        last = self._count - 1
        if last < self._planes.shape[1]:
            self._planes[:, row] = self._planes[:, last]
        if last in self._waiting:
            self._waiting.add(row)
        elif row != last:
            self._waiting.discard(row)
        self._waiting.discard(last)
        self._count = last

    def follow(self, vectors: NDArray[np.float32], present: int) -> None:
        """Code the rows of *vectors* (n, d) that changed; *present* of them have a vector, the others are zeros."""
        self._make_room(len(vectors))
        if not self._count / _RECENTRE_FACTOR <= self._centred_at <= self._count * _RECENTRE_FACTOR:
            self._centre = vectors.sum(axis=0, dtype=np.float64).astype(np.float32) / max(present, 1)
            self._centred_at = self._count
            starts = range(0, self._count, _CODED_ROWS)
            parts: list[slice | NDArray[np.intp]] = [slice(i, min(i + _CODED_ROWS, self._count)) for i in starts]
        else:
            rows = np.fromiter(self._waiting, dtype=np.intp, count=len(self._waiting))
            parts = [rows[i : i + _CODED_ROWS] for i in range(0, len(rows), _CODED_ROWS)]
        for part in parts:
            self._planes[:, part] = self._coded(vectors[part]).T
        self._waiting.clear()

    def closest(self, query: Vector, keep: int, rows: NDArray[np.intp] | None = None) -> NDArray[np.intp]:
        """Return the rows (of *rows*, if given) that share most bits with *query*, at least *keep*, rising.

        They are cut by value, so rows that share equally many are in or out together.
        """
        few = rows is not None and len(rows) < _GATHER_SHARE * self._count
        distances = self._distances(query, rows if few else None)
        if rows is not None and not few:
            distances = distances[rows]
        if len(distances) > keep:
            nearest = np.flatnonzero(distances <= np.partition(distances, keep - 1)[keep - 1])
        else:
            nearest = np.arange(len(distances))
        return nearest if rows is None else rows[nearest]

    def _distances(self, query: Vector, rows: NDArray[np.intp] | None) -> NDArray[np.uint16]:
        """Return how many bits differ, uint16, of every row or of *rows*."""
        code = self._coded(query[np.newaxis])[0]
        count = self._count if rows is None else len(rows)
        distances = np.zeros(count, dtype=np.uint16)
        differing = np.empty(min(_BLOCK_ROWS, count), dtype=np.uint64)
        ones, sums = np.empty((2, len(differing)), dtype=np.uint8)
        for start in range(0, count, _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, count)
            size = stop - start
            for i, (plane, word) in enumerate(zip(self._planes, code, strict=True)):
                part = plane[start:stop] if rows is None else plane[rows[start:stop]]
                np.bitwise_xor(part, word, out=differing[:size])
                if i % _WORDS_PER_BYTE_SUM == 0:
                    np.bitwise_count(differing[:size], out=sums[:size])
                else:
                    np.bitwise_count(differing[:size], out=ones[:size])
                    sums[:size] += ones[:size]
                if i % _WORDS_PER_BYTE_SUM == _WORDS_PER_BYTE_SUM - 1 or i == len(code) - 1:
                    distances[start:stop] += sums[:size]
        return distances

    def _coded(self, vectors: NDArray[np.float32]) -> NDArray[np.uint64]:
        """The bits of *vectors* (n, d) as words, shape (n, words)."""
        placed = vectors - self._centre
        if self._directions is not None:
            placed = placed @ self._directions
        bits = np.zeros((len(vectors), self._planes.shape[0] * _WORD_BITS), dtype=np.bool_)
        np.greater(placed, 0, out=bits[:, : placed.shape[1]])
        return np.packbits(bits, axis=1).view(np.uint64)

    def _make_room(self, count: int) -> None:
        if count > self._planes.shape[1]:
            grown = np.zeros((len(self._planes), count * 5 // 4), dtype=np.uint64)
            grown[:, : self._planes.shape[1]] = self._planes
            self._planes = grown


@lru_cache(maxsize=8)
def _random_directions(dimension: int) -> NDArray[np.float32]:
    """Directions as columns, shape (dimension, FEWEST_BITS); together they weigh every dimension alike."""
    random = np.random.default_rng(dimension).standard_normal((FEWEST_BITS, dimension))
    return np.ascontiguousarray(np.linalg.qr(random)[0].T, dtype=np.float32)
