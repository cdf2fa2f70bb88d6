"""Numbers of terms, their commonest forms, and exact word vectors."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from memory.retrieval.index.vocabulary import (
    COMMON_WORDS,
    GRID,
    NO_TERM,
    TermVectors,
    Vocabulary,
    round_to_grid,
)


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


def stem(word: str) -> str | None:
    return None if word in {"the", "a"} else word.removesuffix("s").removesuffix("ing")


class Held:
    """Stems with their vectors, counted word by word."""

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self.vectors = TermVectors(MadeUpVectors(), self.vocabulary)

    def count(self, words: Sequence[str], sign: int = 1) -> None:
        marks = [
            2 * self.vocabulary.form_number(word.lower(), self.vocabulary.number(term)) + word[:1].islower()
            for word in words
            if (term := stem(word.lower())) is not None
        ]
        self.vocabulary.count(np.array(marks, dtype=np.int32), sign)

    def of(self, *words: str) -> NDArray[np.int64]:
        return np.array([self.vocabulary.find(stem(word) or "") for word in words])


def centred(words: Sequence[str]) -> NDArray[np.float64]:
    mean = MadeUpVectors().words(COMMON_WORDS).astype(np.float64).mean(axis=0)
    return MadeUpVectors().words(words) - mean


def query(*words: str) -> NDArray[np.float32]:
    known = MadeUpVectors().words(words).any(axis=1, keepdims=True)
    return round_to_grid(np.where(known, centred(words), 0.0))


def test_a_term_has_the_vector_of_its_commonest_form() -> None:
    held = Held()
    held.count(["walks", "walking", "walking", "walk"])
    vectors = held.vectors.of_question(["walk"], ["x"])
    assert vectors is not None
    assert np.abs(vectors - query("walking")).max() <= 1
    held.count(["walking", "walking"], -1)
    vectors = held.vectors.of_question(["walk"], ["x"])
    assert vectors is not None
    assert np.abs(vectors - query("walk")).max() <= 1, "ties: the first by text"


def test_cosines_are_those_of_centred_vectors() -> None:
    held = Held()
    words = ["apple", "pear", "house", "tree"]
    held.count(words)
    found = held.vectors.cosines(query("garden"), held.of(*words))
    rows, asked = centred(words), centred(["garden"])[0]
    expected = rows @ asked / np.linalg.norm(rows, axis=1) / np.linalg.norm(asked)
    assert found[:, 0].tolist() == pytest.approx(expected.tolist(), abs=2e-3)
    assert held.vectors.cosines_of(held.of("apple"), held.of("pear", "apple"))[0, 1] == pytest.approx(1.0)
    assert np.linalg.norm(held.vectors.unit(held.of("apple"))) == pytest.approx(1.0, abs=1e-3)


def test_the_order_of_writing_and_asking_moves_no_cosine_by_a_bit() -> None:
    seed = 11
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    words = ["".join(chr(97 + letter) for letter in rng.integers(0, 26, 5)) for _ in range(300)]
    queries = query("garden", "piano", "x1")
    results = []
    for _ in range(3):
        held = Held()
        extra = rng.permutation(words)[:40].tolist()
        for word in rng.permutation(words).tolist():
            held.count([word])
            if rng.random() < 0.1:
                held.vectors.cosines(queries, held.of(*rng.choice(words, 3)))
        held.count(extra)
        held.vectors.nearest(queries)
        held.count(extra, -1)
        pieces = [
            held.vectors.cosines(queries, part) for part in np.array_split(held.of(*words), int(rng.integers(1, 9)))
        ]
        results.append(np.concatenate(pieces))
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


def test_what_has_no_vector_is_near_nothing() -> None:
    held = Held()
    held.count(["apple", "x1"])
    numbers = np.array([*held.of("x1", "apple"), NO_TERM, held.vocabulary.number("late")])
    found = held.vectors.cosines(query("pear", "x2"), numbers)
    assert found[0].tolist() == [0.0, 0.0]
    assert found[:, 1].tolist() == [0.0, 0.0, 0.0, 0.0]
    assert found[2].tolist() == found[3].tolist() == [0.0, 0.0]


def test_products_stay_exact_in_float32_for_long_vectors() -> None:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(50, 4096))
    grid = round_to_grid((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32))
    assert (grid.astype(np.int64) ** 2).sum(axis=1).max() < 2**24
    assert np.array_equal((grid @ grid.T).astype(np.int64), grid.astype(np.int64) @ grid.astype(np.int64).T)
    assert np.abs(np.linalg.norm(grid, axis=1) - GRID).max() < GRID / 100


def test_the_nearest_term_is_found_and_none_without_vectors() -> None:
    held = Held()
    held.count(["apple", "pear", "x1"])
    assert held.vectors.nearest(query("apple", "x9")) == ["apple", ""]
    none = TermVectors(None, held.vocabulary)
    assert none.of_question(["a"], ["a"]) is None
    assert none.cosines(query("apple"), held.of("apple")).tolist() == [[0.0]]


def test_of_a_large_vocabulary_only_the_commonest_terms_are_looked_at() -> None:
    held = Held()
    held.count(["apple"] * 3 + ["pear"] * 2 + ["plum"] * 2 + ["fig"])
    names = {
        count: sorted(map(held.vocabulary.term, held.vocabulary.commonest_terms(count).tolist()))
        for count in (1, 2, 3, 9)
    }
    assert names == {1: ["apple"], 2: ["apple"], 3: ["apple", "pear", "plum"], 9: ["", "apple", "fig", "pear", "plum"]}


def test_vectors_are_made_when_they_are_asked_for_and_once() -> None:
    asked: list[str] = []

    class Watched(MadeUpVectors):
        def words(self, words: Sequence[str]) -> NDArray[np.float32]:
            asked.extend(words)
            return super().words(words)

    held = Held()
    held.vectors = TermVectors(Watched(), held.vocabulary)
    held.count(["apple", "pear", "pears"])
    held.vectors.unit(held.of("apple"))
    del asked[:]
    held.vectors.unit(held.of("apple", "pear"))
    assert asked == ["pear"], "of equals the first by text"
    held.count(["apple", "pears"])
    held.vectors.unit(held.of("apple", "pear"))
    assert asked == ["pear", "pears"], "only what is now mostly written otherwise"


def test_small_letters_are_counted_apart() -> None:
    held = Held()
    held.count(["Mark", "mark", "mark", "the"])
    assert held.vocabulary.lower_case_count("Mark") == 2
    assert held.vocabulary.lower_case_count("the") == 0
    assert held.vocabulary.lower_case_count("unseen") == 0
