"""The contract of ``declare_fields``: what is declared later filters as before."""

from __future__ import annotations

from typing import Any

import pytest

from vectorstore.errors import ArgumentError
from vectorstore.testing.suite import StoreContract, abandoned, entry, ids_of, lifecycle, scored


class FieldsContract(StoreContract):
    """Declared fields, of stores with the second protocol."""

    def test_fields_declared_later_filter_as_before(self) -> None:
        store = self.open_lifecycle()
        values = [1, 1.0, True, "x", None, [1, "x"], {"k": 1}]
        store.upsert(entry(f"e{i}", [i, 1, 0], "zorb", a=value, b=i) for i, value in enumerate(values))
        store.upsert([entry("without", [1, 1, 1], "zorb")])
        filters: list[dict[str, Any]] = [{"a": {"$eq": value}} for value in values]
        filters += [{"a": {"$exists": False}}, {"b": {"$gt": 3}}, {"a": {"$ne": 1}, "b": {"$lt": 5}}]

        def answers() -> list[Any]:
            return [
                (
                    scored(store.search([1, 2, 3], 99, where=where)),
                    ids_of(store.search_text("zorb", where=where)),
                    store.count(where=where),
                )
                for where in filters
            ]

        before = answers()
        assert store.fields == ()
        for fields in (("a",), ("a", "b"), ("b",), ()):
            store.declare_fields(fields)
            assert store.fields == fields
            assert answers() == before
        store.declare_fields(["b", "a"])
        store.upsert([entry("late", [0, 1, 0], "zorb", a="x", b=99)])
        store.patch({"e0": {"a": "x"}})
        assert ids_of(store.search_text("zorb", where={"a": "x"})) == ["e0", "e3", "late"]
        assert store.verify() == []

    def test_fields_are_declared_in_transactions_and_lastingly(self) -> None:
        store = self.open_lifecycle()
        store.upsert([entry("a", [1, 0, 0], n=1), entry("b", [1, 0, 0], n=2)])
        store.declare_fields(("n",))
        with abandoned(store):
            store.declare_fields(("other",))
            assert store.fields == ("other",)
            assert ids_of(store.search([1, 0, 0], where={"n": 2})) == ["b"]
        assert store.fields == ("n",)
        assert ids_of(store.search([1, 0, 0], where={"n": 2})) == ["b"]
        bad: list[Any] = ["n", None, 7, [1], ["n", "n"], ["\ud800"]]
        for fields in bad:
            with pytest.raises(ArgumentError):
                store.declare_fields(fields)
        again = lifecycle(self.reopened(store))
        assert again.fields == ("n",)
        assert ids_of(again.search([1, 0, 0], where={"n": 2})) == ["b"]
