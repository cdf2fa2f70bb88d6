"""JSON values as the filter language sees them: when two are equal, and copies that cannot change.

Not the check of what may be stored (``checking``), and no filters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from vectorstore.errors import FilterError

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
