"""Declared metadata fields as columns: each distinct value once, and its number for every row.

A filter is answered for the distinct values and looked up by number. The reference meaning of the filter language
gives every answer; equality of plain values and ordering take shortcuts that agree with it: numbers are compared as
float64 where that is exact, texts by their rank in sorted order, which is made when first needed.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore.filters import (
    ORDER_OPERATORS,
    And,
    Condition,
    FilterNode,
    Not,
    Or,
    condition_holds,
    field_value,
    filter_fields,
)
from tellback.vectorstore.index.growable_array import GrowableArray
from tellback.vectorstore.json_values import is_number
from tellback.vectorstore.types import Metadata

_UNSORTED_LIMIT: Final = 64
_UNSORTED_SHARE: Final = 0.1


class ValueOrder:
    """Values by number, in the order of ``append``."""

    def __init__(self) -> None:
        self._floats: GrowableArray[np.float64] = GrowableArray(np.float64)  # NaN for what is no number
        self._inexact: dict[int, int] = {}
        self._texts: dict[int, str] = {}
        self._sorted: list[str] = []
        self._numbers = np.empty(0, dtype=np.int64)
        self._late: dict[int, str] = {}

    def append(self, value: Any) -> None:
        """Add the next value."""
        number, as_float = len(self._floats), np.nan
        if isinstance(value, str):
            self._texts[number] = self._late[number] = value
        elif is_number(value):
            exact = _exact_float(value)
            if exact is None:
                self._inexact[number] = value
            else:
                as_float = exact
        self._floats.append(as_float)

    def answers(self, operator: str, bound: float | str) -> NDArray[np.bool_]:
        """Return for each value whether it is in the relation *operator* ("$gt", "$lte" …) to *bound*."""
        if isinstance(bound, str):
            return self._text_answers(operator, bound)
        floats, limit = self._floats.rows, _exact_float(bound)
        if limit is None:
            values = floats.tolist()
            answers = np.array([condition_holds(operator, bound, True, value) for value in values], dtype=np.bool_)
        else:
            answers = np.asarray(ORDER_OPERATORS[operator](floats, limit))
        for number, value in self._inexact.items():
            answers[number] = condition_holds(operator, bound, True, value)
        return answers

    def _text_answers(self, operator: str, bound: str) -> NDArray[np.bool_]:
        if len(self._late) > max(_UNSORTED_LIMIT, _UNSORTED_SHARE * len(self._texts)):
            ordered = sorted(self._texts.items(), key=lambda item: item[1])
            self._sorted = [text for _, text in ordered]
            self._numbers = np.array([number for number, _ in ordered], dtype=np.int64)
            self._late = {}
        answers = np.zeros(len(self._floats), dtype=np.bool_)
        cut = (bisect_right if operator in ("$gt", "$lte") else bisect_left)(self._sorted, bound)
        answers[self._numbers[cut:] if operator in ("$gt", "$gte") else self._numbers[:cut]] = True
        for number, text in self._late.items():
            answers[number] = condition_holds(operator, bound, True, text)
        return answers


def _exact_float(value: float) -> float | None:
    """*value* as a float where that is the same number."""
    try:
        as_float = float(value)
    except OverflowError:
        return None
    return as_float if as_float == value else None


_MISSING: Final = 0
_COMPARED_SINGLY: Final = 4
"""Up to so many numbers are compared one by one, more are looked up in a table."""
_UNUSED_VALUES_LIMIT: Final = 1000
"""Values no row has any more that are not worth a clean-up."""


class Column:
    """Column of the field *name*. Number 0 means that the field is missing."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._numbers: GrowableArray[np.int32] = GrowableArray(np.int32)
        self._clear_values()

    def load(self, numbers: Sequence[int]) -> None:
        """Replace the numbers of all rows."""
        self._numbers.load(np.array(numbers, dtype=np.int32))

    def number(self, fields: Metadata) -> int:
        """Return the number of the value that *fields* has."""
        present, value = field_value(fields, self._name)
        return self._number(value) if present else _MISSING

    def append(self, fields: Metadata) -> None:
        """Add a row."""
        self._numbers.append(self.number(fields))
        self._renumber_values()

    def put(self, row: int, fields: Metadata) -> None:
        """Change a row."""
        self._numbers.rows[row] = self.number(fields)
        self._renumber_values()

    def swap_delete(self, row: int) -> None:
        """Remove a row; the last one takes its place."""
        self._numbers.swap_delete(row)

    def passing(self, leaf: Condition) -> NDArray[np.bool_]:
        """Return which rows pass one leaf."""
        if leaf.operator == "$eq":
            return self._rows_with_codes(self._equal(leaf.value))
        if leaf.operator == "$in":
            plain = (n for value in leaf.value if not _is_nested(value) for n in self._equal(value))
            nested = (n for n in self._nested if condition_holds("$in", leaf.value, True, self._values[n]))
            return self._rows_with_codes([*plain, *nested])
        if leaf.operator == "$exists":
            return ~self._rows_with_codes({_MISSING, *self._equal(None)})
        if leaf.operator in ORDER_OPERATORS:
            return self._ordering.answers(leaf.operator, leaf.value)[self._numbers.rows]
        answers = [condition_holds(leaf.operator, leaf.value, True, value) for value in self._values]
        answers[_MISSING] = condition_holds(leaf.operator, leaf.value, False, None)
        return np.array(answers, dtype=np.bool_)[self._numbers.rows]

    def _equal(self, value: Any) -> list[int]:
        """The numbers of all values equal to *value*."""
        if _is_nested(value):
            return [number for number in self._nested if condition_holds("$eq", value, True, self._values[number])]
        number = self._number_of.get(_equality_key(value))
        return [] if number is None else [number]

    def _rows_with_codes(self, codes: Iterable[int]) -> NDArray[np.bool_]:
        """Return which rows have one of the numbers *codes*."""
        numbers, stored = set(codes), self._numbers.rows
        if len(numbers) <= _COMPARED_SINGLY:
            mask = np.zeros(len(stored), dtype=np.bool_)
            for number in numbers:
                mask |= stored == number
            return mask
        answers = np.zeros(len(self._values), dtype=np.bool_)
        answers[list(numbers)] = True
        return answers[stored]

    def _number(self, value: Any) -> int:
        key = _equality_key(value)
        number = self._number_of.get(key)
        if number is None:
            number = self._number_of[key] = len(self._values)
            self._values.append(value)
            self._ordering.append(value)
            if _is_nested(value):
                self._nested[number] = None
        return number

    def _clear_values(self) -> None:
        self._values: list[Any] = [None]
        self._number_of: dict[Any, int] = {}
        self._nested: dict[int, None] = {}
        self._ordering = ValueOrder()
        self._ordering.append(None)

    def _renumber_values(self) -> None:
        """Number the values anew when most of them are gone from the rows."""
        if len(self._values) <= 2 * len(self._numbers) + _UNUSED_VALUES_LIMIT:
            return
        used, places = np.unique(self._numbers.rows, return_inverse=True)
        values = self._values
        self._clear_values()
        fresh = [_MISSING if n == _MISSING else self._number(values[n]) for n in used.tolist()]
        self._numbers.load(np.array(fresh, dtype=np.int32)[places])


