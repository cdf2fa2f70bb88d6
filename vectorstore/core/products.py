"""Matrix products of many questions with many rows, of which only what may be among the best k is kept.

Rows come in blocks that stay in the cache. Within a block they are taken in small groups: the k-th best of the groups'
best is a bound that no row below can beat, and only groups that reach it are looked into.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

ROW_BLOCK: Final = 8192
GROUP: Final = 16
"""Rows of a group; below a few groups for each of the k, one question at a time is as fast."""

Found = tuple[NDArray[np.intp], NDArray[np.intp]]


def candidates_of_many(
    rows: NDArray[np.float32],
    queries: NDArray[np.float32],
    k: int,
    slacks: NDArray[np.float64],
    *,
    less: NDArray[np.float32] | None,
    usable: NDArray[np.bool_] | None,
) -> Found:
    """Return (query, row) of every row within ``slacks[query]`` of that query's k-th best product.

    With *less*, twice the product less ``less[row]`` counts instead. Rows that are not *usable* do not count; at
    least k are. Both arrays are ordered by query, then row.
    """
    tops = np.empty((len(queries), 0), dtype=np.float32)
    cuts = np.full(len(queries), -np.inf, dtype=np.float32)
    slack = slacks.astype(np.float32)
    parts: list[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]] = []
    buffer = np.empty((min(ROW_BLOCK, len(rows) + GROUP), len(queries)), dtype=np.float32)
    for start in range(0, len(rows), ROW_BLOCK):
        stop = min(start + ROW_BLOCK, len(rows))
        count = stop - start
        product = buffer[: count + -count % GROUP]
        np.matmul(rows[start:stop], queries.T, out=product[:count])
        if less is not None:
            product[:count] *= 2
            product[:count] -= less[start:stop, np.newaxis]
        product[count:] = -np.inf
        if usable is not None:
            product[:count][~usable[start:stop]] = -np.inf
        groups = product.reshape(-1, GROUP, len(queries))
        best = groups.max(axis=1)
        tops = np.concatenate((tops, best.T), axis=1)
        if tops.shape[1] >= k:
            tops.partition(tops.shape[1] - k, axis=1)
            tops = tops[:, -k:]
            cuts = tops[:, 0] - slack
        parts.append(_reaching(groups, best, cuts, start))
    of, places, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    kept = values >= cuts[of]
    of, places = of[kept], places[kept]
    order = np.argsort(of, kind="stable")
    return of[order], places[order]


def _reaching(
    groups: NDArray[np.float32], best: NDArray[np.float32], cuts: NDArray[np.float32], start: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]:
    """(query, row, product) of what reaches the cut of its query in a block that begins at row *start*."""
    group, query = np.nonzero(best >= cuts)
    inside = groups[group, :, query]
    pair, place = np.nonzero((inside >= cuts[query][:, np.newaxis]) & (inside > -np.inf))
    return query[pair], start + group[pair] * GROUP + place, inside[pair, place]
