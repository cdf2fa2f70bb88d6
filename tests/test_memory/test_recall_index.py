"""The retrieval index of a namespace: term vectors, stems, session BM25, word matches against slow plain versions.

Inner parts, on no face: ``tellback.memory.retrieval.index.record``, ``tellback.memory.retrieval.index.record_batch``,
``tellback.memory.retrieval.index.retrieval_index``, ``tellback.memory.retrieval.index.session_statistics``,
``tellback.memory.retrieval.index.turn_links``, ``tellback.memory.retrieval.index.vocabulary``,
``tellback.memory.retrieval.languages.lexicon``, ``tellback.memory.retrieval.query_analysis``,
``tellback.memory.retrieval.scoring.features``, ``tellback.memory.retrieval.scoring.soft_matching``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import log

import numpy as np
import pytest
from numpy.typing import NDArray

import tellback.memory.retrieval.index.session_statistics as module
import tellback.memory.retrieval.index.vocabulary as vocabulary_module
import tellback.memory.retrieval.scoring.soft_matching as soft_matching
from tellback.memory import Memory
from tellback.memory.internals import to_entry
from tellback.memory.retrieval.index.record import MAX_SENTENCES, NEVER, IndexRecord, build_record, to_microseconds
from tellback.memory.retrieval.index.record_batch import build_batch
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.index.session_statistics import SessionBm25
from tellback.memory.retrieval.index.turn_links import NO_ROW
from tellback.memory.retrieval.index.vocabulary import (
    GRID,
    NO_TERM,
    TermVectors,
    Vocabulary,
    common_words,
    round_to_grid,
)
from tellback.memory.retrieval.languages.lexicon import lexicon_for
from tellback.memory.retrieval.query_analysis import analyze_question
from tellback.memory.retrieval.scoring.features import AnalyzedQuestion, TermFrequencies, scale_to_maximum
from tellback.memory.retrieval.scoring.soft_matching import (
    PASSAGE_WORDS,
    pair_match,
    question_similarity,
    sentence_similarity,
    text_match,
    weigh_terms,
    word_match,
)
from tests.support.slow import first_fast

DAY = datetime(2024, 5, 1, tzinfo=UTC)


WORDS = ["apple", "river", "stone", "cloud", "music", "garden", "winter", "letter", "engine", "forest"]


class Letters:
    """Word vectors that count letters: words that share letters are near."""

    fingerprint = "letters"

    def words(self, words: Sequence[str]) -> NDArray[np.float32]:
        rows = np.array([[word.count(chr(97 + number)) for number in range(26)] for word in words], np.float32)
        rows = rows.reshape(len(words), 26)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)


def stem(text: str) -> list[str]:
    return [word.strip(".,?!").lower() for word in text.split() if word.strip(".,?!").lower() not in {"the", "i"}]


def row(memory: Memory) -> IndexRecord:
    entry = to_entry(memory)
    sentences = [stem(part) for part in entry.text.split(".") if stem(part)]
    terms = [stem(entry.context), *sentences]
    return build_record(entry, terms, asking=asking, lexicon=lexicon_for("english"), zone=UTC, conversation=True)


def asking(text: str) -> list[bool]:
    return [part.endswith("?") for part in text.split(".") if stem(part)]


def put(index: RetrievalIndex, memory: Memory) -> None:
    index.extend(build_batch([row(memory)], term_of))


def term_of(form: str) -> str | None:
    return stem(form)[0] if len(stem(form)) == 1 else None


def turns(count: int, seed: int) -> list[Memory]:
    rng = np.random.default_rng(seed)
    return [
        Memory(
            " ".join(rng.choice(WORDS, int(rng.integers(1, 6))))
            + (". The end." if rng.random() < 0.4 else "")
            + "?" * int(number % 3 == 0),
            id=f"m{number:02d}",
            speaker=["Anna", "Bela"][number % 2],
            session=f"s{number // 8}",
            sequence=number % 8,
            occurred_at=DAY + timedelta(days=number // 8),
        )
        for number in range(count)
    ]


def indexed(memories: Sequence[Memory]) -> RetrievalIndex:
    index = RetrievalIndex(Letters())
    for memory in memories:
        put(index, memory)
    return index


def question(text: str, index: RetrievalIndex) -> AnalyzedQuestion:
    return analyze_question(text, index, lexicon=lexicon_for("english"), terms=stem, today=DAY.date())


def snapshot(index: RetrievalIndex, ids: list[str]) -> list[object]:
    """Everything that the signals read, by id."""
    rows = index.rows(ids)
    asked = question("Which gardens and rivers did Anna see in 1 May 2024?", index)
    words = weigh_terms(asked, index, TermFrequencies(lambda terms: [1 for _ in terms], len(ids)))
    names = {int(number): name for number, name in zip(rows, ids, strict=True)} | {-1: ""}
    links = (index.links.before, index.links.after, index.links.answers)
    sides = [[names[int(item)] for item in side.rows[rows]] for side in links]
    sessions = index.session_bm25.scores([index.vocabulary.find(term) for term in sorted(WORDS)])
    return [
        word_match(words, rows, index).tolist(),
        [part.tolist() for part in text_match(words, rows, index)],
        sentence_similarity(
            words, rows, index, TermFrequencies(lambda terms: [len(term) for term in terms], len(ids))
        ).tolist(),
        question_similarity(
            words, rows, index, TermFrequencies(lambda terms: [len(term) for term in terms], len(ids))
        ).tolist(),
        sides,
        sessions[index.columns["session"][rows]].tolist(),
        index.columns["day"][rows].tolist(),
        index.columns["text_features"][rows].tolist(),
        index.columns["question_bits"][rows].tolist(),
        sorted(name for _, name in index.participants.present()),
    ]


@pytest.mark.parametrize("seed", first_fast(range(4)))
def test_equal_rows_give_equal_columns_in_any_order_of_writes(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    memories = turns(30, seed)
    ids = [memory.id for memory in memories]
    fresh = snapshot(indexed(memories), ids)
    shuffled = [memories[position] for position in rng.permutation(30)]
    noisy = RetrievalIndex(Letters())
    for memory in shuffled:
        if rng.random() < 0.5:
            put(noisy, Memory("winter engine, Ann?", id=memory.id, speaker="Zoe", session="s1", sequence=99))
        if rng.random() < 0.3:
            put(noisy, Memory("gone again.", id="extra", speaker="Bela", session="s2", sequence=3))
            noisy.vectors.unit(np.arange(len(noisy.vocabulary)))
        put(noisy, memory)
    noisy.remove("extra")
    noisy.remove("never there")
    assert snapshot(noisy, ids) == fresh
    assert len(noisy) == 30


@pytest.mark.parametrize("cells", [1, 7, 64])
def test_words_matched_in_small_blocks_match_alike(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    memories = [*turns(12, 5), Memory("?", id="blank"), Memory("apple. " * 30 + "river stone cloud " * 9, id="long")]
    ids = [memory.id for memory in memories]
    whole = snapshot(indexed(memories), ids)
    monkeypatch.setattr(soft_matching, "_BLOCK_CELLS", cells)
    assert snapshot(indexed(memories), ids) == whole


def test_word_match_is_one_for_equal_stems_else_the_nearest_cosine() -> None:
    memories = turns(20, 3)
    index = indexed(memories)
    ids = [memory.id for memory in memories]
    asked = question("gardens apple", index)
    words = weigh_terms(asked, index, TermFrequencies(lambda terms: [1 for _ in terms], 20))
    found = word_match(words, index.rows(ids), index)
    mean = Letters().words(common_words()).astype(np.float64).mean(axis=0)
    for position, memory in enumerate(memories):
        for column, term in enumerate(asked.terms):
            near = []
            for word in stem(memory.text):
                a, b = (Letters().words([item])[0] - mean for item in (term, word))
                near.append(1.0 if word == term else float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))
            assert found[position, column] == pytest.approx(max(0.0, *near), abs=3e-3)


def test_the_best_sentence_and_the_whole_text_are_weighed() -> None:
    memory = Memory("apple stone. river cloud. apple river", id="a")
    index = indexed([memory, Memory("music", id="b")])
    asked = question("apple river", index)
    words = weigh_terms(asked, RetrievalIndex(None), TermFrequencies(lambda terms: [1 for _ in terms], 2))
    words = replace(
        words,
        numbers=np.array([index.vocabulary.find(t) for t in asked.terms]),
        vectors=None,
        weights=np.array([1.0, 2.0]),
    )
    sentence, _, whole = text_match(words, index.rows(["a", "b"]), index)
    assert sentence.tolist() == [3.0, 0.0]
    assert whole.tolist() == [3.0, 0.0]
    far = indexed([Memory("apple stone. river cloud", id="a")])
    words = replace(
        words,
        numbers=np.array([far.vocabulary.find(t) for t in asked.terms]),
        vectors=None,
        weights=np.array([1.0, 2.0]),
    )
    matches = text_match(words, far.rows(["a"]), far)
    assert [match.tolist() for match in matches] == [[2.0], [2.0], [3.0]]


@pytest.mark.parametrize("seed", range(5))
def test_text_match_finds_the_best_passage_among_word_runs_inside_sentences(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    texts = [". ".join(" ".join(rng.choice(WORDS, rng.integers(1, 40))) for _ in range(3)) for _ in range(12)]
    index = indexed([Memory(text, id=str(number)) for number, text in enumerate(texts)])
    asked = question("apple river music stone", index)
    words = weigh_terms(asked, index, TermFrequencies(lambda terms: [1 for _ in terms], len(texts)))
    words = replace(words, vectors=None, weights=np.array([1.0, 2.0, 4.0, 8.0])[: len(words.numbers)])
    _, passage, _ = text_match(words, index.rows([str(number) for number in range(len(texts))]), index)
    weights = dict(zip(asked.terms, words.weights.tolist(), strict=True))
    for number, text in enumerate(texts):
        best = 0.0
        for sentence in text.split(". "):
            stated = stem(sentence)
            for start in range(0, max(len(stated) - PASSAGE_WORDS // 2, 1), PASSAGE_WORDS // 2):
                best = max(
                    best, sum(weights[term] for term in set(stated[start : start + PASSAGE_WORDS]) & weights.keys())
                )
        assert passage[number] == best


def test_sentence_similarity_counts_the_words_of_one_sentence_only() -> None:
    index = indexed([Memory("apple stone. river cloud", id="a"), Memory("river cloud", id="b"), Memory("", id="c")])
    asked = question("apple stone", index)
    words = weigh_terms(asked, index, TermFrequencies(lambda terms: [1 for _ in terms], 3))
    meaning = sentence_similarity(
        words, index.rows(["a", "b", "c"]), index, TermFrequencies(lambda terms: [1 for _ in terms], 3)
    )
    assert meaning[0] == pytest.approx(1.0, abs=1e-6)
    assert 0.0 <= meaning[1] < 0.9
    assert meaning[2] == 0.0
    without = replace(words, vectors=None)
    assert sentence_similarity(
        without, index.rows(["a"]), index, TermFrequencies(lambda terms: [1 for _ in terms], 3)
    ).tolist() == [0.0]


@pytest.mark.parametrize("vectors", [None, Letters()])
def test_question_similarity_is_the_cosine_of_weighted_word_sums(vectors: Letters | None) -> None:
    texts = [
        "garden stone?",
        "river. cloud engine?. winter apple?",
        "apple river?",
        "apple river",
        "music letter?",
        "the?",
    ]
    index = RetrievalIndex(vectors)
    for number, text in enumerate(texts):
        put(index, Memory(text, id=str(number)))
    stated = question("apple river engine", index)
    df = {"apple": 3, "river": 3}
    words = weigh_terms(stated, index, TermFrequencies(lambda terms: [df.get(term, 1) for term in terms], 6))
    held = sorted({word for text in texts for part in text.split(".") for word in stem(part)})

    def vector(term: str) -> NDArray[np.float64]:
        if vectors is None:
            return np.array([term == word for word in held], dtype=np.float64)
        own = vectors.words([term])[0] - vectors.words(common_words()).astype(np.float64).mean(axis=0)
        return np.asarray(own / np.linalg.norm(own))

    def whole(terms: list[str]) -> NDArray[np.float64]:
        weight = {term: np.log(1 + (6 - df.get(term, 1) + 0.5) / (df.get(term, 1) + 0.5)) for term in terms}
        return np.asarray(sum(vector(term) * weight[term] for term in terms))

    sums = whole(list(stated.terms))
    answered = np.array([*index.rows([str(number) for number in range(len(texts))]), NO_ROW, index.row("2")])
    found = question_similarity(
        words, answered, index, TermFrequencies(lambda terms: [df.get(term, 1) for term in terms], 6)
    )
    expected = []
    for questions in (
        ["garden", "stone"],
        ["cloud", "engine", "winter", "apple"],
        ["apple", "river"],
        [],
        ["music", "letter"],
    ):
        own = whole(questions) if questions else np.zeros_like(sums)
        length = np.linalg.norm(own) * np.linalg.norm(sums)
        expected.append(max(float(own @ sums / length), 0.0) if questions else 0.0)
    assert found.tolist() == pytest.approx([*expected, 0.0, 0.0, expected[2]], abs=3e-3)


def test_question_bits_mark_asking_sentences_up_to_the_maximum() -> None:
    assert row(Memory("apple. river?. cloud. stone?", id="a")).question_bits == 0b1010
    assert row(Memory("apple. river", id="a")).question_bits == 0
    index = indexed([Memory(". ".join(["apple?"] * (MAX_SENTENCES + 9)), id="a"), Memory("river?", id="b")])
    assert index.columns["question_bits"].tolist() == [2**MAX_SENTENCES - 1, 1]
    words = weigh_terms(question("apple", index), index, TermFrequencies(lambda terms: [1 for _ in terms], 2))
    assert question_similarity(words, index.rows(["a"]), index, TermFrequencies(lambda terms: [1 for _ in terms], 2))[
        0
    ] == pytest.approx(1.0)


def test_pair_match_counts_adjacent_query_words_adjacent_in_a_sentence() -> None:
    texts = ["stone apple river", "river apple", "apple cloud river", "apple. river", "river. apple river. apple"]
    index = indexed([Memory(text, id=str(number)) for number, text in enumerate(texts)])
    asked = question("apple river music", index)
    words = weigh_terms(asked, index, TermFrequencies(lambda terms: [1 for _ in terms], len(texts)))
    words = replace(words, vectors=None, weights=np.array([1.0, 2.0, 3.0]))
    rows = index.rows([str(number) for number in range(len(texts))])
    assert pair_match(words, rows, index).tolist() == [3 / 8, 3 / 8, 0.0, 0.0, 3 / 8]
    alone = replace(words, numbers=words.numbers[:1], vectors=None, weights=words.weights[:1])
    assert pair_match(alone, rows, index).tolist() == [0.0] * len(texts)


def test_scale_to_maximum_does_not_amplify_values_by_a_tiny_maximum() -> None:
    assert scale_to_maximum(np.array([0.5, 0.25, -0.25])).tolist() == [1.0, 0.5, -0.5]
    assert scale_to_maximum(np.array([0.001, -0.1])).tolist() == [1.0, -1.0]
    assert scale_to_maximum(np.array([-0.2, -0.1])).tolist() == [0.0, 0.0]


def test_an_unknown_word_has_the_weight_of_its_nearest_stem() -> None:
    index = indexed([Memory("apple", id="a"), Memory("engine", id="b")])
    df = {"apple": 2, "engine": 1}
    asked = question("apples engine", index)
    words = weigh_terms(asked, index, TermFrequencies(lambda terms: [df.get(term, 0) for term in terms], 4))
    known = weigh_terms(
        question("apple", index), index, TermFrequencies(lambda terms: [df.get(term, 0) for term in terms], 4)
    )
    assert words.weights[0] == known.weights[0] < words.weights[1]


def test_the_index_reports_worn_after_many_replaced_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    import tellback.memory.retrieval.index.retrieval_index as module

    monkeypatch.setattr(module, "_MIN_WORN_GAPS", 5)
    index = RetrievalIndex(None)
    for _ in range(6):
        put(index, Memory("apple", id="a"))
    assert not index.worn
    put(index, Memory("apple", id="a"))
    assert index.worn


def test_the_day_column_of_the_index_is_the_date_of_occurred_at() -> None:
    late = datetime(2024, 5, 1, 23, 30, tzinfo=UTC)
    index = indexed([Memory("apple", id="a", occurred_at=late), Memory("apple", id="b")])
    assert index.columns["day"][index.row("a")] == (late.date() - datetime(1970, 1, 1).date()).days  # noqa: DTZ001
    assert to_microseconds(late) > NEVER


class MadeUpVectors:
    """A vector for each word, from a generator seeded by its letters; none for words with a digit."""

    fingerprint = "made up"

    def words(self, words: Sequence[str]) -> NDArray[np.float32]:
        rows = np.zeros((len(words), 32), np.float32)
        for position, word in enumerate(words):
            if word and not any(letter.isdigit() for letter in word):
                row = np.random.default_rng(list(word.encode())).normal(size=32) + 0.5
                rows[position] = row / np.linalg.norm(row)
        return rows


def stemmed(word: str) -> str | None:
    return None if word in {"the", "a"} else word.removesuffix("s").removesuffix("ing")


class Held:
    """Stems with their vectors, counted word by word."""

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self.vectors = TermVectors(MadeUpVectors(), self.vocabulary)

    def count(self, words: Sequence[str], sign: int = 1) -> None:
        marks = [
            2 * self.vocabulary.form_numbers([word.lower()], [self.vocabulary.numbers([term])[0]])[0]
            + word[:1].islower()
            for word in words
            if (term := stemmed(word.lower())) is not None
        ]
        self.vocabulary.count(np.array(marks, dtype=np.int32), sign)

    def of(self, *words: str) -> NDArray[np.int64]:
        return np.array([self.vocabulary.find(stemmed(word) or "") for word in words])


def centred(words: Sequence[str]) -> NDArray[np.float64]:
    mean = MadeUpVectors().words(common_words()).astype(np.float64).mean(axis=0)
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
    assert np.linalg.norm(held.vectors.unit(held.of("apple"))) == pytest.approx(1.0, abs=1e-3)


def test_the_order_of_writes_and_queries_changes_no_bit_of_term_cosines() -> None:
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


def test_terms_without_a_vector_have_cosine_zero() -> None:
    held = Held()
    held.count(["apple", "x1"])
    numbers = np.array([*held.of("x1", "apple"), NO_TERM, held.vocabulary.numbers(["late"])[0]])
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
    for _ in range(3):  # by rough vectors first
        assert held.vectors.nearest(query("apple", "x9")) == ["apple", ""]
    none = TermVectors(None, held.vocabulary)
    assert none.of_question(["a"], ["a"]) is None
    assert none.cosines(query("apple"), held.of("apple")).tolist() == [[0.0]]


def test_commonest_terms_are_bounded_and_leave_out_ties_beyond_the_count() -> None:
    held = Held()
    held.count(["apple"] * 3 + ["pear"] * 2 + ["plum"] * 2 + ["fig"])
    names = {
        count: sorted(map(held.vocabulary.term, held.vocabulary.commonest_terms(count).tolist()))
        for count in (1, 2, 3, 9)
    }
    assert names == {1: ["apple"], 2: ["apple"], 3: ["apple", "pear", "plum"], 9: ["", "apple", "fig", "pear", "plum"]}


def test_no_term_is_nearest_in_a_large_vocabulary_of_equally_rare_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary_module, "_MAX_NEAREST_TERMS", 3)
    held = Held()
    held.count(["apple", "pear", "plum", "fig"])
    for _ in range(2):
        assert held.vectors.nearest(query("apple", "x9")) == ["", ""]


def test_word_vectors_are_made_on_demand_and_once_per_form() -> None:
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


def test_lower_case_forms_are_counted_separately() -> None:
    held = Held()
    held.count(["Mark", "mark", "mark", "the"])
    assert held.vocabulary.lower_case_count("Mark") == 2
    assert held.vocabulary.lower_case_count("the") == 0
    assert held.vocabulary.lower_case_count("unseen") == 0


def plain(texts: list[tuple[int, list[int]]], terms: list[int], sessions: int) -> list[float]:
    counts = {
        session: Counter(t for position, text in texts if position == session for t in text) for session, _ in texts
    }
    counts = {session: count for session, count in counts.items() if count}
    average = sum(count.total() for count in counts.values()) / max(len(counts), 1)
    scores = [0.0] * sessions
    for term in terms:
        df = sum(term in count for count in counts.values())
        for session, count in counts.items():
            if term in count:
                idf = log(1 + (len(counts) - df + 0.5) / (df + 0.5))
                norm = 0.9 * (0.6 + 0.4 * count.total() / average)
                scores[session] += idf * count[term] * 1.9 / (count[term] + norm)
    return scores


def add(counted: SessionBm25, session: int, text: list[int], sign: int = 1) -> None:
    counted.add(np.full(len(text), session), np.array(text, dtype=np.int64), sign)


@pytest.mark.parametrize("many", [2, 10_000])
@pytest.mark.parametrize("merge_at", [3, 10_000])
@pytest.mark.parametrize("seed", first_fast(range(5)))
def test_session_bm25_scores_equal_the_plain_version_through_writes_removals_and_merges(
    seed: int, merge_at: int, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"seed {seed}")
    monkeypatch.setattr(module, "_MIN_MERGE", merge_at)
    monkeypatch.setattr(module, "_BULK_SIZE", many)
    monkeypatch.setattr(module, "_MAX_PENDING_BULK", many + 1)
    rng = np.random.default_rng(seed)
    kept: list[tuple[int, list[int]]] = []
    counted = SessionBm25()
    for _ in range(120):
        if kept and rng.random() < 0.3:
            session, text = kept.pop(int(rng.integers(len(kept))))
            add(counted, session, text, -1)
        else:
            session, text = int(rng.integers(6)), rng.integers(1, 15, int(rng.integers(0, 6))).tolist()
            kept.append((session, text))
            add(counted, session, text)
    for _ in range(4):  # what is not sorted for the first questions is for the later ones
        scores = counted.scores([1, 2, 3, 14, 99])
        expected = plain(kept, [1, 2, 3, 14, 99], len(scores))
        assert any(expected)
        assert scores.tolist() == pytest.approx(expected)


def test_an_emptied_session_no_longer_counts_in_session_bm25() -> None:
    counted, fresh = SessionBm25(), SessionBm25()
    for terms in (counted, fresh):
        add(terms, 0, [1, 2])
        add(terms, 1, [2, 3])
    add(counted, 2, [1, 1])
    add(counted, 2, [1, 1], -1)
    assert counted.scores([1, 2])[:2].tolist() == fresh.scores([1, 2]).tolist()


def test_an_empty_session_bm25_gives_no_scores() -> None:
    assert SessionBm25().scores([1]).tolist() == []
