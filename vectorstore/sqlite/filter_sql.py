"""Filters as SQL: a condition over a column of JSON text, with exactly the meaning of ``filters.matches_filter``.

SQLite's JSON functions decide wherever they can. They cannot compare lists and objects (1 and 1.0 inside
them), and they read whole numbers beyond 64 bits as floats; there, and for filters too long for one
expression, the SQL calls a function of ours, which ``register_filter_function`` puts on a connection, with the filter
itself as a bound value. Fields are compared with the keys of ``json_each`` and never written into JSON paths, whose
quoting does not cover every name. Only the function follows dotted paths. Values are always bound.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import apsw

from tellback.vectorstore.filters import And, Condition, FilterNode, Not, Or, matches_filter, path_starts
from tellback.vectorstore.json_values import is_number

FILTER_FUNCTION: Final = "tellback_matches"
SQL_NODES_LIMIT: Final = 100
"""Larger filters go to the function whole: SQLite bounds the depth of an expression."""
SQL_VALUES_LIMIT: Final = 20
"""A longer list of values is bound as one JSON array."""

_SQL_INTEGERS: Final = range(-(2**63), 2**63)
_SQL_COMPARISONS: Final = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_JSON_TYPES: Final = {None: "'null'", True: "'true'", False: "'false'"}


def register_filter_function(connection: apsw.Connection) -> None:
    """Give *connection* the function that the text of ``filter_to_sql`` may call."""

    def matches(*arguments: Any) -> bool:
        metadata, node = arguments
        return matches_filter(node, json.loads(metadata))

    connection.create_scalar_function(FILTER_FUNCTION, matches, 2, deterministic=True)


def filter_to_sql(node: FilterNode, *, column: str = "e.metadata") -> tuple[str, list[apsw.Binding]]:
    """Return the condition for *node* over *column* (SQL of ours, never a user's), and the values to bind.

    The condition is 0 or 1, never NULL, and may stand beside AND and OR as it is.
    """
    writer = _ConditionWriter(column)
    text = writer.reference(node) if _node_count(node) > SQL_NODES_LIMIT else writer.node(node)
    return text, writer.values


class _ConditionWriter:
    """Writer of conditions that collects the values in the order of their question marks."""

    def __init__(self, column: str) -> None:
        self.column = column
        self.values: list[apsw.Binding] = []

    def bind(self, value: apsw.Binding) -> str:
        self.values.append(value)
        return "?"

    def reference(self, node: FilterNode) -> str:
        """Return a call of the function for *node*, on the whole row."""
        return f"{FILTER_FUNCTION}({self.column}, {self.bind(apsw.pyobject(node))})"

    def node(self, node: FilterNode) -> str:
        match node:
            case And(nodes):
                return f"({' AND '.join(self.node(inner) for inner in nodes)})" if nodes else "TRUE"
            case Or(nodes):
                return f"({' OR '.join(self.node(inner) for inner in nodes)})" if nodes else "FALSE"
            case Not(inner):
                return f"(NOT {self.node(inner)})"
            case Condition():
                return self.leaf(node)

    def leaf(self, leaf: Condition) -> str:
        """Return the test of a top-level key; where only a path can lead to the field, *leaf* is tested in Python."""
        keys = path_starts(leaf.field) if "." in leaf.field else ()
        if len(keys) > SQL_VALUES_LIMIT:
            return self.reference(leaf)
        row = f"SELECT 1 FROM json_each({self.column}) AS f WHERE f.key = {self.bind(leaf.field)}"
        exact = f"EXISTS ({row} AND {self.condition(leaf)})"
        if not keys:
            return exact
        starts = ", ".join(self.bind(key) for key in keys)
        begun = f"SELECT 1 FROM json_each({self.column}) AS p WHERE p.type = 'object' AND p.key IN ({starts})"
        missing = f"NOT EXISTS (SELECT 1 FROM json_each({self.column}) AS f WHERE f.key = {self.bind(leaf.field)})"
        # CASE keeps the order: of terms joined by AND, SQLite would call the function first
        return f"({exact} OR CASE WHEN EXISTS ({begun}) THEN {missing} AND {self.reference(leaf)} ELSE 0 END)"

    def condition(self, leaf: Condition) -> str:
        """Return the condition on ``f``, the field's row of ``json_each``."""
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

    def ordered(self, leaf: Condition) -> str:
        comparison = f"f.value {_SQL_COMPARISONS[leaf.operator]}"
        if isinstance(leaf.value, str):
            return f"f.type = 'text' AND {comparison} {self.bind(leaf.value)}"
        exact = self.reference(leaf)
        if _exceeds_64_bits(leaf.value):
            return f"f.type IN ('integer', 'real') AND {exact}"
        return _number_condition("f", exact, f"{comparison} {self.bind(leaf.value)}")

    def element(self, leaf: Condition, operands: Sequence[Any]) -> str:
        """Return the test that an element of the list that ``f`` holds equals one of *operands*."""
        return f"EXISTS (SELECT 1 FROM json_each(f.value) AS m WHERE {self.one_of('m', leaf, operands)})"

    def one_of(self, row: str, leaf: Condition, operands: Sequence[Any]) -> str:
        """Return the test that *row*'s value equals one of *operands*; where SQL cannot, *leaf* is tested in Python."""
        words = [_JSON_TYPES[value] for value in operands if value is None or isinstance(value, bool)]
        texts = [value for value in operands if isinstance(value, str)]
        numbers = [value for value in operands if is_number(value)]
        parts: list[str] = []
        if words:
            parts.append(f"{row}.type IN ({', '.join(words)})")
        if texts:
            parts.append(f"({row}.type = 'text' AND {self.among(row, texts)})")
        if any(_exceeds_64_bits(number) for number in numbers):
            parts.append(f"({row}.type IN ('integer', 'real') AND {self.reference(leaf)})")
        elif numbers:
            parts.append(_number_condition(row, self.reference(leaf), self.among(row, numbers)))
        if any(isinstance(value, list) for value in operands):
            parts.append(f"({row}.type = 'array' AND {self.reference(leaf)})")
        if any(isinstance(value, Mapping) for value in operands):
            parts.append(f"({row}.type = 'object' AND {self.reference(leaf)})")
        return f"({' OR '.join(parts)})" if parts else "0"

    def among(self, row: str, values: Sequence[str | int | float]) -> str:
        if len(values) == 1:
            return f"{row}.value = {self.bind(values[0])}"
        if len(values) <= SQL_VALUES_LIMIT:
            return f"{row}.value IN ({', '.join(self.bind(value) for value in values)})"
        return f"{row}.value IN (SELECT value FROM json_each({self.bind(json.dumps(values))}))"


def _number_condition(row: str, exact: str, comparison: str) -> str:
    """Return *comparison* for a number, *exact* for a whole number that lost digits when SQLite read it."""
    lost = f"{row}.type = 'integer' AND typeof({row}.value) = 'real'"
    return f"CASE WHEN {lost} THEN {exact} WHEN {row}.type IN ('integer', 'real') THEN {comparison} ELSE 0 END"


def _exceeds_64_bits(number: int | float) -> bool:
    return isinstance(number, int) and number not in _SQL_INTEGERS


def _node_count(node: FilterNode) -> int:
    match node:
        case And(nodes) | Or(nodes):
            return 1 + sum(_node_count(inner) for inner in nodes)
        case Not(inner):
            return 1 + _node_count(inner)
    return 1
