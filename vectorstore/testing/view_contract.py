"""Contract of ``changes`` and ``view``: changes since a cursor, and repeated reads of one state."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tellback.vectorstore.errors import ArgumentError
from tellback.vectorstore.protocol import LifecycleStore, View
from tellback.vectorstore.testing.suite import (
    StoreContract,
    calls_not_refused,
    ids_and_scores,
    make_entry,
    protocol_calls,
    result_ids,
)
from tellback.vectorstore.types import Cursor, Entry


class ViewContract(StoreContract):
    """Change logs and views, of stores with the second protocol."""

    def test_changes_without_a_cursor_are_incomplete_and_begin_now(self, store: LifecycleStore) -> None:
        store.upsert([make_entry("a")])
        changes = store.changes()
        assert not changes.complete
        assert (changes.written, changes.removed) == ((), ())
        after = store.changes(changes.cursor)
        assert (after.complete, after.written, after.removed) == (True, (), ())

    def test_changes_name_each_id_once_in_its_last_state(self, store: LifecycleStore) -> None:
        store.upsert(make_entry(name) for name in "abcde")
        cursor = store.changes().cursor
        store.upsert([make_entry("a"), make_entry("f"), make_entry("b")])
        store.patch({"c": {"x": 1}, "missing": {}})
        store.put_vectors({"d": [1, 0, 0]})
        store.delete(["b", "f", "missing"])
        store.upsert([make_entry("a", text="again")])
        changes = store.changes(cursor)
        assert changes.complete
        assert sorted(changes.written) == ["a", "c", "d"]
        assert "b" in changes.removed
        assert set(changes.removed) <= {"b", "f"}
        assert len(changes.removed) == len(set(changes.removed))
        assert store.changes(changes.cursor).written == ()

    def test_changes_are_of_one_namespace_and_begin_before_its_first_entry(self, store: LifecycleStore) -> None:
        store.upsert([make_entry("a")])
        cursor, other = store.changes().cursor, store.changes(namespace="other").cursor
        store.upsert([make_entry("b")], namespace="other")
        assert store.changes(other, namespace="other").written == ("b",)
        assert (store.changes(cursor).complete, store.changes(cursor).written) == (True, ())
        with pytest.raises(ArgumentError):
            store.changes(cursor, namespace="other")

    def test_changes_since_an_old_cursor_are_all_or_called_incomplete(self, store: LifecycleStore) -> None:
        old = store.changes().cursor
        store.upsert([make_entry("early")])
        for i in range(12):
            store.upsert(make_entry(f"e{j:03}", n=i) for j in range(500))
        changes = store.changes(old)
        if changes.complete:
            assert sorted(changes.written) == [*(f"e{j:03}" for j in range(500)), "early"]
        recent = changes.cursor
        store.patch({"e007": {"n": 99}})
        assert (store.changes(recent).complete, store.changes(recent).written) == (True, ("e007",))

    def test_changes_since_a_cursor_of_the_future_are_incomplete(self, store: LifecycleStore) -> None:
        store.upsert([make_entry("a")])
        assert not store.changes(Cursor("", 10**6)).complete

    def test_a_view_answers_as_its_store_does(self, store: LifecycleStore) -> None:
        store.upsert(make_entry(f"e{i}", [i, 1, 0], "zorb " * (i % 3) + "quil", "vexa", n=i) for i in range(9))
        store.upsert([make_entry("pending", text="zorb"), Entry("never", no_vector="too long")])
        with store.view([""]) as view:
            where = {"n": {"$gt": 2}}
            assert view.search([1, 0, 0], 4, where=where) == store.search([1, 0, 0], 4, where=where)
            assert view.search_text("zorb quil", 4) == store.search_text("zorb quil", 4)
            assert view.get(["e1", "missing"]) == store.get(["e1", "missing"])
            assert view.passing(["e1", "e5", "missing"], where=where).tolist() == [False, True, False]
            assert view.nearest([1, 0, 0], 5) == ids_and_scores(store.search([1, 0, 0], 5))
            assert view.matching("zorb quil", 5) == ids_and_scores(store.search_text("zorb quil", 5))
            assert view.count() == store.count()
            assert view.cursor() == store.changes().cursor

    def test_a_view_scores_the_ids_it_is_given(self, store: LifecycleStore) -> None:
        store.upsert(make_entry(f"e{i}", [i, 1, 0], "zorb " * (i + 1)) for i in range(5))
        store.upsert([make_entry("silent", [1, 1, 1]), make_entry("pending", text="quil")])
        with store.view([""]) as view:
            ids = ["e3", "missing", "e0", "silent", "pending", "e3"]
            nearest, text = dict(view.nearest([2, 1, 0], 99)), dict(view.matching("zorb", 99))
            similar = view.similarity([2, 1, 0], ids)
            assert similar.shape == (6,)
            assert similar[[0, 2, 3, 5]].tolist() == [nearest["e3"], nearest["e0"], nearest["silent"], nearest["e3"]]
            assert np.isnan(similar[[1, 4]]).all()
            scores = view.score_text("zorb", ids)
            assert scores.tolist() == [text["e3"], 0.0, text["e0"], 0.0, 0.0, text["e3"]]
            assert view.similarity([2, 1, 0], []).shape == (0,)
            assert view.score_text("zorb", []).shape == (0,)

    def test_a_view_shows_terms_in_order_and_their_counts(self, store: LifecycleStore) -> None:
        store.upsert([make_entry("a", text="zorb quil zorb. Vexa zorb!", context="morp")])
        store.upsert([make_entry("b", text="zorb"), make_entry("c")])
        with store.view([""]) as view:
            assert view.terms(["a", "missing", "b"]) == [
                (("morp",), ("zorb", "quil", "zorb"), ("vexa", "zorb")),
                ((),),
                ((), ("zorb",)),
            ]
            assert view.df(["zorb", "quil", "morp", "unknown"]) == [2, 1, 1, 0]
            assert dict(view.vocabulary()) == {"zorb": 2, "quil": 1, "vexa": 1, "morp": 1}
        store.delete(["a"])
        with store.view([""]) as view:
            assert dict(view.vocabulary()) == {"zorb": 1}
            assert view.df(["zorb", "quil"]) == [1, 0]

    def test_a_view_of_several_namespaces_mixes_none(self, store: LifecycleStore) -> None:
        store.upsert([make_entry("a", [1, 0, 0], "zorb")], namespace="one")
        store.upsert([make_entry("b", [1, 0, 0], "zorb zorb")], namespace="two")
        with store.view(["one", "two", "empty"]) as view:
            assert result_ids(view.search([1, 0, 0], namespace="one")) == ["a"]
            found = store.search_text("zorb", namespace="two")
            assert view.matching("zorb", 5, namespace="two") == ids_and_scores(found)
            assert (view.count(namespace="empty"), view.nearest([1, 0, 0], 5, namespace="empty")) == (0, [])
            assert (view.df(["zorb"], namespace="empty"), dict(view.vocabulary(namespace="empty"))) == ([0], {})

    def test_a_view_refuses_namespaces_it_was_not_opened_for(self, store: LifecycleStore) -> None:
        store.upsert([make_entry("a", [1, 0, 0], "zorb")], namespace="secret")
        with store.view(["", "other"]) as view:
            assert calls_not_refused(ArgumentError, protocol_calls(View, view, namespace="secret")) == []
        with pytest.raises(ArgumentError), store.view("secret"):
            raise AssertionError("each letter would be a namespace")

    def test_a_view_stays_as_it_is_while_another_thread_writes(self, store: LifecycleStore) -> None:
        store.upsert([make_entry("a", [1, 0, 0], "zorb")])
        begun = threading.Event()

        def write() -> None:
            begun.set()
            store.upsert([make_entry("b", [1, 0, 0], "zorb zorb")])
            store.delete(["a"])

        writer = threading.Thread(target=write)
        try:
            with store.view([""]) as view:

                def answers() -> tuple[object, ...]:
                    return view.nearest([1, 0, 0], 9), view.matching("zorb", 9), view.count(), view.cursor()

                before = answers()
                writer.start()
                assert begun.wait(timeout=60)
                for _ in range(50):
                    assert view.get(["a", "b"])[1] is None
                    assert answers() == before
        finally:
            writer.join(timeout=60)  # also where the view has moved: it must not write to a store that is closed
        assert not writer.is_alive()
        assert result_ids(store.search([1, 0, 0])) == result_ids(store.search_text("zorb")) == ["b"]
