"""Contract of ``search``, ``search_many`` and ``search_text``: scores, order and ties, BM25 of one namespace alone.

The words here are nobody's: no stop word, nothing to stem, so a plain split gives the terms of any analyzer.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from vectorstore.errors import ArgumentError, DimensionError
from vectorstore.testing.suite import (
    METRIC_SPACES,
    StoreContract,
    ids_and_scores,
    invalid_vectors,
    make_entry,
    result_ids,
    vector_forms,
)
from vectorstore.types import Metric, Space

every_metric = pytest.mark.parametrize("space", METRIC_SPACES, ids=lambda space: str(space.metric))


def plain_score(metric: Metric, left: list[float], right: list[float]) -> float:
    """Return the score by its definition."""
    if metric is Metric.L2:
        return -math.dist(left, right)
    dot = math.fsum(x * y for x, y in zip(left, right, strict=True))
    return dot if metric is Metric.DOT else dot / (math.hypot(*left) * math.hypot(*right))


def random_vectors(seed: int, count: int, *, whole: bool = False) -> list[list[float]]:
    """Return vectors, never of length zero; *whole*: small whole numbers, so that many scores are equal."""
    rng = random.Random(seed)  # noqa: S311 - a test's own numbers
    if whole:
        return [[rng.randint(1, 3), rng.randint(-1, 1), rng.randint(-1, 1)] for _ in range(count)]
    return [[rng.gauss(0, 1) for _ in range(3)] for _ in range(count)]


class SearchContract(StoreContract):
    """The nearest are found, all of them, in one order."""

    @every_metric
    def test_scores_are_the_metric_s_and_the_best_come_first(self, space: Space) -> None:
        store = self.open(space)
        vectors = random_vectors(1, 60)
        store.upsert(make_entry(f"e{i:02}", vector) for i, vector in enumerate(vectors))
        for query in random_vectors(2, 5):
            found = store.search(query, 60)
            plain = {f"e{i:02}": plain_score(space.metric, vector, query) for i, vector in enumerate(vectors)}
            assert sorted(result_ids(found)) == sorted(plain)
            assert [match.score for match in found] == pytest.approx(
                [plain[name] for name in result_ids(found)], abs=1e-6
            )
            assert [match.score for match in found] == sorted((match.score for match in found), reverse=True)
            assert all(type(match.score) is float for match in found)

    @pytest.mark.parametrize("metric", [Metric.DOT, Metric.L2])
    def test_many_equal_scores_are_ordered_by_id(self, metric: Metric) -> None:
        store = self.open(Space("toy", 3, metric))
        vectors = {f"e{i:03}": vector for i, vector in enumerate(random_vectors(3, 200, whole=True))}
        store.upsert(make_entry(name, vectors[name]) for name in sorted(vectors, reverse=True))
        for query in random_vectors(4, 3, whole=True):
            plain = sorted((-plain_score(metric, vector, query), name) for name, vector in vectors.items())
            for k in (1, 7, 50, 200):
                assert result_ids(store.search(query, k)) == [name for _, name in plain[:k]]

    @every_metric
    def test_equal_vectors_tie_by_id_in_order_of_code_points(self, space: Space) -> None:
        store = self.open(space)
        names = ["b", "a", "B", "é", "\U0001f600", "\uffff", "a1", "10", "9", "Z", "aa"]
        store.upsert(make_entry(name, [0.1, 0.2, 0.3]) for name in names)
        store.upsert([make_entry("far", [-1, -1, -1])])
        for k in range(1, len(names) + 1):
            assert result_ids(store.search([0.3, 0.2, 0.1], k)) == sorted(names)[:k]
        assert len({match.score for match in store.search([0.3, 0.2, 0.1], len(names))}) == 1

    def test_a_cosine_never_leaves_its_range(self) -> None:
        store = self.open()
        vectors = random_vectors(5, 50)
        store.upsert(make_entry(f"e{i}", vector) for i, vector in enumerate(vectors))
        for vector in vectors:
            nearest = store.search(vector, 50)
            farthest = store.search([-x for x in vector], 50)
            assert 1 - 1e-6 < nearest[0].score <= 1
            assert -1 <= farthest[-1].score < -1 + 1e-6

    def test_a_distance_is_never_positive(self) -> None:
        store = self.open(Space("toy", 3, Metric.L2))
        store.upsert([make_entry("same", [1e3, 1e-3, 1]), make_entry("near", [1e3, 2e-3, 1])])
        assert ids_and_scores(store.search([1e3, 1e-3, 1]))[0] == ("same", 0.0)
        assert store.search([1e3, 1e-3, 1])[1].score < 0

    @every_metric
    def test_an_entry_has_one_score_whatever_else_is_asked_or_stored(self, space: Space) -> None:
        store = self.open(space)
        vectors = random_vectors(6, 120)
        store.upsert(make_entry(f"e{i:03}", vector, odd=i % 2) for i, vector in enumerate(vectors[:40]))
        queries = random_vectors(7, 4)
        first = [dict(ids_and_scores(store.search(query, 40))) for query in queries]
        store.upsert(make_entry(f"e{i:03}", vector, odd=i % 2) for i, vector in enumerate(vectors) if i >= 40)
        store.delete([f"e{i:03}" for i in range(0, 20, 3)])
        many = store.search_many(queries, 120)
        for query, before, bulk in zip(queries, first, many, strict=True):
            roads = [
                store.search(query, 120),
                store.search(query, 5),
                store.search(query, 99, where={"odd": 1}),
                bulk,
            ]
            for score_of in map(dict, map(ids_and_scores, roads)):
                assert {n: s for n, s in score_of.items() if n in before} == {
                    n: s for n, s in before.items() if n in score_of
                }
            assert ids_and_scores(bulk) == ids_and_scores(roads[0])

    @every_metric
    def test_a_selective_filter_still_fills_k(self, space: Space) -> None:
        store = self.open(space, fields=("declared",))
        store.upsert(make_entry(f"near{i:03}", [1, 0, 0.001 * i], declared="x", other="x") for i in range(150))
        store.upsert(make_entry(f"far{i}", [-1, 0, i], declared="y", other="y") for i in range(5))
        for where in ({"declared": "y"}, {"other": "y"}):
            found = store.search([1, 0, 0], 3, where=where)
            assert len(found) == 3
            assert result_ids(found) == result_ids(store.search([1, 0, 0], 155))[-5:][:3]
            assert store.search_many([[1, 0, 0]] * 2, 3, where=where) == [found, found]

    @every_metric
    def test_a_score_equal_to_the_threshold_stays(self, space: Space) -> None:
        store = self.open(space)
        store.upsert(make_entry(f"e{i}", vector) for i, vector in enumerate(random_vectors(8, 20)))
        query = random_vectors(9, 1)[0]
        everything = store.search(query, 20)
        least = everything[9].score
        assert store.search(query, 20, min_score=least) == everything[:10]
        assert store.search(query, 20, min_score=math.nextafter(least, math.inf)) == everything[:9]
        assert store.search(query, 4, min_score=least) == everything[:4]
        assert store.search_many([query], 20, min_score=least) == [everything[:10]]
        assert store.search(query, 20, min_score=math.inf) == []
        assert store.search(query, 20, min_score=-math.inf) == everything

    def test_the_filter_comes_before_the_threshold(self) -> None:
        store = self.open()
        store.upsert(
            [make_entry("a", [1, 0, 0], x=1), make_entry("b", [1, 1, 0], x=2), make_entry("c", [0, 1, 0], x=2)]
        )
        for k in (1, 2):
            assert result_ids(store.search([1, 0, 0], k, where={"x": 2}, min_score=0.5)) == ["b"]
            assert result_ids(store.search_many([[1, 0, 0]], k, where={"x": 2}, min_score=0.5)[0]) == ["b"]
            assert result_ids(store.search([1, 0, 0], k, where={"x": 3}, min_score=0.5)) == []

    @pytest.mark.parametrize("bad", [math.nan, True, "0.5", [0.5]])
    def test_a_threshold_that_is_no_number_is_refused(self, bad: Any) -> None:
        store = self.open()
        store.upsert([make_entry("a", [1, 0, 0])])
        with pytest.raises(ArgumentError):
            store.search([1, 0, 0], min_score=bad)
        with pytest.raises(ArgumentError):
            store.search_many([[1, 0, 0]], min_score=bad)

    def test_k_may_be_nothing_or_more_than_there_is(self) -> None:
        store = self.open()
        store.upsert([make_entry("a", [1, 0, 0], "zorb"), make_entry("b", [0, 1, 0], "zorb")])
        assert store.search([1, 0, 0], 0) == []
        assert store.search_text("zorb", 0) == []
        assert store.search_many([[1, 0, 0], [0, 1, 0]], 0) == [[], []]
        for k in (2, 3, 10_000_000):
            assert len(store.search([1, 0, 0], k)) == 2
            assert len(store.search_text("zorb", k)) == 2
            assert [len(found) for found in store.search_many([[1, 0, 0]], k)] == [2]

    @pytest.mark.parametrize("k", [-1, True, False, 1.0, "3", None])
    @pytest.mark.parametrize("filled", [True, False])
    def test_k_that_is_no_number_of_matches_is_refused(self, k: Any, filled: bool) -> None:
        store = self.open()
        if filled:
            store.upsert([make_entry("a", [1, 0, 0], "zorb")])
        with pytest.raises(ArgumentError):
            store.search([1, 0, 0], k)
        with pytest.raises(ArgumentError):
            store.search_many([[1, 0, 0]], k)
        with pytest.raises(ArgumentError):
            store.search_text("zorb", k)

    @pytest.mark.parametrize("form", sorted(vector_forms([1, 2, 3])))
    def test_a_question_of_any_form_is_answered_and_left_as_it_was(self, form: str) -> None:
        store = self.open(Space("toy", 3, Metric.DOT))
        store.upsert([make_entry("a", [1, 1, 1]), make_entry("b", [0, 0, 1])])
        query = vector_forms([1, 2, 3])[form]
        assert ids_and_scores(store.search(query)) == [("a", 6.0), ("b", 3.0)]
        assert [ids_and_scores(found) for found in store.search_many([query, query])] == [[("a", 6.0), ("b", 3.0)]] * 2
        assert list(query) == [1, 2, 3]

    @every_metric
    def test_a_bad_question_is_refused(self, space: Space) -> None:
        store = self.open(space)
        store.upsert([make_entry("a", [1, 0, 0])])
        for vector in invalid_vectors(space).values():
            with pytest.raises(ArgumentError):
                store.search(vector)
            with pytest.raises(ArgumentError):
                store.search_many([[1, 0, 0], vector])
        with pytest.raises(DimensionError):
            store.search([1, 0])

    def test_many_questions_may_be_none_or_a_matrix_of_any_form(self) -> None:
        store = self.open()
        store.upsert(make_entry(f"e{i}", vector) for i, vector in enumerate(random_vectors(10, 10)))
        wide = np.array(random_vectors(11, 12))
        single = [ids_and_scores(store.search(row, 4)) for row in wide[::2]]
        for matrix in (wide[::2], np.asfortranarray(wide[::2]), wide[::2].tolist(), list(wide[::2])):
            assert [[n for n, _ in ids_and_scores(found)] for found in store.search_many(matrix, 4)] == [
                [n for n, _ in found] for found in single
            ]
        assert [ids_and_scores(found) for found in store.search_many(wide[::2], 4)] == single
        assert store.search_many([]) == []
        assert store.search_many(np.empty((0, 3), dtype=np.float32)) == []
        with pytest.raises(ArgumentError):
            store.search_many(np.ones(3, dtype=np.float32))

    def test_entries_without_a_vector_are_not_found_by_one(self) -> None:
        store = self.open()
        store.upsert([make_entry("pending"), make_entry("a", [1, 0, 0]), make_entry("b", [0, 1, 0])])
        assert result_ids(store.search([1, 0, 0])) == ["a", "b"]
        store.upsert([make_entry("a")])
        assert result_ids(store.search([1, 0, 0])) == ["b"]

    def test_a_match_carries_its_whole_entry(self) -> None:
        store = self.open()
        store.upsert([make_entry("a", [1, 0, 0], "zorb", "quil", x=[1])])
        (match,) = store.search([1, 0, 0])
        assert match.entry == store.get(["a"])[0]
        assert store.search_text("zorb")[0].entry == match.entry

    def test_an_empty_store_answers_with_nothing(self) -> None:
        store = self.open()
        assert store.search([1, 0, 0]) == []
        assert store.search_many([[1, 0, 0]] * 2) == [[], []]
        assert store.search_text("zorb") == []
        assert (store.count(), list(store.scan()), store.namespaces(), store.get(["a"])) == (
            0,
            [],
            [],
            [None],
        )

    def test_answers_follow_every_write(self) -> None:
        store = self.open()
        store.upsert([make_entry("a", [1, 0, 0]), make_entry("b", [0, 1, 0])])
        assert result_ids(store.search([1, 0, 0], 1)) == ["a"]
        store.upsert([make_entry("c", [1, 0, 0]), make_entry("a", [0, 0, 1])])
        assert result_ids(store.search([1, 0, 0], 1)) == ["c"]
        store.delete(["c"])
        assert result_ids(store.search([1, 0, 0], 9)) == ["a", "b"]
        store.upsert([make_entry("c", [0, 1, 0])])
        assert result_ids(store.search([0, 1, 0], 2)) == ["b", "c"]


WORDS = ["zorb", "quil", "vexa", "morp", "tulk", "brin", "glim", "prax"]

NASTY_QUESTIONS = [
    "",
    " ",
    "\0",
    "zorb\0quil",
    '"',
    '"zorb',
    "'",
    "zorb AND",
    "AND OR NOT",
    "NEAR(zorb quil, 2)",
    "*",
    "zor*",
    "rank:1",
    "text:zorb",
    "-zorb",
    "^zorb",
    "(zorb",
    "zorb)",
    "{zorb}",
    "%",
    "_",
    "zorb; DROP TABLE entries",
    "\\",
    "\U0001f600 \u202e \u0301",
    "日本語",
    "zorb " * 20_000,
    "z" * 100_000,
    "\n\t\r",
]


def plain_bm25(texts: dict[str, str], question: str, k1: float = 0.9, b: float = 0.4) -> dict[str, float]:
    """Return the scores by the formula, from texts of plain words."""
    words = {name: text.split() for name, text in texts.items()}
    mean = sum(map(len, words.values())) / len(words)
    scores: dict[str, float] = {}
    for term in question.split():
        df = sum(term in terms for terms in words.values())
        idf = math.log(1 + (len(words) - df + 0.5) / (df + 0.5))
        for name, terms in words.items():
            if tf := terms.count(term):
                share = tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(terms) / mean))
                scores[name] = scores.get(name, 0) + idf * share
    return scores


class TextContract(StoreContract):
    """Words find what holds them, ranked by one formula."""

    def test_scores_are_bm25_and_the_best_come_first(self) -> None:
        store = self.open()
        rng = random.Random(1)  # noqa: S311
        texts = {f"e{i:02}": " ".join(rng.choices(WORDS, k=rng.randint(1, 12))) for i in range(40)}
        store.upsert(make_entry(name, text=text) for name, text in texts.items())
        for question in ("zorb", "quil vexa", "prax tulk brin"):
            plain = plain_bm25(texts, question)
            found = ids_and_scores(store.search_text(question, 40))
            assert dict(found) == pytest.approx(plain, abs=1e-6)
            assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))

    def test_the_context_counts_as_text_does(self) -> None:
        store = self.open()
        store.upsert(
            [make_entry("a", text="zorb quil", context="vexa morp"), make_entry("b", text="tulk", context="zorb")]
        )
        store.upsert([make_entry("c", context="brin")])
        texts = {"a": "zorb quil vexa morp", "b": "tulk zorb", "c": "brin"}
        for question in ("zorb", "vexa", "brin", "quil morp tulk"):
            assert dict(ids_and_scores(store.search_text(question))) == pytest.approx(
                plain_bm25(texts, question), abs=1e-6
            )

    def test_only_what_shares_a_word_is_found(self) -> None:
        store = self.open()
        store.upsert(
            [
                make_entry("a", text="zorb quil"),
                make_entry("b", text="vexa"),
                make_entry("c"),
                make_entry("d", text="zorbquil"),
            ]
        )
        assert result_ids(store.search_text("zorb")) == ["a"]
        assert store.search_text("morp") == []

    def test_equal_scores_tie_by_id(self) -> None:
        store = self.open()
        store.upsert(make_entry(name, text="zorb quil") for name in ["b", "a", "é", "B", "aa"])
        for k in range(1, 6):
            assert result_ids(store.search_text("zorb", k)) == ["B", "a", "aa", "b", "é"][:k]

    def test_a_filter_chooses_before_k_and_moves_no_score(self) -> None:
        store = self.open(fields=("declared",))
        store.upsert(make_entry(f"a{i}", text="zorb", declared="x", other="x") for i in range(20))
        store.upsert(make_entry(f"b{i}", text="zorb quil vexa", declared="y", other="y") for i in range(3))
        everything = ids_and_scores(store.search_text("zorb", 99))
        for where in ({"declared": "y"}, {"other": "y"}):
            found = ids_and_scores(store.search_text("zorb", 2, where=where))
            assert found == [pair for pair in everything if pair[0] in ("b0", "b1")]

    def test_the_order_of_writing_moves_no_score(self) -> None:
        rng = random.Random(2)  # noqa: S311
        texts = {f"e{i:02}": " ".join(rng.choices(WORDS, k=rng.randint(1, 9))) for i in range(30)}
        answers = []
        for seed in range(3):
            names = sorted(texts)
            random.Random(seed).shuffle(names)  # noqa: S311
            store = self.open()
            for name in names:
                store.upsert([make_entry(name, text=texts[name])])
            answers.append([ids_and_scores(store.search_text(word + " zorb", 30)) for word in WORDS])
        assert answers[0]
        assert answers[0] == answers[1] == answers[2]

    def test_what_is_gone_leaves_no_trace_in_the_statistics(self) -> None:
        store, fresh = self.open(), self.open()
        entries = [
            make_entry("a", text="zorb quil"),
            make_entry("b", text="zorb vexa morp"),
            make_entry("c", text="tulk"),
        ]
        store.upsert([*entries, make_entry("d", text="zorb brin " * 9), make_entry("e", text="zorb")])
        store.upsert([make_entry("a", text="zorb zorb zorb"), make_entry("c", text="zorb quil")])
        store.search_text("zorb")
        store.upsert(entries)
        store.delete(["d", "e"])
        fresh.upsert(entries)
        for question in ("zorb", "quil tulk", "brin"):
            assert ids_and_scores(store.search_text(question)) == ids_and_scores(fresh.search_text(question))
        assert store.search_text("brin") == []

    @pytest.mark.parametrize("question", NASTY_QUESTIONS, ids=lambda text: repr(text[:24]))
    def test_any_string_is_a_safe_question(self, question: str) -> None:
        store = self.open()
        store.upsert([make_entry("a", text="zorb quil"), make_entry("b", text="vexa")])
        found = result_ids(store.search_text(question))
        assert found in ([], ["a"])
        assert store.count() == 2

    @pytest.mark.parametrize("question", NASTY_QUESTIONS, ids=lambda text: repr(text[:24]))
    def test_any_string_is_a_safe_text(self, question: str) -> None:
        store = self.open()
        store.upsert([make_entry("a", text=question, context=question), make_entry("b", text="vexa")])
        assert store.search_text("vexa")[0].entry.id == "b"
        (entry,) = store.get(["a"])
        assert entry is not None
        assert (entry.text, entry.context) == (question, question)

    @pytest.mark.parametrize("question", [None, 7, b"zorb", ["zorb"], "\ud800"])
    def test_what_is_no_string_is_refused(self, question: Any) -> None:
        store = self.open()
        store.upsert([make_entry("a", text="zorb")])
        with pytest.raises(ArgumentError):
            store.search_text(question)
