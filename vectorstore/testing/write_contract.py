"""Contract of writing: ``upsert`` and ``get``, ``patch`` and ``put_vectors``, revisions and ``expect``; of ``delete``,
``count`` and ``scan``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest

from tellback.vectorstore.errors import ArgumentError, RevisionConflict
from tellback.vectorstore.protocol import VectorStore
from tellback.vectorstore.testing.suite import (
    NASTY_NAMES,
    StoreContract,
    get_entry,
    ids_and_scores,
    make_entry,
    result_ids,
    vector_forms,
)
from tellback.vectorstore.types import Entry, Filter, Metric, Space


def nested(levels: int, wrap: Callable[[Any], Any]) -> Any:
    """Return None, wrapped *levels* times."""
    return reduce(lambda value, _: wrap(value), range(levels), None)


def revision_of(store: VectorStore, name: str) -> int:
    """Return the revision of an entry that must be there."""
    return get_entry(store, name).revision


_DEEP = {"list": [1, 1.5, None, True, {"é": "\0"}]}
WRITTEN_ENTRIES = {
    "an id alone": Entry("a"),
    "every part": Entry("a", [3, 4, 0], "text\0 \r\n\U0001f600", "when: now", {"n": 2**70, "x": 0.1, "deep": _DEEP}),
    "a reason for no vector": Entry("a", no_vector="too long"),
    "values of each type": make_entry("a", yes=True, one=1, real=1.0, none=None, word="1"),
    "a hundred levels": Entry("a", metadata=nested(100, lambda value: {"in": value})),
}


class WriteContract(StoreContract):
    """Writes: what is written is stored exactly, in batches."""

    @pytest.mark.parametrize("entry", WRITTEN_ENTRIES.values(), ids=WRITTEN_ENTRIES)
    def test_an_entry_is_read_back_as_it_was_written(self, store: VectorStore, entry: Entry) -> None:
        store.upsert([entry, make_entry("b", pair=(1, 2))])
        found = get_entry(store, "a")
        assert found == replace(entry, revision=found.revision)
        assert repr(sorted(found.metadata.items())) == repr(sorted(entry.metadata.items()))  # 1, 1.0 and true differ
        assert found.vector is None or found.vector.dtype == np.float32
        assert get_entry(store, "b").metadata == {"pair": [1, 2]}

    def test_get_answers_in_the_order_of_its_ids_with_none_for_the_missing(self, store: VectorStore) -> None:
        store.upsert([make_entry("b"), make_entry("a")])
        found = store.get(["a", "x", "b", "a"])
        assert [None if entry is None else entry.id for entry in found] == ["a", None, "b", "a"]
        assert store.get([]) == []

    @pytest.mark.parametrize("form", sorted(vector_forms([1, 2, 3])))
    def test_a_vector_of_any_form_is_kept_as_float32(self, store: VectorStore, form: str) -> None:
        vector = vector_forms([1, 2, 3])[form]
        store.upsert([make_entry("a", vector), make_entry("b")])
        store.put_vectors({"b": vector})
        for entry in store.scan():
            assert entry.vector is not None
            assert entry.vector.dtype == np.float32
            assert entry.vector.tolist() == [1, 2, 3]
        assert result_ids(store.search(vector, 2)) == ["a", "b"]

    def test_a_vector_keeps_every_bit_of_float32(self, store: VectorStore) -> None:
        vector = np.array([1 / 3, -1.2345678e-7, 12345.678], dtype=np.float32)
        store.upsert([make_entry("a", vector.astype(np.float64)), make_entry("b")])
        store.put_vectors({"b": vector})
        found = [*store.get(["a", "b"]), *store.scan(), *(match.entry for match in store.search(vector, 2))]
        assert len(found) == 6
        for entry in found:
            assert entry is not None
            assert entry.vector is not None
            assert entry.vector.tobytes() == vector.tobytes()

    def test_changing_an_argument_afterwards_changes_no_entry(self, store: VectorStore) -> None:
        vector, tags, filled = np.ones(3, dtype=np.float32), ["x"], np.ones(3, dtype=np.float32)
        patched = {"deep": {"list": [1]}}
        store.upsert([make_entry("a", vector, tags=tags), make_entry("b")])
        store.put_vectors({"b": filled})
        store.patch({"b": patched})
        vector[:] = 0
        filled[:] = 0
        tags.append("y")
        patched["deep"]["list"].append(2)
        assert [entry.vector.tolist() for entry in store.scan() if entry.vector is not None] == [[1, 1, 1]] * 2
        assert [dict(entry.metadata) for entry in store.scan()] == [{"tags": ["x"]}, {"deep": {"list": [1]}}]
        assert [score for _, score in ids_and_scores(store.search([1, 1, 1]))] == pytest.approx([1, 1])

    def test_changing_a_returned_entry_changes_no_stored_one(self, store: VectorStore) -> None:
        store.upsert([make_entry("a", [1, 0, 0], "zorb", tags=["x"])])
        matches = [*store.search([1, 0, 0]), *store.search_text("zorb")]
        for found in (get_entry(store, "a"), *store.scan(), *(match.entry for match in matches)):
            found.metadata["tags"].append("y")
            assert found.vector is not None
            if found.vector.flags.writeable:
                found.vector[:] = 9
        assert get_entry(store, "a").metadata == {"tags": ["x"]}
        assert ids_and_scores(store.search([1, 0, 0])) == [("a", 1.0)]

    def test_an_id_is_compared_exactly(self, store: VectorStore) -> None:
        names = [name for name in NASTY_NAMES if name]
        assert store.upsert(make_entry(name, n=i) for i, name in enumerate(names)) == len(names)
        assert [get_entry(store, name).metadata["n"] for name in names] == list(range(len(names)))
        assert store.delete(["a"]) == 1
        assert store.count() == len(names) - 1

    def test_of_an_id_repeated_in_a_batch_the_last_wins(self, store: VectorStore) -> None:
        assert store.upsert([make_entry("a", text="first"), make_entry("b"), make_entry("a", text="last")]) == 2
        assert get_entry(store, "a").text == "last"
        assert store.count() == 2

    def test_an_upsert_replaces_the_whole_entry(self, store: VectorStore) -> None:
        store.upsert([Entry("a", [1, 0, 0], "zorb", "quil", {"x": 1})])
        assert store.upsert([Entry("a", no_vector="too long")]) == 1
        assert get_entry(store, "a") == Entry("a", no_vector="too long", revision=revision_of(store, "a"))
        assert store.search([1, 0, 0]) == store.search_text("zorb quil") == []

    def test_any_iterable_is_a_batch_and_so_is_nothing(self, store: VectorStore) -> None:
        assert (store.upsert([]), store.upsert(iter(())), store.patch({}), store.put_vectors({})) == (0, 0, 0, 0)
        assert (store.count(), store.namespaces()) == (0, [])
        entries = {"a": make_entry("a"), "b": make_entry("b")}
        assert store.upsert(entries.values()) == 2
        assert store.upsert(make_entry(f"c{i}") for i in range(3)) == 3
        assert store.upsert((make_entry("d"),)) == 1
        assert store.count() == 6

    def test_a_long_iterator_commits_every_thousand_and_says_so(self, store: VectorStore) -> None:
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


class UpdateContract(StoreContract):
    """Patches change only the given fields, and lose no concurrent change."""

    def test_a_patch_replaces_metadata_and_leaves_the_rest(self, store: VectorStore) -> None:
        store.upsert([Entry("a", [1, 0, 0], "zorb", "quil", {"x": 1, "y": 1}), make_entry("b", x=1)])
        before, text_score = get_entry(store, "a"), ids_and_scores(store.search_text("zorb quil"))
        assert store.patch({"a": {"x": 2}, "missing": {"x": 2}}) == 1
        assert get_entry(store, "a") == replace(before, metadata={"x": 2}, revision=revision_of(store, "a"))
        assert ids_and_scores(store.search_text("zorb quil")) == text_score
        assert store.get(["missing"]) == [None]

    def test_filters_see_patched_metadata(self) -> None:
        store = self.open(fields=("x",))
        store.upsert([make_entry("a", [1, 0, 0], x=1, y=1), make_entry("b", [1, 0, 0], x=1, y=1)])
        store.patch({"a": {"x": 2, "y": 2}})
        for name in ("x", "y"):
            assert result_ids(store.search([1, 0, 0], where={name: 2})) == ["a"]
            assert result_ids(store.scan(where={name: 1})) == ["b"]

    def test_a_pending_entry_gets_its_vector_later_and_another_one_again(self, store: VectorStore) -> None:
        store.upsert([make_entry("a", text="zorb", x=1), Entry("b", no_vector="too long"), make_entry("c", [0, 1, 0])])
        assert result_ids(store.search([1, 0, 0], 5)) == ["c"]
        assert store.put_vectors({"a": [1, 0, 0], "b": [1, 1, 0], "missing": [1, 0, 0]}) == 2
        assert result_ids(store.search([1, 0, 0], 5)) == ["a", "b", "c"]
        assert (get_entry(store, "a").text, get_entry(store, "a").metadata) == ("zorb", {"x": 1})
        assert get_entry(store, "b").no_vector is None
        assert result_ids(store.search_text("zorb")) == ["a"]
        store.put_vectors({"a": [0, 0, 1]})
        assert result_ids(store.search([0, 0, 1], 1)) == ["a"]
        assert result_ids(store.search([1, 0, 0], 2)) == ["b", "a"]

    def test_a_revision_rises_with_text_and_metadata_and_not_with_vectors(self, store: VectorStore) -> None:
        writes: list[Callable[[], int]] = [
            lambda: store.upsert([Entry("a", text="zorb", revision=99)]),
            lambda: store.upsert([make_entry("a", text="quil")]),
            lambda: store.patch({"a": {"x": 1}}),
            lambda: store.put_vectors({"a": [1, 0, 0]}),
        ]
        first, second, third, last = [write() * revision_of(store, "a") for write in writes]
        assert 0 < first < second < third == last < 99

    def test_a_revision_is_never_used_again(self, store: VectorStore) -> None:
        used = []
        for i in range(3):
            store.upsert([make_entry("a"), make_entry("b")])
            used += [revision_of(store, "a"), revision_of(store, "b")]
            store.delete(["a", "b"] if i else ["b", "a"])
        store.upsert([make_entry("c")])
        assert revision_of(store, "c") > max(used)
        assert used[0] < used[2] < used[4]

    def test_an_expected_revision_lets_a_write_through(self, store: VectorStore) -> None:
        assert store.upsert([make_entry("a", text="first")], expect={"a": 0}) == 1
        assert store.upsert([make_entry("a", text="next")], expect={"a": revision_of(store, "a")}) == 1
        assert store.patch({"a": {"x": 1}}, expect={"a": revision_of(store, "a")}) == 1
        revision = revision_of(store, "a")
        assert store.put_vectors({"a": [1, 0, 0]}, expect={"a": revision}) == 1
        assert store.put_vectors({"a": [0, 1, 0]}, expect={"a": revision}) == 1
        assert get_entry(store, "a").text == "next"
        store.delete(["a"])
        assert store.upsert([make_entry("a", text="anew")], expect={"a": 0}) == 1

    def test_an_unexpected_revision_stops_the_whole_write(self, store: VectorStore) -> None:
        store.upsert([make_entry("a", text="first"), make_entry("b", text="first")])
        old = revision_of(store, "a")
        store.upsert([make_entry("a", text="second")])
        before, revision = list(store.scan()), revision_of(store, "a")
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
        assert list(store.scan()) == before

    def test_a_long_write_meets_each_expectation_once(self, store: VectorStore) -> None:
        batch = [make_entry(f"e{i:04}", text="zorb") for i in range(1500)]
        assert store.upsert(iter(batch), expect={"e0000": 0, "e0999": 0, "e1400": 0}) == 1500
        revisions = {entry.id: entry.revision for entry in store.scan() if entry.id in ("e0001", "e1400")}
        assert store.upsert(iter(batch), expect=revisions) == 1500


class DeleteContract(StoreContract):
    """Deletion and scans: only the given ids are removed, and the rest is listed in order."""

    def test_a_deleted_entry_is_gone_from_every_answer_and_can_be_written_again(self, store: VectorStore) -> None:
        store.upsert([make_entry("b", [0, 1, 0], "zorb")])
        for i in range(3):
            store.upsert([make_entry("a", [1, 0, 0], "zorb", n=i)])
            assert result_ids(store.search([1, 0, 0], where={"n": i})) == ["a"]
            assert result_ids(store.search_text("zorb")) == ["a", "b"]
            assert store.delete(["a"]) == 1
            for found in (store.search([1, 0, 0]), store.search_text("zorb"), store.scan()):
                assert result_ids(found) == ["b"]
            assert (store.get(["a"]), store.count()) == ([None], 1)

    def test_words_deleted_before_any_search_are_found_when_written_again(self, store: VectorStore) -> None:
        store.upsert([make_entry("a", [1, 0, 0], "zorb"), make_entry("b", [1, 0, 0], "blip")])
        assert result_ids(store.search_text("zorb")) == ["a"]
        store.upsert([make_entry("c", [0, 1, 0], "quux")])
        store.delete(["c"])
        assert result_ids(store.search_text("quux")) == []
        store.upsert([make_entry("c", [0, 1, 0], "quux")])
        assert result_ids(store.search_text("quux")) == ["c"]

    def test_delete_counts_each_existing_entry_once(self, store: VectorStore) -> None:
        store.upsert(make_entry(name) for name in "abc")
        assert store.delete(["a", "missing", "a", "b"]) == 2
        assert store.delete(["a"]) == 0
        assert result_ids(store.scan()) == ["c"]

    def test_ids_may_be_any_iterable_of_any_length(self, store: VectorStore) -> None:
        store.upsert(make_entry(f"e{i:04}") for i in range(2500))
        assert store.delete(f"e{i:04}" for i in range(2400)) == 2400
        assert store.delete({"e2400": None}.keys()) == 1
        assert store.count() == 99

    def test_ids_and_a_filter_mean_both(self, store: VectorStore) -> None:
        store.upsert([make_entry("a", x=1), make_entry("b", x=2), make_entry("c", x=1)])
        assert store.delete(["a", "b", "missing"], where={"x": 1}) == 1
        assert result_ids(store.scan()) == ["b", "c"]
        assert store.delete(["b"], where={}) == 1
        assert result_ids(store.scan()) == ["c"]

    def test_a_filter_alone_counts_and_deletes_its_matches(self) -> None:
        store = self.open(fields=("x",))
        store.upsert([make_entry("a", x=1, y=1), make_entry("b", x=2, y=2), make_entry("c", y=2)])
        assert (store.count(), store.count(where={})) == (3, 3)
        for where, matching in (({"x": 1}, 1), ({"y": 3}, 0), ({"y": 2}, 2)):
            assert (store.count(where=where), store.delete(where=where)) == (matching, matching)
        assert store.count() == 0

    @pytest.mark.parametrize("where", [None, {}, {"$and": []}, {"$and": [{}]}], ids=str)
    def test_deleting_without_ids_or_a_condition_is_refused(self, store: VectorStore, where: Filter | None) -> None:
        store.upsert([make_entry("a")])
        with pytest.raises(ArgumentError):
            store.delete(where=where)
        with pytest.raises(ArgumentError):
            store.delete(iter(()), where=where)
        assert store.count() == 1

    def test_a_scan_is_in_order_of_id(self, store: VectorStore) -> None:
        names = ["b", "a", "B", "é", "\U0001f600", "\uffff", "a1", "10", "9", "aa"]
        store.upsert(make_entry(name, text=name) for name in names)
        assert result_ids(store.scan()) == sorted(names)
        assert [entry.text for entry in store.scan()] == sorted(names)

    def test_a_scan_goes_on_after_an_id(self, store: VectorStore) -> None:
        store.upsert(make_entry(name) for name in "bdf")
        expected = {"a": "bdf", "b": "df", "c": "df", "f": "", "": "bdf", "z": ""}
        assert {after: "".join(result_ids(store.scan(after=after))) for after in expected} == expected

    def test_a_scan_of_many_pages_yields_each_once(self, store: VectorStore) -> None:
        store.upsert(make_entry(f"e{i:04}", [1, 0, 0] if i % 3 else None, even=i % 2 == 0) for i in range(1400))
        assert result_ids(store.scan()) == [f"e{i:04}" for i in range(1400)]
        assert result_ids(store.scan(where={"even": True}, after="e0700")) == [f"e{i:04}" for i in range(702, 1400, 2)]
        assert result_ids(store.scan(embedded=False)) == [f"e{i:04}" for i in range(0, 1400, 3)]
        both = result_ids(store.scan(embedded=True, where={"even": True}))
        assert both == [f"e{i:04}" for i in range(0, 1400, 2) if i % 3]

    def test_a_scan_goes_on_through_writes_and_may_be_left_half_way(self, store: VectorStore) -> None:
        store.upsert(make_entry(f"e{i:04}") for i in range(1000))
        ids = []
        for entry in store.scan():
            ids.append(entry.id)
            if len(ids) % 100 == 1:
                store.delete([f"e{i:04}" for i in range(len(ids), 1000, 50) if i % 2])
                store.upsert([make_entry(f"d{len(ids)}"), make_entry(f"f{len(ids):04}")])
        assert ids == sorted(set(ids))
        assert {f"e{i:04}" for i in range(0, 1000, 2)} <= set(ids)
        scan, count = store.scan(after="e"), store.count()
        assert next(scan).id == "e0000"
        assert store.delete(["e0002"]) == store.upsert([make_entry("new")]) == 1
        assert store.count() == count

    def test_a_scan_tells_embedded_from_pending(self, store: VectorStore) -> None:
        reason = Entry("c", metadata={"x": 1}, no_vector="too long")
        store.upsert([make_entry("a", [1, 0, 0], x=1), make_entry("b", x=1), reason])
        for where in (None, {"x": 1}):
            assert result_ids(store.scan(where=where, embedded=True)) == ["a"]
            assert result_ids(store.scan(where=where, embedded=False)) == ["b"]
            assert result_ids(store.scan(where=where, embedded=None)) == ["a", "b", "c"]
        assert result_ids(store.scan(where={"x": 2}, embedded=True)) == []
