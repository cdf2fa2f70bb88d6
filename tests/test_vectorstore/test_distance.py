"""Distances: scores of each metric, their float64 computation and their order.

Inner parts, on no face: ``tellback.vectorstore.distance``.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.vectorstore import ArgumentError, DimensionError, Entry, Metric, Space, cosine, normalize, open_store
from tellback.vectorstore.distance import (
    as_vector,
    as_vectors,
    exact_scores,
    prepare_rows,
    rounding_bound,
    row_norms,
)

METRICS = list(Metric)


def some_rows(count: int, dimension: int, seed: int = 7) -> np.ndarray:
    print("seed", seed)
    return np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)


@pytest.mark.parametrize(
    "value",
    [
        [1, 2, 3],
        (1.0, 2.0, 3.0),
        np.array([1, 2, 3], dtype=np.int64),
        np.array([1, 2, 3], dtype=np.uint8),
        np.array([1.0, 2.0, 3.0]),
        np.array([1.0, 2.0, 3.0], dtype=np.float16),
        np.array([1, 9, 2, 9, 3, 9], dtype=np.float32)[::2],
        np.array([3, 2, 1], dtype=">f4")[::-1],
    ],
)
def test_as_vector_converts_any_form_of_real_numbers_to_float32(value) -> None:
    vector = as_vector(value, 3, Metric.COSINE, argument="vector")
    assert vector.dtype == np.dtype("=f4")
    assert vector.flags.c_contiguous
    assert vector.tolist() == [1, 2, 3]


def test_as_vector_returns_a_read_only_copy() -> None:
    given = np.ones(3, dtype=np.float32)
    given.flags.writeable = False
    vector = as_vector(given, 3, Metric.DOT, argument="vector")
    assert not np.shares_memory(vector, given)
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 2


@pytest.mark.parametrize(
    "value",
    [
        "abc",
        None,
        [1, "2", 3],
        [True, False, True],
        [1.0, True, 2.0],
        np.array([True, True, True]),
        [1j, 0, 0],
        [None, 1, 2],
        [[1, 2], [3]],
        [[1, 2, 3]],
        5.0,
        {"a": 1},
        [2**70, 1, 1],
        np.array([1, 2, 3], dtype="datetime64[s]"),
    ],
)
def test_as_vector_refuses_values_that_are_not_vectors_of_real_numbers(value) -> None:
    with pytest.raises(ArgumentError, match="entries"):
        as_vector(value, 3, Metric.DOT, argument="entries")


def test_a_vector_of_another_dimension_is_refused_with_both_dimensions() -> None:
    with pytest.raises(DimensionError) as caught:
        as_vector([1, 2], 3, Metric.DOT, argument="vector")
    assert (caught.value.given, caught.value.dimension) == (2, 3)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e39, -1e300])
@pytest.mark.parametrize("metric", METRICS)
def test_numbers_that_float32_cannot_hold_are_refused(bad: float, metric: Metric) -> None:
    with pytest.raises(ArgumentError, match="finite"):
        as_vector(np.array([1.0, bad, 0.0]), 3, metric, argument="vector")


@pytest.mark.parametrize("tiny", [0.0, 1e-46, 1e-31])
def test_cosine_refuses_vectors_of_almost_zero_length(tiny: float) -> None:
    with pytest.raises(ArgumentError, match="direction"):
        as_vector([tiny, 0, 0], 3, Metric.COSINE, argument="vector")
    assert as_vector([tiny, 0, 0], 3, Metric.L2, argument="vector").shape == (3,)
    assert as_vector([1e-29, 0, 0], 3, Metric.COSINE, argument="vector").shape == (3,)


def test_as_vectors_checks_a_batch_like_single_vectors() -> None:
    rows = some_rows(4, 3)
    for batch in (rows, rows.astype(np.float64), rows.tolist(), list(rows), iter(rows)):
        assert as_vectors(batch, 3, Metric.COSINE, argument="vectors").tolist() == rows.tolist()
    assert as_vectors([], 3, Metric.COSINE, argument="vectors").shape == (0, 3)
    assert as_vectors(np.empty((0, 3)), 3, Metric.COSINE, argument="vectors").shape == (0, 3)
    for bad in (rows[0], rows[np.newaxis], 5, "abc", [[1, 2, 3], [0, 0, 0]], [[1, 2, math.nan]]):
        with pytest.raises(ArgumentError, match="vectors"):
            as_vectors(bad, 3, Metric.COSINE, argument="vectors")
    with pytest.raises(DimensionError):
        as_vectors(rows, 4, Metric.COSINE, argument="vectors")


@pytest.mark.parametrize("dimension", [1, 2, 7, 8, 127, 384, 1025])
def test_normalising_a_row_does_not_depend_on_its_neighbours(dimension: int) -> None:
    rows = some_rows(700, dimension) * np.float32(3)
    together = prepare_rows(rows, Metric.COSINE)
    assert np.abs(row_norms(together) - 1).max() < 1e-6
    for position in (0, 1, 511, 512, 699):
        assert prepare_rows(rows[position : position + 1], Metric.COSINE)[0].tobytes() == together[position].tobytes()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dimension", [1, 2, 3, 8, 9, 100, 129, 384, 1000, 9001])
def test_a_score_is_the_same_to_the_last_bit_wherever_its_row_stands(metric: Metric, dimension: int) -> None:
    count = 1100 if dimension < 500 else 40
    rows = prepare_rows(some_rows(count, dimension, seed=dimension), metric)
    query = prepare_rows(some_rows(1, dimension, seed=1), metric)[0]
    expected = exact_scores(rows, query, metric)
    for start, stop, step in ((0, 1, 1), (1, count, 1), (3, 20, 4), (count - 1, count, 1), (0, count, 7)):
        part = slice(start, stop, step)
        assert exact_scores(rows[part], query, metric).tobytes() == expected[part].tobytes()
    shuffled = np.random.default_rng(2).permutation(count)
    assert exact_scores(rows[shuffled], query, metric).tobytes() == expected[shuffled].tobytes()
    assert exact_scores(np.asfortranarray(rows), query, metric).tobytes() == expected.tobytes()
    shifted = np.frombuffer(b"\0" + rows.tobytes(), dtype=np.uint8)[1:].view(np.float32).reshape(rows.shape)
    assert exact_scores(shifted, query, metric).tobytes() == expected.tobytes()
    each = np.tile(query, (count, 1))
    assert exact_scores(rows, each, metric).tobytes() == expected.tobytes()


@pytest.mark.parametrize("metric", METRICS)
def test_scores_are_those_of_plain_arithmetic(metric: Metric) -> None:
    rows, query = some_rows(50, 33), some_rows(1, 33, seed=8)[0]
    scores = exact_scores(prepare_rows(rows, metric), prepare_rows(query[np.newaxis], metric)[0], metric)
    for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
        pairs = list(zip(row, query.tolist(), strict=True))
        dot = math.fsum(x * y for x, y in pairs)
        plain = {
            Metric.DOT: dot,
            Metric.COSINE: dot / math.hypot(*row) / math.hypot(*query.tolist()),
            Metric.L2: -math.dist(row, query.tolist()),
        }[metric]
        assert score == pytest.approx(plain, abs=1e-6)


def test_cosine_stays_between_minus_one_and_one() -> None:
    rows = some_rows(2000, 5)
    prepared = prepare_rows(rows, Metric.COSINE)
    own = np.concatenate([exact_scores(prepared[i : i + 1], prepared[i], Metric.COSINE) for i in range(2000)])
    assert own.max() <= 1.0
    assert exact_scores(-prepared[:1], prepared[0], Metric.COSINE)[0] >= -1.0


@pytest.mark.parametrize("metric", METRICS)
def test_no_score_is_negative_zero(metric: Metric) -> None:
    rows = np.array([[1, 0], [0, 1], [0, -1]], dtype=np.float32)
    scores = exact_scores(rows, np.array([-1, 0], dtype=np.float32), metric)
    assert not any(score == 0 and math.copysign(1, score) < 0 for score in scores)
    assert math.copysign(1, exact_scores(rows[:1], rows[0], Metric.L2)[0]) == 1


def test_scores_of_the_largest_numbers_are_finite() -> None:
    rows = np.full((1, 100), 3e38, dtype=np.float32)
    assert exact_scores(rows, -rows[0], Metric.L2)[0] == pytest.approx(-6e39)
    assert exact_scores(rows, rows[0], Metric.DOT)[0] == pytest.approx(9e78)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(METRICS),
    st.sampled_from([1, 3, 64, 384]),
    st.sampled_from([1e-22, 1e-3, 1.0, 1e4, 1e15]),
)
def test_a_float32_product_stays_within_the_bound(seed: int, metric: Metric, dimension: int, scale: float) -> None:
    random = np.random.default_rng(seed)
    rows = prepare_rows((random.standard_normal((20, dimension)) * scale).astype(np.float32), metric)
    query = prepare_rows((random.standard_normal((1, dimension)) * scale).astype(np.float32), metric)[0]
    length = float(row_norms(query[np.newaxis])[0])
    bound = rounding_bound(dimension, metric, float(row_norms(rows).max()), length)
    product = (rows @ query).astype(np.float64)
    exact = rows.astype(np.float64) @ query.astype(np.float64)
    if metric is Metric.L2:
        squares = np.square(row_norms(rows))
        product = (2 * (rows @ query) - squares.astype(np.float32)).astype(np.float64)
        exact = 2 * exact - squares
    assert np.abs(product - exact).max() <= bound


@pytest.mark.parametrize("metric", [Metric.DOT, Metric.L2])
def test_the_rounding_bound_is_infinite_where_float32_could_overflow(metric: Metric) -> None:
    assert rounding_bound(4, metric, 1e19, 1e19) == math.inf
    assert rounding_bound(4, metric, 1e10, 1e10) < math.inf


def test_cosine_and_normalize_are_what_a_store_computes() -> None:
    draw = np.random.default_rng(7)
    left, right = draw.standard_normal((2, 33))
    store = open_store("numpy:", space=Space("toy", 33))
    store.upsert([Entry("right", right)])
    assert cosine(left, right) == cosine(right.tolist(), left) == store.search(left)[0].score
    assert (cosine([1, 2], [2, 4]), cosine([1, 0], [-2, 0])) == (1.0, -1.0)
    assert normalize([3, 4]).tolist() == np.array([0.6, 0.8], np.float32).tolist()
    for bad in ([0, 0], "x", None, [[1, 2]], [1, float("nan")]):
        with pytest.raises(ArgumentError, match="right"):
            cosine([1, 2], bad)  # type: ignore[arg-type]
    with pytest.raises(DimensionError, match="right"):
        cosine([1, 2], [1, 2, 3])
