"""Contract of ``search``, ``search_many`` and ``search_text``: scores, order and ties, BM25 of one namespace alone.

The words are invented: no stop word, nothing to stem, so a plain split gives the terms of any analyzer.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from tellback.vectorstore.errors import ArgumentError
from tellback.vectorstore.protocol import VectorStore
from tellback.vectorstore.testing.model import bm25_scores, vector_score
from tellback.vectorstore.testing.suite import (
    StoreContract,
    every_metric,
    get_entry,
    ids_and_scores,
    make_entry,
    result_ids,
    vector_forms,
)
from tellback.vectorstore.types import Metric, Space


def random_vectors(seed: int, count: int, *, whole: bool = False) -> list[list[float]]:
    """Return vectors, never of length zero; *whole*: small whole numbers, so that many scores are equal."""
    rng = random.Random(seed)  # noqa: S311 - a test's own numbers
    if whole:
        return [[rng.randint(1, 3), rng.randint(-1, 1), rng.randint(-1, 1)] for _ in range(count)]
    return [[rng.gauss(0, 1) for _ in range(3)] for _ in range(count)]


class SearchContract(StoreContract):
    """Exact vector search: all nearest entries, in a defined order."""

    @every_metric
    def test_scores_are_the_metric_s_and_the_best_come_first(self, space: Space) -> None:
        store = self.open(space)
        vectors = random_vectors(1, 60)
        store.upsert(make_entry(f"e{i:02}", vector) for i, vector in enumerate(vectors))
        for query in random_vectors(2, 5):
            found = store.search(query, 60)
            plain = {f"e{i:02}": vector_score(space.metric, vector, query) for i, vector in enumerate(vectors)}
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
            plain = sorted((-vector_score(metric, vector, query), name) for name, vector in vectors.items())
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

    def test_a_vector_scores_one_against_itself_under_cosine_and_passes_a_threshold_of_one(self) -> None:
        store = self.open(Space("toy", 3, Metric.COSINE))
        vectors = {f"e{i:03}": vector for i, vector in enumerate(random_vectors(6, 40, whole=True))}
        store.upsert(make_entry(name, vector) for name, vector in vectors.items())
        for name, vector in vectors.items():
            found = {match.entry.id: match.score for match in store.search(vector, 40, min_score=1.0)}
            assert found.get(name) == 1.0
            assert set(found.values()) == {1.0}

    def test_a_cosine_never_leaves_its_range(self, store: VectorStore) -> None:
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
    def test_the_score_of_an_entry_depends_on_no_other_entry_or_option(self, space: Space) -> None:
        store = self.open(space)
        vectors = random_vectors(6, 120)
        store.upsert(make_entry(f"e{i:03}", vector, odd=i % 2) for i, vector in enumerate(vectors[:40]))
        queries = random_vectors(7, 4)
        first = [dict(ids_and_scores(store.search(query, 40))) for query in queries]
        store.upsert(make_entry(f"e{i:03}", vector, odd=i % 2) for i, vector in enumerate(vectors) if i >= 40)
        store.delete([f"e{i:03}" for i in range(0, 20, 3)])
        many = store.search_many(queries, 120)
        for query, before, bulk in zip(queries, first, many, strict=True):
            everything = store.search(query, 120)
            for found in (everything, store.search(query, 5), store.search(query, 99, where={"odd": 1}), bulk):
                scores = dict(ids_and_scores(found))
                shared = scores.keys() & before.keys()
                assert {name: scores[name] for name in shared} == {name: before[name] for name in shared}
            assert ids_and_scores(bulk) == ids_and_scores(everything)

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

    def test_the_filter_comes_before_the_threshold(self, store: VectorStore) -> None:
        store.upsert(
            [make_entry("a", [1, 0, 0], x=1), make_entry("b", [1, 1, 0], x=2), make_entry("c", [0, 1, 0], x=2)]
        )
        for k in (1, 2):
            assert result_ids(store.search([1, 0, 0], k, where={"x": 2}, min_score=0.5)) == ["b"]
            assert result_ids(store.search_many([[1, 0, 0]], k, where={"x": 2}, min_score=0.5)[0]) == ["b"]
            assert result_ids(store.search([1, 0, 0], k, where={"x": 3}, min_score=0.5)) == []

    @pytest.mark.parametrize("k", [0, 1, 2, 3, 10**9, 2**70])
    def test_k_may_be_nothing_or_more_than_there_is(self, store: VectorStore, k: int) -> None:
        store.upsert([make_entry("a", [1, 0, 0], "zorb"), make_entry("b", [0, 1, 0], "zorb", x=1)])
        assert result_ids(store.search([1, 0, 0], k)) == result_ids(store.search_text("zorb", k)) == ["a", "b"][:k]
        assert result_ids(store.search([1, 0, 0], k, where={"x": 1})) == ["b"][:k]
        assert [result_ids(found) for found in store.search_many([[1, 0, 0]] * 2, k)] == [["a", "b"][:k]] * 2

    @pytest.mark.parametrize("form", sorted(vector_forms([1, 2, 3])))
    def test_a_question_of_any_form_is_answered_and_left_as_it_was(self, form: str) -> None:
        store = self.open(Space("toy", 3, Metric.DOT))
        store.upsert([make_entry("a", [1, 1, 1]), make_entry("b", [0, 0, 1])])
        query = vector_forms([1, 2, 3])[form]
        assert ids_and_scores(store.search(query)) == [("a", 6.0), ("b", 3.0)]
        assert [ids_and_scores(found) for found in store.search_many([query, query])] == [[("a", 6.0), ("b", 3.0)]] * 2
        assert list(query) == [1, 2, 3]

    def test_search_many_takes_nothing_or_a_matrix_of_any_form(self, store: VectorStore) -> None:
        store.upsert(make_entry(f"e{i}", vector) for i, vector in enumerate(random_vectors(10, 10)))
        wide = np.array(random_vectors(11, 12))
        single = [ids_and_scores(store.search(row, 4)) for row in wide[::2]]
        for matrix in (wide[::2], np.asfortranarray(wide[::2]), wide[::2].tolist(), list(wide[::2])):
            assert list(map(result_ids, store.search_many(matrix, 4))) == [[name for name, _ in row] for row in single]
        assert [ids_and_scores(found) for found in store.search_many(wide[::2], 4)] == single
        assert store.search_many([]) == []
        assert store.search_many(np.empty((0, 3), dtype=np.float32)) == []
        with pytest.raises(ArgumentError):
            store.search_many(np.ones(3, dtype=np.float32))

    def test_a_match_carries_its_whole_entry_with_its_revision(self, store: VectorStore) -> None:
        store.upsert([make_entry("0"), make_entry("a", [1, 0, 0], "zorb", "quil", x=[1])])
        (match,), (text_match,), (scanned,) = store.search([1, 0, 0]), store.search_text("zorb"), store.scan(after="0")
        assert match.entry == text_match.entry == scanned == get_entry(store, "a")
        assert match.entry.revision == text_match.entry.revision == scanned.revision > 0

    def test_answers_follow_every_write(self, store: VectorStore) -> None:
        store.upsert([make_entry("a", [1, 0, 0]), make_entry("b", [0, 1, 0])])
        assert result_ids(store.search([1, 0, 0], 1)) == ["a"]
        store.upsert([make_entry("c", [1, 0, 0]), make_entry("a", [0, 0, 1])])
        assert result_ids(store.search([1, 0, 0], 1)) == ["c"]
        store.delete(["c"])
        assert result_ids(store.search([1, 0, 0], 9)) == ["a", "b"]
        store.upsert([make_entry("c", [0, 1, 0])])
        assert result_ids(store.search([0, 1, 0], 2)) == ["b", "c"]


WORDS = ["zorb", "quil", "vexa", "morp", "tulk", "brin", "glim", "prax"]

NASTY_TEXTS = [
    *("", " ", "\0", "zorb\0quil", '"', '"zorb', "'", "zorb AND", "AND OR NOT", "NEAR(zorb quil, 2)", "*", "zor*"),
    *("rank:1", "text:zorb", "-zorb", "^zorb", "(zorb", "zorb)", "{zorb}", "%", "_", "zorb; DROP TABLE entries", "\\"),
    *("\U0001f600 \u202e \u0301", "日本語", "zorb " * 20_000, "z" * 100_000, "\n\t\r"),
]


def plain_bm25(texts: dict[str, str], question: str) -> Any:
    """Return the scores by the formula, nearly, from texts of plain words."""
    return pytest.approx(bm25_scores({name: text.split() for name, text in texts.items()}, question.split()), abs=1e-6)


class TextContract(StoreContract):
    """Text search: entries with a query term, ranked by BM25."""

    def test_scores_are_bm25_of_text_and_context_and_the_best_come_first(self, store: VectorStore) -> None:
        rng = random.Random(1)  # noqa: S311
        parts = {f"e{i:02}": [" ".join(rng.choices(WORDS, k=rng.randint(0, 8))) for _ in range(2)] for i in range(40)}
        parts |= {"compound": ["zorbquil", ""], "context alone": ["", "gorf"]}
        store.upsert(make_entry(name, text=text, context=context) for name, (text, context) in parts.items())
        texts = {name: f"{text} {context}" for name, (text, context) in parts.items()}
        for question in ("zorb", "quil vexa", "prax tulk brin", "zorbquil gorf", "unknown"):
            found = ids_and_scores(store.search_text(question, 50))
            assert dict(found) == plain_bm25(texts, question)
            assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))

    def test_equal_scores_tie_by_id(self, store: VectorStore) -> None:
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

    def test_deleted_and_replaced_texts_leave_no_trace_in_the_statistics(self) -> None:
        store, fresh = self.open(), self.open()
        texts = {"a": "zorb quil", "b": "zorb vexa morp", "c": "tulk"}
        entries = [make_entry(name, text=text) for name, text in texts.items()]
        store.upsert([*entries, make_entry("d", text="zorb brin " * 9), make_entry("e", text="zorb")])
        store.upsert([make_entry("a", text="zorb zorb zorb"), make_entry("c", text="zorb quil")])
        store.search_text("zorb")
        store.upsert(entries)
        store.delete(["d", "e"])
        fresh.upsert(entries)
        for question in ("zorb", "quil tulk", "brin"):
            assert ids_and_scores(store.search_text(question)) == ids_and_scores(fresh.search_text(question))
        assert store.search_text("brin") == []

    @pytest.mark.parametrize("text", NASTY_TEXTS, ids=lambda text: repr(text[:24]))
    def test_any_string_is_a_safe_question_and_a_safe_text(self, store: VectorStore, text: str) -> None:
        store.upsert([make_entry("a", text="zorb quil"), make_entry("b", text="vexa")])
        assert result_ids(store.search_text(text)) in ([], ["a"])
        store.upsert([make_entry("a", text=text, context=text)])
        assert store.search_text("vexa")[0].entry.id == "b"
        assert (get_entry(store, "a").text, get_entry(store, "a").context) == (text, text)
        assert store.count() == 2
