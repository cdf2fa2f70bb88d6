"""What each part of the filter language means, as cases: metadata that match and metadata that do not.

Values only; ``FilterContract`` runs them through a store. A case without a match or without its opposite
would prove nothing, so ``FilterCase`` refuses it unless it says why one side is empty by nature.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FilterCase:
    """A filter, the metadata it matches and those it does not; *one_sided* says why one of them is empty."""

    name: str
    where: Data
    matching: tuple[Data, ...]
    others: tuple[Data, ...]
    one_sided: str = ""

    def __post_init__(self) -> None:
        if not self.one_sided and not (self.matching and self.others):
            raise ValueError(f"case {self.name!r} needs metadata that match and metadata that do not")


def _held(*values: Any) -> tuple[Data, ...]:
    return tuple({"a": value} for value in values)


_BIG = 2**63
_ANY: tuple[Data, ...] = ({}, {"a": None}, {"a": 1}, {"b": [1, {"c": None}]})

FILTER_CASES: tuple[FilterCase, ...] = (
    FilterCase("plain text", {"a": "x"}, _held("x"), (*_held("X", "xx", "", ["x"], None, 1), {}, {"b": "x"})),
    FilterCase("plain number", {"a": 1}, _held(1, 1.0), (*_held(True, "1", 2, [1], None), {})),
    FilterCase("plain float", {"a": 1.0}, _held(1, 1.0), (*_held(True, 1.5), {})),
    FilterCase("plain true", {"a": True}, _held(True), (*_held(False, 1, 1.0, "true", None), {})),
    FilterCase("plain false", {"a": False}, _held(False), (*_held(True, 0, 0.0, "", None, []), {})),
    FilterCase("plain null", {"a": None}, _held(None), (*_held(0, "", False, [], [None]), {})),
    FilterCase("plain list", {"a": [1, "x"]}, _held([1, "x"], [1.0, "x"]), _held(["x", 1], [1], "x", [True, "x"], [])),
    FilterCase("two fields", {"a": 1, "b": 2}, ({"a": 1, "b": 2},), ({"a": 1}, {"b": 2}, {"a": 1, "b": 3})),
    FilterCase("zero", {"a": 0}, _held(0, 0.0, -0.0), _held(False, None, "", "0")),
    FilterCase(
        "$eq object",
        {"a": {"$eq": {"x": 1}}},
        _held({"x": 1}, {"x": 1.0}),
        _held({"x": True}, {}, {"x": 1, "y": 1}),
    ),
    FilterCase(
        "$eq object order",
        {"a": {"$eq": {"x": [1], "y": 2}}},
        _held({"y": 2, "x": [1]}),
        _held({"x": [2], "y": 2}),
    ),
    FilterCase("$eq beyond 64 bits", {"a": {"$eq": _BIG + 1}}, _held(_BIG + 1), _held(_BIG, float(_BIG), _BIG - 1)),
    FilterCase("$eq beyond 53 bits", {"a": {"$eq": 2**53 + 1}}, _held(2**53 + 1), _held(2**53, float(2**53))),
    FilterCase("$eq NUL in a text", {"a": {"$eq": "x\0y"}}, _held("x\0y"), _held("x", "x\0z", "xy")),
    FilterCase("$eq unfolded text", {"a": "é"}, _held("é"), _held("e\u0301", "É", "e")),
    FilterCase("$ne", {"a": {"$ne": 1}}, (*_held(2, True, "1", None, [1]), {}), _held(1, 1.0)),
    FilterCase("$ne null", {"a": {"$ne": None}}, (*_held(0, ""), {}), _held(None)),
    FilterCase("$in", {"a": {"$in": [1, "x", None]}}, _held(1, 1.0, "x", None), (*_held(2, True, "X", []), {})),
    FilterCase(
        "$in on a list",
        {"a": {"$in": ["x", "y"]}},
        _held(["z", "y"], ["x"]),
        _held(["z"], [], [["x"]], {"x": 1}),
    ),
    FilterCase("$in does not take a list whole", {"a": {"$in": [[1, 2]]}}, _held([[1, 2]]), _held([1, 2], [1])),
    FilterCase("$in true", {"a": {"$in": [True]}}, _held(True, [0, True]), _held(1, [1], "true", False)),
    FilterCase(
        "$in of many",
        {"a": {"$in": [*range(50), "x"]}},
        _held(49, 0.0, "x", [99, 7]),
        _held(50, True, "7", [99]),
    ),
    FilterCase("$in of nothing", {"a": {"$in": []}}, (), _ANY, one_sided="nothing is in an empty list"),
    FilterCase("$nin", {"a": {"$nin": [1, "x"]}}, (*_held(2, True, ["z"], None, []), {}), _held(1, "x", ["z", "x"])),
    FilterCase("$nin of nothing", {"a": {"$nin": []}}, _ANY, (), one_sided="everything is outside an empty list"),
    FilterCase("$gt", {"a": {"$gt": 1}}, _held(1.5, 2, _BIG), (*_held(1, 0, "2", True, None, [2]), {})),
    FilterCase("$gte", {"a": {"$gte": 1}}, _held(1, 1.0, 2), (*_held(0.9, True, "1"), {})),
    FilterCase("$lt", {"a": {"$lt": 1}}, _held(0, -1, 0.9, -_BIG - 1), (*_held(1, False, "0", None, []), {})),
    FilterCase("$lte", {"a": {"$lte": 1}}, _held(1, 0), (*_held(1.1, True, None), {})),
    FilterCase("$gt beyond 64 bits", {"a": {"$gt": _BIG}}, _held(_BIG + 1, 1e30), _held(_BIG, float(_BIG), 1)),
    FilterCase(
        "$gt on texts",
        {"a": {"$gt": "b"}},
        _held("ba", "c", "é", "\U0001f600"),
        _held("b", "B", "", 99, ["c"]),
    ),
    FilterCase(
        "$lt by code point",
        {"a": {"$lt": "\U0001f600"}},
        _held("\uffff", "z"),
        _held("\U0001f601", "\U0001f600"),
    ),
    FilterCase("a range", {"a": {"$gte": 1, "$lt": 3}}, _held(1, 2.9), _held(3, 0)),
    FilterCase("$exists", {"a": {"$exists": True}}, _held(0, "", False, [], {}), (*_held(None), {}, {"b": 1})),
    FilterCase("$exists not", {"a": {"$exists": False}}, (*_held(None), {}, {"b": 1}), _held(0, "", False, [])),
    FilterCase(
        "$contains in a list",
        {"a": {"$contains": 1}},
        _held([2, 1.0], [1]),
        _held([True], ["1"], [[1]], 1, [], {"1": 1}),
    ),
    FilterCase(
        "$contains in a text",
        {"a": {"$contains": "b"}},
        _held("abc", "b", ["b"]),
        (*_held("B", "", ["abc"]), {}),
    ),
    FilterCase("$contains nothing", {"a": {"$contains": ""}}, _held("", "x", [""]), (*_held([], 1, None, ["x"]), {})),
    FilterCase("$contains past a NUL", {"a": {"$contains": "y"}}, _held("x\0y"), _held("x\0")),
    FilterCase("$contains a pattern", {"a": {"$contains": "%_*"}}, _held("a%_*b"), _held("abc", "%*")),
    FilterCase("$contains a list", {"a": {"$contains": [1]}}, _held([[1.0], 2]), _held([1], [[True]], [[1, 1]])),
    FilterCase("$contains null", {"a": {"$contains": None}}, _held([None]), (*_held(None, [], "null"), {})),
    FilterCase("$and", {"$and": [{"a": 1}, {"b": 2}]}, ({"a": 1, "b": 2},), ({"a": 1}, {"b": 2}, {})),
    FilterCase("$and of nothing", {"$and": []}, _ANY, (), one_sided="no condition, so everything"),
    FilterCase("$or", {"$or": [{"a": 1}, {"b": 2}]}, ({"a": 1}, {"b": 2}), ({"a": 2, "b": 1}, {})),
    FilterCase("$or of nothing", {"$or": []}, (), _ANY, one_sided="none of no conditions holds"),
    FilterCase("$not", {"$not": {"a": {"$gt": 1}}}, (*_held(1, "x", None), {}), _held(2)),
    FilterCase("$not below a field", {"a": {"$not": {"$gte": 1, "$lt": 3}}}, (*_held(0, 3, "x"), {}), _held(1, 2)),
    FilterCase("$or beside a field", {"b": 1, "$or": [{"a": 1}, {"a": 2}]}, ({"a": 2, "b": 1},), ({"a": 2}, {"b": 1})),
    FilterCase(
        "nested",
        {"$not": {"$or": [{"a": 1}, {"$not": {"b": 2}}]}},
        ({"b": 2},),
        ({"a": 1, "b": 2}, {}, {"b": 1}),
    ),
    FilterCase("a dot in a name", {"a.b": 1}, ({"a.b": 1},), ({"a": {"b": 1}}, {"a": 1}, {"b": 1})),
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
