"""The index of one namespace: searches by vector and text equal those of a plain scan.

Inner parts, on no face: ``tellback.vectorstore.filters``, ``tellback.vectorstore.index.namespace_index``.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tellback.vectorstore.index.vectors
from tellback.vectorstore import Metric, Space
from tellback.vectorstore.filters import filter_tree, matches_filter
from tellback.vectorstore.index.namespace_index import NamespaceIndex
from tests.support.slow import first_fast

METRICS = list(Metric)
DIMENSION = 6


def id_of(key: int) -> str:
    return f"id{(key * 37) % 10007:05}"


def filled(
    vectors: dict[int, np.ndarray | None], metric: Metric, metadata: dict[int, dict[str, Any]] | None = None
) -> NamespaceIndex:
    dimension = next((len(vector) for vector in vectors.values() if vector is not None), DIMENSION)
    index = NamespaceIndex(list(vectors), [id_of(key) for key in vectors], space=Space("test", dimension, metric))
    index.use_fields(("kind",), [(metadata or {}).get(key, {}) for key in vectors])
    values = {key: vector for key, vector in vectors.items() if vector is not None}
    rows = np.stack(list(values.values())) if values else np.empty((0, dimension), dtype=np.float32)
    index.load_matrix([(list(values), rows)])
    return index


def nearest(index: NamespaceIndex, query: np.ndarray, k: int, **options: Any) -> list[tuple[int, float]]:
    [found] = index.nearest(query[np.newaxis], k, **options)
    return found


def plain_score(vector: np.ndarray, query: np.ndarray, metric: Metric) -> float:
    x, y = vector.tolist(), query.tolist()
    if metric is Metric.L2:
        return -math.dist(x, y)
    dot = math.fsum(a * b for a, b in zip(x, y, strict=True))
    return dot if metric is Metric.DOT else dot / math.hypot(*x) / math.hypot(*y)


def random_vectors(seed: int, keys: range, dimension: int = DIMENSION, missing: float = 0.0) -> dict[int, Any]:
    print("seed", seed)
    draw = np.random.default_rng(seed)
    return {
        key: None if draw.random() < missing else draw.standard_normal(dimension).astype(np.float32) for key in keys
    }


def agrees(
    index: NamespaceIndex,
    vectors: dict[int, Any],
    query: np.ndarray,
    k: int,
    metric: Metric,
    allowed: set[int] | None = None,
) -> bool:
    """Return whether the index's answer is that of a plain search, scores up to rounding."""
    mask = None if allowed is None else index.mask_of(np.array(sorted(allowed), dtype=np.int64))
    found = nearest(index, query, k, mask=mask)
    plain = {
        key: plain_score(vector, query, metric)
        for key, vector in vectors.items()
        if vector is not None and (allowed is None or key in allowed)
    }
    best = sorted(plain.values(), reverse=True)[:k]
    assert [score for _, score in found] == pytest.approx(best, abs=1e-6, rel=1e-6)
    assert len({key for key, _ in found}) == len(found)
    for key, score in found:
        assert score == pytest.approx(plain[key], abs=1e-6, rel=1e-6)
    assert found == sorted(found, key=lambda pair: (-pair[1], *index.ids_of([pair[0]])))
    [same, _] = index.nearest(np.stack([query, query]), k, mask=mask)
    return same == found


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("missing", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("count", [0, 1, 7, 300])
def test_the_nearest_rows_of_an_index_equal_a_plain_search(metric: Metric, missing: float, count: int) -> None:
    vectors = random_vectors(count, range(1, count + 1), missing=missing)
    index = filled(vectors, metric)
    query = np.random.default_rng(99).standard_normal(DIMENSION).astype(np.float32)
    for k in (1, 3, 50, 1000):
        assert agrees(index, vectors, query, k, metric)
    assert nearest(index, query, 0) == []
    assert index.nearest(query[np.newaxis], 0) == [[]]


@pytest.mark.parametrize("metric", first_fast(METRICS))
@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.3, 0.6, 0.99, 1.0])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_a_mask_is_applied_before_the_nearest_are_taken(metric: Metric, share: float, missing: float) -> None:
    vectors = random_vectors(17, range(1, 1501), missing=missing)
    index = filled(vectors, metric)
    chance = random.Random(share)
    allowed = {key for key in vectors if chance.random() < share}
    query = np.random.default_rng(98).standard_normal(DIMENSION).astype(np.float32)
    for k in (1, 10, 40):
        assert agrees(index, vectors, query, k, metric, allowed)


