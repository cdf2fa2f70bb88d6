"""JSON values: checked and copied as plain ones, of bounded depth and finite numbers, and compared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from tellback.vectorstore.errors import ArgumentError

JSON_DEPTH_LIMIT: Final = 100
"""Greatest depth of lists and objects nested in a value."""
INTEGER_DIGITS_LIMIT: Final = 4300
"""Greatest number of digits of a whole number; Python itself writes no longer ones."""
_INTEGER_LIMIT: Final = 10**INTEGER_DIGITS_LIMIT


def json_equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal: 1 is 1.0, true is only true, lists in order, objects in any order."""
    if isinstance(left, bool) or isinstance(right, bool) or left is None or right is None:
        return left is right
    if isinstance(left, Mapping):
        return (
            isinstance(right, Mapping)
            and left.keys() == right.keys()
            and all(json_equal(value, right[name]) for name, value in left.items())
        )
    if isinstance(left, (list, tuple)):
        return (
            isinstance(right, (list, tuple))
            and len(left) == len(right)
            and all(json_equal(first, second) for first, second in zip(left, right, strict=True))
        )
    return bool(left == right)


def is_number(value: Any) -> bool:
    """Return whether *value* is a number, which true and false are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_plain_text(value: object) -> bool:
    """Return whether *value* is a text that needs no further look."""
    return type(value) is str and value.isascii()


def check_text(value: object, argument: str, error: type[ArgumentError] = ArgumentError) -> str:
    """Return *value* as a text of the base type if it is one that UTF-8 can hold; else raise *error*."""
    if not isinstance(value, str):
        raise error(argument, value, "a text is needed")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as cause:
            raise error(argument, value, "must not contain lone surrogates") from cause
    return str.__str__(value)  # the plain text also of an enumeration's member


def plain_json(
    value: Any,
    argument: str,
    error: type[ArgumentError] = ArgumentError,
    limit: int = JSON_DEPTH_LIMIT,
    depth: int = 0,
) -> Any:
    """Return a copy of a JSON *value* in the base types, nested at most *limit* levels; else raise *error*.

    *depth* is how deep *value* itself lies.
    """
    if value is None or isinstance(value, bool) or is_plain_text(value):
        return value
    if isinstance(value, str):
        return check_text(value, argument, error)
    if isinstance(value, int):
        if abs(value) >= _INTEGER_LIMIT:
            raise error(argument, "…", f"a whole number may have at most {INTEGER_DIGITS_LIMIT} digits")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise error(argument, value, "numbers must be finite")
        return float(value)
    if depth == limit:
        raise error(argument, "…", f"may be at most {limit} levels deep")
    if type(value) is dict or isinstance(value, Mapping):  # to ask an abstract class is slow
        plain = {}
        for name, inner in value.items():
            key = name if is_plain_text(name) else check_text(name, f"{argument} key", error)
            if type(inner) is str and inner.isascii():  # most are, and a call of its own would take longer
                plain[key] = inner
            else:
                plain[key] = plain_json(inner, f"{argument}.{key}", error, limit, depth + 1)
        return plain
    if isinstance(value, (list, tuple)):
        return [plain_json(inner, argument, error, limit, depth + 1) for inner in value]
    raise error(argument, value, "must be JSON: text, numbers, true, false, null, lists and objects")