class MetadataColumns:
    """The declared fields of a namespace, row by row."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._columns = {name: Column(name) for name in names}

    def load(self, metadata: Iterable[Metadata]) -> None:
        """Replace all rows by those of *metadata*, which is drawn to its end."""
        self._columns = {name: Column(name) for name in self._columns}
        columns: list[tuple[Column, list[int]]] = [(column, []) for column in self._columns.values()]
        for fields in metadata:
            for column, numbers in columns:
                numbers.append(column.number(fields))
        for column, numbers in columns:
            column.load(numbers)

    def append(self, fields: Metadata) -> None:
        """Add a row."""
        for column in self._columns.values():
            column.append(fields)

    def put(self, row: int, fields: Metadata) -> None:
        """Change a row."""
        for column in self._columns.values():
            column.put(row, fields)

    def swap_delete(self, row: int) -> None:
        """Remove a row; the last one takes its place."""
        for column in self._columns.values():
            column.swap_delete(row)

    def mask(self, node: FilterNode, count: int) -> NDArray[np.bool_] | None:
        """Return which of *count* rows pass; None when *node* asks for a field that is not declared."""
        if not filter_fields(node) <= self._columns.keys():
            return None
        return self._passing(node, count)

    def _passing(self, node: FilterNode, count: int) -> NDArray[np.bool_]:
        match node:
            case Condition():
                return self._columns[node.field].passing(node)
            case Not(inner):
                return ~self._passing(inner, count)
            case And(nodes):
                return reduce(and_, (self._passing(inner, count) for inner in nodes), np.ones(count, dtype=np.bool_))
            case Or(nodes):
                return reduce(or_, (self._passing(inner, count) for inner in nodes), np.zeros(count, dtype=np.bool_))


def _is_nested(value: Any) -> bool:
    return not (value is None or isinstance(value, (str, int, float)))


def _equality_key(value: Any) -> Any:
    """A dictionary key under which only equal JSON values meet: 1 with 1.0, true with neither."""
    if isinstance(value, bool) or value is None:
        return (str(value),)
    if isinstance(value, (str, int, float)):
        return value
    return (json.dumps(value, sort_keys=True),)
