"""Top-k selection: candidates are cut by value, never by count, so that ties are seen whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ranking: TypeAlias = list[tuple[int, float]]

_GROUP_SIZE: Final = 32
_GROUPED_FROM: Final = 4096


def top_k_positions(scores: NDArray[np.floating], k: int, slack: float) -> NDArray[np.intp]:
    """Return the positions whose score is within *slack* of the k-th best, in order of position."""
    if len(scores) <= k:
        return np.arange(len(scores))
    if len(scores) < max(_GROUPED_FROM, 2 * _GROUP_SIZE * k):
        return np.flatnonzero(scores >= _kth_best(scores, k) - slack)
    # The k-th best of the groups' best is no better than the k-th best of all, and much cheaper to find.
    whole = len(scores) - len(scores) % _GROUP_SIZE
    tops = scores[:whole].reshape(_GROUP_SIZE, -1).max(axis=0)
    likely = np.flatnonzero(scores >= _kth_best(tops, k) - slack)
    likely_scores = scores[likely]
    chosen: NDArray[np.intp] = likely[likely_scores >= _kth_best(likely_scores, k) - slack]
    return chosen


def top_k_ranking(
    keys: NDArray[np.int64],
    scores: NDArray[np.float64],
    k: int,
    id_of: Callable[[int], str],
    min_score: float | None = None,
) -> Ranking:
    """Return up to *k* (key, score), best first, ties by id; a score equal to *min_score* stays."""
    if len(scores) > k:
        chosen = top_k_positions(scores, k, 0.0)
        keys, scores = keys[chosen], scores[chosen]
    if min_score is not None:
        keys, scores = keys[scores >= min_score], scores[scores >= min_score]
    order = np.argsort(-scores, kind="stable")
    ranked, scores = keys[order].tolist(), scores[order]
    for start, end in _tied_runs(scores):
        ranked[start:end] = sorted(ranked[start:end], key=id_of)
    return list(zip(ranked, scores.tolist(), strict=True))[:k]


def _tied_runs(scores: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return where two and more equal ones of the ordered *scores* begin and end."""
    same = np.concatenate([[False], scores[1:] == scores[:-1], [False]])
    starts, ends = np.flatnonzero(same[1:] & ~same[:-1]), np.flatnonzero(same[:-1] & ~same[1:]) + 1
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def _kth_best(scores: NDArray[np.floating], k: int) -> np.floating:
    index = len(scores) - k
    found: np.floating = np.partition(scores, index)[index]
    return found
