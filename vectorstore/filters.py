"""Metadata filters: the syntax tree of a filter (``filter_tree``) and its meaning (``matches_filter``).

This is the reference meaning; SQL and columns are compiled from the same tree and must agree with it.
It does not read rows and knows no engine. Equality and frozen copies of JSON values stand here too.

A filter is a mapping; everything in one mapping must hold:

    {"kind": "fact"}                              the field equals a value ($eq); a list is compared whole
    {"age": {"$gte": 18, "$lt": 65}}              operators on one field, all of them
    {"$or": [{"kind": "fact"}, {"pinned": True}]} $and, $or: lists of filters; $not: one filter
    {"age": {"$not": {"$gt": 3}}}                 $not also stands before operators

Leaves:

- ``$eq``: equal as JSON values, lists and objects whole. 1 equals 1.0; true equals only true. ``None``
  equals a present null and not a missing field. ``$ne`` is its opposite, so it matches a missing field.
- ``$in``: equal to one of the values; where the field is a list: one of its elements is (the list itself
  is not compared). ``$nin`` is its opposite.
- ``$gt $gte $lt $lte``: numbers with numbers, by exact value; texts with texts, by code point. Anything
  else is false, and only a number or a text can be asked for.
- ``$exists``: True: present and not null; False: missing or null.
- ``$contains``: an equal element of a list, or a substring of a text (the empty one is in every text).

Empty shapes: ``None``, ``{}`` and ``$and: []`` match everything, ``$or: []`` and ``$in: []`` nothing,
``$nin: []`` everything. A field is a top-level key, exactly: a dot is part of its name; a name that begins
with "$" cannot be asked for. An object as a value needs its operator (``{"place": {"$eq": {…}}}``). What
the language does not have raises ``FilterError`` and names the place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from vectorstore.errors import FilterError, shown
from vectorstore.types import Filter, Metadata

DEPTH_LIMIT = 100
"""How deep lists and objects may be nested in a value."""
DIGITS_LIMIT = 4300
"""How many digits a whole number may have; Python itself writes no longer ones."""
NUMBER_LIMIT = 10**DIGITS_LIMIT


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal: 1 is 1.0, true is only true, lists in order, objects in any order."""
    if isinstance(left, bool) or isinstance(right, bool) or left is None or right is None:
        return left is right
    if isinstance(left, Mapping):
        return (
            isinstance(right, Mapping)
            and left.keys() == right.keys()
            and all(same(value, right[name]) for name, value in left.items())
        )
    if isinstance(left, (list, tuple)):
        return (
            isinstance(right, (list, tuple))
            and len(left) == len(right)
            and all(same(one, other) for one, other in zip(left, right, strict=True))
        )
    return bool(left == right)


