"""Contract of filters: each part of the language means the same in every call, and with fields declared later.

The meaning is written here as cases: metadata that match and metadata that do not. A case without a match or without
its opposite proves nothing and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import pytest

from tellback.vectorstore.errors import ArgumentError, FilterError
from tellback.vectorstore.protocol import LifecycleStore, VectorStore
from tellback.vectorstore.testing.suite import (
    StoreContract,
    abandoned_transaction,
    calls_not_refused,
    ids_and_scores,
    make_entry,
    protocol_calls,
    result_ids,
)
from tellback.vectorstore.types import Entry

CaseMetadata = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FilterCase:
    """A filter, the metadata it matches and those it does not; *one_sided* says why one of them is empty."""

    name: str
    where: CaseMetadata
    matching: tuple[CaseMetadata, ...]
    others: tuple[CaseMetadata, ...]
    one_sided: str = ""

    def __post_init__(self) -> None:
        if not self.one_sided and not (self.matching and self.others):
            raise ValueError(f"case {self.name!r} needs metadata that match and metadata that do not")


_ABSENT = object()
_BIG = 2**63  # beyond 64 bits
_ANY_METADATA: tuple[CaseMetadata, ...] = ({}, {"a": None}, {"a": 1}, {"b": [1, {"c": None}]})


def _a(*values: Any) -> tuple[CaseMetadata, ...]:
    """Return metadata whose field "a" has one of *values* each, or is absent."""
    return tuple({"b": "x"} if value is _ABSENT else {"a": value} for value in values)


def nested_metadata(keys: str, value: Any) -> CaseMetadata:
    """Return metadata in which *value* lies at the end of a path of one-letter *keys*."""
    for key in reversed(keys):
        value = {key: value}
    return cast("CaseMetadata", value)


FILTER_CASES: tuple[FilterCase, ...] = (
    FilterCase("plain text", {"a": "x"}, _a("x"), (*_a("X", "xx", "", ["x"], None, 1, _ABSENT), {})),
    FilterCase("plain number", {"a": 1}, _a(1, 1.0), _a(True, "1", 2, [1], None, _ABSENT)),
    FilterCase("plain float", {"a": 1.0}, _a(1, 1.0), _a(True, 1.5, _ABSENT)),
    FilterCase("plain true", {"a": True}, _a(True), _a(False, 1, 1.0, "true", None, _ABSENT)),
    FilterCase("plain false", {"a": False}, _a(False), _a(True, 0, 0.0, "", None, [], _ABSENT)),
    FilterCase("plain null", {"a": None}, _a(None), (*_a(0, "", False, [], [None], _ABSENT), {})),
    FilterCase("plain list", {"a": [1, "x"]}, _a([1, "x"], [1.0, "x"]), _a(["x", 1], [1], "x", [True, "x"], [])),
    FilterCase("two fields", {"a": 1, "b": 2}, ({"a": 1, "b": 2},), ({"a": 1}, {"b": 2}, {"a": 1, "b": 3})),
    FilterCase("zero", {"a": 0}, _a(0, 0.0, -0.0), _a(False, None, "", "0")),
    FilterCase("$eq object", {"a": {"$eq": {"x": 1}}}, _a({"x": 1}, {"x": 1.0}), _a({"x": True}, {}, {"x": 1, "y": 1})),
    FilterCase("$eq object order", {"a": {"$eq": {"x": [1], "y": 2}}}, _a({"y": 2, "x": [1]}), _a({"x": [2], "y": 2})),
    FilterCase("$eq beyond 64 bits", {"a": {"$eq": _BIG + 1}}, _a(_BIG + 1), _a(_BIG, float(_BIG), _BIG - 1)),
    FilterCase("$eq beyond 53 bits", {"a": {"$eq": 2**53 + 1}}, _a(2**53 + 1), _a(2**53, float(2**53))),
    FilterCase("$eq NUL in a text", {"a": {"$eq": "x\0y"}}, _a("x\0y"), _a("x", "x\0z", "xy")),
    FilterCase("$eq unfolded text", {"a": "é"}, _a("é"), _a("e\u0301", "É", "e")),
    FilterCase("$ne", {"a": {"$ne": 1}}, _a(2, True, "1", None, [1], _ABSENT), _a(1, 1.0)),
    FilterCase("$ne null", {"a": {"$ne": None}}, (*_a(0, "", _ABSENT), {}), _a(None)),
    FilterCase("$in", {"a": {"$in": [1, "x", None]}}, _a(1, 1.0, "x", None), (*_a(2, True, "X", [], _ABSENT), {})),
    FilterCase("$in on a list", {"a": {"$in": ["x", "y"]}}, _a(["z", "y"], ["x"]), _a(["z"], [], [["x"]], {"x": 1})),
    FilterCase("$in does not take a list whole", {"a": {"$in": [[1, 2]]}}, _a([[1, 2]]), _a([1, 2], [1])),
    FilterCase("$in true", {"a": {"$in": [True]}}, _a(True, [0, True]), _a(1, [1], "true", False)),
    FilterCase("$in of many", {"a": {"$in": [*range(50), "x"]}}, _a(49, 0.0, "x", [99, 7]), _a(50, True, "7", [99])),
    FilterCase("$in of nothing", {"a": {"$in": []}}, (), _ANY_METADATA, one_sided="nothing is in an empty list"),
    FilterCase("$nin", {"a": {"$nin": [1, "x"]}}, _a(2, True, ["z"], None, [], _ABSENT), _a(1, "x", ["z", "x"])),
    FilterCase("$nin of nothing", {"a": {"$nin": []}}, _ANY_METADATA, (), one_sided="all is outside an empty list"),
    FilterCase("$gt", {"a": {"$gt": 1}}, _a(1.5, 2, _BIG), _a(1, 0, "2", True, None, [2], _ABSENT)),
    FilterCase("$gte", {"a": {"$gte": 1}}, _a(1, 1.0, 2), _a(0.9, True, "1", _ABSENT)),
    FilterCase("$lt", {"a": {"$lt": 1}}, _a(0, -1, 0.9, -_BIG - 1), _a(1, False, "0", None, [], _ABSENT)),
    FilterCase("$lte", {"a": {"$lte": 1}}, _a(1, 0), _a(1.1, True, None, _ABSENT)),
    FilterCase("$gt beyond 64 bits", {"a": {"$gt": _BIG}}, _a(_BIG + 1, 1e30), _a(_BIG, float(_BIG), 1)),
    FilterCase("$gt on texts", {"a": {"$gt": "b"}}, _a("ba", "c", "é", "\U0001f600"), _a("b", "B", "", 99, ["c"])),
    FilterCase("$lt by code point", {"a": {"$lt": "\U0001f600"}}, _a("\uffff", "z"), _a("\U0001f601", "\U0001f600")),
    FilterCase("a range", {"a": {"$gte": 1, "$lt": 3}}, _a(1, 2.9), _a(3, 0)),
    FilterCase("$exists", {"a": {"$exists": True}}, _a(0, "", False, [], {}), (*_a(None, _ABSENT), {})),
    FilterCase("$exists not", {"a": {"$exists": False}}, (*_a(None, _ABSENT), {}), _a(0, "", False, [])),
    FilterCase(
        "$contains in a list", {"a": {"$contains": 1}}, _a([2, 1.0], [1]), _a([True], ["1"], [[1]], 1, [], {"1": 1})
    ),
    FilterCase("$contains in a text", {"a": {"$contains": "b"}}, _a("abc", "b", ["b"]), _a("B", "", ["abc"], _ABSENT)),
    FilterCase("$contains nothing", {"a": {"$contains": ""}}, _a("", "x", [""]), _a([], 1, None, ["x"], _ABSENT)),
    FilterCase("$contains past a NUL", {"a": {"$contains": "y"}}, _a("x\0y"), _a("x\0")),
    FilterCase("$contains a pattern", {"a": {"$contains": "%_*"}}, _a("a%_*b"), _a("abc", "%*")),
    FilterCase("$contains a list", {"a": {"$contains": [1]}}, _a([[1.0], 2]), _a([1], [[True]], [[1, 1]])),
    FilterCase("$contains null", {"a": {"$contains": None}}, _a([None]), _a(None, [], "null", _ABSENT)),
    FilterCase("$and", {"$and": [{"a": 1}, {"b": 2}]}, ({"a": 1, "b": 2},), ({"a": 1}, {"b": 2}, {})),
    FilterCase("$and of nothing", {"$and": []}, _ANY_METADATA, (), one_sided="no condition, so everything"),
    FilterCase("$or", {"$or": [{"a": 1}, {"b": 2}]}, ({"a": 1}, {"b": 2}), ({"a": 2, "b": 1}, {})),
    FilterCase("$or of nothing", {"$or": []}, (), _ANY_METADATA, one_sided="none of no conditions holds"),
    FilterCase("$not", {"$not": {"a": {"$gt": 1}}}, _a(1, "x", None, _ABSENT), _a(2)),
    FilterCase("$not below a field", {"a": {"$not": {"$gte": 1, "$lt": 3}}}, _a(0, 3, "x", _ABSENT), _a(1, 2)),
    FilterCase("$or beside a field", {"b": 1, "$or": [{"a": 1}, {"a": 2}]}, ({"a": 2, "b": 1},), ({"a": 2}, {"b": 1})),
    FilterCase(
        "nested", {"$not": {"$or": [{"a": 1}, {"$not": {"b": 2}}]}}, ({"b": 2},), ({"a": 1, "b": 2}, {}, {"b": 1})
    ),
    FilterCase("a dot in a name", {"a.b": 1}, ({"a.b": 1}, {"a": {"b": 1}}), ({"a.b": 2}, {"a": 1}, {"b": 1})),
    FilterCase("a key before a path", {"a.b": 1}, ({"a.b": 1, "a": {"b": 2}},), ({"a.b": None, "a": {"b": 1}},)),
    FilterCase("a path through no list", {"a.b": 1}, ({"a": {"b": 1}},), ({"a": [{"b": 1}]}, {"a": "b"}, {"a": None})),
    FilterCase(
        "a path of three keys",
        {"a.b.c": "x"},
        ({"a": {"b": {"c": "x"}}}, {"a": {"b.c": "x"}}, {"a.b": {"c": "x"}}, {"a.b": {"d": 1}, "a": {"b": {"c": "x"}}}),
        ({"a": {"b": "x"}}, {"a.b": {"c": "y"}, "a": {"b": {"c": "x"}}}, {"c": "x"}, {"b.c": "x"}),
    ),
    FilterCase("an empty key of a path", {"a.": 1}, ({"a": {"": 1}}, {"a.": 1}), ({"a": 1}, {"": {"a": 1}})),
    FilterCase("a path that is missing", {"a.b": {"$ne": 1}}, ({"a": {}}, {"a": 1}, {}), ({"a": {"b": 1.0}},)),
    FilterCase("order by a path", {"a.b": {"$gt": 2**53}}, ({"a": {"b": 2**53 + 1}},), ({"a": {"b": 2**53}}, {"a": 9})),
    FilterCase("a path to a list", {"a.b": {"$contains": "x"}}, ({"a": {"b": ["x"]}},), ({"a": {"b": [["x"]]}},)),
    FilterCase(
        "a long path",
        {".".join("abcdefghijkl"): 1},
        (nested_metadata("abcdefghijkl", 1), {".".join("abcdefghijkl"): 1}),
        (nested_metadata("abcdefghijkl", 2), nested_metadata("abcdefghijk", 1)),
    ),
    FilterCase("a quote in a name", {'a"b': 1}, ({'a"b': 1},), ({"a": 1}, {"a\\b": 1})),
    FilterCase("an index as a name", {"[0]": 1}, ({"[0]": 1},), ({"0": 1}, {"a": [1]})),
    FilterCase("the empty name", {"": 1}, ({"": 1},), ({"a": 1}, {})),
    FilterCase("case of a name", {"A": 1}, ({"A": 1},), ({"a": 1},)),
)

BAD_FILTERS: tuple[tuple[str, Any], ...] = (
    ("a text", "kind = 'fact'"),
    ("a list", [{"a": 1}]),
    ("an unknown operator", {"a": {"$near": 1}}),
    ("an unknown operator above", {"$nor": [{"a": 1}]}),
    ("an operator without a field", {"$eq": 1}),
    ("a branch below a field", {"a": {"$or": [{"$gt": 1}]}}),
    ("an object without an operator", {"a": {"b": 1}}),
    ("an empty object", {"a": {}}),
    ("an operator beside a key", {"a": {"$gt": 1, "b": 1}}),
    ("$and without a list", {"$and": {"a": 1}}),
    ("$or of values", {"$or": [1]}),
    ("$not of a list", {"$not": [{"a": 1}]}),
    ("$not of a value", {"a": {"$not": 1}}),
    ("$in without a list", {"a": {"$in": "x"}}),
    ("$nin without a list", {"a": {"$nin": 1}}),
    ("$exists without a bool", {"a": {"$exists": 1}}),
    ("ordering by null", {"a": {"$gt": None}}),
    ("ordering by true", {"a": {"$lte": True}}),
    ("ordering by a list", {"a": {"$lt": [1]}}),
    ("NaN", {"a": float("nan")}),
    ("infinity in a list", {"a": {"$in": [1, float("inf")]}}),
    ("no JSON", {"a": {"$eq": b"x"}}),
    ("a set", {"a": {"$in": {1, 2}}}),
    ("a number as a name", {1: "a"}),
    ("NUL in a name", {"a\0b": 1}),
    ("a lone surrogate", {"a": "\ud800"}),
)


def case_entries(case: FilterCase) -> list[Entry]:
    """Return the metadata of a case as entries: "yes0"… match, "no0"… do not."""
    pairs = [("yes", data) for data in case.matching] + [("no", data) for data in case.others]
    return [Entry(f"{side}{i:02}", [1, i, 0], "zorb", metadata=data) for i, (side, data) in enumerate(pairs)]


class FilterContract(StoreContract):
    """Every case is asked of every call that takes a filter."""

    @pytest.mark.parametrize(
        "fields", [(), ("a", "b"), ("a.b", "A", "a.b.c", "a.")], ids=["undeclared", "declared", "paths"]
    )
    def test_each_filter_case_matches_in_every_call(self, fields: tuple[str, ...]) -> None:
        store = self.open(fields=fields)
        wrong = {}
        for case in FILTER_CASES:
            store.upsert(case_entries(case), namespace=case.name)
            expected = [entry.id for entry in case_entries(case) if entry.id.startswith("yes")]
            options: dict[str, Any] = {"where": case.where, "namespace": case.name}
            answers = {
                "scan": result_ids(store.scan(**options)),
                "search": sorted(result_ids(store.search([1, 0, 0], 99, **options))),
                "search_many": sorted(result_ids(store.search_many([[1, 0, 0]], 99, **options)[0])),
                "search_text": sorted(result_ids(store.search_text("zorb", 99, **options))),
            }
            counted = store.count(**options)
            if counted != len(expected) or any(ids != sorted(expected) for ids in answers.values()):
                wrong[case.name] = (answers, counted, expected)
        assert not wrong

    def test_each_filter_case_deletes_its_matches_alone(self, store: VectorStore) -> None:
        wrong = {}
        for case in FILTER_CASES:
            if case.where != {"$and": []}:
                store.upsert(case_entries(case), namespace=case.name)
                deleted = store.delete(where=case.where, namespace=case.name)
                remaining = result_ids(store.scan(namespace=case.name))
                if deleted != len(case.matching) or any(name.startswith("yes") for name in remaining):
                    wrong[case.name] = (deleted, remaining)
        assert not wrong

    @pytest.mark.parametrize(("name", "where"), BAD_FILTERS, ids=[name for name, _ in BAD_FILTERS])
    def test_an_invalid_filter_is_refused_by_every_call(self, store: VectorStore, name: str, where: Any) -> None:
        store.upsert([make_entry("a", [1, 0, 0], "zorb", kind="fact")])
        for options in ({}, {"namespace": "empty"}, {"ids": ()}):
            calls = protocol_calls(VectorStore, store, where=where, **options)
            assert calls_not_refused(FilterError, calls) == []
        assert store.count() == 1

    def test_a_filter_is_taken_as_it_was_when_the_call_began(self, store: VectorStore) -> None:
        store.upsert(make_entry(f"e{i:04}", x=i % 2) for i in range(1000))
        where = {"x": 1}
        scan = store.scan(where=where)
        next(scan)
        where["x"] = 0
        assert {entry.metadata["x"] for entry in scan} == {1}

    def test_a_filter_of_many_values_is_answered(self) -> None:
        store = self.open(fields=("n",))
        store.upsert(make_entry(f"e{i}", [1, i, 0], n=i, m=i) for i in range(30))
        many = [*range(20, 5000), *(f"t{i}" for i in range(5000))]
        for name in ("n", "m"):
            assert store.count(where={name: {"$in": many}}) == 10
            assert len(store.search([1, 0, 0], 99, where={name: {"$nin": many}})) == 20
            assert store.count(where={"$or": [{name: i} for i in range(1000)]}) == 30


class DeclaredFieldsContract(StoreContract):
    """Declared fields, of stores with the second protocol."""

    def test_fields_declared_later_filter_as_before(self, store: LifecycleStore) -> None:
        values = [1, 1.0, True, "x", None, [1, "x"], {"k": 1}]
        store.upsert(make_entry(f"e{i}", [i, 1, 0], "zorb", a=value, b=i) for i, value in enumerate(values))
        store.upsert([make_entry("without", [1, 1, 1], "zorb")])
        filters: list[dict[str, Any]] = [{"a": {"$eq": value}} for value in values]
        filters += [{"a": {"$exists": False}}, {"b": {"$gt": 3}}, {"a": {"$ne": 1}, "b": {"$lt": 5}}]

        def answers() -> list[Any]:
            ranked = [ids_and_scores(store.search([1, 2, 3], 99, where=where)) for where in filters]
            texts = [result_ids(store.search_text("zorb", where=where)) for where in filters]
            return [*ranked, *texts, *(store.count(where=where) for where in filters)]

        before = answers()
        assert store.fields == ()
        for fields in (("a",), ("a", "b"), ("b",), ()):
            store.declare_fields(fields)
            assert store.fields == fields
            assert answers() == before
        store.declare_fields(["b", "a"])
        store.upsert([make_entry("late", [0, 1, 0], "zorb", a="x", b=99)])
        store.patch({"e0": {"a": "x"}})
        assert result_ids(store.search_text("zorb", where={"a": "x"})) == ["e0", "e3", "late"]
        assert store.verify() == []

    def test_fields_are_declared_in_transactions_and_lastingly(self, store: LifecycleStore) -> None:
        store.upsert([make_entry("a", [1, 0, 0], n=1), make_entry("b", [1, 0, 0], n=2)])
        store.declare_fields(("n",))
        with abandoned_transaction(store):
            store.declare_fields(("other",))
            assert store.fields == ("other",)
            assert result_ids(store.search([1, 0, 0], where={"n": 2})) == ["b"]
        assert store.fields == ("n",)
        assert result_ids(store.search([1, 0, 0], where={"n": 2})) == ["b"]
        bad: list[Any] = ["n", None, 7, [1], ["n", "n"], ["\ud800"]]
        for fields in bad:
            with pytest.raises(ArgumentError):
                store.declare_fields(fields)
        reopened = self.reopened(store)
        assert reopened.fields == ("n",)
        assert result_ids(reopened.search([1, 0, 0], where={"n": 2})) == ["b"]
