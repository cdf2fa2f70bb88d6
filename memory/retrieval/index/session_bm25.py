"""BM25 of whole sessions, from integer counts of terms by session.

A sorted base in arrays, and beside it the recent changes: large ones as arrays, small ones in a map, both merged into
the base before they grow. So a write costs the same at any size, and counts do not depend on the order of writes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vectorstore.internals import BM25_B, BM25_K1, GrowableArray, idf_array

_MIN_MERGE = 20_000
_BULK_SIZE = 2000
_MAX_PENDING_BULK = 1 << 18
_SESSION_BITS = 32
_SESSION_MASK = (1 << _SESSION_BITS) - 1

Ints = NDArray[np.int64]


class SessionBm25:
    """Counts by (term, session); both are small integers given by the caller."""

    def __init__(self) -> None:
        self._keys: Ints = np.empty(0, dtype=np.int64)
        self._counts: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._many: list[tuple[Ints, NDArray[np.int32]]] = []
        self._few: dict[int, dict[int, int]] = {}
        self._size = 0
        self._lengths = GrowableArray(np.int64)

    def add(self, sessions: Ints, terms: Ints, sign: int = 1) -> None:
        """Count *terms*, each of the session beside it, in (or out, with *sign* -1)."""
        if not len(terms):
            return
        lacking = int(sessions.max()) + 1 - len(self._lengths)
        if lacking > 0:
            self._lengths.extend(np.zeros(lacking, dtype=np.int64))
        np.add.at(self._lengths.rows, sessions, sign)
        keys, counts = np.unique((terms << _SESSION_BITS) | sessions, return_counts=True)
        if len(keys) > _BULK_SIZE:
            self._many.append((keys, (sign * counts).astype(np.int32)))
            if sum(len(keys) for keys, _ in self._many) > max(_MAX_PENDING_BULK, len(self._keys) // 4):
                self._merge()  # merging needs four times the memory of what waits
            return
        for key, count in zip(keys.tolist(), (sign * counts).tolist(), strict=True):
            changes = self._few.setdefault(key >> _SESSION_BITS, {})
            session = key & _SESSION_MASK
            self._size += session not in changes
            changes[session] = changes.get(session, 0) + count
        if self._size > max(_MIN_MERGE, len(self._keys) // 16):
            self._merge()

    def scores(self, terms: Sequence[int]) -> NDArray[np.float64]:
        """Return BM25 of every session for the distinct *terms* of a question, shape (sessions,)."""
        if self._many:
            self._merge()
        lengths = self._lengths.rows
        scores = np.zeros(len(lengths))
        used = int(np.count_nonzero(lengths))
        if not used:
            return scores
        norm = BM25_K1 * (1 - BM25_B + BM25_B * lengths / (int(lengths.sum()) / used))
        for term in terms:
            counts = self._of_term(term)
            where = np.flatnonzero(counts > 0)
            if len(where):
                (weight,) = idf_array(used, np.array([len(where)], dtype=np.float64))
                scores[where] += weight * counts[where] * (BM25_K1 + 1) / (counts[where] + norm[where])
        return scores

    def _of_term(self, term: int) -> Ints:
        counts = np.zeros(len(self._lengths), dtype=np.int64)
        start, end = np.searchsorted(self._keys, (term << _SESSION_BITS, (term + 1) << _SESSION_BITS))
        counts[self._keys[start:end] & _SESSION_MASK] = self._counts[start:end]
        for session, change in self._few.get(term, {}).items():
            counts[session] += change
        return counts

    def _merge(self) -> None:
        """Bring what changed into the base."""
        keys, counts = self._changed()
        places = np.searchsorted(self._keys, keys)
        known = places < len(self._keys)
        known[known] = self._keys[places[known]] == keys[known]
        self._counts[places[known]] += counts[known]
        self._keys = np.insert(self._keys, places[~known], keys[~known])
        self._counts = np.insert(self._counts, places[~known], counts[~known])
        if counts.min(initial=1) < 0:
            left = self._counts > 0
            self._keys, self._counts = self._keys[left], self._counts[left]

    def _changed(self) -> tuple[Ints, NDArray[np.int32]]:
        """Return what changed, each key once and in order, and forget it."""
        few = [(term << _SESSION_BITS) | at for term, sessions in self._few.items() for at in sessions]
        counts = [count for sessions in self._few.values() for count in sessions.values()]
        parts = [(np.array(few, dtype=np.int64), np.array(counts, dtype=np.int32)), *self._many]
        self._many, self._few, self._size = [], {}, 0
        every, changes = np.concatenate([keys for keys, _ in parts]), np.concatenate([counts for _, counts in parts])
        order = np.argsort(every, kind="stable")
        every, changes = every[order], changes[order]
        firsts = np.flatnonzero(np.append(True, every[1:] != every[:-1])[: len(every)])
        sums = np.add.reduceat(changes, firsts, dtype=np.int32) if len(every) else changes
        return every[firsts], sums