def is_number(value: Any) -> bool:
    """Whether *value* is a number, which true and false are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def frozen(value: Any, place: str, depth: int = DEPTH_LIMIT) -> Any:
    """Return a copy that cannot change (tuples, read-only mappings); *place* names it in errors."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return plain_text(value, place)
    if isinstance(value, int):
        if abs(value) >= NUMBER_LIMIT:
            raise FilterError(place, "…", f"a whole number may have at most {DIGITS_LIMIT} digits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise FilterError(place, value, "numbers must be finite")
        return float(value)
    if not isinstance(value, (list, tuple, Mapping)):
        raise FilterError(place, value, "must be JSON: text, numbers, true, false, null, lists and objects")
    if depth == 0:
        raise FilterError(place, "…", f"a value may be at most {DEPTH_LIMIT} levels deep")
    if not isinstance(value, Mapping):
        return tuple(frozen(inner, place, depth - 1) for inner in value)
    for name in value:
        if not isinstance(name, str):
            raise FilterError(place, name, "the keys of an object are texts")
    return MappingProxyType({plain_text(name, place): frozen(inner, place, depth - 1) for name, inner in value.items()})


def thawed(value: Any) -> Any:
    """Return a frozen value as ``json.dumps`` takes it."""
    if isinstance(value, Mapping):
        return {name: thawed(inner) for name, inner in value.items()}
    return [thawed(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def plain_text(value: str, place: str) -> str:
    """Return *value* as a text of the base type, if UTF-8 can hold it."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise FilterError(place, value, "a text must not contain lone surrogates") from error
    return str.__str__(value)  # the plain text also of an enumeration's member


NESTING_LIMIT = 100
"""How deep filters may be nested in filters."""

LEAVES = ("$eq", "$ne", "$in", "$nin", "$gt", "$gte", "$lt", "$lte", "$exists", "$contains")
_BRANCHES = ("$and", "$or", "$not")
_ORDERINGS = frozenset({"$gt", "$gte", "$lt", "$lte"})


@dataclass(frozen=True, slots=True)
class All:
    """Every one of *nodes* holds; with none of them it matches everything."""

    nodes: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Any_:  # noqa: N801 - `Any` is taken by typing
    """At least one of *nodes* holds; with none of them it matches nothing."""

    nodes: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Not:
    """*node* does not hold."""

    node: Node


@dataclass(frozen=True, slots=True)
class Test:
    """One operator against one field; *value* is frozen (tuples for lists, read-only mappings)."""

    __test__ = False  # pytest collects classes of this name

    field: str
    operator: str
    value: Any


Node: TypeAlias = All | Any_ | Not | Test


def parse(where: Filter | Node | None) -> Node:
    """Return the tree of *where*, which it does not alias; a tree is returned as it is.

    ``All(())`` is returned for every filter without a condition (None, ``{}``, ``{"$and": [{}]}``).
    """
    if isinstance(where, (All, Any_, Not, Test)):
        return where
    return All() if where is None else _filter(where, "where", NESTING_LIMIT)


def matches(where: Filter | Node | None, metadata: Metadata) -> bool:
    """Whether *metadata* satisfies *where*: the reference meaning."""
    return _holds(parse(where), metadata)


def test(operator: str, wanted: Any, present: bool, value: Any) -> bool:
    """Whether one leaf holds for a field that is *present* with *value* (ignored if it is not)."""
    match operator:
        case "$eq":
            return present and same(value, wanted)
        case "$ne":
            return not (present and same(value, wanted))
        case "$in":
            return present and _any_of(value, wanted)
        case "$nin":
            return not (present and _any_of(value, wanted))
        case "$exists":
            return (present and value is not None) is wanted
        case "$contains":
            return present and _contains(value, wanted)
        case "$gt" | "$gte" | "$lt" | "$lte":
            return present and _ordered(operator, value, wanted)
    raise FilterError("operator", operator, f"must be one of {', '.join(LEAVES)}")


test.__test__ = False  # type: ignore[attr-defined]  # pytest collects functions of this name


def fields_of(node: Node) -> frozenset[str]:
    """Return the names of all fields that *node* asks for."""
    return frozenset(leaf.field for leaf in leaves(node))


def leaves(node: Node) -> Iterator[Test]:
    """Yield the leaves of *node* from left to right."""
    match node:
        case Test():
            yield node
        case Not(inner):
            yield from leaves(inner)
        case All(nodes) | Any_(nodes):
            for inner in nodes:
                yield from leaves(inner)


def _holds(node: Node, metadata: Metadata) -> bool:
    match node:
        case Test(field, operator, wanted):
            return test(operator, wanted, field in metadata, metadata.get(field))
        case All(nodes):
            return all(_holds(inner, metadata) for inner in nodes)
        case Any_(nodes):
            return any(_holds(inner, metadata) for inner in nodes)
        case Not(inner):
            return not _holds(inner, metadata)


def _any_of(value: Any, wanted: Any) -> bool:
    candidates = value if isinstance(value, (list, tuple)) else (value,)
    return any(same(candidate, one) for candidate in candidates for one in wanted)


def _contains(value: Any, wanted: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(same(element, wanted) for element in value)
    return isinstance(value, str) and isinstance(wanted, str) and wanted in value


def _ordered(operator: str, value: Any, wanted: Any) -> bool:
    if not (is_number(value) and is_number(wanted)) and not (isinstance(value, str) and isinstance(wanted, str)):
        return False
    match operator:
        case "$gt":
            return bool(value > wanted)
        case "$gte":
            return bool(value >= wanted)
        case "$lt":
            return bool(value < wanted)
    return bool(value <= wanted)


def _filter(where: Any, place: str, depth: int) -> Node:
    if not isinstance(where, Mapping):
        raise FilterError(place, where, "a filter is a mapping of fields or $and, $or, $not")
    if depth == 0:
        raise FilterError("where", "…", f"may be nested at most {NESTING_LIMIT} levels deep")
    nodes: list[Node] = []
    for name, wanted in where.items():
        inner = f"{place}[{shown(name)}]"
        if isinstance(name, str) and name.startswith("$"):
            nodes.append(_branch(name, wanted, inner, depth - 1))
        else:
            nodes.append(_field(_field_name(name, place), wanted, inner, depth - 1))
    return _joined(nodes)


def _branch(name: str, wanted: Any, place: str, depth: int) -> Node:
    if name == "$not":
        return Not(_filter(wanted, place, depth))
    if name in LEAVES:
        raise FilterError(place, wanted, f'{name} belongs below a field: {{"field": {{"{name}": …}}}}')
    if name not in _BRANCHES:
        raise FilterError(place, wanted, f"unknown operator {shown(name)}; there are {', '.join(_BRANCHES)}")
    if not isinstance(wanted, (list, tuple)):
        raise FilterError(place, wanted, f"{name} takes a list of filters")
    nodes = [_filter(inner, f"{place}[{i}]", depth) for i, inner in enumerate(wanted)]
    return _joined(nodes) if name == "$and" else Any_(tuple(nodes))


def _field_name(name: Any, place: str) -> str:
    if not isinstance(name, str):
        raise FilterError(place, name, "the name of a field is a text")
    if "\0" in name:
        raise FilterError(place, name, "the name of a field has no NUL")
    return plain_text(name, place)


def _field(field: str, wanted: Any, place: str, depth: int) -> Node:
    if isinstance(wanted, Mapping):
        return _operators(field, wanted, place, depth)
    return Test(field, "$eq", frozen(wanted, place))


def _operators(field: str, operators: Mapping[Any, Any], place: str, depth: int) -> Node:
    if not operators:
        raise FilterError(place, operators, 'an operator is needed; {"$eq": {}} compares with an empty object')
    if depth == 0:
        raise FilterError("where", "…", f"may be nested at most {NESTING_LIMIT} levels deep")
    nodes: list[Node] = []
    for operator, wanted in operators.items():
        inner = f"{place}[{shown(operator)}]"
        if operator == "$not":
            if not isinstance(wanted, Mapping):
                raise FilterError(inner, wanted, "$not below a field takes operators; $ne takes a value")
            nodes.append(Not(_operators(field, wanted, inner, depth - 1)))
        elif operator in LEAVES:
            nodes.append(Test(field, operator, _wanted(operator, wanted, inner)))
        elif operator in _BRANCHES:
            raise FilterError(inner, wanted, f"{operator} belongs above fields, as a list of filters")
        elif isinstance(operator, str) and operator.startswith("$"):
            raise FilterError(inner, wanted, f"unknown operator {shown(operator)}; there are {', '.join(LEAVES)}")
        else:
            raise FilterError(place, operators, 'operators begin with $; {"$eq": {…}} compares with an object')
    return _joined(nodes)


def _wanted(operator: str, wanted: Any, place: str) -> Any:
    if operator == "$exists" and not isinstance(wanted, bool):
        raise FilterError(place, wanted, "$exists takes True or False")
    if operator in ("$in", "$nin") and not isinstance(wanted, (list, tuple)):
        raise FilterError(place, wanted, f"{operator} takes a list of values")
    if operator in _ORDERINGS and not (is_number(wanted) or isinstance(wanted, str)):
        raise FilterError(place, wanted, f"{operator} takes a number or a text")
    return frozen(wanted, place, DEPTH_LIMIT + (operator in ("$in", "$nin")))


def _joined(nodes: list[Node]) -> Node:
    needed = tuple(node for node in nodes if node != All())
    return needed[0] if len(needed) == 1 else All(needed)
