"""Vectors checked and prepared, and the one fixed computation of final scores.

A float32 product finds candidates quickly, but its last bits depend on shapes, threads and libraries. The final score
of an entry is therefore computed here, in float64, row by row in one order: the same entry never has two scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore.errors import ArgumentError, DimensionError
from tellback.vectorstore.types import Metric, Vector, VectorLike

_BLOCK_ROWS: Final = 512
_SMALLEST_NORM: Final = 1e-30
_SMALLEST_SQUARE: Final = 1e-20
"""A float32 sum of squares above this is of a vector that has a length."""
_NEARLY_ONE: Final = 1 - 2.0**-21
"""Below what a unit vector, rounded to float32, may score against itself: each number is off by 2**-24 at most."""
_LARGEST_SQUARE: Final = 1e36
"""Beyond this, products of float32 numbers may overflow."""


def as_vector(value: object, dimension: int, metric: Metric, *, argument: str) -> Vector:
    """Return *value* as an own, read-only float32 vector of *dimension* numbers.

    Lists, integers, float64, strided and read-only arrays are converted. Raises ``DimensionError`` for another
    length, ``ArgumentError`` for anything that is not finite in float32 or, under cosine, has no direction.
    """
    array = _number_array(value, argument)
    if array.ndim != 1:
        raise ArgumentError(argument, array.shape, f"one vector of {dimension} numbers is needed, not this shape")
    if array.shape[0] != dimension:
        raise DimensionError(argument, array.shape[0], dimension)
    vector: Vector = _check_rows(array[np.newaxis], metric, argument)[0]
    return vector


def as_vectors(
    values: Sequence[VectorLike] | NDArray[Any], dimension: int, metric: Metric, *, argument: str
) -> NDArray[np.float32]:
    """Return *values* as an own, read-only float32 matrix, shape (n, dimension); checked as ``as_vector`` does."""
    if not isinstance(values, np.ndarray):
        if not isinstance(values, Iterable):
            raise ArgumentError(argument, values, f"vectors of {dimension} numbers are needed")
        rows = [as_vector(value, dimension, metric, argument=f"{argument}[{i}]") for i, value in enumerate(values)]
        return np.stack(rows) if rows else np.empty((0, dimension), dtype=np.float32)
    array = _number_array(values, argument)
    if array.ndim != 2:
        raise ArgumentError(argument, array.shape, f"shape (n, {dimension}) is needed, not this one")
    if array.shape[1] != dimension:
        raise DimensionError(argument, array.shape[1], dimension)
    return _check_rows(array, metric, argument)


def stack_plain_vectors(values: Sequence[object], dimension: int) -> NDArray[np.float32] | None:
    """Return *values* as an own, read-only matrix, shape (n, dimension), where ``as_vector`` would take each as it is.

    None where one of them needs a look of its own: it is no float32 array of that length, very long or very short.
    """
    if len(values) < 2 or not all(
        type(value) is np.ndarray and value.dtype == np.float32 and value.shape == (dimension,) for value in values
    ):
        return None
    matrix: NDArray[np.float32] = np.stack(values)  # type: ignore[arg-type]  # all are arrays
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("ij,ij->i", matrix, matrix)
    if not ((squares > _SMALLEST_SQUARE) & (squares < math.inf)).all():
        return None
    matrix.flags.writeable = False
    return matrix


def cosine(left: VectorLike, right: VectorLike) -> float:
    """Return the cosine of two vectors of one length, in [-1, 1]; computed as a store's final scores are."""
    first, second = _unit_vector(left, "left"), _unit_vector(right, "right")
    if second.size != first.size:
        raise DimensionError("right", second.size, first.size)
    return float(exact_scores(first[np.newaxis], second, Metric.COSINE)[0])


def normalize(vector: VectorLike) -> Vector:
    """Return *vector* scaled to length 1, as a new float32 vector."""
    return _unit_vector(vector, "vector")


def _unit_vector(value: VectorLike, argument: str) -> Vector:
    row = as_vector(value, np.size(value), Metric.COSINE, argument=argument)[np.newaxis]
    unit: Vector = prepare_rows(row, Metric.COSINE)[0]
    return unit


