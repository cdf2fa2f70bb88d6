"""The contract of ``commit_space``: what a switch changes, what blocks it, and that it is one step."""

from __future__ import annotations

import numpy as np
import pytest

from vectorstore.errors import DimensionError, SpaceMismatch, SpaceNotReady
from vectorstore.testing.second_space import LIKE, NEXT, fill_all, filled, numbers, shown
from vectorstore.testing.suite import COSINE, StoreContract, abandoned, entry, ids_of, one, scored
from vectorstore.types import Filling


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
