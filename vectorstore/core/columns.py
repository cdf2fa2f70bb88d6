"""Declared metadata fields as columns: each distinct value once, and its number for every row.

A filter is answered for the distinct values and looked up by number. The reference meaning of the filter language
gives every answer; equality of plain values and ordering take shortcuts that agree with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vectorstore.core.growing import Growing
from vectorstore.core.ordering import Ordering
from vectorstore.filters import All, Any_, Node, Not, Test, fields_of, test
from vectorstore.types import Metadata

_MISSING: Final = 0
_ORDERINGS: Final = frozenset({"$gt", "$gte", "$lt", "$lte"})
_OPPOSITES: Final = {"$ne": "$eq", "$nin": "$in"}
_FEW: Final = 4
"""Up to so many numbers are compared one by one, more are looked up in a table."""
_SPARE: Final = 1000
"""Values no row has any more that are not worth a clean-up."""


class Column:
    """One field. Number 0 means that the field is missing."""

    def __init__(self) -> None:
        self._numbers: Growing[np.int32] = Growing(np.int32)
        self._clear()

    def load(self, numbers: Sequence[int]) -> None:
        """Replace the numbers of all rows."""
        self._numbers.load(np.array(numbers, dtype=np.int32))

    def number(self, fields: Metadata, name: str) -> int:
        """Return the number of the value that *fields* has."""
        return self._number(fields[name]) if name in fields else _MISSING

    def append(self, number: int) -> None:
        """Add a row."""
        self._numbers.append(number)
        self._tidy()

    def put(self, row: int, number: int) -> None:
        """Change a row."""
        self._numbers.rows[row] = number
        self._tidy()

    def swap_delete(self, row: int) -> None:
        """Remove a row; the last one takes its place."""
        self._numbers.swap_delete(row)

    def passing(self, leaf: Test) -> NDArray[np.bool_]:
        """Which rows pass one leaf."""
        if leaf.operator in _OPPOSITES:
            return ~self.passing(Test(leaf.field, _OPPOSITES[leaf.operator], leaf.value))
        if leaf.operator == "$eq":
            return self._having(self._equal(leaf.value))
        if leaf.operator == "$in":
            plain = (n for value in leaf.value if not _is_nested(value) for n in self._equal(value))
            nested = (n for n in self._nested if test("$in", leaf.value, True, self._values[n]))
            return self._having([*plain, *nested])
        if leaf.operator == "$exists":
            there = ~self._having({_MISSING, *self._equal(None)})
            return there if leaf.value else ~there
        if leaf.operator in _ORDERINGS:
            return self._ordering.answers(leaf.operator, leaf.value)[self._numbers.rows]
        answers = [test(leaf.operator, leaf.value, True, value) for value in self._values]
        answers[_MISSING] = test(leaf.operator, leaf.value, False, None)
        return np.array(answers, dtype=np.bool_)[self._numbers.rows]

    def _equal(self, value: Any) -> list[int]:
        """The numbers of all values equal to *value*."""
        if _is_nested(value):
            return [number for number in self._nested if test("$eq", value, True, self._values[number])]
        number = self._number_of.get(_key(value))
        return [] if number is None else [number]

    def _having(self, wanted: Iterable[int]) -> NDArray[np.bool_]:
        """Which rows have one of the numbers *wanted*."""
        numbers, held = set(wanted), self._numbers.rows
        if len(numbers) <= _FEW:
            mask = np.zeros(len(held), dtype=np.bool_)
            for number in numbers:
                mask |= held == number
            return mask
        answers = np.zeros(len(self._values), dtype=np.bool_)
        answers[list(numbers)] = True
        return answers[held]

    def _number(self, value: Any) -> int:
        key = _key(value)
        number = self._number_of.get(key)
        if number is None:
            number = self._number_of[key] = len(self._values)
            self._values.append(value)
            self._ordering.append(value)
            if _is_nested(value):
                self._nested[number] = None
        return number

    def _clear(self) -> None:
        self._values: list[Any] = [None]
        self._number_of: dict[Any, int] = {}
        self._nested: dict[int, None] = {}
        self._ordering = Ordering()
        self._ordering.append(None)

    def _tidy(self) -> None:
        """Number the values anew when most of them are gone from the rows."""
        if len(self._values) <= 2 * len(self._numbers) + _SPARE:
            return
        used, places = np.unique(self._numbers.rows, return_inverse=True)
        values = self._values
        self._clear()
        fresh = [_MISSING if n == _MISSING else self._number(values[n]) for n in used.tolist()]
        self._numbers.load(np.array(fresh, dtype=np.int32)[places])


class Columns:
    """The declared fields of a namespace, row by row."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._columns = {name: Column() for name in names}

    def load(self, metadata: Iterable[Metadata]) -> None:
        """Replace all rows by those of *metadata*, which is drawn to its end."""
        self._columns = {name: Column() for name in self._columns}
        numbers: dict[str, list[int]] = {name: [] for name in self._columns}
        for fields in metadata:
            for name, column in self._columns.items():
                numbers[name].append(column.number(fields, name))
        for name, column in self._columns.items():
            column.load(numbers[name])

    def append(self, fields: Metadata) -> None:
        """Add a row."""
        for name, column in self._columns.items():
            column.append(column.number(fields, name))

    def put(self, row: int, fields: Metadata) -> None:
        """Change a row."""
        for name, column in self._columns.items():
            column.put(row, column.number(fields, name))

    def swap_delete(self, row: int) -> None:
        """Remove a row; the last one takes its place."""
        for column in self._columns.values():
            column.swap_delete(row)

    def mask(self, node: Node, count: int) -> NDArray[np.bool_] | None:
        """Which of *count* rows pass; None when *node* asks for a field that is not declared."""
        if not fields_of(node) <= self._columns.keys():
            return None
        return self._passing(node, count)

    def _passing(self, node: Node, count: int) -> NDArray[np.bool_]:
        match node:
            case Test():
                return self._columns[node.field].passing(node)
            case Not(inner):
                return ~self._passing(inner, count)
            case All(nodes):
                mask = np.ones(count, dtype=np.bool_)
                for inner in nodes:
                    mask &= self._passing(inner, count)
                return mask
            case Any_(nodes):
                mask = np.zeros(count, dtype=np.bool_)
                for inner in nodes:
                    mask |= self._passing(inner, count)
                return mask


def _is_nested(value: Any) -> bool:
    return not (value is None or isinstance(value, (str, int, float)))


def _key(value: Any) -> Any:
    """A dictionary key under which only equal JSON values meet: 1 with 1.0, true with neither."""
    if isinstance(value, bool) or value is None:
        return (str(value),)
    if isinstance(value, (str, int, float)):
        return value
    return (json.dumps(value, sort_keys=True),)
