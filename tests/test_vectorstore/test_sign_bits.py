"""Sign bits beside the slow plain version: one row after another, one bit after another.

Inner parts, on no face: ``tellback.vectorstore.index.binary_quantization``.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from tellback.vectorstore.index.binary_quantization import FEWEST_BITS, BinaryCodes


def plain_distance(bits: BinaryCodes, vectors: np.ndarray, row: int, query: np.ndarray) -> int:
    """Return how many bits of a row and of *query* differ, by the object's own centre and directions, bit by bit."""
    directions = np.eye(vectors.shape[1]) if bits._directions is None else bits._directions
    sides = [(point - bits._centre) @ directions > 0 for point in (vectors[row], query)]
    return sum(bool(a) != bool(b) for a, b in zip(*sides, strict=True))


def plainly_closest(bits: BinaryCodes, vectors: np.ndarray, query: np.ndarray, keep: int, rows: list[int]) -> list[int]:
    distances = {row: plain_distance(bits, vectors, row, query) for row in rows}
    cut = sorted(distances.values())[min(keep, len(rows)) - 1]
    return [row for row in rows if distances[row] <= cut]


# Whole numbers over a power of two, so that no product is rounded and no sign depends on the order of adding.
def vectors_of(count: int, dimension: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-64, 64, (count, dimension)).astype(np.float32) / 16


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [3, 64, 500, FEWEST_BITS, 600])
def test_the_closest_rows_share_most_bits_and_ties_are_not_cut(dimension: int) -> None:
    vectors = vectors_of(300, dimension, seed=dimension)
    bits = BinaryCodes(dimension, len(vectors))
    bits.follow(vectors, len(vectors))
    for query in vectors[:5] + 0.25:
        for keep in (1, 7, 299, 300, 500):
            found = bits.closest(query, keep).tolist()
            assert found == plainly_closest(bits, vectors, query, keep, list(range(300)))
            assert len(found) >= min(keep, 300)


@pytest.mark.parametrize("share", [0.05, 0.6])
def test_closest_among_chosen_rows_finds_only_chosen_rows(share: float) -> None:
    vectors = vectors_of(400, 40, seed=3)
    bits = BinaryCodes(40, len(vectors))
    bits.follow(vectors, len(vectors))
    rows = np.flatnonzero(np.random.default_rng(4).random(400) < share)
    query = vectors[7] + 0.5
    assert bits.closest(query, 9, rows).tolist() == plainly_closest(bits, vectors, query, 9, rows.tolist())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_binary_codes_follow_added_deleted_changed_and_moved_rows(seed: int) -> None:
    print("seed", seed)
    draw = random.Random(seed)
    rows = list(vectors_of(60, 20, seed))
    bits = BinaryCodes(20, len(rows))
    fresh = iter(vectors_of(3000, 20, seed + 100))
    bits.follow(np.stack(rows), len(rows))
    for _ in range(400):
        match draw.choice(["append", "append", "put", "delete", "look"]):
            case "append":
                rows.append(next(fresh))
                bits.append()
            case "put":
                place = draw.randrange(len(rows))
                rows[place] = next(fresh)
                bits.put(place)
            case "delete" if len(rows) > 5:
                place = draw.randrange(len(rows))
                rows[place] = rows[-1]
                rows.pop()
                bits.swap_delete(place)
            case _:
                vectors = np.stack(rows)
                bits.follow(vectors, len(rows))
                query = next(fresh)
                assert len(bits) == len(rows)
                assert bits.closest(query, 8).tolist() == plainly_closest(
                    bits, vectors, query, 8, list(range(len(rows)))
                )


def test_the_centre_of_binary_codes_is_recomputed_when_the_rows_have_doubled() -> None:
    bits = BinaryCodes(4, 10)
    bits.follow(np.ones((10, 4), dtype=np.float32), 10)
    assert bits._centre.tolist() == [1, 1, 1, 1]
    for _ in range(11):
        bits.append()
    vectors = np.concatenate([np.ones((10, 4)), np.full((11, 4), 8.0)]).astype(np.float32)
    bits.follow(vectors, 21)
    assert bits._centre == pytest.approx(vectors.mean(axis=0))


def test_rows_without_a_vector_do_not_move_the_centre() -> None:
    bits = BinaryCodes(2, 4)
    bits.follow(np.array([[2, 4], [0, 0], [0, 0], [4, 8]], dtype=np.float32), 2)
    assert bits._centre.tolist() == [3, 6]