def prepare_rows(rows: NDArray[np.float32], metric: Metric) -> NDArray[np.float32]:
    """Return rows (n, d) as scores need them: of length 1 under cosine, else as they are.

    A row's result does not depend on its neighbours.
    """
    if metric != Metric.COSINE:
        return np.ascontiguousarray(rows)
    result = np.empty(rows.shape, dtype=np.float32)
    lengths = row_norms(rows)[:, np.newaxis]
    for start in range(0, len(rows), _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        result[part] = rows[part] / lengths[part]
    return result


def row_norms(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the Euclidean length of each row, float64."""
    lengths = np.empty(len(rows), dtype=np.float64)
    for start in range(0, len(rows), _BLOCK_ROWS):
        block = rows[start : start + _BLOCK_ROWS].astype(np.float64, order="C")
        block *= block
        lengths[start : start + _BLOCK_ROWS] = np.add.reduce(block, axis=1)
    return np.sqrt(lengths, out=lengths)


def exact_scores(rows: NDArray[np.float32], query: NDArray[np.float32], metric: Metric) -> NDArray[np.float64]:
    """Return the final score of each of the prepared *rows* (n, d) against the prepared *query*, float64.

    *query* is one vector (d,) for all rows, or one for each (n, d). Products of float32 numbers are exact in
    float64; each row is then summed along its contiguous axis in one order, whatever is beside it. Under cosine, a
    row that equals the query scores exactly 1.
    """
    scores = np.empty(len(rows), dtype=np.float64)
    for start in range(0, len(rows), _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        block = rows[part].astype(np.float64, order="C")
        against = (query if query.ndim == 1 else query[part]).astype(np.float64)
        if metric == Metric.L2:
            block -= against
            block *= block
        else:
            block *= against
        scores[part] = np.add.reduce(block, axis=1)
    if metric == Metric.L2:
        np.negative(np.sqrt(scores, out=scores), out=scores)
    elif metric == Metric.COSINE:
        np.minimum(np.maximum(scores, -1.0, out=scores), 1.0, out=scores)
        nearest = np.flatnonzero(scores > _NEARLY_ONE)
        if len(nearest):  # a unit vector in float32 has a length of not quite 1
            is_equal = (rows[nearest] == (query if query.ndim == 1 else query[nearest])).all(axis=1)
            scores[nearest[is_equal]] = 1.0
    scores += 0.0  # no negative zero
    return scores


def rounding_bound(dimension: int, metric: Metric, max_norm: float, query_norm: float) -> float:
    """Return how far a float32 product may be from the exact score, safely (twice the textbook bound).

    For L2 it bounds the error of 2 x·q - |x|², which orders as the score does. Infinite where float32 could
    overflow. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1; the second term is for
    products that vanish.
    """
    relative = 2 * (dimension + 8) * 2.0**-24
    vanished = dimension * 2.0**-124
    if metric == Metric.COSINE:
        return relative * 1.001
    size = max_norm * query_norm if metric == Metric.DOT else 2 * (max_norm + query_norm) ** 2
    return relative * size + vanished if size < _LARGEST_SQUARE else np.inf


def _number_array(value: object, argument: str) -> NDArray[Any]:
    if isinstance(value, (list, tuple)) and any(isinstance(number, bool) for number in value):
        raise ArgumentError(argument, value, "numbers are needed, not True or False")
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise ArgumentError(argument, value, "a list or array of numbers is needed") from error
    if array.dtype.kind not in "fiu" and array.size:
        raise ArgumentError(argument, value, "a list or array of real numbers is needed")
    return array


def _check_rows(array: NDArray[Any], metric: Metric, argument: str) -> NDArray[np.float32]:
    if array.dtype == np.float32:
        result = np.array(array, dtype=np.float32, order="C")
        if len(result) == 1 and _SMALLEST_SQUARE < float(np.vdot(result, result)) < math.inf:
            result.flags.writeable = False
            return result
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            result = np.array(array, dtype=np.float32, order="C")
    if not np.isfinite(result).all():
        raise ArgumentError(argument, array[~np.isfinite(result)][:3].tolist(), "numbers must be finite in float32")
    if metric == Metric.COSINE and result.size and float(row_norms(result).min()) < _SMALLEST_NORM:
        raise ArgumentError(argument, "a vector without length", "cosine needs a direction; store it without a vector")
    result.flags.writeable = False
    return result
