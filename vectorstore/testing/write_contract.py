"""Contract of writing: ``upsert`` and ``get``, ``patch`` and ``put_vectors``, revisions and ``expect``; of ``delete``,
``count`` and ``scan``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from vectorstore.errors import ArgumentError, RevisionConflict
from vectorstore.testing.suite import (
    COSINE_SPACE,
    StoreContract,
    get_entry,
    ids_and_scores,
    make_entry,
    read_only_vector,
    result_ids,
    vector_forms,
)
from vectorstore.types import Entry, Filter, Metric, Space


class WriteContract(StoreContract):
    """Writes: what is written is stored exactly, in batches."""

    def test_what_was_written_is_read_back(self) -> None:
        store = self.open()
        data = {"kind": "fact", "n": 2**70, "x": 0.1, "deep": {"list": [1, 1.5, None, True, {"é": "\0"}]}}
        store.upsert([Entry("a", read_only_vector([3, 4, 0]), "text\0 \r\n\U0001f600", "when: now", data)])
        entry = get_entry(store, "a")
        assert (entry.text, entry.context, entry.no_vector) == ("text\0 \r\n\U0001f600", "when: now", None)
        assert entry.metadata == data
        assert entry.vector is not None
        assert entry.vector.dtype == np.float32
        assert entry.vector.tolist() == [3, 4, 0]

    def test_an_entry_needs_only_an_id(self) -> None:
        store = self.open()
        store.upsert([Entry("a")])
        entry = get_entry(store, "a")
        assert (entry.vector, entry.text, entry.context, dict(entry.metadata), entry.no_vector) == (
            None,
            "",
            "",
            {},
            None,
        )

    def test_metadata_keep_the_types_of_their_values(self) -> None:
        store = self.open()
        store.upsert([make_entry("a", yes=True, one=1, real=1.0, none=None, word="1", pair=(1, 2))])
        metadata = get_entry(store, "a").metadata
        assert {name: type(value) for name, value in metadata.items()} == {
            "yes": bool,
            "one": int,
            "real": float,
            "none": type(None),
            "word": str,
            "pair": list,
        }

    def test_metadata_may_be_a_hundred_levels_deep(self) -> None:
        store = self.open()
        store.upsert([Entry("a", metadata=_nested_metadata(100))])
        assert get_entry(store, "a").metadata == _nested_metadata(100)

    def test_get_answers_in_the_order_of_its_ids_with_none_for_the_missing(self) -> None:
        store = self.open()
        store.upsert([make_entry("b"), make_entry("a")])
        found = store.get(["a", "x", "b", "a"])
        assert [None if entry is None else entry.id for entry in found] == ["a", None, "b", "a"]
        assert store.get([]) == []

    @pytest.mark.parametrize("form", sorted(vector_forms([1, 2, 3])))
    def test_a_vector_of_any_form_is_kept_as_float32(self, form: str) -> None:
        store = self.open()
        vector = vector_forms([1, 2, 3])[form]
        store.upsert([make_entry("a", vector)])
        store.upsert([make_entry("b")])
        store.put_vectors({"b": vector})
        for stored in (get_entry(store, "a").vector, get_entry(store, "b").vector):
            assert stored is not None
            assert stored.dtype == np.float32
            assert stored.tolist() == [1, 2, 3]
        assert result_ids(store.search(vector, 2)) == ["a", "b"]

    def test_what_was_given_may_change_afterwards(self) -> None:
        store = self.open()
        vector, tags, filled = np.ones(3, dtype=np.float32), ["x"], np.ones(3, dtype=np.float32)
        store.upsert([make_entry("a", vector, tags=tags), make_entry("b")])
        store.put_vectors({"b": filled})
        patched = {"deep": {"list": [1]}}
        store.patch({"b": patched})
        vector[:] = 0
        filled[:] = 0
        tags.append("y")
        patched["deep"]["list"].append(2)
        assert [entry.vector.tolist() for entry in store.scan() if entry.vector is not None] == [[1, 1, 1]] * 2
        assert [dict(entry.metadata) for entry in store.scan()] == [{"tags": ["x"]}, {"deep": {"list": [1]}}]
        assert [score for _, score in ids_and_scores(store.search([1, 1, 1]))] == pytest.approx([1, 1])

    def test_what_was_returned_may_be_changed(self) -> None:
        store = self.open()
        store.upsert([make_entry("a", [1, 0, 0], "zorb", tags=["x"])])
        for found in (
            get_entry(store, "a"),
            next(iter(store.scan())),
            store.search([1, 0, 0])[0].entry,
            store.search_text("zorb")[0].entry,
        ):
            found.metadata["tags"].append("y")
            assert found.vector is not None
            if found.vector.flags.writeable:
                found.vector[:] = 9
        assert get_entry(store, "a").metadata == {"tags": ["x"]}
        assert ids_and_scores(store.search([1, 0, 0])) == [("a", 1.0)]

    def test_an_id_is_compared_exactly(self) -> None:
        store = self.open()
        names = [
            "a",
            "A",
            "a ",
            " a",
            "é",
            "e\u0301",
            "a\n",
            "%",
            "_",
            "'",
            '"',
            "\U0001f600",
            "x" * 1024,
            "\U0001f600" * 1024,
        ]
        assert store.upsert(make_entry(name, n=i) for i, name in enumerate(names)) == len(names)
        assert [get_entry(store, name).metadata["n"] for name in names] == list(range(len(names)))
        assert store.delete(["a"]) == 1
        assert store.count() == len(names) - 1

    def test_of_an_id_repeated_in_a_batch_the_last_wins(self) -> None:
        store = self.open()
        assert store.upsert([make_entry("a", text="first"), make_entry("b"), make_entry("a", text="last")]) == 2
        assert get_entry(store, "a").text == "last"
        assert store.count() == 2

    def test_an_upsert_replaces_the_whole_entry(self) -> None:
        store = self.open()
        store.upsert([Entry("a", read_only_vector([1, 0, 0]), "zorb", "quil", {"x": 1})])
        assert store.upsert([Entry("a", no_vector="too long")]) == 1
        entry = get_entry(store, "a")
        assert (entry.vector, entry.text, entry.context, dict(entry.metadata)) == (None, "", "", {})
        assert entry.no_vector == "too long"
        assert store.search([1, 0, 0]) == []
        assert store.search_text("zorb quil") == []

    def test_nothing_is_a_batch_too(self) -> None:
        store = self.open()
        assert store.upsert([]) == 0
        assert store.upsert(iter(())) == 0
        assert (store.patch({}), store.put_vectors({}), store.count(), store.namespaces()) == (0, 0, 0, [])

    def test_any_iterable_is_a_batch(self) -> None:
        store = self.open()
        entries = {"a": make_entry("a"), "b": make_entry("b")}
        assert store.upsert(entries.values()) == 2
        assert store.upsert(make_entry(f"c{i}") for i in range(3)) == 3
        assert store.upsert((make_entry("d"),)) == 1
        assert store.count() == 6

    def test_a_long_iterator_commits_every_thousand_and_says_so(self) -> None:
        store = self.open()
        drawn = 0

        def many() -> Iterator[Entry]:
            nonlocal drawn
            for i in range(2500):
                drawn += 1
                yield make_entry(f"e{i:04}")

        steps: list[tuple[int, int, bool]] = []
        store.upsert(many(), on_progress=lambda written: steps.append((written, store.count(), drawn <= written + 1)))
        assert steps == [(1000, 1000, True), (2000, 2000, True), (2500, 2500, True)]

    @pytest.mark.parametrize("metric", [Metric.DOT, Metric.L2])
    def test_a_zero_vector_is_one_where_length_does_not_matter(self, metric: Metric) -> None:
        store = self.open(Space("toy", 3, metric))
        store.upsert([make_entry("zero", [0, 0, 0]), make_entry("one", [1, 0, 0])])
        assert result_ids(store.search([1, 0, 0])) == ["one", "zero"]

    def test_a_store_knows_its_space(self) -> None:
        assert self.open(COSINE_SPACE).space == COSINE_SPACE


def _nested_metadata(levels: int) -> dict[str, Any]:
    """Return an object of that many levels."""
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"in": value}
    return value


class UpdateContract(StoreContract):
    """A change touches what it names, and loses nobody else's."""

    def test_a_patch_replaces_metadata_and_leaves_the_rest(self) -> None:
        store = self.open()
        store.upsert([Entry("a", read_only_vector([1, 0, 0]), "zorb", "quil", {"x": 1, "y": 1}), make_entry("b", x=1)])
        before, text_score = get_entry(store, "a"), ids_and_scores(store.search_text("zorb quil"))
        assert store.patch({"a": {"x": 2}, "missing": {"x": 2}}) == 1
        after = get_entry(store, "a")
        assert after.metadata == {"x": 2}
        assert (after.text, after.context, after.no_vector) == (before.text, before.context, None)
        assert after.vector is not None
        assert after.vector.tolist() == [1, 0, 0]
        assert ids_and_scores(store.search_text("zorb quil")) == text_score
        assert store.get(["missing"]) == [None]

    def test_filters_see_what_was_patched(self) -> None:
        store = self.open(fields=("x",))
        store.upsert([make_entry("a", [1, 0, 0], x=1, y=1), make_entry("b", [1, 0, 0], x=1, y=1)])
        store.patch({"a": {"x": 2, "y": 2}})
        for name in ("x", "y"):
            assert result_ids(store.search([1, 0, 0], where={name: 2})) == ["a"]
            assert result_ids(store.scan(where={name: 1})) == ["b"]

    def test_a_pending_entry_gets_its_vector_later(self) -> None:
        store = self.open()
        store.upsert([make_entry("a", text="zorb", x=1), Entry("b", no_vector="too long"), make_entry("c", [0, 1, 0])])
        assert result_ids(store.search([1, 0, 0], 5)) == ["c"]
        assert store.put_vectors({"a": [1, 0, 0], "b": [1, 1, 0], "missing": [1, 0, 0]}) == 2
        assert result_ids(store.search([1, 0, 0], 5)) == ["a", "b", "c"]
        assert (get_entry(store, "a").text, get_entry(store, "a").metadata) == ("zorb", {"x": 1})
        assert get_entry(store, "b").no_vector is None
        assert result_ids(store.search_text("zorb")) == ["a"]

    def test_a_vector_is_replaced(self) -> None:
        store = self.open()
        store.upsert([make_entry("a", [1, 0, 0]), make_entry("b", [0.5, 1, 0])])
        assert result_ids(store.search([1, 0, 0])) == ["a", "b"]
        store.put_vectors({"a": [0, 0, 1]})
        assert result_ids(store.search([1, 0, 0])) == ["b", "a"]
        assert result_ids(store.search([0, 0, 1], 1)) == ["a"]

    def test_a_revision_is_given_by_the_store(self) -> None:
        store = self.open()
        store.upsert([Entry("a", revision=99)])
        assert 0 < get_entry(store, "a").revision < 99

    def test_a_revision_rises_with_text_and_metadata_and_not_with_vectors(self) -> None:
        store = self.open()
        revisions = []
        store.upsert([make_entry("a", text="zorb")])
        revisions.append(get_entry(store, "a").revision)
        store.upsert([make_entry("a", text="quil")])
        revisions.append(get_entry(store, "a").revision)
        store.patch({"a": {"x": 1}})
        revisions.append(get_entry(store, "a").revision)
        assert revisions == sorted(set(revisions))
        store.put_vectors({"a": [1, 0, 0]})
        assert get_entry(store, "a").revision == revisions[-1]

    def test_a_revision_is_never_used_again(self) -> None:
        store = self.open()
        used = []
        for i in range(3):
            store.upsert([make_entry("a"), make_entry("b")])
            used += [get_entry(store, "a").revision, get_entry(store, "b").revision]
            store.delete(["a", "b"] if i else ["b", "a"])
        store.upsert([make_entry("c")])
        assert get_entry(store, "c").revision > max(used)
        assert used[0] < used[2] < used[4]

    def test_every_way_to_an_entry_shows_the_same_revision(self) -> None:
        store = self.open()
        store.upsert([make_entry("x"), make_entry("a", [1, 0, 0], "zorb")])
        revision = get_entry(store, "a").revision
        assert store.search([1, 0, 0])[0].entry.revision == revision
        assert store.search_text("zorb")[0].entry.revision == revision
        assert [entry.revision for entry in store.scan() if entry.id == "a"] == [revision]

    def test_an_expected_revision_lets_a_write_through(self) -> None:
        store = self.open()
        assert store.upsert([make_entry("a", text="first")], expect={"a": 0}) == 1
        assert store.upsert([make_entry("a", text="next")], expect={"a": get_entry(store, "a").revision}) == 1
        assert store.patch({"a": {"x": 1}}, expect={"a": get_entry(store, "a").revision}) == 1
        revision = get_entry(store, "a").revision
        assert store.put_vectors({"a": [1, 0, 0]}, expect={"a": revision}) == 1
        assert store.put_vectors({"a": [0, 1, 0]}, expect={"a": revision}) == 1
        assert get_entry(store, "a").text == "next"

    def test_an_unexpected_revision_stops_the_whole_write(self) -> None:
        store = self.open()
        store.upsert([make_entry("a", text="first"), make_entry("b", text="first")])
        old = get_entry(store, "a").revision
        store.upsert([make_entry("a", text="second")])
        revision = get_entry(store, "a").revision
        writes: list[Callable[[dict[str, int]], int]] = [
            lambda expect: store.upsert([make_entry("b", text="lost"), make_entry("a", text="lost")], expect=expect),
            lambda expect: store.patch({"b": {"x": 1}, "a": {"x": 1}}, expect=expect),
            lambda expect: store.put_vectors({"b": [1, 0, 0], "a": [1, 0, 0]}, expect=expect),
        ]
        for write in writes:
            for expected, conflict in (({"a": old}, "a"), ({"a": 0}, "a"), ({"a": revision, "gone": 3}, "gone")):
                with pytest.raises(RevisionConflict) as caught:
                    write(expected)
                raised = caught.value
                assert (raised.id, raised.namespace, raised.expected) == (conflict, "", expected[conflict])
                assert raised.actual == (revision if conflict == "a" else 0)
        stored = store.get(["a", "b"])
        assert [(k.text, dict(k.metadata), k.vector) for k in stored if k] == [
            ("second", {}, None),
            ("first", {}, None),
        ]
        assert get_entry(store, "a").revision == revision

    def test_nothing_can_be_expected_to_be_missing_and_is_not(self) -> None:
        store = self.open()
        store.upsert([make_entry("a", text="first")])
        with pytest.raises(RevisionConflict):
            store.upsert([make_entry("a", text="second")], expect={"a": 0})
        store.delete(["a"])
        assert store.upsert([make_entry("a", text="third")], expect={"a": 0}) == 1

    def test_a_long_write_meets_each_expectation_once(self) -> None:
        store = self.open()
        batch = [make_entry(f"e{i:04}", text="zorb") for i in range(1500)]
        assert store.upsert(iter(batch), expect={"e0000": 0, "e0999": 0, "e1400": 0}) == 1500
        revisions = {entry.id: entry.revision for entry in store.scan() if entry.id in ("e0001", "e1400")}
        assert store.upsert(iter(batch), expect=revisions) == 1500

    @pytest.mark.parametrize("expect", [{"a": -1}, {"a": True}, {"a": 1.0}, {"a": None}, {"": 0}, [("a", 0)], "a"])
    def test_an_expectation_that_is_none_is_refused(self, expect: Any) -> None:
        store = self.open()
        store.upsert([make_entry("a", text="kept")])
        with pytest.raises(ArgumentError):
            store.upsert([make_entry("a", text="lost")], expect=expect)
        with pytest.raises(ArgumentError):
            store.patch({"a": {"x": 1}}, expect=expect)
        with pytest.raises(ArgumentError):
            store.put_vectors({"a": [1, 0, 0]}, expect=expect)
        assert get_entry(store, "a") == Entry("a", text="kept", revision=get_entry(store, "a").revision)


