"""Vectors of a namespace as one float32 matrix, aligned with the index's rows, and exact scores of its rows.

A float32 product says which rows may be among the best; those are scored again by the fixed computation of
``distance``, whose figures are the only ones that leave. Rows without a vector are zeros and never found.

Candidates are cut by value, never by count, so that ties are seen whole.

Of many questions at once, rows come in blocks that stay in the cache. Within a block they are taken in small groups:
the k-th best of the groups' best is a bound that no row below can beat, and only groups that reach it are looked into.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore.distance import exact_scores, prepare_rows, rounding_bound, row_norms
from tellback.vectorstore.index.binary_quantization import BinaryCodes
from tellback.vectorstore.index.growable_array import GrowableArray
from tellback.vectorstore.types import Metric, Space, Vector

ROW_BLOCK: Final = 8192
ROW_GROUP: Final = 16
"""Rows of a group; below a few groups for each of the k, one question at a time is as fast."""

_GROUP_SIZE: Final = 32
_GROUPED_FROM: Final = 4096

Ranking: TypeAlias = list[tuple[int, float]]
"""Keys with their scores, best first."""
CandidatePairs: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]


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
    same = np.concatenate([[False], scores[1:] == scores[:-1], [False]])
    starts, ends = np.flatnonzero(same[1:] & ~same[:-1]), np.flatnonzero(same[:-1] & ~same[1:]) + 1
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):  # runs of equal scores
        ranked[start:end] = sorted(ranked[start:end], key=id_of)
    return list(zip(ranked, scores.tolist(), strict=True))[:k]


def _kth_best(scores: NDArray[np.floating], k: int) -> np.floating:
    index = len(scores) - k
    score: np.floating = np.partition(scores, index)[index]
    return score


def batch_candidates(
    rows: NDArray[np.float32],
    queries: NDArray[np.float32],
    k: int,
    slacks: NDArray[np.float64],
    *,
    less: NDArray[np.float32] | None,
    usable: NDArray[np.bool_] | None,
) -> CandidatePairs:
    """Return (query, row) of every row within ``slacks[query]`` of that query's k-th best product.

    With *less*, twice the product less ``less[row]`` counts instead. Rows that are not *usable* do not count; at
    least k are. Both arrays are ordered by query, then row.
    """
    tops = np.empty((len(queries), 0), dtype=np.float32)
    cuts = np.full(len(queries), -np.inf, dtype=np.float32)
    slack = slacks.astype(np.float32)
    parts: list[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]] = []
    buffer = np.empty((min(ROW_BLOCK, len(rows) + ROW_GROUP), len(queries)), dtype=np.float32)
    for start in range(0, len(rows), ROW_BLOCK):
        stop = min(start + ROW_BLOCK, len(rows))
        count = stop - start
        product = buffer[: count + -count % ROW_GROUP]
        np.matmul(rows[start:stop], queries.T, out=product[:count])
        if less is not None:
            product[:count] *= 2
            product[:count] -= less[start:stop, np.newaxis]
        product[count:] = -np.inf
        if usable is not None:
            product[:count][~usable[start:stop]] = -np.inf
        groups = product.reshape(-1, ROW_GROUP, len(queries))
        best = groups.max(axis=1)
        tops = np.concatenate((tops, best.T), axis=1)
        if tops.shape[1] >= k:
            tops.partition(tops.shape[1] - k, axis=1)
            tops = tops[:, -k:]
            cuts = tops[:, 0] - slack
        parts.append(_pairs_above_cut(groups, best, cuts, start))
    of, places, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    above = values >= cuts[of]
    of, places = of[above], places[above]
    order = np.argsort(of, kind="stable")
    return of[order], places[order]


def _pairs_above_cut(
    groups: NDArray[np.float32], best: NDArray[np.float32], cuts: NDArray[np.float32], start: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]:
    """(query, row, product) of what reaches the cut of its query in a block that begins at row *start*."""
    group, query = np.nonzero(best >= cuts)
    inside = groups[group, :, query]
    pair, column = np.nonzero((inside >= cuts[query][:, np.newaxis]) & (inside > -np.inf))
    return query[pair], start + group[pair] * ROW_GROUP + column, inside[pair, column]


GATHER_SHARE: Final = 0.15
"""Below this share of passing rows they are gathered before the product, above it all are scanned."""
GATHER_SHARE_OF_BATCH: Final = 0.5
"""The same for many questions, among which gathering once is shared."""
QUERY_BLOCK: Final = 64
QUANTIZED_FROM_ROWS: Final = 10_000
"""Below so many rows the exact product is as fast as sign bits."""
SHORTLIST_LEAST: Final = 200
SHORTLIST_PER_MATCH: Final = 10
SHORTLIST_SHARE: Final = 0.001
SHORTLIST_LARGEST_SHARE: Final = 0.125
"""Number of rows that the bits leave: for each of the k, of all rows at least, and at most if they are to save work."""
_PAIR_BLOCK: Final = 8192
_GATHER_BLOCK: Final = 1024
_LARGEST_LENGTH: Final = 1e18
"""Beyond this a squared length may overflow in float32; such rows make every row a candidate."""


class VectorMatrix:
    """Prepared vectors by row of the index, which reports each row that comes, goes or moves."""

    def __init__(self, space: Space) -> None:
        self._metric = space.metric
        self._dimension = space.dimension
        self._vectors: GrowableArray[np.float32] = GrowableArray(np.float32, space.dimension)
        self._present: GrowableArray[np.bool_] = GrowableArray(np.bool_)
        self._squares: GrowableArray[np.float32] = GrowableArray(np.float32)  # of the lengths; only L2 asks
        self._missing = 0
        self._longest = 0.0
        self._bits: BinaryCodes | None = None

    def load(self, count: int, blocks: Iterable[tuple[NDArray[np.intp], NDArray[np.float32]]]) -> None:
        """Fill *count* rows from blocks: ``vectors[i]`` belongs to row ``rows[i]``, rows not named have none.

        Beside the matrix itself only one block is held.
        """
        matrix = np.zeros((count, self._dimension), dtype=np.float32)
        present, lengths = np.zeros(count, dtype=np.bool_), np.zeros(count)
        for rows, vectors in blocks:
            prepared = prepare_rows(vectors, self._metric)
            matrix[rows] = prepared
            present[rows] = True
            lengths[rows] = row_norms(prepared)
        self._vectors.load(matrix)
        self._present.load(present)
        self._squares.load(np.square(np.minimum(lengths, _LARGEST_LENGTH)).astype(np.float32))
        self._missing = count - int(present.sum())
        self._longest = float(lengths.max(initial=0.0))
        self._bits = None

    def append(self) -> None:
        """Add a row without a vector."""
        self._vectors.append(np.zeros(self._dimension, dtype=np.float32))
        self._present.append(False)
        self._squares.append(0.0)
        self._missing += 1
        if self._bits is not None:
            self._bits.append()

    def put(self, row: int, vector: Vector | None) -> None:
        """Give *row* its raw vector, or take it away."""
        present = self._present.rows
        self._missing += int(present[row]) - int(vector is not None)
        present[row] = vector is not None
        if self._bits is not None:
            self._bits.put(row)
        if vector is None:
            self._vectors.rows[row] = 0.0
            return
        prepared = prepare_rows(vector[np.newaxis], self._metric)
        length = float(row_norms(prepared)[0])
        self._vectors.rows[row] = prepared[0]
        self._squares.rows[row] = min(length, _LARGEST_LENGTH) ** 2
        self._longest = max(self._longest, length)

    def swap_delete(self, row: int) -> None:
        """Remove *row*; the last one takes its place."""
        self._missing -= int(not self._present.rows[row])
        self._vectors.swap_delete(row)
        self._present.swap_delete(row)
        self._squares.swap_delete(row)
        if self._bits is not None:
            self._bits.swap_delete(row)

    def has(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which of *rows* have a vector."""
        return self._present.rows[rows]

    def scores(self, rows: NDArray[np.intp], query: Vector) -> NDArray[np.float64]:
        """The exact scores of *rows* against a prepared query."""
        return exact_scores(self._vectors.rows[rows], query, self._metric)

    def scores_of_pairs(
        self, rows: NDArray[np.intp], queries: NDArray[np.float32], of: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """The exact score of each of *rows* against the prepared query ``queries[of[i]]`` beside it."""
        scores = np.empty(len(rows))
        for start in range(0, len(rows), _PAIR_BLOCK):
            part = slice(start, start + _PAIR_BLOCK)
            scores[part] = exact_scores(self._vectors.rows[rows[part]], queries[of[part]], self._metric)
        return scores

    def candidates(
        self, query: Vector, k: int, mask: NDArray[np.bool_] | None, *, fast: bool = False
    ) -> NDArray[np.intp]:
        """Return the rows among which the best *k* surely are; *query* is prepared.

        *fast*: very likely are, where sign bits save work. Only under cosine: they know no lengths.
        """
        chosen = self._chosen(mask)
        if fast:
            chosen = self._likely(query, k, chosen)
        count = len(self._present) if chosen is None else len(chosen)
        slack = self._slack(query)
        if count <= k or math.isinf(slack):
            return np.arange(count) if chosen is None else chosen
        if chosen is None:
            return top_k_positions(self._approximate_scores(self._vectors.rows, self._squares.rows, query), k, slack)
        if count < GATHER_SHARE * len(self._present):
            quick = self._gathered(chosen, query)
        else:
            quick = self._approximate_scores(self._vectors.rows, self._squares.rows, query)[chosen]
        return chosen[top_k_positions(quick, k, slack)]

    def candidates_of_many(
        self, queries: NDArray[np.float32], k: int, mask: NDArray[np.bool_] | None
    ) -> CandidatePairs | None:
        """``candidates`` of each of *queries*, as (place of the query, which rises; row).

        None where matrix products do not help: few rows, or numbers that float32 cannot multiply.
        """
        chosen = self._chosen(mask)
        slacks = np.array([self._slack(query) for query in queries])
        rows, squares, usable = self._vectors.rows, self._squares.rows, None
        count = len(rows) if chosen is None else len(chosen)
        if count < 2 * ROW_GROUP * k or np.isinf(slacks).any():
            return None
        if chosen is not None and count < GATHER_SHARE_OF_BATCH * len(rows):
            rows, squares = rows[chosen], squares[chosen]
        elif chosen is not None:
            usable = np.zeros(len(rows), dtype=np.bool_)
            usable[chosen] = True
            chosen = None
        less = squares if self._metric == Metric.L2 else None
        found = []
        for start in range(0, len(queries), QUERY_BLOCK):
            part = slice(start, start + QUERY_BLOCK)
            of, places = batch_candidates(rows, queries[part], k, slacks[part], less=less, usable=usable)
            found.append((of + start, places if chosen is None else chosen[places]))
        of, places = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return of, places

    def _chosen(self, mask: NDArray[np.bool_] | None) -> NDArray[np.intp] | None:
        if self._missing:
            present = self._present.rows
            return np.flatnonzero(present if mask is None else present & mask)
        return None if mask is None else np.flatnonzero(mask)

    def _likely(self, query: Vector, k: int, chosen: NDArray[np.intp] | None) -> NDArray[np.intp] | None:
        """Return the rows of *chosen* (None: all) that share most sign bits with *query*; *chosen* if few or all do."""
        count = len(self._present) if chosen is None else len(chosen)
        keep = max(SHORTLIST_LEAST, SHORTLIST_PER_MATCH * k, int(SHORTLIST_SHARE * count))
        if self._metric != Metric.COSINE or count < QUANTIZED_FROM_ROWS or keep > SHORTLIST_LARGEST_SHARE * count:
            return chosen
        if self._bits is None:
            self._bits = BinaryCodes(self._dimension, len(self._present))
        self._bits.follow(self._vectors.rows, len(self._present) - self._missing)
        return self._bits.closest(query, keep, chosen)

    def _approximate_scores(
        self, rows: NDArray[np.float32], squares: NDArray[np.float32], query: Vector
    ) -> NDArray[np.float32]:
        product: NDArray[np.float32] = rows @ query
        if self._metric == Metric.L2:
            product *= 2
            product -= squares
        return product

    def _gathered(self, rows: NDArray[np.intp], query: Vector) -> NDArray[np.float32]:
        """``_approximate_scores`` of *rows*, gathered into a block that stays in the cache."""
        quick = np.empty(len(rows), dtype=np.float32)
        block = np.empty((min(_GATHER_BLOCK, len(rows)), self._dimension), dtype=np.float32)
        for start in range(0, len(rows), _GATHER_BLOCK):
            chunk = rows[start : start + _GATHER_BLOCK]
            vectors = block[: len(chunk)]
            np.take(self._vectors.rows, chunk, axis=0, out=vectors, mode="clip")  # "clip" writes to *out* unbuffered
            quick[start : start + len(chunk)] = self._approximate_scores(vectors, self._squares.rows[chunk], query)
        return quick

    def _slack(self, query: Vector) -> float:
        """Twice the rounding bound, since the k-th best may err as well; infinite where float32 could overflow."""
        if self._metric == Metric.COSINE:
            return 2 * rounding_bound(self._dimension, self._metric, 1.0, 1.0)
        length = float(row_norms(query[np.newaxis])[0])
        return 2 * rounding_bound(self._dimension, self._metric, self._longest, length)
