"""The right answers, computed plainly, and the share of them that an answer has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.stores.data import KINDS, Data

_TIE = 1e-5
"""Scores nearer than this are one score: the stores round differently."""
_BLOCK = 10_000


class Truth:
    """Exact scores of the first *count* queries with all rows of *data*."""

    def __init__(self, data: Data, count: int) -> None:
        n = data.about.n
        asked = data.queries[:count]
        self._scores = np.empty((len(asked), n), np.float32)
        for start in range(0, n, _BLOCK):
            stop = min(start + _BLOCK, n)
            self._scores[:, start:stop] = asked @ np.asarray(data.vectors[start:stop]).T
        self._kinds = data.kinds[:n]

    def recall(self, answers: Sequence[Sequence[str]], k: int, kind: str | None = None) -> float:
        """Return the mean share of the k best that is among *answers*; a tie with the k-th counts as it."""
        passes = np.ones(len(self._kinds), bool) if kind is None else self._kinds == KINDS.index(kind)
        wanted = min(k, int(passes.sum()))
        shares = []
        for scores, ids in zip(self._scores, answers, strict=False):
            array = np.array([int(id.removeprefix("row-")) for id in dict.fromkeys(ids)], np.int64)
            if not len(array):
                shares.append(0.0)
                continue
            passing: NDArray[np.float32] = scores[passes]
            lowest = np.partition(passing, len(passing) - wanted)[len(passing) - wanted]
            good = passes[array] & (scores[array] >= lowest - _TIE)
            shares.append(min(int(good.sum()), wanted) / wanted)
        return float(np.mean(shares))
