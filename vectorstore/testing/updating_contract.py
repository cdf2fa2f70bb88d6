"""The contract of changing what is there: ``patch``, ``put_vectors``, revisions and what a write expects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from vectorstore.errors import ArgumentError, RevisionConflict
from vectorstore.testing.suite import (
    StoreContract,
    entry,
    ids_of,
    one,
    read_only,
    scored,
)
from vectorstore.types import Entry


class UpdatingContract(StoreContract):
    """A change touches what it names, and loses nobody else's."""

    def test_a_patch_replaces_metadata_and_leaves_the_rest(self) -> None:
        store = self.open()
        store.upsert([Entry("a", read_only([1, 0, 0]), "zorb", "quil", {"x": 1, "y": 1}), entry("b", x=1)])
        before, text_score = one(store, "a"), scored(store.search_text("zorb quil"))
        assert store.patch({"a": {"x": 2}, "missing": {"x": 2}}) == 1
        after = one(store, "a")
        assert after.metadata == {"x": 2}
        assert (after.text, after.context, after.no_vector) == (before.text, before.context, None)
        assert after.vector is not None
        assert after.vector.tolist() == [1, 0, 0]
        assert scored(store.search_text("zorb quil")) == text_score
        assert store.get(["missing"]) == [None]

    def test_filters_see_what_was_patched(self) -> None:
        store = self.open(fields=("x",))
        store.upsert([entry("a", [1, 0, 0], x=1, y=1), entry("b", [1, 0, 0], x=1, y=1)])
        store.patch({"a": {"x": 2, "y": 2}})
        for name in ("x", "y"):
            assert ids_of(store.search([1, 0, 0], where={name: 2})) == ["a"]
            assert ids_of(store.scan(where={name: 1})) == ["b"]

    def test_a_pending_entry_gets_its_vector_later(self) -> None:
        store = self.open()
        store.upsert([entry("a", text="zorb", x=1), Entry("b", no_vector="too long"), entry("c", [0, 1, 0])])
        assert ids_of(store.search([1, 0, 0], 5)) == ["c"]
        assert store.put_vectors({"a": [1, 0, 0], "b": [1, 1, 0], "missing": [1, 0, 0]}) == 2
        assert ids_of(store.search([1, 0, 0], 5)) == ["a", "b", "c"]
        assert (one(store, "a").text, one(store, "a").metadata) == ("zorb", {"x": 1})
        assert one(store, "b").no_vector is None
        assert ids_of(store.search_text("zorb")) == ["a"]

    def test_a_vector_is_replaced(self) -> None:
        store = self.open()
        store.upsert([entry("a", [1, 0, 0]), entry("b", [0.5, 1, 0])])
        assert ids_of(store.search([1, 0, 0])) == ["a", "b"]
        store.put_vectors({"a": [0, 0, 1]})
        assert ids_of(store.search([1, 0, 0])) == ["b", "a"]
        assert ids_of(store.search([0, 0, 1], 1)) == ["a"]

    def test_a_revision_is_given_by_the_store(self) -> None:
        store = self.open()
        store.upsert([Entry("a", revision=99)])
        assert 0 < one(store, "a").revision < 99

    def test_a_revision_rises_with_text_and_metadata_and_not_with_vectors(self) -> None:
        store = self.open()
        seen = []
        store.upsert([entry("a", text="zorb")])
        seen.append(one(store, "a").revision)
        store.upsert([entry("a", text="quil")])
        seen.append(one(store, "a").revision)
        store.patch({"a": {"x": 1}})
        seen.append(one(store, "a").revision)
        assert seen == sorted(set(seen))
        store.put_vectors({"a": [1, 0, 0]})
        assert one(store, "a").revision == seen[-1]

    def test_a_revision_is_never_used_again(self) -> None:
        store = self.open()
        used = []
        for i in range(3):
            store.upsert([entry("a"), entry("b")])
            used += [one(store, "a").revision, one(store, "b").revision]
            store.delete(["a", "b"] if i else ["b", "a"])
        store.upsert([entry("c")])
        assert one(store, "c").revision > max(used)
        assert used[0] < used[2] < used[4]

    def test_every_road_to_an_entry_shows_the_same_revision(self) -> None:
        store = self.open()
        store.upsert([entry("x"), entry("a", [1, 0, 0], "zorb")])
        revision = one(store, "a").revision
        assert store.search([1, 0, 0])[0].entry.revision == revision
        assert store.search_text("zorb")[0].entry.revision == revision
        assert [kept.revision for kept in store.scan() if kept.id == "a"] == [revision]

    def test_an_expected_revision_lets_a_write_through(self) -> None:
        store = self.open()
        assert store.upsert([entry("a", text="first")], expect={"a": 0}) == 1
        assert store.upsert([entry("a", text="next")], expect={"a": one(store, "a").revision}) == 1
        assert store.patch({"a": {"x": 1}}, expect={"a": one(store, "a").revision}) == 1
        revision = one(store, "a").revision
        assert store.put_vectors({"a": [1, 0, 0]}, expect={"a": revision}) == 1
        assert store.put_vectors({"a": [0, 1, 0]}, expect={"a": revision}) == 1
        assert one(store, "a").text == "next"

    def test_an_unexpected_revision_stops_the_whole_write(self) -> None:
        store = self.open()
        store.upsert([entry("a", text="first"), entry("b", text="first")])
        old = one(store, "a").revision
        store.upsert([entry("a", text="second")])
        now = one(store, "a").revision
        writes: list[Callable[[dict[str, int]], int]] = [
            lambda expect: store.upsert([entry("b", text="lost"), entry("a", text="lost")], expect=expect),
            lambda expect: store.patch({"b": {"x": 1}, "a": {"x": 1}}, expect=expect),
            lambda expect: store.put_vectors({"b": [1, 0, 0], "a": [1, 0, 0]}, expect=expect),
        ]
        for write in writes:
            for expected, conflict in (({"a": old}, "a"), ({"a": 0}, "a"), ({"a": now, "gone": 3}, "gone")):
                with pytest.raises(RevisionConflict) as caught:
                    write(expected)
                raised = caught.value
                assert (raised.id, raised.namespace, raised.expected) == (conflict, "", expected[conflict])
                assert raised.actual == (now if conflict == "a" else 0)
        kept = store.get(["a", "b"])
        assert [(k.text, dict(k.metadata), k.vector) for k in kept if k] == [
            ("second", {}, None),
            ("first", {}, None),
        ]
        assert one(store, "a").revision == now

    def test_nothing_can_be_expected_to_be_missing_and_is_not(self) -> None:
        store = self.open()
        store.upsert([entry("a", text="first")])
        with pytest.raises(RevisionConflict):
            store.upsert([entry("a", text="second")], expect={"a": 0})
        store.delete(["a"])
        assert store.upsert([entry("a", text="third")], expect={"a": 0}) == 1

    def test_a_long_write_meets_each_expectation_once(self) -> None:
        store = self.open()
        batch = [entry(f"e{i:04}", text="zorb") for i in range(1500)]
        assert store.upsert(iter(batch), expect={"e0000": 0, "e0999": 0, "e1400": 0}) == 1500
        revisions = {kept.id: kept.revision for kept in store.scan() if kept.id in ("e0001", "e1400")}
        assert store.upsert(iter(batch), expect=revisions) == 1500

    @pytest.mark.parametrize("expect", [{"a": -1}, {"a": True}, {"a": 1.0}, {"a": None}, {"": 0}, [("a", 0)], "a"])
    def test_an_expectation_that_is_none_is_refused(self, expect: Any) -> None:
        store = self.open()
        store.upsert([entry("a", text="kept")])
        with pytest.raises(ArgumentError):
            store.upsert([entry("a", text="lost")], expect=expect)
        with pytest.raises(ArgumentError):
            store.patch({"a": {"x": 1}}, expect=expect)
        with pytest.raises(ArgumentError):
            store.put_vectors({"a": [1, 0, 0]}, expect=expect)
        assert one(store, "a") == Entry("a", text="kept", revision=one(store, "a").revision)
