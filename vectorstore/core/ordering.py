"""Which of a column's distinct values lie above or below a bound, without asking each of them.

Numbers are compared as float64 where that is exact; texts by their place in sorted order, which is made when first
needed. The rest, and texts newer than that order, are answered by the reference meaning one by one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vectorstore.core.growing import Growing
from vectorstore.filters import test
from vectorstore.json_values import is_number

_LATE: Final = 64
_LATE_SHARE: Final = 0.1


class Ordering:
    """Values by number, in the order of ``append``."""

    def __init__(self) -> None:
        self._floats: Growing[np.float64] = Growing(np.float64)  # NaN, which compares with nothing: not a number
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
            exact = _as_float(value)
            if exact is None:
                self._inexact[number] = value
            else:
                as_float = exact
        self._floats.append(as_float)

    def answers(self, operator: str, bound: float | str) -> NDArray[np.bool_]:
        """Return for each value whether it stands in the relation *operator* ("$gt", "$lte" …) to *bound*."""
        if isinstance(bound, str):
            return self._text_answers(operator, bound)
        floats, limit = self._floats.rows, _as_float(bound)
        if limit is None:
            values = floats.tolist()
            answers = np.array([test(operator, bound, True, value) for value in values], dtype=np.bool_)
        else:
            answers = _compared(operator, floats, limit)
        for number, value in self._inexact.items():
            answers[number] = test(operator, bound, True, value)
        return answers

    def _text_answers(self, operator: str, bound: str) -> NDArray[np.bool_]:
        if len(self._late) > max(_LATE, _LATE_SHARE * len(self._texts)):
            ordered = sorted(self._texts.items(), key=lambda item: item[1])
            self._sorted = [text for _, text in ordered]
            self._numbers = np.array([number for number, _ in ordered], dtype=np.int64)
            self._late = {}
        answers = np.zeros(len(self._floats), dtype=np.bool_)
        cut = (bisect_right if operator in ("$gt", "$lte") else bisect_left)(self._sorted, bound)
        answers[self._numbers[cut:] if operator in ("$gt", "$gte") else self._numbers[:cut]] = True
        for number, text in self._late.items():
            answers[number] = test(operator, bound, True, text)
        return answers


def _compared(operator: str, values: NDArray[np.float64], limit: float) -> NDArray[np.bool_]:
    match operator:
        case "$gt":
            return values > limit
        case "$gte":
            return values >= limit
        case "$lt":
            return values < limit
    return values <= limit


def _as_float(value: float) -> float | None:
    """*value* as a float where that is the same number."""
    try:
        as_float = float(value)
    except OverflowError:
        return None
    return as_float if as_float == value else None
