"""The contract of filters: each part of the language means the same in every call of a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from vectorstore.errors import FilterError
from vectorstore.testing.filter_cases import BAD_FILTERS, FILTER_CASES, FilterCase
from vectorstore.testing.suite import StoreContract, entry, ids_of
from vectorstore.types import Entry


def stored(case: FilterCase) -> list[Entry]:
    """Return the metadata of a case as entries: "yes0"… match, "no0"… do not."""
    pairs = [("yes", data) for data in case.matching] + [("no", data) for data in case.others]
    return [Entry(f"{side}{i:02}", [1, i, 0], "zorb", metadata=data) for i, (side, data) in enumerate(pairs)]  # type: ignore[arg-type]


class FilterContract(StoreContract):
    """Every case is asked of every call that takes a filter."""

    @pytest.mark.parametrize("fields", [(), ("a", "b"), ("a.b", "A")], ids=["undeclared", "declared", "others"])
    def test_a_filter_matches_what_it_names_and_nothing_else(self, fields: tuple[str, ...]) -> None:
        store = self.open(fields=fields)
        wrong = {}
        for case in FILTER_CASES:
            store.upsert(stored(case), namespace=case.name)
            where, namespace, many = case.where, case.name, 99
            expected = [kept.id for kept in stored(case) if kept.id.startswith("yes")]
            answers = {
                "scan": ids_of(store.scan(where=where, namespace=namespace)),
                "search": sorted(ids_of(store.search([1, 0, 0], many, where=where, namespace=namespace))),
                "search_many": sorted(
                    ids_of(store.search_many([[1, 0, 0]], many, where=where, namespace=namespace)[0])
                ),
                "search_text": sorted(ids_of(store.search_text("zorb", many, where=where, namespace=namespace))),
            }
            counted = store.count(where=where, namespace=namespace)
            found = {call: ids for call, ids in answers.items() if ids != sorted(expected)}
            if found or counted != len(expected):
                wrong[case.name] = (found, counted, expected)
        assert not wrong

    def test_a_filter_deletes_what_it_names_and_nothing_else(self) -> None:
        store = self.open()
        wrong = {}
        for case in FILTER_CASES:
            if case.where in ({}, {"$and": []}):
                continue
            store.upsert(stored(case), namespace=case.name)
            deleted = store.delete(where=case.where, namespace=case.name)
            left = ids_of(store.scan(namespace=case.name))
            if deleted != len(case.matching) or any(name.startswith("yes") for name in left):
                wrong[case.name] = (deleted, left)
        assert not wrong

    @pytest.mark.parametrize(("name", "where"), BAD_FILTERS, ids=[name for name, _ in BAD_FILTERS])
    def test_what_is_no_filter_is_refused_by_every_call(self, name: str, where: Any) -> None:
        store = self.open()
        store.upsert([entry("a", [1, 0, 0], "zorb", kind="fact")])
        calls: list[Callable[[], object]] = [
            lambda: store.search([1, 0, 0], where=where),
            lambda: store.search_many([[1, 0, 0]], where=where),
            lambda: store.search_text("zorb", where=where),
            lambda: store.count(where=where),
            lambda: list(store.scan(where=where)),
            lambda: store.delete(where=where),
            lambda: store.delete(["a"], where=where),
            lambda: store.count(where=where, namespace="empty"),
        ]
        for call in calls:
            with pytest.raises(FilterError):
                call()
        assert store.count() == 1

    def test_a_filter_is_taken_as_it_was_when_the_call_began(self) -> None:
        store = self.open()
        store.upsert(entry(f"e{i:04}", x=i % 2) for i in range(1000))
        where = {"x": 1}
        scan = store.scan(where=where)
        next(scan)
        where["x"] = 0
        assert {kept.metadata["x"] for kept in scan} == {1}

    def test_a_filter_of_many_values_is_answered(self) -> None:
        store = self.open(fields=("n",))
        store.upsert(entry(f"e{i}", [1, i, 0], n=i, m=i) for i in range(30))
        many = [*range(20, 5000), *(f"t{i}" for i in range(5000))]
        for name in ("n", "m"):
            assert store.count(where={name: {"$in": many}}) == 10
            assert len(store.search([1, 0, 0], 99, where={name: {"$nin": many}})) == 20
            assert store.count(where={"$or": [{name: i} for i in range(1000)]}) == 30
