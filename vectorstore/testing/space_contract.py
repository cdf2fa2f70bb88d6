"""Contract of a space migration: begun, filled, committed in one step, or aborted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vectorstore.errors import (
    ArgumentError,
    DimensionError,
    RevisionConflict,
    SpaceMismatch,
    SpaceNotReady,
    StoreClosed,
)
from vectorstore.testing.suite import (
    COSINE,
    LIKE,
    NEXT,
    StoreContract,
    abandoned,
    bad_vectors,
    entry,
    fill_all,
    filled,
    ids_of,
    lifecycle,
    numbers,
    one,
    scored,
    shown,
)
from vectorstore.types import Entry, Filling, Metric, Space


class FillingContract(StoreContract):
    """Vectors of a second space filled in beside those in use, of stores with the second protocol."""

    def test_without_a_second_space_there_is_nothing_to_fill(self) -> None:
        store = self.open_lifecycle()
        store.upsert([entry("a", [1, 0, 0])])
        assert store.filling() is None
        with pytest.raises(SpaceNotReady):
            store.unfilled()
        with pytest.raises(SpaceNotReady):
            store.fill_space(NEXT, {"a": [1, 2]})
        with pytest.raises(SpaceNotReady) as caught:
            store.commit_space(NEXT)
        assert (caught.value.filling, caught.value.pending) == (None, {})
        store.abort_space()
        assert store.space == COSINE

    def test_a_space_is_begun_beside_another_and_only_one(self) -> None:
        textual = self.open_lifecycle(None)
        with pytest.raises(ArgumentError):
            textual.begin_space(NEXT)
        store = self.open_lifecycle()
        with pytest.raises(ArgumentError):
            store.begin_space(COSINE)
        store.begin_space(NEXT)
        store.begin_space(NEXT)
        for other in (LIKE, Space("next", 3, Metric.L2), Space("next", 2)):
            with pytest.raises(SpaceNotReady) as caught:
                store.begin_space(other)
            assert caught.value.filling == NEXT
        assert store.filling() == Filling(NEXT, 0, {})
        assert store.space == COSINE

    @pytest.mark.parametrize(
        "bad",
        [None, "next", Space("", 2), Space("x", 0), Space("x", True), Space("x", 2, "manhattan")],  # type: ignore[arg-type]
        ids=repr,
    )
    def test_what_is_no_space_is_refused(self, bad: Any) -> None:
        store = self.open_lifecycle()
        for call in (store.set_space, store.begin_space, store.commit_space, lambda space: store.fill_space(space, {})):
            with pytest.raises(ArgumentError):
                call(bad)
        assert store.filling() is None

    def test_the_space_in_use_goes_on_while_another_is_filled(self) -> None:
        store = filled(self.open_lifecycle())
        before, cursor = shown(store), store.changes().cursor
        assert store.filling() == Filling(NEXT, 0, {"": 3, "other": 1})
        assert store.fill_space(NEXT, {"a": [1, 2], "missing": [1, 1]}) == 1
        assert store.fill_space(NEXT, {"a": [7, 8]}, namespace="other") == 1
        assert store.filling() == Filling(NEXT, 2, {"": 2})
        assert shown(store) == before
        assert store.changes(cursor).written == ()
        assert store.verify() == []

    def test_what_is_pending_is_listed_by_id(self) -> None:
        store = filled(self.open_lifecycle())
        store.upsert(entry(f"e{i:04}", [i, 1, 0], f"text {i}") for i in range(600))
        store.fill_space(NEXT, {f"e{i:04}": [i, 1] for i in range(0, 600, 2)})
        odd = [f"e{i:04}" for i in range(1, 600, 2)]
        assert ids_of(store.unfilled()) == ["a", "b", *odd, "pending"]
        assert ids_of(store.unfilled(after="e0301")) == [*odd[151:], "pending"]
        assert ids_of(store.unfilled(namespace="other")) == ["a"]
        assert ids_of(store.unfilled(namespace="unknown")) == []
        assert next(store.unfilled()) == one(store, "a")
        pages = store.unfilled()
        next(pages)
        store.abort_space()
        with pytest.raises(SpaceNotReady):
            list(pages)

    def test_a_text_written_meanwhile_is_pending_again_and_other_writes_leave_it(self) -> None:
        store = filled(self.open_lifecycle())
        fill_all(store)
        assert ids_of(store.unfilled()) == []
        store.patch({"a": {"n": 9}})
        store.put_vectors({"b": [1, 1, 1]})
        assert ids_of(store.unfilled()) == []
        store.upsert([entry("a", [1, 0, 0], "another text"), entry("new", [0, 1, 0])])
        store.upsert([Entry("b", no_vector="too long")])
        assert ids_of(store.unfilled()) == ["a", "new"]
        assert store.filling() == Filling(NEXT, 2, {"": 2})
        store.delete(["new", "pending"])
        store.erase(["a"], namespace="other")
        assert store.filling() == Filling(NEXT, 0, {"": 1})
        store.upsert([entry("pending"), entry("a")], namespace="other")
        assert ids_of(store.unfilled(namespace="other")) == ["a", "pending"]
        assert store.verify() == []

    def test_what_cannot_be_filled_in_is_refused_whole(self) -> None:
        store = filled(self.open_lifecycle())
        for vector in bad_vectors(NEXT).values():
            with pytest.raises(ArgumentError):
                store.fill_space(NEXT, {"a": [1, 2], "b": vector})
        bad: list[tuple[Any, Any]] = [
            ({"a": [1, 2], "b": [1, 2]}, {"b": "no words"}),
            ({"a": [1, 2]}, {"b": ""}),
            ({"a": [1, 2]}, {"b": 7}),
            ({"a": [1, 2]}, ["b"]),
            ({"a": [1, 2], "": [1, 2]}, None),
            ([("a", [1, 2])], None),
        ]
        for vectors, reasons in bad:
            with pytest.raises(ArgumentError):
                store.fill_space(NEXT, vectors, no_vector=reasons)
        with pytest.raises(SpaceNotReady):
            store.fill_space(Space("another", 2, Metric.L2), {"a": [1, 2]})
        assert store.filling() == Filling(NEXT, 0, {"": 3, "other": 1})

    def test_a_vector_of_a_text_that_was_corrected_is_refused(self) -> None:
        store = filled(self.open_lifecycle())
        read = {kept.id: kept for kept in store.unfilled()}
        store.upsert([entry("b", text="corrected")])
        with pytest.raises(RevisionConflict):
            store.fill_space(
                NEXT,
                {name: [1, 2] for name in read},
                expect={name: kept.revision for name, kept in read.items()},
            )
        assert store.filling() == Filling(NEXT, 0, {"": 3, "other": 1})
        assert store.fill_space(NEXT, {"a": [1, 2]}, expect={"a": read["a"].revision}) == 1
        with pytest.raises(RevisionConflict):
            store.fill_space(NEXT, {"missing": [1, 2]}, expect={"missing": 3})
        store.fill_space(NEXT, {"missing": [1, 2]}, namespace="new")
        assert store.namespaces() == ["", "other"]

    def test_what_was_filled_is_dropped_in_one_step(self) -> None:
        store = filled(self.open_lifecycle())
        before = shown(store)
        fill_all(store)
        store.fill_space(NEXT, {}, no_vector={"b": "no words"})
        store.abort_space()
        assert (store.filling(), store.space, shown(store)) == (None, COSINE, before)
        assert store.verify() == []
        store.begin_space(LIKE)
        assert store.filling() == Filling(LIKE, 0, {"": 3, "other": 1})

    def test_a_half_filled_space_is_gone_on_with_after_opening_again(self) -> None:
        store = filled(self.open_lifecycle())
        store.fill_space(NEXT, {"a": [1, 2]}, no_vector={"b": "no words"})
        again = lifecycle(self.reopened(store))
        assert (again.space, again.filling()) == (COSINE, Filling(NEXT, 1, {"": 1, "other": 1}))
        again.upsert([entry("new", [0, 1, 0])])
        again.begin_space(NEXT)
        for name in ("", "other"):
            again.fill_space(NEXT, {kept.id: [5, 5] for kept in again.unfilled(namespace=name)}, namespace=name)
        last = lifecycle(self.reopened(again))
        last.commit_space(NEXT)
        assert ids_of(last.search([5, 5])) == ["new", "pending", "a"]
        assert last.verify() == []
        switched = lifecycle(self.reopened(last))
        assert (switched.space, switched.filling()) == (NEXT, None)
        assert ids_of(switched.search([5, 5])) == ["new", "pending", "a"]

    def test_a_closed_store_fills_nothing(self) -> None:
        store = filled(self.open_lifecycle())
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.begin_space(NEXT),
            lambda: store.filling(),
            lambda: store.unfilled(),
            lambda: store.fill_space(NEXT, {}),
            lambda: store.commit_space(NEXT),
            lambda: store.abort_space(),
            lambda: store.declare_fields(("n",)),
        ]
        for call in calls:
            with pytest.raises(StoreClosed):
                call()


class SwitchingContract(StoreContract):
    """The space in use replaced by the one that was filled, of stores with the second protocol."""

    def test_only_what_is_pending_blocks_the_switch(self) -> None:
        store = filled(self.open_lifecycle())
        store.fill_space(NEXT, {"a": [1, 2], "b": [3, 4]})
        before = shown(store)
        with pytest.raises(SpaceNotReady) as caught:
            store.commit_space(NEXT)
        assert (caught.value.filling, caught.value.pending) == (NEXT, {"": 1, "other": 1})
        assert (store.space, shown(store)) == (COSINE, before)
        fill_all(store)
        with pytest.raises(SpaceNotReady):
            store.commit_space(LIKE)
        assert store.space == COSINE
        store.commit_space(NEXT)
        assert store.space == NEXT

    def test_a_switch_changes_the_vectors_and_nothing_else(self) -> None:
        store = filled(self.open_lifecycle())
        store.upsert([entry("a")], namespace="emptied")
        store.delete(["a"], namespace="emptied")
        fill_all(store)
        before = {kept.id: kept for kept in store.scan()}
        text, cursors = shown(store)[""][2], {name: store.changes(namespace=name).cursor for name in ("", "other")}
        store.commit_space(NEXT)
        vectors = {"a": [1, 2], "b": [3, 4], "never": None, "pending": [5, 6]}
        for kept in store.scan():
            assert numbers(kept) == vectors[kept.id]
            was = before[kept.id]
            assert (kept.text, kept.metadata, kept.revision) == (was.text, was.metadata, was.revision)
            assert kept.no_vector == was.no_vector
        assert scored(store.search([1, 2])) == [("a", 0.0), ("b", -(8**0.5)), ("pending", -(32**0.5))]
        assert scored(store.search([7, 8], namespace="other")) == [("a", 0.0)]
        assert scored(store.search_text("zorb quil vexa morp", 99)) == text
        assert [store.changes(cursor, namespace=name).complete for name, cursor in cursors.items()] == [False, False]
        assert store.filling() is None
        with pytest.raises(DimensionError):
            store.search([1, 0, 0])
        with pytest.raises(SpaceMismatch):
            store.set_space(COSINE)
        assert store.verify() == []

    def test_a_reason_for_no_vector_is_not_pending(self) -> None:
        store = filled(self.open_lifecycle())
        assert store.fill_space(NEXT, {"b": [3, 4]}, no_vector={"a": "no words", "missing": "no words"}) == 2
        assert ids_of(store.unfilled()) == ["pending"]
        store.fill_space(NEXT, {"pending": [5, 6], "never": [9, 9]}, no_vector={"b": "no words"})
        store.fill_space(NEXT, {}, no_vector={"a": "nothing to say"}, namespace="other")
        assert store.filling() == Filling(NEXT, 2, {})
        assert [one(store, name).no_vector for name in ("a", "b", "pending", "never")] == [None] * 3 + ["too long"]
        store.commit_space(NEXT)
        assert [(kept.id, kept.no_vector) for kept in store.scan()] == [
            ("a", "no words"),
            ("b", "no words"),
            ("never", None),
            ("pending", None),
        ]
        assert one(store, "a", namespace="other").no_vector == "nothing to say"
        assert ids_of(store.scan(embedded=True)) == ids_of(store.search([5, 6])[::-1]) == ["never", "pending"]
        assert ids_of(store.scan(embedded=False)) == []
        assert store.verify() == []

    def test_a_vector_that_comes_again_replaces_the_first(self) -> None:
        store = filled(self.open_lifecycle())
        fill_all(store)
        store.fill_space(NEXT, {}, no_vector={"a": "no words"})
        store.fill_space(NEXT, {"a": [0.5, 0.25], "b": [1, 1]})
        assert store.filling() == Filling(NEXT, 4, {})
        store.commit_space(NEXT)
        assert [numbers(kept) for kept in store.scan(embedded=True)] == [[0.5, 0.25], [1, 1], [5, 6]]
        assert store.verify() == []

    def test_a_store_goes_on_in_its_new_space_and_back(self) -> None:
        store = filled(self.open_lifecycle())
        fill_all(store)
        store.commit_space(NEXT)
        cursor = store.changes().cursor
        store.upsert([entry("c", [1, 2], "zorb"), entry("a", [8, 8])])
        store.put_vectors({"never": [0, 0]})
        assert ids_of(store.search([1, 2], 2)) == ["c", "never"]
        assert sorted(store.changes(cursor).written) == ["a", "c", "never"]
        store.begin_space(COSINE)
        assert store.filling() == Filling(COSINE, 0, {"": 5, "other": 1})
        for name in ("", "other"):
            store.fill_space(COSINE, {kept.id: [1, 0, 0] for kept in store.unfilled(namespace=name)}, namespace=name)
        store.commit_space(COSINE)
        assert scored(store.search([1, 0, 0])) == [(name, 1.0) for name in ("a", "b", "c", "never", "pending")]
        assert store.verify() == []

    def test_what_was_filled_is_the_store_s_own_copy(self) -> None:
        store = filled(self.open_lifecycle())
        vector = np.array([1, 2], dtype=np.float32)
        fill_all(store)
        store.fill_space(NEXT, {"a": vector})
        vector[:] = 9
        store.commit_space(NEXT)
        kept = one(store, "a").vector
        assert kept is not None
        assert kept.tolist() == [1, 2]
        kept[:] = 9
        assert scored(store.search([1, 2], 1)) == [("a", 0.0)]

    def test_a_transaction_that_fails_leaves_both_spaces_as_they_were(self) -> None:
        store = filled(self.open_lifecycle())
        fill_all(store)
        store.fill_space(NEXT, {}, no_vector={"b": "no words"})
        before, half, cursor = shown(store), store.filling(), store.changes().cursor
        with abandoned(store):
            store.upsert([entry("b", [1, 1, 1], "other text")])
            store.delete(["a"])
            store.fill_space(NEXT, {"b": [0, 0]})
            store.commit_space(NEXT)
            assert store.space == NEXT
            assert ids_of(store.search([0, 0], 1)) == ["b"]
            store.upsert([entry("late", [1, 2])], namespace="late")
            assert ids_of(store.search([1, 2], namespace="late")) == ["late"]
        with abandoned(store):
            store.abort_space()
            store.begin_space(LIKE)
            store.fill_space(LIKE, {"a": [1, 1, 1]})
        assert (store.space, shown(store), store.filling()) == (COSINE, before, half)
        assert (store.changes(cursor).complete, store.changes(cursor).written) == (True, ())
        assert store.verify() == []
        store.upsert([entry("late", [1, 2, 3])], namespace="late")
        assert ids_of(store.search([1, 2, 3], namespace="late")) == ["late"]
        store.fill_space(NEXT, {"late": [1, 1]}, namespace="late")
        store.commit_space(NEXT)
        assert ids_of(store.search([1, 2])) == ["a", "pending"]
        assert one(store, "b").no_vector == "no words"

    def test_a_switch_is_part_of_its_transaction(self) -> None:
        store = filled(self.open_lifecycle())
        with store.transaction():
            fill_all(store)
            with abandoned(store):
                store.commit_space(NEXT)
            assert (store.space, ids_of(store.search([1, 0, 0], 1))) == (COSINE, ["a"])
            store.commit_space(NEXT)
            store.upsert([entry("c", [1, 2])])
            assert ids_of(store.search([1, 2], 2)) == ["a", "c"]
        assert (store.space, ids_of(store.search([1, 2], 2))) == (NEXT, ["a", "c"])
        assert store.verify() == []

    def test_what_was_erased_is_in_neither_space(self) -> None:
        store = self.open_lifecycle()
        store.upsert(entry(f"e{i}", [i, 1, 0]) for i in range(20))
        store.begin_space(NEXT)
        secrets = {name: np.array([i + 0.123, 77.7], dtype=np.float32) for i, name in enumerate(("e3", "e4", "e5"))}
        store.fill_space(NEXT, {f"e{i}": [i, 1] for i in range(20)})
        store.fill_space(NEXT, {**secrets})
        store.fill_space(NEXT, {}, no_vector={"e6": "secretreason"})
        traces = [*(vector.tobytes() for vector in secrets.values()), b"secretreason"]
        if not all(trace in self._bytes() for trace in traces):
            pytest.skip("keeps no readable files here")
        store.erase(["e3", "e6"])
        assert [trace in self._bytes() for trace in traces] == [False, True, True, False]
        store.commit_space(NEXT)
        store.erase(["e4"])
        assert [trace in self._bytes() for trace in traces] == [False, False, True, False]
        store.begin_space(LIKE)
        store.abort_space()
        store.erase(["e5"])
        assert [trace in self._bytes() for trace in traces] == [False] * 4

    def _bytes(self) -> bytes:
        return b"".join(path.read_bytes() for path in self._folder.rglob("*") if path.is_file())
