"""Terms and postings: BM25 scores and the statistics they are computed from.

Inner parts, on no face: ``tellback.vectorstore.index.bm25``, ``tellback.vectorstore.index.namespace_index``.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tellback.vectorstore.index.bm25
from tellback.vectorstore.index.bm25 import ForwardBlock
from tellback.vectorstore.index.namespace_index import NamespaceIndex
from tests.support.slow import first_fast

WORDS = [f"w{number:02}" for number in range(40)]
NUMBERS = {word: number for number, word in enumerate(WORDS, 1)}

# An entry as these tests write it: the words of its context, and of each sentence of its text.
Texts = tuple[list[str], list[list[str]]]


def words_of(entry: Texts) -> list[str]:
    return [*entry[0], *(word for sentence in entry[1] for word in sentence)]


def forward(entry: Texts) -> tuple[np.ndarray, int]:
    numbers = [NUMBERS[word] for word in entry[0]]
    for sentence in entry[1]:
        numbers += [*(NUMBERS[word] for word in sentence), 0]
    return np.array(numbers, dtype=np.int32), len(entry[0])


def blocks(entries: dict[int, Texts], together: int = 7) -> Iterator[ForwardBlock]:
    keys = list(entries)
    for start in range(0, len(keys), together):
        some = keys[start : start + together]
        parts = [forward(entries[key]) for key in some]
        numbers = np.concatenate([sequence for sequence, _ in parts])
        sizes = np.array([len(sequence) for sequence, _ in parts], dtype=np.int64)
        yield ForwardBlock(some, numbers, sizes, np.array([length for _, length in parts], dtype=np.int32))


def id_of(key: int) -> str:
    return f"id{(key * 37) % 101:03}"


def loaded(entries: dict[int, Texts]) -> NamespaceIndex:
    index = NamespaceIndex(list(entries), [id_of(key) for key in entries], space=None)
    index.load_terms(NUMBERS, blocks(entries))
    return index


def plain_bm25(entries: dict[int, Texts], question: list[str], k1: float, b: float) -> dict[int, float]:
    """BM25 as the formula says, entry by entry."""
    counts = {key: Counter(words_of(entry)) for key, entry in entries.items()}
    average = sum(count.total() for count in counts.values()) / max(1, len(counts))
    scores: dict[int, float] = {}
    for word in sorted(set(question)):
        having = [key for key, count in counts.items() if word in count]
        idf = math.log(1 + (len(counts) - len(having) + 0.5) / (len(having) + 0.5))
        for key in having:
            tf, length = counts[key][word], counts[key].total()
            weight = tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average))
            scores[key] = scores.get(key, 0.0) + idf * weight
    return scores


def random_entry(chance: random.Random) -> Texts:
    def draw(most: int) -> list[str]:
        return [WORDS[min(int(chance.expovariate(0.15)), 39)] for _ in range(chance.randint(0, most))]

    return draw(3), [sentence for _ in range(chance.randint(0, 3)) if (sentence := draw(6))]


words = st.lists(st.sampled_from(WORDS[:8]), max_size=4)
texts = st.tuples(words, st.lists(words.filter(bool), max_size=3))
corpora = st.dictionaries(st.integers(1, 60), texts, max_size=25)


@given(
    corpora,
    st.lists(st.sampled_from([*WORDS[:10], "unknown"]), max_size=6),
    st.sampled_from([(0.9, 0.4), (1.2, 0.75), (0.0, 1.0)]),
)
def test_text_scores_equal_plain_bm25_of_the_query(
    entries: dict[int, Texts], question: list[str], parameters: tuple[float, float]
) -> None:
    index = loaded(entries)
    plain = plain_bm25(entries, question, *parameters)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tellback.vectorstore.index.bm25, "BM25_K1", parameters[0])
        patch.setattr(tellback.vectorstore.index.bm25, "BM25_B", parameters[1])
        found = index.matching(question, len(entries) + 1)
    assert {key for key, _ in found} == set(plain)
    for key, score in found:
        assert score == pytest.approx(plain[key], rel=1e-12)
    assert found == sorted(found, key=lambda pair: (-pair[1], id_of(pair[0])))


@given(corpora, st.lists(st.sampled_from(WORDS[:10]), max_size=6))
def test_an_entry_has_the_same_score_in_search_and_in_direct_scoring(
    entries: dict[int, Texts], question: list[str]
) -> None:
    index = loaded(entries)
    found = dict(index.matching(question, 1000))
    asked = [*entries, *reversed(entries)]
    assert index.score_terms(question, asked).tolist() == [found.get(key, 0.0) for key in asked]


@given(corpora)
def test_the_forward_index_returns_term_sequences_as_loaded(entries: dict[int, Texts]) -> None:
    index = loaded(entries)
    for key, entry in entries.items():
        held = index.sequence(key)
        assert held is not None
        assert (held[0].tolist(), held[1]) == (forward(entry)[0].tolist(), forward(entry)[1])
    assert index.sequence(999) is None


@given(corpora)
def test_frequencies_count_entries(entries: dict[int, Texts]) -> None:
    index = loaded(entries)
    plain = Counter(word for entry in entries.values() for word in set(words_of(entry)))
    assert index.terms.df([*WORDS, "unknown"]) == [*(plain[word] for word in WORDS), 0]
    assert index.terms.vocabulary() == dict(plain)


def test_a_repeated_or_reordered_question_scores_alike() -> None:
    index = loaded({1: (["w01"], [["w02", "w01"]]), 2: ([], [["w02"], ["w03"]])})
    assert index.matching(["w01", "w02", "w01"], 5) == index.matching(["w02", "w01"], 5)


def test_entries_without_terms_count_for_the_statistics() -> None:
    few, more = {1: ([], [["w01"]])}, {1: ([], [["w01"]]), 2: ([], []), 3: ([], [])}
    assert loaded(more).matching(["w01"], 5)[0][1] == pytest.approx(plain_bm25(more, ["w01"], 0.9, 0.4)[1])
    assert loaded(more).matching(["w01"], 5)[0][1] > loaded(few).matching(["w01"], 5)[0][1]


def test_a_mask_is_applied_before_the_best_are_taken() -> None:
    entries = {key: ([], [["w01"] * key]) for key in range(1, 10)}
    index = loaded(entries)
    best = [key for key, _ in index.matching(["w01"], 9)]
    mask = index.mask_of(np.array(best[5:]))
    assert [key for key, _ in index.matching(["w01"], 2, mask=mask)] == best[5:7]


def test_text_search_without_query_terms_or_matching_entries_finds_nothing() -> None:
    empty = loaded({})
    assert empty.matching(["w01"], 5) == []
    assert empty.terms.df(["w01"]) == [0]
    assert empty.terms.vocabulary() == {}
    index = loaded({1: ([], []), 2: ([], [["w01"]])})
    assert index.matching([], 5) == []
    assert index.matching(["unknown"], 5) == []
    assert index.matching(["w01"], 0) == []
    assert index.score_terms(["w01"], [1]).tolist() == [0.0]
    assert index.score_terms(["w01"], []).tolist() == []


def test_a_removed_term_may_return_with_another_term_number() -> None:
    index = loaded({1: ([], [["w01"]]), 2: ([], [["w02"]])})
    index.remove(1)
    assert index.matching(["w01"], 5) == []
    index.put_row(3, "id3", {})
    index.put_terms(3, np.array([500, 0], dtype=np.int32), 0, {"w01": 500})
    assert [key for key, _ in index.matching(["w01"], 5)] == [3]
    assert index.terms.term(500) == "w01"
    assert index.terms.df(["w01"]) == [1]


def test_sequences_read_from_bytes_can_be_loaded() -> None:
    index = NamespaceIndex([5], ["a"], space=None)
    blob = np.array([1, 2, 0], dtype="<i4").tobytes()
    index.load_terms({"w": 1, "v": 2}, [ForwardBlock([5], np.frombuffer(blob, dtype="<i4"), [3], [0])])
    index.put_terms(5, np.frombuffer(blob, dtype="<i4"), 1, {})
    assert index.terms.df(["w", "v"]) == [1, 1]


@pytest.mark.parametrize("partly", [False, True])
@pytest.mark.parametrize("tidy_early", first_fast([True, False]))
@pytest.mark.parametrize("seed", first_fast(range(3)))
def test_the_order_of_writing_never_moves_a_score(
    seed: int, tidy_early: bool, partly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """*partly*: for the first steps there are postings of the questions' terms alone."""
    print("seed", seed)
    if partly:
        monkeypatch.setattr(tellback.vectorstore.index.bm25, "_MIN_PARTIAL_SLOTS", 1)
        monkeypatch.setattr(tellback.vectorstore.index.bm25, "_MAX_PARTIAL_INDEXES", 200)
    if tidy_early:
        monkeypatch.setattr(tellback.vectorstore.index.bm25, "_DEAD_NUMBERS_LIMIT", 50)
    chance = random.Random(seed)
    entries: dict[int, Texts] = {}
    index = loaded(entries)
    for step in range(900):
        action = chance.random()
        if not entries or (action < 0.5 and len(entries) < 60):
            key = chance.choice([key for key in range(1, 101) if key not in entries])
            index.put_row(key, id_of(key), {})
            if chance.random() < 0.9:  # else its terms are still to come
                entries[key] = random_entry(chance)
                index.put_terms(key, *forward(entries[key]), NUMBERS)
            else:
                entries[key] = ([], [])
        elif action < 0.8:
            key = chance.choice(list(entries))
            entries[key] = random_entry(chance)
            index.put_terms(key, *forward(entries[key]), {})
        else:
            key = chance.choice(list(entries))
            index.remove(key)
            del entries[key]
        if step % 10 == 0:
            question = chance.choices(WORDS, k=4)
            fresh = loaded(dict(chance.sample(list(entries.items()), len(entries))))
            vocabulary = fresh.terms.vocabulary()  # which makes all postings of the fresh one
            assert index.matching(question, 7) == fresh.matching(question, 7)
            assert index.score_terms(question, list(entries)).tolist() == (
                fresh.score_terms(question, list(entries)).tolist()
            )
            assert index.terms.df(question) == fresh.terms.df(question)
            if not partly or step > 600:
                assert index.terms.vocabulary() == vocabulary
    for key, entry in entries.items():
        held = index.sequence(key)
        assert (([], 0) if held is None else (held[0].tolist(), held[1])) == (
            forward(entry)[0].tolist(),
            forward(entry)[1],
        )


def test_bm25_scores_of_many_entries_equal_the_plain_formula() -> None:
    chance = random.Random(5)
    print("seed", 5)
    entries = {key: random_entry(chance) for key in range(1, 9000)}
    index = NamespaceIndex(list(entries), [f"id{key:05}" for key in entries], space=None)
    index.load_terms(NUMBERS, blocks(entries))
    for question in (["w01", "w30"], ["w35", "w38"], ["w39"]):
        plain = plain_bm25(entries, question, 0.9, 0.4)
        found = index.matching(question, 20)
        assert [score for _, score in found] == pytest.approx(sorted(plain.values(), reverse=True)[:20])
        assert index.score_terms(question, [key for key, _ in found]).tolist() == [score for _, score in found]


def test_a_question_whose_postings_are_scored_in_blocks_scores_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    index = loaded({key: ([], [rng.choices(WORDS, k=9)]) for key in range(1, 60)})
    together = index.matching(WORDS, 60)
    monkeypatch.setattr(tellback.vectorstore.index.bm25, "_BLOCK_POSTINGS", 30)
    assert index.matching(WORDS, 60) == together
