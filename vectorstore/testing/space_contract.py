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
    COSINE_SPACE,
    NEXT_SPACE,
    RENAMED_SPACE,
    StoreContract,
    abandoned_transaction,
    as_lifecycle,
    begin_second_space,
    fill_second_space,
    get_entry,
    ids_and_scores,
    invalid_vectors,
    make_entry,
    result_ids,
    space_answers,
    vector_numbers,
)
from vectorstore.types import Entry, Metric, Space, SpaceMigration


class SpaceFillContract(StoreContract):
    """Vectors of a second space filled in beside those in use, of stores with the second protocol."""

    def test_without_a_second_space_there_is_nothing_to_fill(self) -> None:
        store = self.open_lifecycle()
        store.upsert([make_entry("a", [1, 0, 0])])
        assert store.filling() is None
        with pytest.raises(SpaceNotReady):
            store.unfilled()
        with pytest.raises(SpaceNotReady):
            store.fill_space(NEXT_SPACE, {"a": [1, 2]})
        with pytest.raises(SpaceNotReady) as caught:
            store.commit_space(NEXT_SPACE)
        assert (caught.value.filling, caught.value.pending) == (None, {})
        store.abort_space()
        assert store.space == COSINE_SPACE

    def test_a_space_is_begun_beside_another_and_only_one(self) -> None:
        textual = self.open_lifecycle(None)
        with pytest.raises(ArgumentError):
            textual.begin_space(NEXT_SPACE)
        store = self.open_lifecycle()
        with pytest.raises(ArgumentError):
            store.begin_space(COSINE_SPACE)
        store.begin_space(NEXT_SPACE)
        store.begin_space(NEXT_SPACE)
        for other in (RENAMED_SPACE, Space("next", 3, Metric.L2), Space("next", 2)):
            with pytest.raises(SpaceNotReady) as caught:
                store.begin_space(other)
            assert caught.value.filling == NEXT_SPACE
        assert store.filling() == SpaceMigration(NEXT_SPACE, 0, {})
        assert store.space == COSINE_SPACE

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
        store = begin_second_space(self.open_lifecycle())
        before, cursor = space_answers(store), store.changes().cursor
        assert store.filling() == SpaceMigration(NEXT_SPACE, 0, {"": 3, "other": 1})
        assert store.fill_space(NEXT_SPACE, {"a": [1, 2], "missing": [1, 1]}) == 1
        assert store.fill_space(NEXT_SPACE, {"a": [7, 8]}, namespace="other") == 1
        assert store.filling() == SpaceMigration(NEXT_SPACE, 2, {"": 2})
        assert space_answers(store) == before
        assert store.changes(cursor).written == ()
        assert store.verify() == []

    def test_what_is_pending_is_listed_by_id(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        store.upsert(make_entry(f"e{i:04}", [i, 1, 0], f"text {i}") for i in range(600))
        store.fill_space(NEXT_SPACE, {f"e{i:04}": [i, 1] for i in range(0, 600, 2)})
        odd = [f"e{i:04}" for i in range(1, 600, 2)]
        assert result_ids(store.unfilled()) == ["a", "b", *odd, "pending"]
        assert result_ids(store.unfilled(after="e0301")) == [*odd[151:], "pending"]
        assert result_ids(store.unfilled(namespace="other")) == ["a"]
        assert result_ids(store.unfilled(namespace="unknown")) == []
        assert next(store.unfilled()) == get_entry(store, "a")
        pages = store.unfilled()
        next(pages)
        store.abort_space()
        with pytest.raises(SpaceNotReady):
            list(pages)

    def test_a_text_written_meanwhile_is_pending_again_and_other_writes_leave_it(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        fill_second_space(store)
        assert result_ids(store.unfilled()) == []
        store.patch({"a": {"n": 9}})
        store.put_vectors({"b": [1, 1, 1]})
        assert result_ids(store.unfilled()) == []
        store.upsert([make_entry("a", [1, 0, 0], "another text"), make_entry("new", [0, 1, 0])])
        store.upsert([Entry("b", no_vector="too long")])
        assert result_ids(store.unfilled()) == ["a", "new"]
        assert store.filling() == SpaceMigration(NEXT_SPACE, 2, {"": 2})
        store.delete(["new", "pending"])
        store.erase(["a"], namespace="other")
        assert store.filling() == SpaceMigration(NEXT_SPACE, 0, {"": 1})
        store.upsert([make_entry("pending"), make_entry("a")], namespace="other")
        assert result_ids(store.unfilled(namespace="other")) == ["a", "pending"]
        assert store.verify() == []

    def test_what_cannot_be_filled_in_is_refused_whole(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        for vector in invalid_vectors(NEXT_SPACE).values():
            with pytest.raises(ArgumentError):
                store.fill_space(NEXT_SPACE, {"a": [1, 2], "b": vector})
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
                store.fill_space(NEXT_SPACE, vectors, no_vector=reasons)
        with pytest.raises(SpaceNotReady):
            store.fill_space(Space("another", 2, Metric.L2), {"a": [1, 2]})
        assert store.filling() == SpaceMigration(NEXT_SPACE, 0, {"": 3, "other": 1})

    def test_a_vector_of_a_text_that_was_corrected_is_refused(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        read = {entry.id: entry for entry in store.unfilled()}
        store.upsert([make_entry("b", text="corrected")])
        with pytest.raises(RevisionConflict):
            store.fill_space(
                NEXT_SPACE,
                {name: [1, 2] for name in read},
                expect={name: entry.revision for name, entry in read.items()},
            )
        assert store.filling() == SpaceMigration(NEXT_SPACE, 0, {"": 3, "other": 1})
        assert store.fill_space(NEXT_SPACE, {"a": [1, 2]}, expect={"a": read["a"].revision}) == 1
        with pytest.raises(RevisionConflict):
            store.fill_space(NEXT_SPACE, {"missing": [1, 2]}, expect={"missing": 3})
        store.fill_space(NEXT_SPACE, {"missing": [1, 2]}, namespace="new")
        assert store.namespaces() == ["", "other"]

    def test_what_was_filled_is_dropped_in_one_step(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        before = space_answers(store)
        fill_second_space(store)
        store.fill_space(NEXT_SPACE, {}, no_vector={"b": "no words"})
        store.abort_space()
        assert (store.filling(), store.space, space_answers(store)) == (None, COSINE_SPACE, before)
        assert store.verify() == []
        store.begin_space(RENAMED_SPACE)
        assert store.filling() == SpaceMigration(RENAMED_SPACE, 0, {"": 3, "other": 1})

    def test_a_half_filled_space_is_gone_on_with_after_opening_again(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        store.fill_space(NEXT_SPACE, {"a": [1, 2]}, no_vector={"b": "no words"})
        reopened = as_lifecycle(self.reopened(store))
        assert (reopened.space, reopened.filling()) == (
            COSINE_SPACE,
            SpaceMigration(NEXT_SPACE, 1, {"": 1, "other": 1}),
        )
        reopened.upsert([make_entry("new", [0, 1, 0])])
        reopened.begin_space(NEXT_SPACE)
        for name in ("", "other"):
            reopened.fill_space(
                NEXT_SPACE, {entry.id: [5, 5] for entry in reopened.unfilled(namespace=name)}, namespace=name
            )
        last = as_lifecycle(self.reopened(reopened))
        last.commit_space(NEXT_SPACE)
        assert result_ids(last.search([5, 5])) == ["new", "pending", "a"]
        assert last.verify() == []
        switched = as_lifecycle(self.reopened(last))
        assert (switched.space, switched.filling()) == (NEXT_SPACE, None)
        assert result_ids(switched.search([5, 5])) == ["new", "pending", "a"]

    def test_a_closed_store_fills_nothing(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.begin_space(NEXT_SPACE),
            lambda: store.filling(),
            lambda: store.unfilled(),
            lambda: store.fill_space(NEXT_SPACE, {}),
            lambda: store.commit_space(NEXT_SPACE),
            lambda: store.abort_space(),
            lambda: store.declare_fields(("n",)),
        ]
        for call in calls:
            with pytest.raises(StoreClosed):
                call()


class SpaceSwitchContract(StoreContract):
    """The space in use replaced by the one that was filled, of stores with the second protocol."""

    def test_only_what_is_pending_blocks_the_switch(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        store.fill_space(NEXT_SPACE, {"a": [1, 2], "b": [3, 4]})
        before = space_answers(store)
        with pytest.raises(SpaceNotReady) as caught:
            store.commit_space(NEXT_SPACE)
        assert (caught.value.filling, caught.value.pending) == (NEXT_SPACE, {"": 1, "other": 1})
        assert (store.space, space_answers(store)) == (COSINE_SPACE, before)
        fill_second_space(store)
        with pytest.raises(SpaceNotReady):
            store.commit_space(RENAMED_SPACE)
        assert store.space == COSINE_SPACE
        store.commit_space(NEXT_SPACE)
        assert store.space == NEXT_SPACE

    def test_a_switch_changes_the_vectors_and_nothing_else(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        store.upsert([make_entry("a")], namespace="emptied")
        store.delete(["a"], namespace="emptied")
        fill_second_space(store)
        before = {entry.id: entry for entry in store.scan()}
        text, cursors = (
            space_answers(store)[""][2],
            {name: store.changes(namespace=name).cursor for name in ("", "other")},
        )
        store.commit_space(NEXT_SPACE)
        vectors = {"a": [1, 2], "b": [3, 4], "never": None, "pending": [5, 6]}
        for entry in store.scan():
            assert vector_numbers(entry) == vectors[entry.id]
            was = before[entry.id]
            assert (entry.text, entry.metadata, entry.revision) == (was.text, was.metadata, was.revision)
            assert entry.no_vector == was.no_vector
        assert ids_and_scores(store.search([1, 2])) == [("a", 0.0), ("b", -(8**0.5)), ("pending", -(32**0.5))]
        assert ids_and_scores(store.search([7, 8], namespace="other")) == [("a", 0.0)]
        assert ids_and_scores(store.search_text("zorb quil vexa morp", 99)) == text
        assert [store.changes(cursor, namespace=name).complete for name, cursor in cursors.items()] == [False, False]
        assert store.filling() is None
        with pytest.raises(DimensionError):
            store.search([1, 0, 0])
        with pytest.raises(SpaceMismatch):
            store.set_space(COSINE_SPACE)
        assert store.verify() == []

    def test_a_reason_for_no_vector_is_not_pending(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        assert store.fill_space(NEXT_SPACE, {"b": [3, 4]}, no_vector={"a": "no words", "missing": "no words"}) == 2
        assert result_ids(store.unfilled()) == ["pending"]
        store.fill_space(NEXT_SPACE, {"pending": [5, 6], "never": [9, 9]}, no_vector={"b": "no words"})
        store.fill_space(NEXT_SPACE, {}, no_vector={"a": "nothing to say"}, namespace="other")
        assert store.filling() == SpaceMigration(NEXT_SPACE, 2, {})
        assert [get_entry(store, name).no_vector for name in ("a", "b", "pending", "never")] == [None] * 3 + [
            "too long"
        ]
        store.commit_space(NEXT_SPACE)
        assert [(entry.id, entry.no_vector) for entry in store.scan()] == [
            ("a", "no words"),
            ("b", "no words"),
            ("never", None),
            ("pending", None),
        ]
        assert get_entry(store, "a", namespace="other").no_vector == "nothing to say"
        assert result_ids(store.scan(embedded=True)) == result_ids(store.search([5, 6])[::-1]) == ["never", "pending"]
        assert result_ids(store.scan(embedded=False)) == []
        assert store.verify() == []

    def test_a_vector_that_comes_again_replaces_the_first(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        fill_second_space(store)
        store.fill_space(NEXT_SPACE, {}, no_vector={"a": "no words"})
        store.fill_space(NEXT_SPACE, {"a": [0.5, 0.25], "b": [1, 1]})
        assert store.filling() == SpaceMigration(NEXT_SPACE, 4, {})
        store.commit_space(NEXT_SPACE)
        assert [vector_numbers(entry) for entry in store.scan(embedded=True)] == [[0.5, 0.25], [1, 1], [5, 6]]
        assert store.verify() == []

    def test_a_store_goes_on_in_its_new_space_and_back(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        fill_second_space(store)
        store.commit_space(NEXT_SPACE)
        cursor = store.changes().cursor
        store.upsert([make_entry("c", [1, 2], "zorb"), make_entry("a", [8, 8])])
        store.put_vectors({"never": [0, 0]})
        assert result_ids(store.search([1, 2], 2)) == ["c", "never"]
        assert sorted(store.changes(cursor).written) == ["a", "c", "never"]
        store.begin_space(COSINE_SPACE)
        assert store.filling() == SpaceMigration(COSINE_SPACE, 0, {"": 5, "other": 1})
        for name in ("", "other"):
            store.fill_space(
                COSINE_SPACE, {entry.id: [1, 0, 0] for entry in store.unfilled(namespace=name)}, namespace=name
            )
        store.commit_space(COSINE_SPACE)
        assert ids_and_scores(store.search([1, 0, 0])) == [(name, 1.0) for name in ("a", "b", "c", "never", "pending")]
        assert store.verify() == []

    def test_what_was_filled_is_the_store_s_own_copy(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        vector = np.array([1, 2], dtype=np.float32)
        fill_second_space(store)
        store.fill_space(NEXT_SPACE, {"a": vector})
        vector[:] = 9
        store.commit_space(NEXT_SPACE)
        stored = get_entry(store, "a").vector
        assert stored is not None
        assert stored.tolist() == [1, 2]
        stored[:] = 9
        assert ids_and_scores(store.search([1, 2], 1)) == [("a", 0.0)]

    def test_a_transaction_that_fails_leaves_both_spaces_as_they_were(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        fill_second_space(store)
        store.fill_space(NEXT_SPACE, {}, no_vector={"b": "no words"})
        before, half, cursor = space_answers(store), store.filling(), store.changes().cursor
        with abandoned_transaction(store):
            store.upsert([make_entry("b", [1, 1, 1], "other text")])
            store.delete(["a"])
            store.fill_space(NEXT_SPACE, {"b": [0, 0]})
            store.commit_space(NEXT_SPACE)
            assert store.space == NEXT_SPACE
            assert result_ids(store.search([0, 0], 1)) == ["b"]
            store.upsert([make_entry("late", [1, 2])], namespace="late")
            assert result_ids(store.search([1, 2], namespace="late")) == ["late"]
        with abandoned_transaction(store):
            store.abort_space()
            store.begin_space(RENAMED_SPACE)
            store.fill_space(RENAMED_SPACE, {"a": [1, 1, 1]})
        assert (store.space, space_answers(store), store.filling()) == (COSINE_SPACE, before, half)
        assert (store.changes(cursor).complete, store.changes(cursor).written) == (True, ())
        assert store.verify() == []
        store.upsert([make_entry("late", [1, 2, 3])], namespace="late")
        assert result_ids(store.search([1, 2, 3], namespace="late")) == ["late"]
        store.fill_space(NEXT_SPACE, {"late": [1, 1]}, namespace="late")
        store.commit_space(NEXT_SPACE)
        assert result_ids(store.search([1, 2])) == ["a", "pending"]
        assert get_entry(store, "b").no_vector == "no words"

    def test_a_switch_is_part_of_its_transaction(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        with store.transaction():
            fill_second_space(store)
            with abandoned_transaction(store):
                store.commit_space(NEXT_SPACE)
            assert (store.space, result_ids(store.search([1, 0, 0], 1))) == (COSINE_SPACE, ["a"])
            store.commit_space(NEXT_SPACE)
            store.upsert([make_entry("c", [1, 2])])
            assert result_ids(store.search([1, 2], 2)) == ["a", "c"]
        assert (store.space, result_ids(store.search([1, 2], 2))) == (NEXT_SPACE, ["a", "c"])
        assert store.verify() == []

    def test_what_was_erased_is_in_neither_space(self) -> None:
        store = self.open_lifecycle()
        store.upsert(make_entry(f"e{i}", [i, 1, 0]) for i in range(20))
        store.begin_space(NEXT_SPACE)
        secrets = {name: np.array([i + 0.123, 77.7], dtype=np.float32) for i, name in enumerate(("e3", "e4", "e5"))}
        store.fill_space(NEXT_SPACE, {f"e{i}": [i, 1] for i in range(20)})
        store.fill_space(NEXT_SPACE, {**secrets})
        store.fill_space(NEXT_SPACE, {}, no_vector={"e6": "secretreason"})
        traces = [*(vector.tobytes() for vector in secrets.values()), b"secretreason"]
        if not all(trace in self._bytes() for trace in traces):
            pytest.skip("keeps no readable files here")
        store.erase(["e3", "e6"])
        assert [trace in self._bytes() for trace in traces] == [False, True, True, False]
        store.commit_space(NEXT_SPACE)
        store.erase(["e4"])
        assert [trace in self._bytes() for trace in traces] == [False, False, True, False]
        store.begin_space(RENAMED_SPACE)
        store.abort_space()
        store.erase(["e5"])
        assert [trace in self._bytes() for trace in traces] == [False] * 4

    def _bytes(self) -> bytes:
        return b"".join(path.read_bytes() for path in self._folder.rglob("*") if path.is_file())
