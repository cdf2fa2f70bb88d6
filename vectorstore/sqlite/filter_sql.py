"""Filters as SQL: a condition over a column of JSON text, with exactly the meaning of ``filters.matches_filter``.

SQLite's JSON functions decide wherever they can. They cannot compare lists and objects (1 and 1.0 inside
them), and they read whole numbers beyond 64 bits as floats; there, and for filters too long for one
expression, the SQL calls a function of ours, which ``register_filter_function`` puts on a connection. Fields are
compared with the keys of ``json_each`` and never written into JSON paths, whose quoting does not reach every name.
Values are always bound.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import apsw

from vectorstore.filters import All, Any_, Node, Not, Test, is_number, matches, thawed

FUNCTION: Final = "mneme_matches"
NODES_LIMIT: Final = 100
"""Larger filters go to the function whole: SQLite bounds the depth of an expression."""
INLINE_LIMIT: Final = 20
"""A longer list of values is bound as one JSON array."""

_INTEGERS: Final = range(-(2**63), 2**63)
_COMPARISONS: Final = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_OPPOSITES: Final = {"$ne": "$eq", "$nin": "$in"}
_WORDS: Final = {None: "'null'", True: "'true'", False: "'false'"}


def register(connection: apsw.Connection) -> None:
    """Give *connection* the function that the text of ``to_sql`` may call."""
    connection.create_scalar_function(FUNCTION, _matches, 2, deterministic=True)


def to_sql(node: Node, *, column: str = "e.metadata") -> tuple[str, list[apsw.SQLiteValue]]:
    """Return the condition for *node* over *column* (SQL of ours, never a user's), and the values to bind.

    The condition is 0 or 1, never NULL, and may stand beside AND and OR as it is.
    """
    writer = _Writer(column)
    text = writer.reference(node) if _size(node) > NODES_LIMIT else writer.node(node)
    return text, writer.values


class _Writer:
    """Writes conditions, and collects the values in the order of their question marks."""

    def __init__(self, column: str) -> None:
        self.column = column
        self.values: list[apsw.SQLiteValue] = []

    def bind(self, value: apsw.SQLiteValue) -> str:
        self.values.append(value)
        return "?"

    def reference(self, node: Node) -> str:
        """The reference meaning itself, on the whole row."""
        return f"{FUNCTION}({self.column}, {self.bind(json.dumps(_coded(node)))})"

    def node(self, node: Node) -> str:
        match node:
            case All(nodes):
                return f"({' AND '.join(self.node(inner) for inner in nodes)})" if nodes else "1"
            case Any_(nodes):
                return f"({' OR '.join(self.node(inner) for inner in nodes)})" if nodes else "0"
            case Not(inner):
                return f"(NOT {self.node(inner)})"
            case Test(field, operator, value) if operator in _OPPOSITES:
                return f"(NOT {self.node(Test(field, _OPPOSITES[operator], value))})"
            case Test(field, "$exists", False):
                return f"(NOT {self.node(Test(field, '$exists', True))})"
            case Test():
                row = f"json_each({self.column}) AS f WHERE f.key = {self.bind(node.field)}"
                return f"EXISTS (SELECT 1 FROM {row} AND {self.condition(node)})"

    def condition(self, leaf: Test) -> str:
        """What must hold for ``f``, the field's row of ``json_each``."""
        match leaf.operator:
            case "$exists":
                return "f.type <> 'null'"
            case "$eq":
                return self.one_of("f", leaf, [leaf.value])
            case "$in":
                inside = self.element(leaf, leaf.value)
                return f"CASE f.type WHEN 'array' THEN {inside} ELSE {self.one_of('f', leaf, leaf.value)} END"
            case "$contains":
                text = f"instr(f.value, {self.bind(leaf.value)}) > 0" if isinstance(leaf.value, str) else "0"
                inside = self.element(leaf, [leaf.value])
                return f"CASE f.type WHEN 'text' THEN {text} WHEN 'array' THEN {inside} ELSE 0 END"
        return self.ordered(leaf)

    def ordered(self, leaf: Test) -> str:
        comparison = f"f.value {_COMPARISONS[leaf.operator]}"
        if isinstance(leaf.value, str):
            return f"f.type = 'text' AND {comparison} {self.bind(leaf.value)}"
        exact = self.reference(leaf)
        if _is_large(leaf.value):
            return f"f.type IN ('integer', 'real') AND {exact}"
        return _number("f", exact, f"{comparison} {self.bind(leaf.value)}")

    def element(self, leaf: Test, wanted: Sequence[Any]) -> str:
        """Whether an element of the list that ``f`` holds equals one of *wanted*."""
        return f"EXISTS (SELECT 1 FROM json_each(f.value) AS m WHERE {self.one_of('m', leaf, wanted)})"

    def one_of(self, row: str, leaf: Test, wanted: Sequence[Any]) -> str:
        """Whether the value of *row* equals one of *wanted*; where SQL cannot say, *leaf* is asked whole."""
        words = [_WORDS[value] for value in wanted if value is None or isinstance(value, bool)]
        texts = [value for value in wanted if isinstance(value, str)]
        numbers = [value for value in wanted if is_number(value)]
        parts: list[str] = []
        if words:
            parts.append(f"{row}.type IN ({', '.join(words)})")
        if texts:
            parts.append(f"({row}.type = 'text' AND {self.among(row, texts)})")
        if any(_is_large(number) for number in numbers):
            parts.append(f"({row}.type IN ('integer', 'real') AND {self.reference(leaf)})")
        elif numbers:
            parts.append(_number(row, self.reference(leaf), self.among(row, numbers)))
        if any(isinstance(value, tuple) for value in wanted):
            parts.append(f"({row}.type = 'array' AND {self.reference(leaf)})")
        if any(isinstance(value, Mapping) for value in wanted):
            parts.append(f"({row}.type = 'object' AND {self.reference(leaf)})")
        return f"({' OR '.join(parts)})" if parts else "0"

    def among(self, row: str, values: Sequence[str | int | float]) -> str:
        if len(values) == 1:
            return f"{row}.value = {self.bind(values[0])}"
        if len(values) <= INLINE_LIMIT:
            return f"{row}.value IN ({', '.join(self.bind(value) for value in values)})"
        return f"{row}.value IN (SELECT value FROM json_each({self.bind(json.dumps(values))}))"


def _number(row: str, exact: str, comparison: str) -> str:
    """*comparison* for a number; *exact* for a whole number that lost digits when SQLite read it."""
    lost = f"{row}.type = 'integer' AND typeof({row}.value) = 'real'"
    return f"CASE WHEN {lost} THEN {exact} WHEN {row}.type IN ('integer', 'real') THEN {comparison} ELSE 0 END"


def _is_large(number: int | float) -> bool:
    return isinstance(number, int) and number not in _INTEGERS


def _size(node: Node) -> int:
    match node:
        case All(nodes) | Any_(nodes):
            return 1 + sum(_size(inner) for inner in nodes)
        case Not(inner):
            return 1 + _size(inner)
    return 1


def _matches(*arguments: apsw.SQLiteValue) -> bool:
    metadata, coded = arguments
    return matches(_decoded(str(coded)), json.loads(str(metadata)))


@lru_cache(maxsize=16)
def _decoded(coded: str) -> Node:
    return _tree(json.loads(coded))


def _coded(node: Node) -> list[Any]:
    match node:
        case All(nodes):
            return ["all", *(_coded(inner) for inner in nodes)]
        case Any_(nodes):
            return ["any", *(_coded(inner) for inner in nodes)]
        case Not(inner):
            return ["not", _coded(inner)]
        case Test(field, operator, value):
            return ["test", field, operator, thawed(value)]


def _tree(coded: list[Any]) -> Node:
    match coded:
        case ["all", *nodes]:
            return All(tuple(_tree(inner) for inner in nodes))
        case ["any", *nodes]:
            return Any_(tuple(_tree(inner) for inner in nodes))
        case ["not", inner]:
            return Not(_tree(inner))
    _, field, operator, value = coded
    return Test(field, operator, value)
