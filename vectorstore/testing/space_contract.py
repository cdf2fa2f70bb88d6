"""Contract of a space migration: begun, filled, committed in one step, or aborted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tellback.vectorstore.errors import ArgumentError, DimensionError, RevisionConflict, SpaceMismatch, SpaceNotReady
from tellback.vectorstore.protocol import LifecycleStore
from tellback.vectorstore.testing.suite import (
    COSINE_SPACE,
    NEXT_SPACE,
    RENAMED_SPACE,
    StoreContract,
    abandoned_transaction,
    calls_not_refused,
    fill_pending,
    fill_second_space,
    get_entry,
    ids_and_scores,
    invalid_vectors,
    make_entry,
    protocol_calls,
    result_ids,
    store_answers,
    vector_numbers,
)
from tellback.vectorstore.types import Entry, Metric, Space, SpaceMigration

NOTHING_FILLED = SpaceMigration(NEXT_SPACE, 0, {"": 3, "other": 1})


class SpaceFillContract(StoreContract):
    """Vectors of a second space filled in beside those in use, of stores with the second protocol."""

    def test_without_a_second_space_there_is_nothing_to_fill(self, store: LifecycleStore) -> None:
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
        [None, "next", Space("", 2), Space("x", 0), Space("x", True), Space("x", 2, "manhattan")],
        ids=repr,
    )
    def test_an_invalid_space_is_refused_by_every_call(self, store: LifecycleStore, bad: Any) -> None:
        assert calls_not_refused(ArgumentError, protocol_calls(LifecycleStore, store, space=bad)) == []
        assert store.filling() is None

    def test_the_space_in_use_goes_on_while_another_is_filled(self, migrating: LifecycleStore) -> None:
        before, cursor = store_answers(migrating), migrating.changes().cursor
        assert migrating.filling() == NOTHING_FILLED
        assert migrating.fill_space(NEXT_SPACE, {"a": [1, 2], "missing": [1, 1]}) == 1
        assert migrating.fill_space(NEXT_SPACE, {"a": [7, 8]}, namespace="other") == 1
        assert migrating.filling() == SpaceMigration(NEXT_SPACE, 2, {"": 2})
        assert store_answers(migrating) == before
        assert migrating.changes(cursor).written == ()
        assert migrating.verify() == []

    def test_pending_entries_are_listed_by_id(self, migrating: LifecycleStore) -> None:
        migrating.upsert(make_entry(f"e{i:04}", [i, 1, 0], f"text {i}") for i in range(600))
        migrating.fill_space(NEXT_SPACE, {f"e{i:04}": [i, 1] for i in range(0, 600, 2)})
        odd = [f"e{i:04}" for i in range(1, 600, 2)]
        assert result_ids(migrating.unfilled()) == ["a", "b", *odd, "pending"]
        assert result_ids(migrating.unfilled(after="e0301")) == [*odd[151:], "pending"]
        assert result_ids(migrating.unfilled(namespace="other")) == ["a"]
        assert result_ids(migrating.unfilled(namespace="unknown")) == []
        assert next(migrating.unfilled()) == get_entry(migrating, "a")
        pages = migrating.unfilled()
        next(pages)
        migrating.abort_space()
        with pytest.raises(SpaceNotReady):
            list(pages)

    def test_a_text_written_meanwhile_is_pending_again_and_other_writes_leave_it(
        self, migrating: LifecycleStore
    ) -> None:
        fill_second_space(migrating)
        assert result_ids(migrating.unfilled()) == []
        migrating.patch({"a": {"n": 9}})
        migrating.put_vectors({"b": [1, 1, 1]})
        assert result_ids(migrating.unfilled()) == []
        migrating.upsert([make_entry("a", [1, 0, 0], "another text"), make_entry("new", [0, 1, 0])])
        migrating.upsert([Entry("b", no_vector="too long")])
        assert result_ids(migrating.unfilled()) == ["a", "new"]
        assert migrating.filling() == SpaceMigration(NEXT_SPACE, 2, {"": 2})
        migrating.delete(["new", "pending"])
        migrating.erase(["a"], namespace="other")
        assert migrating.filling() == SpaceMigration(NEXT_SPACE, 0, {"": 1})
        migrating.upsert([make_entry("pending"), make_entry("a")], namespace="other")
        assert result_ids(migrating.unfilled(namespace="other")) == ["a", "pending"]
        assert migrating.verify() == []

    def test_an_invalid_filling_is_refused_whole(self, migrating: LifecycleStore) -> None:
        for vector in invalid_vectors(NEXT_SPACE).values():
            with pytest.raises(ArgumentError):
                migrating.fill_space(NEXT_SPACE, {"a": [1, 2], "b": vector})
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
                migrating.fill_space(NEXT_SPACE, vectors, no_vector=reasons)
        with pytest.raises(SpaceNotReady):
            migrating.fill_space(Space("another", 2, Metric.L2), {"a": [1, 2]})
        assert migrating.filling() == NOTHING_FILLED

    def test_a_vector_of_a_text_that_was_corrected_is_refused(self, migrating: LifecycleStore) -> None:
        revisions = {entry.id: entry.revision for entry in migrating.unfilled()}
        migrating.upsert([make_entry("b", text="corrected")])
        with pytest.raises(RevisionConflict):
            migrating.fill_space(NEXT_SPACE, {name: [1, 2] for name in revisions}, expect=revisions)
        assert migrating.filling() == NOTHING_FILLED
        assert migrating.fill_space(NEXT_SPACE, {"a": [1, 2]}, expect={"a": revisions["a"]}) == 1
        with pytest.raises(RevisionConflict):
            migrating.fill_space(NEXT_SPACE, {"missing": [1, 2]}, expect={"missing": 3})
        migrating.fill_space(NEXT_SPACE, {"missing": [1, 2]}, namespace="new")
        assert migrating.namespaces() == ["", "other"]

    def test_aborting_drops_the_second_space_in_one_step(self, migrating: LifecycleStore) -> None:
        before = store_answers(migrating)
        fill_second_space(migrating)
        migrating.fill_space(NEXT_SPACE, {}, no_vector={"b": "no words"})
        migrating.abort_space()
        assert (migrating.filling(), migrating.space, store_answers(migrating)) == (None, COSINE_SPACE, before)
        assert migrating.verify() == []
        migrating.begin_space(RENAMED_SPACE)
        assert migrating.filling() == SpaceMigration(RENAMED_SPACE, 0, {"": 3, "other": 1})

    def test_filling_a_space_goes_on_after_opening_again(self, migrating: LifecycleStore) -> None:
        migrating.fill_space(NEXT_SPACE, {"a": [1, 2]}, no_vector={"b": "no words"})
        reopened = self.reopened(migrating)
        assert reopened.space == COSINE_SPACE
        assert reopened.filling() == SpaceMigration(NEXT_SPACE, 1, {"": 1, "other": 1})
        reopened.upsert([make_entry("new", [0, 1, 0])])
        reopened.begin_space(NEXT_SPACE)
        fill_pending(reopened, NEXT_SPACE, [5, 5])
        last = self.reopened(reopened)
        last.commit_space(NEXT_SPACE)
        assert result_ids(last.search([5, 5])) == ["new", "pending", "a"]
        assert last.verify() == []
        switched = self.reopened(last)
        assert result_ids(switched.search([5, 5])) == ["new", "pending", "a"]
        assert (switched.space, switched.filling()) == (NEXT_SPACE, None)


class SpaceSwitchContract(StoreContract):
    """The space in use replaced by the one that was filled, of stores with the second protocol."""

    def test_only_pending_entries_block_the_switch(self, migrating: LifecycleStore) -> None:
        migrating.fill_space(NEXT_SPACE, {"a": [1, 2], "b": [3, 4]})
        before = store_answers(migrating)
        with pytest.raises(SpaceNotReady) as caught:
            migrating.commit_space(NEXT_SPACE)
        assert (caught.value.filling, caught.value.pending) == (NEXT_SPACE, {"": 1, "other": 1})
        assert (migrating.space, store_answers(migrating)) == (COSINE_SPACE, before)
        fill_second_space(migrating)
        with pytest.raises(SpaceNotReady):
            migrating.commit_space(RENAMED_SPACE)
        assert migrating.space == COSINE_SPACE
        migrating.commit_space(NEXT_SPACE)
        assert migrating.space == NEXT_SPACE

    def test_a_switch_changes_the_vectors_and_nothing_else(self, migrating: LifecycleStore) -> None:
        migrating.upsert([make_entry("a")], namespace="emptied")
        migrating.delete(["a"], namespace="emptied")
        fill_second_space(migrating)
        before = {entry.id: entry for entry in migrating.scan()}
        text = ids_and_scores(migrating.search_text("zorb quil vexa morp", 99))
        cursors = {name: migrating.changes(namespace=name).cursor for name in ("", "other")}
        migrating.commit_space(NEXT_SPACE)
        vectors = {"a": [1, 2], "b": [3, 4], "never": None, "pending": [5, 6]}
        for entry in migrating.scan():
            assert vector_numbers(entry) == vectors[entry.id]
            assert replace(entry, vector=None) == replace(before[entry.id], vector=None)
        assert ids_and_scores(migrating.search([1, 2])) == [("a", 0.0), ("b", -(8**0.5)), ("pending", -(32**0.5))]
        assert ids_and_scores(migrating.search([7, 8], namespace="other")) == [("a", 0.0)]
        assert ids_and_scores(migrating.search_text("zorb quil vexa morp", 99)) == text
        assert not any(migrating.changes(cursor, namespace=name).complete for name, cursor in cursors.items())
        assert migrating.filling() is None
        with pytest.raises(DimensionError):
            migrating.search([1, 0, 0])
        with pytest.raises(SpaceMismatch):
            migrating.set_space(COSINE_SPACE)
        assert migrating.verify() == []

    def test_a_reason_for_no_vector_is_not_pending(self, migrating: LifecycleStore) -> None:
        assert migrating.fill_space(NEXT_SPACE, {"b": [3, 4]}, no_vector={"a": "no words", "missing": "no words"}) == 2
        assert result_ids(migrating.unfilled()) == ["pending"]
        migrating.fill_space(NEXT_SPACE, {"pending": [5, 6], "never": [9, 9]}, no_vector={"b": "no words"})
        migrating.fill_space(NEXT_SPACE, {}, no_vector={"a": "nothing to say"}, namespace="other")
        assert migrating.filling() == SpaceMigration(NEXT_SPACE, 2, {})
        assert [entry.no_vector for entry in migrating.scan()] == [None, None, "too long", None]
        migrating.commit_space(NEXT_SPACE)
        reasons = {entry.id: entry.no_vector for entry in migrating.scan()}
        assert reasons == {"a": "no words", "b": "no words", "never": None, "pending": None}
        assert get_entry(migrating, "a", namespace="other").no_vector == "nothing to say"
        assert result_ids(migrating.scan(embedded=True)) == ["never", "pending"]
        assert result_ids(migrating.search([5, 6])) == ["pending", "never"]
        assert result_ids(migrating.scan(embedded=False)) == []
        assert migrating.verify() == []

    def test_a_vector_filled_again_replaces_the_first_and_is_the_store_s_own_copy(
        self, migrating: LifecycleStore
    ) -> None:
        vector = np.array([0.5, 0.25], dtype=np.float32)
        fill_second_space(migrating)
        migrating.fill_space(NEXT_SPACE, {}, no_vector={"a": "no words"})
        migrating.fill_space(NEXT_SPACE, {"a": vector, "b": [1, 1]})
        vector[:] = 9
        assert migrating.filling() == SpaceMigration(NEXT_SPACE, 4, {})
        migrating.commit_space(NEXT_SPACE)
        assert [vector_numbers(entry) for entry in migrating.scan(embedded=True)] == [[0.5, 0.25], [1, 1], [5, 6]]
        stored = get_entry(migrating, "a").vector
        assert stored is not None
        stored[:] = 9
        assert ids_and_scores(migrating.search([0.5, 0.25], 1)) == [("a", 0.0)]
        assert migrating.verify() == []

    def test_a_store_goes_on_in_its_new_space_and_back(self, migrating: LifecycleStore) -> None:
        fill_second_space(migrating)
        migrating.commit_space(NEXT_SPACE)
        cursor = migrating.changes().cursor
        migrating.upsert([make_entry("c", [1, 2], "zorb"), make_entry("a", [8, 8])])
        migrating.put_vectors({"never": [0, 0]})
        assert result_ids(migrating.search([1, 2], 2)) == ["c", "never"]
        assert sorted(migrating.changes(cursor).written) == ["a", "c", "never"]
        migrating.begin_space(COSINE_SPACE)
        assert migrating.filling() == SpaceMigration(COSINE_SPACE, 0, {"": 5, "other": 1})
        fill_pending(migrating, COSINE_SPACE, [1, 0, 0])
        migrating.commit_space(COSINE_SPACE)
        scores = dict(ids_and_scores(migrating.search([1, 0, 0])))
        assert scores == dict.fromkeys(("a", "b", "c", "never", "pending"), 1.0)
        assert migrating.verify() == []

    def test_a_transaction_that_fails_leaves_both_spaces_as_they_were(self, migrating: LifecycleStore) -> None:
        fill_second_space(migrating)
        migrating.fill_space(NEXT_SPACE, {}, no_vector={"b": "no words"})
        before, half, cursor = store_answers(migrating), migrating.filling(), migrating.changes().cursor
        with abandoned_transaction(migrating):
            migrating.upsert([make_entry("b", [1, 1, 1], "other text")])
            migrating.delete(["a"])
            migrating.fill_space(NEXT_SPACE, {"b": [0, 0]})
            migrating.commit_space(NEXT_SPACE)
            assert migrating.space == NEXT_SPACE
            assert result_ids(migrating.search([0, 0], 1)) == ["b"]
            migrating.upsert([make_entry("late", [1, 2])], namespace="late")
            assert result_ids(migrating.search([1, 2], namespace="late")) == ["late"]
        with abandoned_transaction(migrating):
            migrating.abort_space()
            migrating.begin_space(RENAMED_SPACE)
            migrating.fill_space(RENAMED_SPACE, {"a": [1, 1, 1]})
        assert (migrating.space, store_answers(migrating), migrating.filling()) == (COSINE_SPACE, before, half)
        assert (migrating.changes(cursor).complete, migrating.changes(cursor).written) == (True, ())
        assert migrating.verify() == []
        migrating.upsert([make_entry("late", [1, 2, 3])], namespace="late")
        assert result_ids(migrating.search([1, 2, 3], namespace="late")) == ["late"]
        migrating.fill_space(NEXT_SPACE, {"late": [1, 1]}, namespace="late")
        migrating.commit_space(NEXT_SPACE)
        assert result_ids(migrating.search([1, 2])) == ["a", "pending"]
        assert get_entry(migrating, "b").no_vector == "no words"

    def test_a_switch_is_part_of_its_transaction(self, migrating: LifecycleStore) -> None:
        with migrating.transaction():
            fill_second_space(migrating)
            with abandoned_transaction(migrating):
                migrating.commit_space(NEXT_SPACE)
            assert (migrating.space, result_ids(migrating.search([1, 0, 0], 1))) == (COSINE_SPACE, ["a"])
            migrating.commit_space(NEXT_SPACE)
            migrating.upsert([make_entry("c", [1, 2])])
            assert result_ids(migrating.search([1, 2], 2)) == ["a", "c"]
        assert (migrating.space, result_ids(migrating.search([1, 2], 2))) == (NEXT_SPACE, ["a", "c"])
        assert migrating.verify() == []

    def test_an_erased_vector_is_in_neither_space(self, store: LifecycleStore) -> None:
        store.upsert(make_entry(f"e{i}", [i, 1, 0]) for i in range(20))
        store.begin_space(NEXT_SPACE)
        secrets = {name: np.array([i + 0.123, 77.7], dtype=np.float32) for i, name in enumerate(("e3", "e4", "e5"))}
        store.fill_space(NEXT_SPACE, {f"e{i}": [i, 1] for i in range(20)})
        store.fill_space(NEXT_SPACE, {**secrets})
        store.fill_space(NEXT_SPACE, {}, no_vector={"e6": "secretreason"})
        traces = [*(vector.tobytes() for vector in secrets.values()), b"secretreason"]
        if not all(trace in self.bytes_on_disk() for trace in traces):
            pytest.skip("keeps no readable files here")
        store.erase(["e3", "e6"])
        assert [trace in self.bytes_on_disk() for trace in traces] == [False, True, True, False]
        store.commit_space(NEXT_SPACE)
        store.erase(["e4"])
        assert [trace in self.bytes_on_disk() for trace in traces] == [False, False, True, False]
        store.begin_space(RENAMED_SPACE)
        store.abort_space()
        store.erase(["e5"])
        assert [trace in self.bytes_on_disk() for trace in traces] == [False] * 4
