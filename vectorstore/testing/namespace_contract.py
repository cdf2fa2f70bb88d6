"""Contract of namespaces: no call, count or statistic sees two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from vectorstore.errors import ArgumentError, RevisionConflict
from vectorstore.testing.suite import StoreContract, all_entries, get_entry, ids_and_scores, make_entry, result_ids

NASTY_NAMES = [
    "",
    "a",
    "A",
    "a ",
    " a",
    "ab",
    "a/b",
    "a:b",
    "a%",
    "a_",
    "*",
    "..",
    "'",
    '"',
    "a'; DROP TABLE entries; --",
    "é",
    "e\u0301",
    "ﬁ",
    "日本",
    "\U0001f600",
    "a\nb",
    "\u202e",
    "x" * 1024,
    "\U0001f600" * 1024,
]
INVALID_NAMES: list[Any] = ["a\0b", "x" * 1025, "\ud800", 7, b"a", ["a"], None]


class NamespaceContract(StoreContract):
    """Each namespace is a store of its own in the same place."""

    def test_names_are_compared_exactly(self) -> None:
        store = self.open()
        for i, name in enumerate(NASTY_NAMES):
            store.upsert([make_entry("same", [1, i, 0], f"zorb word{i}", n=i), make_entry(f"own{i}")], namespace=name)
        assert store.namespaces() == sorted(NASTY_NAMES)
        for i, name in enumerate(NASTY_NAMES):
            assert get_entry(store, "same", namespace=name).metadata == {"n": i}
            assert result_ids(store.scan(namespace=name)) == [f"own{i}", "same"]
            assert [match.entry.metadata["n"] for match in store.search([1, 0, 0], 99, namespace=name)] == [i]
            assert [match.entry.metadata["n"] for match in store.search_text("zorb", 99, namespace=name)] == [i]
            assert store.count(namespace=name, where={"n": i}) == 1
            assert store.count(namespace=name) == 2

    def test_a_change_in_one_leaves_the_others_as_they_were(self) -> None:
        store = self.open()
        for name in NASTY_NAMES:
            store.upsert([make_entry("a", [1, 0, 0], "zorb", x=1), make_entry("b", text="quil", x=2)], namespace=name)
        for name in NASTY_NAMES[::3]:
            others = [other for other in NASTY_NAMES if other != name]
            before = all_entries(store, others)
            store.upsert([make_entry("a", text="vexa"), make_entry("c")], namespace=name)
            store.patch({"b": {"x": 3}}, namespace=name)
            store.put_vectors({"b": [0, 1, 0]}, namespace=name)
            assert store.delete(["a"], namespace=name) == 1
            assert store.delete(where={"x": {"$exists": True}}, namespace=name) == 1
            assert store.delete(["c"], namespace=name) == 1
            assert all_entries(store, others) == before
            assert store.namespaces() == sorted(other for other in NASTY_NAMES if store.count(namespace=other))
            assert name not in store.namespaces()

    def test_text_statistics_are_of_one_namespace_alone(self) -> None:
        store = self.open()
        store.upsert(
            [make_entry("a", text="zorb quil"), make_entry("b", text="zorb"), make_entry("c", text="quil vexa")]
        )
        questions = ("zorb", "quil", "vexa", "zorb quil vexa")
        before = [ids_and_scores(store.search_text(question)) for question in questions]
        for i in range(3):
            store.upsert(
                (make_entry(f"x{j}", text="zorb quil brin " * (i + 1)) for j in range(40)), namespace=f"other{i}"
            )
            store.search_text("zorb", namespace=f"other{i}")
        assert [ids_and_scores(store.search_text(question)) for question in questions] == before
        assert before[0]
        assert store.search_text("brin") == []

    def test_an_unknown_one_is_empty(self) -> None:
        store = self.open()
        store.upsert([make_entry("a", [1, 0, 0], "zorb")])
        away: dict[str, Any] = {"namespace": "nowhere"}
        assert store.get(["a"], **away) == [None]
        assert store.search([1, 0, 0], **away) == []
        assert store.search_many([[1, 0, 0]], **away) == [[]]
        assert store.search_text("zorb", **away) == []
        assert list(store.scan(**away)) == []
        assert store.count(**away) == 0
        assert store.delete(["a"], **away) == 0
        assert store.delete(where={"x": 1}, **away) == 0
        assert store.patch({"a": {}}, **away) == 0
        assert store.put_vectors({"a": [1, 0, 0]}, **away) == 0
        assert store.namespaces() == [""]

    def test_those_with_entries_are_listed_in_order(self) -> None:
        store = self.open()
        for name in ("b", "é", "a", "B", ""):
            store.upsert([make_entry("x")], namespace=name)
        assert store.namespaces() == ["", "B", "a", "b", "é"]
        store.delete(["x"], namespace="a")
        assert store.namespaces() == ["", "B", "b", "é"]

    def test_a_revision_is_expected_in_its_own(self) -> None:
        store = self.open()
        store.upsert([make_entry("a")], namespace="one")
        assert store.upsert([make_entry("a")], namespace="two", expect={"a": 0}) == 1
        with pytest.raises(RevisionConflict) as caught:
            store.upsert([make_entry("a")], namespace="one", expect={"a": 0})
        assert caught.value.namespace == "one"

    @pytest.mark.parametrize("name", INVALID_NAMES, ids=lambda name: repr(name)[:20])
    def test_what_is_no_name_is_refused_by_every_call(self, name: Any) -> None:
        store = self.open()
        store.upsert([make_entry("a", [1, 0, 0])])
        calls: list[Callable[[], object]] = [
            lambda: store.upsert([make_entry("a")], namespace=name),
            lambda: store.patch({"a": {"x": 1}}, namespace=name),
            lambda: store.put_vectors({"a": [1, 0, 0]}, namespace=name),
            lambda: store.get(["a"], namespace=name),
            lambda: store.search([1, 0, 0], namespace=name),
            lambda: store.search_many([[1, 0, 0]], namespace=name),
            lambda: store.search_text("zorb", namespace=name),
            lambda: store.delete(["a"], namespace=name),
            lambda: store.count(namespace=name),
            lambda: list(store.scan(namespace=name)),
        ]
        for call in calls:
            with pytest.raises(ArgumentError):
                call()
        assert store.namespaces() == [""]