@pytest.mark.parametrize("metric", first_fast(METRICS))
@pytest.mark.parametrize("share", [0.02, 0.4, 0.8, None])
def test_a_batch_of_queries_is_answered_like_single_queries(
    metric: Metric, share: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tellback.vectorstore.index.vectors, "ROW_BLOCK", 512)
    vectors = random_vectors(3, range(1, 5004), dimension=20, missing=0.05)
    index = filled(vectors, metric)
    draw = np.random.default_rng(4)
    mask = None if share is None else draw.random(len(vectors)) < share
    queries = draw.standard_normal((70, 20)).astype(np.float32)
    least = {Metric.COSINE: 0.7, Metric.DOT: 10.0, Metric.L2: -4.0}[metric]
    for k in (1, 10):
        for min_score in (None, least):
            one_by_one = [nearest(index, query, k, mask=mask, min_score=min_score) for query in queries]
            assert index.nearest(queries, k, mask=mask, min_score=min_score) == one_by_one
            assert any(one_by_one)
        assert any(len(found) < k for found in one_by_one)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("count", [5, 5000])
def test_equal_scores_come_in_order_of_id(metric: Metric, count: int) -> None:
    vector = np.array([0.3, -0.1, 0.2, 0.5, 0.1, 0.7], dtype=np.float32)
    index = filled(dict.fromkeys(range(1, count + 1), vector), metric)
    expected = sorted(map(id_of, range(1, count + 1)))[:4]
    assert index.ids_of([key for key, _ in nearest(index, vector, 4)]) == expected
    for found in index.nearest(np.stack([vector] * 3), 4):
        assert index.ids_of([key for key, _ in found]) == expected


def test_vectors_that_differ_only_in_length_tie_under_cosine() -> None:
    index = filled({key: np.array([key, 0, 0], dtype=np.float32) for key in range(1, 9)}, Metric.COSINE)
    found = nearest(index, np.array([2, 0, 0], dtype=np.float32), 8)
    assert [score for _, score in found] == [1.0] * 8
    assert index.ids_of([key for key, _ in found]) == sorted(map(id_of, range(1, 9)))


@pytest.mark.parametrize("metric", METRICS)
def test_near_ties_are_ordered_by_their_exact_scores(metric: Metric) -> None:
    draw = np.random.default_rng(8)
    base = draw.standard_normal(384).astype(np.float32)
    vectors = {
        key: (base + draw.standard_normal(384).astype(np.float32) * np.float32(1e-7)).astype(np.float32)
        for key in range(1, 5001)
    }
    index = filled(vectors, metric)
    everything = nearest(index, base, 5000)
    assert nearest(index, base, 10) == everything[:10]
    assert index.nearest(np.stack([base, base]), 10) == [everything[:10]] * 2


@pytest.mark.parametrize("metric", [Metric.DOT, Metric.L2])
def test_longer_vectors_that_come_later_are_ranked_exactly(metric: Metric) -> None:
    draw = np.random.default_rng(15)
    vectors = {key: draw.standard_normal(256).astype(np.float32) for key in range(1, 801)}
    index = filled(vectors, metric)
    base = draw.standard_normal(256).astype(np.float32) * np.float32(1000)
    for key in vectors:
        vectors[key] = (base + draw.standard_normal(256) * 1e-4).astype(np.float32)
        index.put_vector(key, vectors[key])
    for query in (base, *(vectors[key] for key in range(1, 12))):
        assert nearest(index, query, 5) == nearest(index, query, 800)[:5]


