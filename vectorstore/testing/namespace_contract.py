"""Contract of namespaces: every call, count and statistic covers one namespace alone."""

from __future__ import annotations

from typing import Any

import pytest

from tellback.vectorstore.errors import RevisionConflict
from tellback.vectorstore.protocol import VectorStore
from tellback.vectorstore.testing.suite import (
    COSINE_SPACE,
    NASTY_NAMES,
    StoreContract,
    get_entry,
    ids_and_scores,
    make_entry,
    result_ids,
)


class NamespaceContract(StoreContract):
    """Each namespace is a store of its own in the same place."""

    def test_names_are_compared_exactly_and_listed_in_order(self, store: VectorStore) -> None:
        for i, name in enumerate(NASTY_NAMES):
            store.upsert([make_entry("same", [1, i, 0], f"zorb word{i}", n=i), make_entry(f"own{i}")], namespace=name)
        assert store.namespaces() == sorted(NASTY_NAMES)
        for i, name in enumerate(NASTY_NAMES):
            assert get_entry(store, "same", namespace=name).metadata == {"n": i}
            assert result_ids(store.scan(namespace=name)) == [f"own{i}", "same"]
            for found in (store.search([1, 0, 0], 99, namespace=name), store.search_text("zorb", 99, namespace=name)):
                assert [match.entry.metadata["n"] for match in found] == [i]
            assert store.count(namespace=name, where={"n": i}) == 1
            assert store.count(namespace=name) == 2

    def test_namespaces_are_listed_by_what_they_begin_with(self, store: VectorStore) -> None:
        names = {*NASTY_NAMES, "a\U0010ffff", "a\U0010ffffb", "\ud7ff", "\ud7ffa", "\ue000", "%a", "_a", "\U0010ffff"}
        for name in names:
            store.upsert([make_entry("a", [1, 0, 0])], namespace=name)
        store.delete(["a"], namespace="ab")
        for prefix in ("", "a", "a ", "ab", "A", "%", "_", "\ud7ff", "a\U0010ffff", "\U0010ffff", "nobody's"):
            wanted = sorted(name for name in names - {"ab"} if name.startswith(prefix))
            assert store.namespaces(prefix=prefix) == wanted, prefix

    def test_a_change_in_one_leaves_the_others_as_they_were(self, store: VectorStore) -> None:
        for name in NASTY_NAMES:
            store.upsert([make_entry("a", [1, 0, 0], "zorb", x=1), make_entry("b", text="quil", x=2)], namespace=name)
        for name in NASTY_NAMES[::3]:
            others = [other for other in NASTY_NAMES if other != name]
            before = [list(store.scan(namespace=other)) for other in others]
            store.upsert([make_entry("a", text="vexa"), make_entry("c")], namespace=name)
            store.patch({"b": {"x": 3}}, namespace=name)
            store.put_vectors({"b": [0, 1, 0]}, namespace=name)
            assert store.delete(["a"], namespace=name) == 1
            assert store.delete(where={"x": {"$exists": True}}, namespace=name) == 1
            assert store.delete(["c"], namespace=name) == 1
            assert [list(store.scan(namespace=other)) for other in others] == before
            assert store.namespaces() == sorted(other for other in NASTY_NAMES if store.count(namespace=other))
            assert name not in store.namespaces()

    def test_text_statistics_are_of_one_namespace_alone(self, store: VectorStore) -> None:
        texts = {"a": "zorb quil", "b": "zorb", "c": "quil vexa"}
        store.upsert(make_entry(name, text=text) for name, text in texts.items())
        questions = ("zorb", "quil", "vexa", "zorb quil vexa")
        before = [ids_and_scores(store.search_text(question)) for question in questions]
        for i in range(3):
            many = (make_entry(f"x{j}", text="zorb quil brin " * (i + 1)) for j in range(40))
            store.upsert(many, namespace=f"other{i}")
            store.search_text("zorb", namespace=f"other{i}")
        assert [ids_and_scores(store.search_text(question)) for question in questions] == before
        assert before[0]
        assert store.search_text("brin") == []

    @pytest.mark.parametrize("others", [[], [""]], ids=["a new store", "beside another"])
    def test_an_unknown_namespace_is_empty(self, store: VectorStore, others: list[str]) -> None:
        for name in others:
            store.upsert([make_entry("a", [1, 0, 0], "zorb")], namespace=name)
        away: dict[str, Any] = {"namespace": "nowhere"}
        assert store.get(["a"], **away) == [None]
        assert store.search([1, 0, 0], **away) == store.search_text("zorb", **away) == []
        assert store.search_many([[1, 0, 0]] * 2, **away) == [[], []]
        assert list(store.scan(**away)) == []
        assert (store.count(**away), store.delete(["a"], **away), store.delete(where={"x": 1}, **away)) == (0, 0, 0)
        assert (store.patch({"a": {}}, **away), store.put_vectors({"a": [1, 0, 0]}, **away)) == (0, 0)
        assert (store.space, store.namespaces()) == (COSINE_SPACE, others)

    def test_an_expected_revision_is_that_of_its_own_namespace(self, store: VectorStore) -> None:
        store.upsert([make_entry("a")], namespace="one")
        assert store.upsert([make_entry("a")], namespace="two", expect={"a": 0}) == 1
        with pytest.raises(RevisionConflict) as caught:
            store.upsert([make_entry("a")], namespace="one", expect={"a": 0})
        assert caught.value.namespace == "one"
