"""Metadata filters: the syntax tree of a filter (``filter_tree``) and its meaning (``matches_filter``).

This is the reference meaning; SQL and columns are compiled from the same tree and must agree with it.
It does not read rows and knows no engine.

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
``$nin: []`` everything. A field is a top-level key, exactly; where there is none of that name and the name has dots,
it is a path into objects: "user.name" is the "name" of the object "user". Where several keys could begin the path,
the longest that leads to a value counts. Lists are not entered. A name that begins with "$" cannot be asked for. An
object as a value needs its operator (``{"place": {"$eq": {…}}}``). What the language does not have raises
``FilterError`` and names the place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any, Final, TypeAlias

from tellback.vectorstore.errors import FilterError, short_repr
from tellback.vectorstore.json_values import JSON_DEPTH_LIMIT, check_text, is_number, json_equal, plain_json
from tellback.vectorstore.types import Filter, Metadata

FILTER_NESTING_LIMIT = 100
"""Greatest depth of filters nested in filters."""

LEAF_OPERATORS = ("$eq", "$ne", "$in", "$nin", "$gt", "$gte", "$lt", "$lte", "$exists", "$contains")
_NEGATED_OPERATORS: Final = {"$ne": "$eq", "$nin": "$in"}
_BRANCH_OPERATORS = ("$and", "$or", "$not")
ORDER_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}
"""The comparison of a value with a bound, by operator of order."""


@dataclass(frozen=True, slots=True)
class And:
    """Every one of *nodes* holds; with none of them it matches everything."""

    nodes: tuple[FilterNode, ...] = ()


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of *nodes* holds; with none of them it matches nothing."""

    nodes: tuple[FilterNode, ...] = ()


