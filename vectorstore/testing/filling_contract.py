"""The contract of a second space while it is filled: ``begin_space``, ``fill_space``, ``unfilled``, ``abort_space``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from vectorstore.errors import ArgumentError, RevisionConflict, SpaceNotReady, StoreClosed
from vectorstore.testing.second_space import LIKE, NEXT, fill_all, filled, shown
from vectorstore.testing.suite import COSINE, StoreContract, bad_vectors, entry, ids_of, lifecycle, one
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