def test_a_score_equal_to_the_threshold_stays() -> None:
    index = filled(random_vectors(6, range(1, 200)), Metric.COSINE)
    query = np.ones(DIMENSION, dtype=np.float32)
    ranked = nearest(index, query, 20)
    assert nearest(index, query, 20, min_score=ranked[9][1]) == ranked[:10]
    assert nearest(index, query, 20, min_score=np.nextafter(ranked[9][1], 2)) == ranked[:9]
    assert nearest(index, query, 20, min_score=2.0) == []
    assert index.nearest(query[np.newaxis].repeat(2, axis=0), 20, min_score=ranked[9][1]) == [ranked[:10]] * 2


@pytest.mark.parametrize("metric", METRICS)
def test_an_entry_has_the_same_score_in_search_and_in_direct_scoring(metric: Metric) -> None:
    vectors = random_vectors(9, range(1, 700), dimension=33, missing=0.2)
    index = filled(vectors, metric)
    query = np.random.default_rng(1).standard_normal(33).astype(np.float32)
    found = dict(nearest(index, query, 1000))
    keys = [5, 3, 699, 3, 77]
    scores = index.similarity(query, keys)
    for key, score in zip(keys, scores.tolist(), strict=True):
        assert math.isnan(score) if vectors[key] is None else score == found[key]
    assert index.similarity(query, []).tolist() == []


@pytest.mark.parametrize("metric", [Metric.DOT, Metric.L2])
@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e25, 3e37])
def test_numbers_that_float32_cannot_multiply_are_still_ranked_exactly(metric: Metric, scale: float) -> None:
    draw = np.random.default_rng(12)
    vectors = {key: (draw.standard_normal(8) * scale).astype(np.float32) for key in range(1, 400)}
    vectors[1] = draw.standard_normal(8).astype(np.float32)
    index = filled(vectors, metric)
    query = (draw.standard_normal(8) * scale).astype(np.float32)
    plain = sorted(vectors, key=lambda key: (-plain_score(vectors[key], query, metric), id_of(key)))[:10]
    assert [key for key, _ in nearest(index, query, 10)] == plain
    assert [[key for key, _ in item] for item in index.nearest(np.stack([query] * 2), 10)] == [plain] * 2


@given(st.integers(0, 2**32 - 1), st.sampled_from(METRICS))
def test_small_whole_numbers_with_many_ties_are_ranked_exactly(seed: int, metric: Metric) -> None:
    draw = np.random.default_rng(seed)
    rows = draw.integers(-1, 2, (60, 3)).astype(np.float32)
    rows[:, 0] += np.float32(2)
    vectors = dict(enumerate(rows, 1))
    query = np.array([1, *draw.integers(-1, 2, 2)], dtype=np.float32)
    assert agrees(filled(vectors, metric), vectors, query, int(draw.integers(1, 70)), metric)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("seed", range(2))