@dataclass(frozen=True, slots=True)
class Not:
    """*node* does not hold."""

    node: FilterNode


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition of one operator on one field; *value* is a copy of what was given, in plain JSON types.

    ``$ne``, ``$nin`` and ``{"$exists": False}`` are ``Not`` of the operator that they negate.
    """

    field: str
    operator: str
    value: Any


FilterNode: TypeAlias = And | Or | Not | Condition


def filter_tree(where: Filter | FilterNode | None) -> FilterNode:
    """Return the tree of *where*, which it does not alias; a tree is returned as it is.

    ``And(())`` is returned for every filter without a condition (None, ``{}``, ``{"$and": [{}]}``).
    """
    if isinstance(where, (And, Or, Not, Condition)):
        return where
    return And() if where is None else _parse_mapping(where, "where", FILTER_NESTING_LIMIT)


def matches_filter(where: Filter | FilterNode | None, metadata: Metadata) -> bool:
    """Return whether *metadata* satisfies *where*: the reference meaning."""
    return _node_holds(filter_tree(where), metadata)


def condition_holds(operator: str, operand: Any, present: bool, value: Any) -> bool:
    """Return whether one leaf holds for a field that is *present* with *value* (ignored if it is not)."""
    match operator:
        case "$eq":
            return present and json_equal(value, operand)
        case "$in":
            return present and _any_equal(value, operand)
        case "$exists":
            return present and value is not None
        case "$contains":
            return present and _contains(value, operand)
        case "$gt" | "$gte" | "$lt" | "$lte":
            return present and _order_holds(operator, value, operand)
    raise FilterError("operator", operator, f"must be one of {', '.join(LEAF_OPERATORS)}")


def matches_everything(node: FilterNode) -> bool:
    """Return whether a filter has no condition."""
    return isinstance(node, And) and not node.nodes


def filter_fields(node: FilterNode) -> frozenset[str]:
    """Return the names of all fields that *node* asks for."""
    return frozenset(leaf.field for leaf in filter_conditions(node))


def filter_conditions(node: FilterNode) -> Iterator[Condition]:
    """Yield the leaves of *node* from left to right."""
    match node:
        case Condition():
            yield node
        case Not(inner):
            yield from filter_conditions(inner)
        case And(nodes) | Or(nodes):
            for inner in nodes:
                yield from filter_conditions(inner)


def _node_holds(node: FilterNode, metadata: Metadata) -> bool:
    match node:
        case Condition(field, operator, wanted):
            return condition_holds(operator, wanted, *field_value(metadata, field))
        case And(nodes):
            return all(_node_holds(inner, metadata) for inner in nodes)
        case Or(nodes):
            return any(_node_holds(inner, metadata) for inner in nodes)
        case Not(inner):
            return not _node_holds(inner, metadata)


def field_value(metadata: Metadata, field: str) -> tuple[bool, Any]:
    """Return whether *metadata* has *field*, a top-level key or else a dotted path, and the value, None without one."""
    if field in metadata:
        return True, metadata[field]
    if "." not in field:
        return False, None
    for key in path_starts(field):
        inner = metadata.get(key)
        if isinstance(inner, Mapping):
            present, value = field_value(inner, field[len(key) + 1 :])
            if present:
                return True, value
    return False, None


def path_starts(field: str) -> list[str]:
    """Return the keys that the dotted path *field* may begin with, the longest first."""
    return [field[:i] for i in range(len(field) - 1, -1, -1) if field[i] == "."]


def _any_equal(value: Any, operands: Any) -> bool:
    candidates = value if isinstance(value, (list, tuple)) else (value,)
    return any(json_equal(candidate, operand) for candidate in candidates for operand in operands)


def _contains(value: Any, operand: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(json_equal(element, operand) for element in value)
    return isinstance(value, str) and isinstance(operand, str) and operand in value


def _order_holds(operator: str, value: Any, operand: Any) -> bool:
    if not (is_number(value) and is_number(operand)) and not (isinstance(value, str) and isinstance(operand, str)):
        return False
    return bool(ORDER_OPERATORS[operator](value, operand))


def _parse_mapping(where: Any, path: str, depth: int) -> FilterNode:
    if not isinstance(where, Mapping):
        raise FilterError(path, where, "a filter is a mapping of fields or $and, $or, $not")
    if depth == 0:
        raise FilterError("where", "…", f"may be nested at most {FILTER_NESTING_LIMIT} levels deep")
    nodes: list[FilterNode] = []
    for name, operand in where.items():
        inner = f"{path}[{short_repr(name)}]"
        if not isinstance(name, str):
            raise FilterError(path, name, "the name of a field is a text")
        if name.startswith("$"):
            nodes.append(_parse_branch(name, operand, inner, depth - 1))
            continue
        if "\0" in name:
            raise FilterError(path, name, "the name of a field has no NUL")
        field = check_text(name, path, FilterError)
        if isinstance(operand, Mapping):
            nodes.append(_parse_operators(field, operand, inner, depth - 1))
        else:
            nodes.append(Condition(field, "$eq", plain_json(operand, inner, FilterError)))
    return _conjunction(nodes)


def _parse_branch(name: str, operand: Any, path: str, depth: int) -> FilterNode:
    if name == "$not":
        return Not(_parse_mapping(operand, path, depth))
    if name in LEAF_OPERATORS:
        raise FilterError(path, operand, f'{name} belongs below a field: {{"field": {{"{name}": …}}}}')
    if name not in _BRANCH_OPERATORS:
        raise FilterError(
            path, operand, f"unknown operator {short_repr(name)}; there are {', '.join(_BRANCH_OPERATORS)}"
        )
    if not isinstance(operand, (list, tuple)):
        raise FilterError(path, operand, f"{name} takes a list of filters")
    nodes = [_parse_mapping(inner, f"{path}[{i}]", depth) for i, inner in enumerate(operand)]
    return _conjunction(nodes) if name == "$and" else Or(tuple(nodes))


def _parse_operators(field: str, operators: Mapping[Any, Any], path: str, depth: int) -> FilterNode:
    if not operators:
        raise FilterError(path, operators, 'an operator is needed; {"$eq": {}} compares with an empty object')
    if depth == 0:
        raise FilterError("where", "…", f"may be nested at most {FILTER_NESTING_LIMIT} levels deep")
    nodes: list[FilterNode] = []
    for operator, operand in operators.items():
        inner = f"{path}[{short_repr(operator)}]"
        if operator == "$not":
            if not isinstance(operand, Mapping):
                raise FilterError(inner, operand, "$not below a field takes operators; $ne takes a value")
            nodes.append(Not(_parse_operators(field, operand, inner, depth - 1)))
        elif operator in LEAF_OPERATORS:
            value = _check_operand(operator, operand, inner)
            if operator in _NEGATED_OPERATORS:
                nodes.append(Not(Condition(field, _NEGATED_OPERATORS[operator], value)))
            elif operator == "$exists":
                nodes.append(Condition(field, operator, True) if value else Not(Condition(field, operator, True)))
            else:
                nodes.append(Condition(field, operator, value))
        elif operator in _BRANCH_OPERATORS:
            raise FilterError(inner, operand, f"{operator} belongs above fields, as a list of filters")
        elif isinstance(operator, str) and operator.startswith("$"):
            raise FilterError(
                inner, operand, f"unknown operator {short_repr(operator)}; there are {', '.join(LEAF_OPERATORS)}"
            )
        else:
            raise FilterError(path, operators, 'operators begin with $; {"$eq": {…}} compares with an object')
    return _conjunction(nodes)


def _check_operand(operator: str, operand: Any, path: str) -> Any:
    if operator == "$exists" and not isinstance(operand, bool):
        raise FilterError(path, operand, "$exists takes True or False")
    if operator in ("$in", "$nin") and not isinstance(operand, (list, tuple)):
        raise FilterError(path, operand, f"{operator} takes a list of values")
    if operator in ORDER_OPERATORS and not (is_number(operand) or isinstance(operand, str)):
        raise FilterError(path, operand, f"{operator} takes a number or a text")
    return plain_json(operand, path, FilterError, JSON_DEPTH_LIMIT + (operator in ("$in", "$nin")))


def _conjunction(nodes: list[FilterNode]) -> FilterNode:
    needed = tuple(node for node in nodes if node != And())
    return needed[0] if len(needed) == 1 else And(needed)
