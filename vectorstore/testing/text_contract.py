"""Contract of ``search_text``: BM25 from the statistics of one namespace, and any string as a question.

The words here are nobody's: no stop word, nothing to stem, so a plain split gives the terms of any analyzer.
"""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from vectorstore.errors import ArgumentError
from vectorstore.testing.suite import StoreContract, ids_and_scores, make_entry, result_ids

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
