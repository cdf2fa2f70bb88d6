"""BM25 of whole sessions, from integer counts of terms by session.

A sorted base in arrays, and recent changes beside it: large ones as arrays, small ones in a map, both merged into the
base before they grow. So a write costs the same at any size, and counts do not depend on the order of writes.
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
    """Counts by (term, session), both small integers that the caller chooses."""

    def __init__(self) -> None:
        self._keys: Ints = np.empty(0, dtype=np.int64)
        self._counts: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._bulk_changes: list[tuple[Ints, NDArray[np.int32]]] = []
        self._changes: dict[int, dict[int, int]] = {}
        self._change_count = 0
        self._lengths = GrowableArray(np.int64)

    def add(self, sessions: Ints, terms: Ints, sign: int = 1) -> None:
        """Add *terms*, each of the session at the same position, to the counts, or subtract them with *sign* -1."""
        if not len(terms):
            return
        lacking = int(sessions.max()) + 1 - len(self._lengths)
        if lacking > 0:
            self._lengths.extend(np.zeros(lacking, dtype=np.int64))
        np.add.at(self._lengths.rows, sessions, sign)
        keys, counts = np.unique((terms << _SESSION_BITS) | sessions, return_counts=True)
        if len(keys) > _BULK_SIZE:
            self._bulk_changes.append((keys, (sign * counts).astype(np.int32)))
            if sum(len(keys) for keys, _ in self._bulk_changes) > max(_MAX_PENDING_BULK, len(self._keys) // 4):
                self._merge()  # merging needs four times the memory of the pending changes
            return
        for key, count in zip(keys.tolist(), (sign * counts).tolist(), strict=True):
            changes = self._changes.setdefault(key >> _SESSION_BITS, {})
            session = key & _SESSION_MASK
            self._change_count += session not in changes
            changes[session] = changes.get(session, 0) + count
        if self._change_count > max(_MIN_MERGE, len(self._keys) // 16):
            self._merge()

    def scores(self, terms: Sequence[int]) -> NDArray[np.float64]:
        """Return BM25 of every session for the distinct *terms* of a question, shape (sessions,)."""
        if self._bulk_changes:
            self._merge()
        lengths = self._lengths.rows
        scores = np.zeros(len(lengths))
        used = int(np.count_nonzero(lengths))
        if not used:
            return scores
        norm = BM25_K1 * (1 - BM25_B + BM25_B * lengths / (int(lengths.sum()) / used))
        for term in terms:
            counts = self._of_term(term)
            matching = np.flatnonzero(counts > 0)
            if len(matching):
                (weight,) = idf_array(used, np.array([len(matching)], dtype=np.float64))
                scores[matching] += weight * counts[matching] * (BM25_K1 + 1) / (counts[matching] + norm[matching])
        return scores

    def _of_term(self, term: int) -> Ints:
        counts = np.zeros(len(self._lengths), dtype=np.int64)
        start, end = np.searchsorted(self._keys, (term << _SESSION_BITS, (term + 1) << _SESSION_BITS))
        counts[self._keys[start:end] & _SESSION_MASK] = self._counts[start:end]
        for session, change in self._changes.get(term, {}).items():
            counts[session] += change
        return counts

    def _merge(self) -> None:
        """Merge the pending changes into the base."""
        keys, counts = self._take_changes()
        positions = np.searchsorted(self._keys, keys)
        known = positions < len(self._keys)
        known[known] = self._keys[positions[known]] == keys[known]
        self._counts[positions[known]] += counts[known]
        self._keys = np.insert(self._keys, positions[~known], keys[~known])
        self._counts = np.insert(self._counts, positions[~known], counts[~known])
        if counts.min(initial=1) < 0:
            is_positive = self._counts > 0
            self._keys, self._counts = self._keys[is_positive], self._counts[is_positive]

    def _take_changes(self) -> tuple[Ints, NDArray[np.int32]]:
        """Return the pending changes, each key once and in ascending order, and clear them."""
        keys = [(term << _SESSION_BITS) | session for term, sessions in self._changes.items() for session in sessions]
        counts = [count for sessions in self._changes.values() for count in sessions.values()]
        parts = [(np.array(keys, dtype=np.int64), np.array(counts, dtype=np.int32)), *self._bulk_changes]
        self._bulk_changes, self._changes, self._change_count = [], {}, 0
        all_keys = np.concatenate([part_keys for part_keys, _ in parts])
        changes = np.concatenate([part_counts for _, part_counts in parts])
        order = np.argsort(all_keys, kind="stable")
        all_keys, changes = all_keys[order], changes[order]
        firsts = np.flatnonzero(np.append(True, all_keys[1:] != all_keys[:-1])[: len(all_keys)])
        sums = np.add.reduceat(changes, firsts, dtype=np.int32) if len(all_keys) else changes
        return all_keys[firsts], sums
