"""Top-k selection: the best rows with ties by id, whole where scores are equal.

Inner parts, on no face: ``tellback.vectorstore.index.vectors``.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.vectorstore.index.vectors import top_k_positions, top_k_ranking
from tests.support.slow import first_fast


def plainly(scores: list[float], k: int, slack: float) -> list[int]:
    if k >= len(scores):
        return list(range(len(scores)))
    kth = sorted(scores, reverse=True)[k - 1]
    return [place for place, score in enumerate(scores) if score >= kth - slack]


@given(st.lists(st.integers(-5, 5), max_size=60), st.integers(1, 70), st.sampled_from([0.0, 1.0, 2.0]))
def test_top_k_positions_are_exactly_the_scores_within_slack_of_the_kth(
    scores: list[int], k: int, slack: float
) -> None:
    array = np.array(scores, dtype=np.float32)
    assert top_k_positions(array, k, slack).tolist() == plainly(array.tolist(), k, slack)


@pytest.mark.parametrize("count", first_fast([4127, 4095, 4096, 10_000]))
@pytest.mark.parametrize("levels", [1, 3, 100, 1_000_000])
@pytest.mark.parametrize("k", [1, 10, 63, 64, 65, 4000])
def test_top_k_positions_of_many_scores_equal_a_plain_selection(count: int, levels: int, k: int) -> None:
    print("seed", count + levels + k)
    scores = np.random.default_rng(count + levels + k).integers(0, levels, count).astype(np.float32)
    for slack in (0.0, 1.0):
        assert top_k_positions(scores, k, slack).tolist() == plainly(scores.tolist(), k, slack)


@given(st.lists(st.integers(0, 4), max_size=40), st.integers(1, 45), st.none() | st.integers(0, 5))
def test_top_k_ranking_orders_by_score_and_ties_by_id(scores: list[int], k: int, least: int | None) -> None:
    ids = [f"id{(7 * place) % 41:02}" for place in range(len(scores))]
    found = top_k_ranking(np.arange(len(scores)), np.array(scores, dtype=np.float64), k, ids.__getitem__, least)
    everything = sorted(range(len(scores)), key=lambda place: (-scores[place], ids[place]))
    assert found == [(p, scores[p]) for p in everything if least is None or scores[p] >= least][:k]
