"""Vector search inside SQLite, for vectors that are not kept in memory.

sqlite-vec's scalar functions scan the rows in float32. Its rounding is bounded, so every row that may still belong to
the best k is a candidate: the cut is by score, not by count. Candidates are scored again by the computation of every
engine, so the results equal those from memory. Rows whose squares could underflow or overflow in float32 are always
candidates.

sqlite-vec has no inner product: it is the cosine times both norms, and each row stores its own.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore.database import Connection, VectorBytes
from tellback.vectorstore.distance import exact_scores, prepare_rows
from tellback.vectorstore.filters import And, FilterNode
from tellback.vectorstore.index.vectors import Ranking, top_k_ranking
from tellback.vectorstore.sqlite.connection import fetch_all, iterate_rows
from tellback.vectorstore.sqlite.entry_reader import ids_by_key, vector_blocks
from tellback.vectorstore.types import Metric, Space, Vector

_EXTRA_ROWS: Final = 64
_LARGEST_LIMIT: Final = 2**63 - 1
"""The highest limit that SQLite takes."""
_SAFE_NORM_SQL: Final = "v.norm BETWEEN 1e-15 AND 1e15"
_UNDERFLOW: Final = 1e-17
"""Upper bound of what squares that underflow in float32 can add to a distance."""


class SqlVectorSearch:
    """Search by SQLite for the nearest rows of one namespace that pass *where*."""

    def __init__(self, connection: Connection, space: Space, namespace: int, where: FilterNode) -> None:
        self._connection = connection
        self._space = space
        self._values: list[Any] = [namespace]
        self._rows = "vectors AS v WHERE v.namespace = ?"
        if not (isinstance(where, And) and not where.nodes):
            condition, values = connection.dialect.condition(connection, namespace, where)
            self._values += values
            self._rows = f"vectors AS v JOIN entries AS e ON e.key = v.key WHERE v.namespace = ? AND ({condition})"

    def nearest(self, query: Vector, k: int, min_score: float | None) -> Ranking:
        """Return (key, score) of the *k* nearest rows, best first, ties by id. *query* is raw float32."""
        if k == 0 or not (keys := self._candidates(query, k)):
            return []
        scores = exact_scores_by_key(self._connection, self._space, query, keys)
        return ranking_of_keys(self._connection, keys, scores, k, min_score)

    def _candidates(self, query: Vector, k: int) -> list[int]:
        error = relative_rounding(self._space.dimension)
        length = float(np.sqrt(np.sum(np.square(query, dtype=np.float64))))
        if not 1e-15 <= length <= 1e15:
            return self._at_least(-math.inf, query, length)
        rows = fetch_all(
            self._connection,
            f"SELECT v.key, v.norm, {self._highest()} AS high FROM {self._rows} ORDER BY high DESC LIMIT ?",
            (*self._bindings(query, length), *self._values, min(k + _EXTRA_ROWS, _LARGEST_LIMIT)),
        )
        if len(rows) < k + _EXTRA_ROWS:
            return [key for key, _, _ in rows]
        lowest = sorted((self._lowest(norm, high, error, length) for _, norm, high in rows), reverse=True)
        threshold = lowest[k - 1]
        if rows[-1][2] < threshold:
            return [key for key, _, high in rows if high >= threshold]
        return self._at_least(threshold, query, length)

    def _at_least(self, threshold: float, query: Vector, length: float) -> list[int]:
        sql, values = f"SELECT v.key FROM {self._rows}", self._values
        if threshold > -math.inf:
            sql, values = f"{sql} AND {self._highest()} >= ?", [*values, *self._bindings(query, length), threshold]
        rows = iterate_rows(self._connection, sql, values)
        return [key for (key,) in rows]

    def _highest(self) -> str:
        """Return the SQL for the highest score that a row can have, given the rounding."""
        dialect = self._connection.dialect
        cosine, l2 = dialect.cosine_distance.format("v.vector"), dialect.l2_distance.format("v.vector")
        score = {
            Metric.COSINE: f"1.0 + ? - {cosine}",
            Metric.DOT: f"v.norm * ? * (1.0 + ? - {cosine})",
            Metric.L2: f"? - {l2} * ?",
        }[self._space.metric]
        return f"CASE WHEN {_SAFE_NORM_SQL} THEN coalesce({score}, {dialect.infinity}) ELSE {dialect.infinity} END"

    def _bindings(self, query: Vector, length: float) -> tuple[float | bytes, ...]:
        error = relative_rounding(self._space.dimension)
        if self._space.metric == Metric.L2:
            return _UNDERFLOW, VectorBytes(query.astype("<f4")), 1.0 - error
        unit = prepare_rows(query[np.newaxis], Metric.COSINE)[0].astype("<f4")
        return (error, VectorBytes(unit)) if self._space.metric == Metric.COSINE else (length, error, VectorBytes(unit))

    def _lowest(self, norm: float, high: float, error: float, length: float) -> float:
        """Return the lowest score that a row can have whose highest is *high*."""
        if math.isinf(high):
            return -math.inf
        if self._space.metric == Metric.COSINE:
            return high - 2 * error
        if self._space.metric == Metric.DOT:
            return high - 2 * error * norm * length
        distance = (_UNDERFLOW - high) / (1.0 - error)
        return -distance * (1.0 + error) - _UNDERFLOW


def relative_rounding(dimension: int) -> float:
    """Return a safe relative bound of float32 rounding in a sum of *dimension* products (with a factor of four)."""
    return 4 * (dimension + 16) * 2.0**-24


def ranking_of_keys(
    connection: Connection, keys: list[int], scores: NDArray[np.float64], k: int, min_score: float | None = None
) -> Ranking:
    """Return (key, score) of the *k* best of *keys*, best first, ties by id; *k* is at least 1."""
    ids = dict(zip(keys, ids_by_key(connection, keys), strict=True))
    return top_k_ranking(np.array(keys, dtype=np.int64), scores, k, ids.__getitem__, min_score)


def exact_scores_by_key(connection: Connection, space: Space, query: Vector, keys: list[int]) -> NDArray[np.float64]:
    """Return the exact scores of the rows *keys*; NaN for those without a vector."""
    prepared = prepare_rows(query[np.newaxis], space.metric)[0]
    score_of: dict[int, float] = {}
    for block, vectors in vector_blocks(connection, space.dimension, keys=keys):
        scores = exact_scores(prepare_rows(vectors, space.metric), prepared, space.metric)
        score_of.update(zip(block, scores.tolist(), strict=True))
    return np.array([score_of.get(key, math.nan) for key in keys], dtype=np.float64)