def test_an_index_written_step_by_step_answers_like_an_index_loaded_at_once(metric: Metric, seed: int) -> None:
    print("seed", seed)
    chance, draw = random.Random(seed), np.random.default_rng(seed)
    vectors: dict[int, Any] = {}
    metadata: dict[int, dict[str, Any]] = {}
    index = filled({}, metric)

    def vector() -> np.ndarray | None:
        return None if chance.random() < 0.2 else draw.integers(1, 5, DIMENSION).astype(np.float32)

    for step in range(600):
        action = chance.random()
        if not vectors or (action < 0.45 and len(vectors) < 80):
            key = chance.choice([key for key in range(1, 200) if key not in vectors])
            metadata[key] = {"kind": chance.randrange(3)}
            index.put_row(key, id_of(key), metadata[key])
            vectors[key] = vector()
            if vectors[key] is not None or chance.random() < 0.5:
                index.put_vector(key, vectors[key])
        elif action < 0.6:
            key = chance.choice(list(vectors))
            vectors[key] = vector()
            index.put_vector(key, vectors[key])
        elif action < 0.75:
            key = chance.choice(list(vectors))
            metadata[key] = {"kind": chance.randrange(3)}
            index.put_row(key, id_of(key), metadata[key])
        else:
            key = chance.choice(list(vectors))
            index.remove(key)
            index.remove(key)
            del vectors[key], metadata[key]
        if step % 10 == 0:
            query = draw.integers(1, 5, DIMENSION).astype(np.float32)
            order = chance.sample(list(vectors), len(vectors))
            fresh = filled({key: vectors[key] for key in order}, metric, metadata)
            node = filter_tree({"kind": chance.randrange(3)})
            for where in (None, node):
                masks = [None if where is None else item.mask(where) for item in (index, fresh)]
                assert nearest(index, query, 9, mask=masks[0]) == nearest(fresh, query, 9, mask=masks[1])
            mask = index.mask(node)
            assert mask is not None
            assert {key for key, passes in zip(index.keys().tolist(), mask, strict=True) if passes} == {
                key for key, fields in metadata.items() if matches_filter(node, fields)
            }
    assert len(index) == len(vectors) == len(set(index.keys().tolist()))


def test_the_index_maps_keys_to_ids_and_ids_to_keys() -> None:
    index = filled(random_vectors(1, range(1, 5)), Metric.DOT)
    assert index.keys_of([id_of(3)]) == [3]
    assert index.ids_of([3]) == [id_of(3)]
    index.remove(3)
    assert index.keys_of([id_of(3)]) == [-1]
    assert index.mask_of(np.array([3, 4, 999])).sum() == 1
    index.put_row(9, id_of(3), {})
    assert index.keys_of([id_of(3)]) == [9]
    assert len(index) == 4


def test_an_id_that_moved_to_a_newer_entry_survives_the_older_ones_removal() -> None:
    index = filled(random_vectors(1, range(1, 3)), Metric.DOT)
    index.put_row(7, id_of(1), {})
    index.remove(1)
    assert index.keys_of([id_of(1)]) == [7]


def test_an_index_gives_no_mask_for_a_filter_on_an_undeclared_field() -> None:
    assert filled(random_vectors(1, range(1, 5)), Metric.DOT).mask(filter_tree({"other": 1})) is None


@pytest.mark.parametrize("metric", METRICS)
def test_an_index_keeps_copies_of_the_given_vectors(metric: Metric) -> None:
    rows = np.random.default_rng(1).standard_normal((50, DIMENSION)).astype(np.float32)
    index = NamespaceIndex(range(50), [id_of(key) for key in range(50)], space=Space("test", DIMENSION, metric))
    index.load_matrix([(range(50), rows)])
    query, vector = rows[0].copy(), rows[1].copy()
    index.put_vector(3, vector)
    before = nearest(index, query, 50)
    rows[:] = 0
    vector[:] = 0
    assert nearest(index, query, 50) == before
    read_only = np.frombuffer(np.ones((50, DIMENSION), dtype=np.float32).tobytes(), dtype=np.float32)
    index.load_matrix([(range(50), read_only.reshape(50, DIMENSION))])
    index.put_vector(3, query)
    assert nearest(index, query, 1)[0][0] == (3 if metric is not Metric.DOT else nearest(index, query, 1)[0][0])


def test_an_index_ignores_vectors_and_terms_before_their_first_loading() -> None:
    index = NamespaceIndex([1], ["a"], space=Space("test", 2))
    index.put_vector(1, np.ones(2, dtype=np.float32))
    index.put_terms(1, np.array([1], dtype=np.int32), 0, {"w": 1})
    assert (index.matrix is not None, index.has_terms) == (False, False)
