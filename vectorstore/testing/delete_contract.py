"""Contract of ``delete``, ``count`` and ``scan``."""

from __future__ import annotations

from typing import Any

import pytest

from vectorstore.errors import ArgumentError
from vectorstore.testing.suite import StoreContract, make_entry, result_ids
from vectorstore.types import Entry, Filter


class DeleteContract(StoreContract):
    """What is named goes, nothing else; what is left is listed in order."""

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
