"""Parameters of slow proofs: the first value always runs, the others where slow tests are asked for (``-m slow``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_fast(values: Iterable[Any]) -> list[Any]:
    """Return *values* as parameters of which all but the first are marked ``slow``."""
    first, *others = values
    return [first, *(pytest.param(*_of_one(value), marks=pytest.mark.slow) for value in others)]


def _of_one(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