class DeleteContract(StoreContract):
    """Deletion and scans: only what is named is removed, and the rest is listed in order."""

    def test_what_is_deleted_is_gone_from_every_answer(self) -> None:
        store = self.open()
        store.upsert([make_entry("a", [1, 0, 0], "zorb"), make_entry("b", [0, 1, 0], "zorb")])
        assert store.delete(["a"]) == 1
        assert store.get(["a", "b"])[0] is None
        assert (
            result_ids(store.search([1, 0, 0]))
            == result_ids(store.search_text("zorb"))
            == result_ids(store.scan())
            == ["b"]
        )
        assert store.count() == 1

    def test_words_that_went_before_anybody_looked_are_found_when_they_come_again(self) -> None:
        store = self.open()
        store.upsert([make_entry("a", [1, 0, 0], "zorb"), make_entry("b", [1, 0, 0], "blip")])
        assert result_ids(store.search_text("zorb")) == ["a"]
        store.upsert([make_entry("c", [0, 1, 0], "quux")])
        store.delete(["c"])
        assert result_ids(store.search_text("quux")) == []
        store.upsert([make_entry("c", [0, 1, 0], "quux")])
        assert result_ids(store.search_text("quux")) == ["c"]

    def test_only_what_was_there_is_counted(self) -> None:
        store = self.open()
        store.upsert(make_entry(name) for name in "abc")
        assert store.delete(["a", "missing", "a", "b"]) == 2
        assert store.delete(["a"]) == 0
        assert result_ids(store.scan()) == ["c"]

    def test_ids_may_be_any_iterable_of_any_length(self) -> None:
        store = self.open()
        store.upsert(make_entry(f"e{i:04}") for i in range(2500))
        assert store.delete(f"e{i:04}" for i in range(2400)) == 2400
        assert store.delete({"e2400": None}.keys()) == 1
        assert store.count() == 99

    def test_ids_and_a_filter_mean_both(self) -> None:
        store = self.open()
        store.upsert([make_entry("a", x=1), make_entry("b", x=2), make_entry("c", x=1)])
        assert store.delete(["a", "b", "missing"], where={"x": 1}) == 1
        assert result_ids(store.scan()) == ["b", "c"]
        assert store.delete(["b"], where={}) == 1
        assert result_ids(store.scan()) == ["c"]

    def test_a_filter_alone_deletes_what_it_matches(self) -> None:
        store = self.open(fields=("x",))
        store.upsert([make_entry("a", x=1, y=1), make_entry("b", x=2, y=2), make_entry("c", y=2)])
        assert store.delete(where={"x": 1}) == 1
        assert store.delete(where={"y": 3}) == 0
        assert store.delete(where={"y": 2}) == 2
        assert store.count() == 0

    def test_naming_nothing_is_refused(self) -> None:
        store = self.open()
        store.upsert([make_entry("a")])
        nothing: list[Filter | None] = [None, {}, {"$and": []}, {"$and": [{}]}]
        for where in nothing:
            with pytest.raises(ArgumentError):
                store.delete(where=where)
            with pytest.raises(ArgumentError):
                store.delete(iter(()), where=where)
        assert store.count() == 1

    @pytest.mark.parametrize("ids", ["a", b"a", None, 7, [7], ["a", ""], ["a", None], ["a", "x" * 1025], ["a", "\0"]])
    def test_what_are_no_ids_is_refused(self, ids: Any) -> None:
        store = self.open()
        store.upsert([make_entry("a")])
        with pytest.raises(ArgumentError):
            store.delete(ids)
        assert store.count() == 1

    def test_what_was_deleted_can_be_written_again(self) -> None:
        store = self.open()
        for i in range(3):
            store.upsert([make_entry("a", [1, 0, 0], "zorb", n=i)])
            assert result_ids(store.search([1, 0, 0], where={"n": i})) == result_ids(store.search_text("zorb")) == ["a"]
            assert store.delete(["a"]) == 1
        assert (store.search([1, 0, 0]), store.search_text("zorb"), store.namespaces()) == ([], [], [])

    def test_a_scan_is_in_order_of_id(self) -> None:
        store = self.open()
        names = ["b", "a", "B", "é", "\U0001f600", "\uffff", "a1", "10", "9", "aa"]
        store.upsert(make_entry(name, text=name) for name in names)
        assert result_ids(store.scan()) == sorted(names)
        assert [entry.text for entry in store.scan()] == sorted(names)

    def test_a_scan_goes_on_after_an_id(self) -> None:
        store = self.open()
        store.upsert(make_entry(name) for name in "bdf")
        expected = {"a": "bdf", "b": "df", "c": "df", "f": "", "": "bdf", "z": ""}
        assert {after: "".join(result_ids(store.scan(after=after))) for after in expected} == expected

    def test_a_scan_of_many_pages_yields_each_once(self) -> None:
        store = self.open()
        store.upsert(make_entry(f"e{i:04}", [1, 0, 0] if i % 3 else None, even=i % 2 == 0) for i in range(1400))
        assert result_ids(store.scan()) == [f"e{i:04}" for i in range(1400)]
        assert result_ids(store.scan(where={"even": True}, after="e0700")) == [f"e{i:04}" for i in range(702, 1400, 2)]
        assert result_ids(store.scan(embedded=False)) == [f"e{i:04}" for i in range(0, 1400, 3)]
        assert sum(1 for _ in store.scan(embedded=True, where={"even": True})) == store.count(
            where={"even": True}
        ) - sum(1 for _ in store.scan(embedded=False, where={"even": True}))

    def test_a_scan_survives_writes_between_its_steps(self) -> None:
        store = self.open()
        store.upsert(make_entry(f"e{i:04}") for i in range(1000))
        ids = []
        for entry in store.scan():
            ids.append(entry.id)
            if len(ids) % 100 == 1:
                store.delete([f"e{i:04}" for i in range(len(ids), 1000, 50) if i % 2])
                store.upsert([make_entry(f"d{len(ids)}"), make_entry(f"f{len(ids):04}")])
        assert ids == sorted(set(ids))
        assert {f"e{i:04}" for i in range(0, 1000, 2)} <= set(ids)

    def test_a_scan_may_be_left_half_way(self) -> None:
        store = self.open()
        store.upsert(make_entry(f"e{i:04}") for i in range(600))
        scan = store.scan()
        assert next(scan).id == "e0000"
        assert store.delete(["e0001"]) == 1
        assert store.upsert([make_entry("new")]) == 1
        assert store.count() == 600

    def test_a_scan_tells_embedded_from_pending(self) -> None:
        store = self.open()
        store.upsert(
            [make_entry("a", [1, 0, 0], x=1), make_entry("b", x=1), Entry("c", metadata={"x": 1}, no_vector="too long")]
        )
        for where in (None, {"x": 1}):
            assert result_ids(store.scan(where=where, embedded=True)) == ["a"]
            assert result_ids(store.scan(where=where, embedded=False)) == ["b"]
            assert result_ids(store.scan(where=where, embedded=None)) == ["a", "b", "c"]
        assert result_ids(store.scan(where={"x": 2}, embedded=True)) == []

    @pytest.mark.parametrize("after", [7, b"a", "x" * 1025, "a\0"])
    def test_a_scan_after_what_is_no_id_is_refused(self, after: Any) -> None:
        store = self.open()
        with pytest.raises(ArgumentError):
            list(store.scan(after=after))

    def test_a_count_is_of_what_matches(self) -> None:
        store = self.open(fields=("x",))
        store.upsert([make_entry("a", x=1, y=1), make_entry("b", x=2, y=1), make_entry("c")])
        assert (store.count(), store.count(where={}), store.count(where={"x": 1})) == (3, 3, 1)
        assert (store.count(where={"y": 1}), store.count(where={"y": 9})) == (2, 0)
