"""Numbers of terms, their commonest forms, and exact word vectors."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from memory.recall.stems import GRID, NOTHING, Stems, on_grid


class MadeUpVectors:
    """A vector for each word, from a generator seeded by its letters; none for words with a digit."""

    fingerprint = "made up"

    def words(self, words: Sequence[str]) -> NDArray[np.float32]:
        rows = np.zeros((len(words), 32), np.float32)
        for at, word in enumerate(words):
            if word and not any(letter.isdigit() for letter in word):
                row = np.random.default_rng(list(word.encode())).normal(size=32) + 0.5
                rows[at] = row / np.linalg.norm(row)
        return rows


def stem(word: str) -> list[str]:
    return [] if word in {"the", "a"} else [word.removesuffix("s").removesuffix("ing")]


def stems() -> Stems:
    return Stems(MadeUpVectors(), stem)


def plain_cosine(a: str, b: str, vocabulary: list[str]) -> float:
    rows = MadeUpVectors().words(vocabulary).astype(np.float64)
    mean = rows.mean(axis=0)
    first, second = (MadeUpVectors().words([word])[0] - mean for word in (a, b))
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


def test_a_term_has_the_vector_of_its_commonest_form() -> None:
    held = stems()
    held.count(held.marked(["walks", "walking", "walking", "walk"]))
    held.settle()
    vectors = held.vectors(["walk"], ["x"])
    assert vectors is not None
    assert vectors[0].tolist() == on_grid(MadeUpVectors().words(["walking"]))[0].tolist()
    held.count(held.marked(["walking", "walking"]), -1)
    held.settle()
    vectors = held.vectors(["walk"], ["x"])
    assert vectors is not None
    assert vectors[0].tolist() == on_grid(MadeUpVectors().words(["walk"]))[0].tolist(), "ties: the first by text"


def test_cosines_are_those_of_centred_vectors() -> None:
    held = stems()
    words = ["apple", "pear", "house", "tree"]
    held.count(held.marked(words))
    held.settle()
    queries = on_grid(MadeUpVectors().words(["garden"]))
    found = held.cosines(queries, np.array([held.find(word) for word in words]))
    expected = [plain_cosine("garden", word, words) for word in words]
    assert found[:, 0].tolist() == pytest.approx(expected, abs=2e-3)


def test_the_order_of_writing_moves_no_cosine_by_a_bit() -> None:
    seed = 11
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    words = ["".join(chr(97 + letter) for letter in rng.integers(0, 26, 5)) for _ in range(300)]
    queries = on_grid(MadeUpVectors().words(["garden", "piano", "x1"]))
    results = []
    for _ in range(3):
        held = stems()
        extra = rng.permutation(words)[:40].tolist()
        for word in rng.permutation(words).tolist():
            held.count(held.marked([word]))
            if rng.random() < 0.1:
                held.settle()
        held.count(held.marked(extra))
        held.count(held.marked(extra), -1)
        held.settle()
        numbers = np.array([held.find(stem(word)[0]) for word in words])
        pieces = [held.cosines(queries, part) for part in np.array_split(numbers, int(rng.integers(1, 9)))]
        results.append(np.concatenate(pieces))
        assert np.array_equal(held.cosines(queries)[numbers], results[-1])
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


def test_what_has_no_vector_is_near_nothing() -> None:
    held = stems()
    held.count(held.marked(["apple", "x1"]))
    held.settle()
    queries = on_grid(MadeUpVectors().words(["pear", "x2"]))
    found = held.cosines(queries, np.array([held.find("x1"), held.find("apple"), NOTHING, held.number("late")]))
    assert found[0].tolist() == [0.0, 0.0]
    assert found[:, 1].tolist() == [0.0, 0.0, 0.0, 0.0]
    assert found[2].tolist() == found[3].tolist() == [0.0, 0.0]


def test_products_stay_exact_in_float32_for_long_vectors() -> None:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(50, 4096))
    grid = on_grid((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32))
    assert (grid.astype(np.int64) ** 2).sum(axis=1).max() < 2**24
    assert np.array_equal((grid @ grid.T).astype(np.int64), grid.astype(np.int64) @ grid.astype(np.int64).T)
    assert np.abs(np.linalg.norm(grid, axis=1) - GRID).max() < GRID / 100


def test_the_nearest_term_is_found_and_none_without_vectors() -> None:
    held = stems()
    held.count(held.marked(["apple", "pear", "x1"]))
    held.settle()
    assert held.nearest(on_grid(MadeUpVectors().words(["apple", "x9"]))) == ["apple", ""]
    assert Stems(None, stem).vectors(["a"], ["a"]) is None


def test_small_letters_are_counted_apart() -> None:
    held = stems()
    held.count(held.marked(["Mark", "mark", "mark", "the"]))
    assert held.small("Mark") == 2
    assert held.small("the") == 0
    assert held.small("unseen") == 0
