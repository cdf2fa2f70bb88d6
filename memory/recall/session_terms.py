"""How often each term occurs in each session, and BM25 of whole sessions from it. Integers only.

A sorted base in arrays, and a small map of changes beside it that is merged in when it has grown: a write
costs the same at any size, and the counts do not depend on the order of writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from memory.recall.growing import Growing

_K1 = 0.9
_B = 0.4
_SMALLEST_MERGE = 20_000
_SESSION_BITS = 32


class SessionTerms:
    """Counts by (term, session); both are small integers given by the caller."""

    def __init__(self) -> None:
        self._keys: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._counts: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._fresh: dict[int, dict[int, int]] = {}
        self._size = 0
        self._lengths = Growing(np.int64)
        self._total = 0
        self._used = 0

    def add(self, session: int, terms: Iterable[int], sign: int = 1) -> None:
        """Count the *terms* of one text of *session* in (or out, with *sign* -1)."""
        while len(self._lengths) <= session:
            self._lengths.append(0)
        length = 0
        for term in terms:
            sessions = self._fresh.setdefault(term, {})
            if session not in sessions:
                sessions[session] = 0
                self._size += 1
            sessions[session] += sign
            length += 1
        before = int(self._lengths.values[session])
        self._lengths.values[session] = before + sign * length
        self._total += sign * length
        self._used += int(before + sign * length > 0) - int(before > 0)
        if self._size > max(_SMALLEST_MERGE, len(self._keys) // 4):
            self._merge()

    def scores(self, terms: Sequence[int]) -> NDArray[np.float64]:
        """Return BM25 of every session for the distinct *terms* of a question, shape (sessions,)."""
        lengths = self._lengths.values
        scores = np.zeros(len(lengths))
        if not self._used:
            return scores
        norm = _K1 * (1 - _B + _B * lengths / (self._total / self._used))
        for term in terms:
            counts = self._of_term(term)
            where = np.flatnonzero(counts > 0)
            if len(where):
                idf = np.log(1 + (self._used - len(where) + 0.5) / (len(where) + 0.5))
                scores[where] += idf * counts[where] * (_K1 + 1) / (counts[where] + norm[where])
        return scores

    def _of_term(self, term: int) -> NDArray[np.int64]:
        counts = np.zeros(len(self._lengths), dtype=np.int64)
        start, end = np.searchsorted(self._keys, (term << _SESSION_BITS, (term + 1) << _SESSION_BITS))
        counts[self._keys[start:end] & ((1 << _SESSION_BITS) - 1)] = self._counts[start:end]
        for session, change in self._fresh.get(term, {}).items():
            counts[session] += change
        return counts

    def _merge(self) -> None:
        keys = [(term << _SESSION_BITS) | at for term, sessions in self._fresh.items() for at in sessions]
        counts = [count for sessions in self._fresh.values() for count in sessions.values()]
        every = np.concatenate([self._keys, np.array(keys, dtype=np.int64)])
        distinct, inverse = np.unique(every, return_inverse=True)
        sums = np.zeros(len(distinct), dtype=np.int32)
        np.add.at(sums, inverse, np.concatenate([self._counts, np.array(counts, dtype=np.int32)]))
        self._keys, self._counts = distinct[sums > 0], sums[sums > 0]
        self._fresh, self._size = {}, 0
