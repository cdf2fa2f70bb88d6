"""Receipt of a forgetting as JSON, and back: ids, counts and keyed hashes, never the text.

>>> receipt = Forgotten(("a",), versions=2)
>>> read_receipt(receipt_text(receipt)) == receipt
True
"""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import datetime
from typing import Any, Final

from memory.errors import ArgumentError
from memory.results import Forgotten, Unreached
from memory.timestamps import from_text, to_text

_KIND: Final = "mneme receipt"
_VERSION: Final = 1
_NAMES: Final = tuple(one.name for one in fields(Forgotten))
_LISTS: Final = ("memories", "derived", "also", "named", "hashes")
_COUNTS: Final = ("versions", "messages")
_FLAGS: Final = ("pending", "dry_run", "whole")
_TIMES: Final = ("at", "due")


def receipt_text(receipt: Forgotten) -> str:
    """Return *receipt* as one JSON object, with its kind and version."""
    return json.dumps({"type": _KIND, "version": _VERSION, **receipt_fields(receipt)}, ensure_ascii=False)


def receipt_fields(receipt: Forgotten) -> dict[str, Any]:
    """Return the fields of *receipt* as JSON values."""
    values = {name: getattr(receipt, name) for name in _NAMES}
    return {
        **values,
        **{name: list(values[name]) for name in _LISTS},
        **{name: _written(values[name]) for name in _TIMES},
        "parts": dict(receipt.parts),
        "unreached": [
            {"kind": one.kind, "path": one.path, "at": _written(one.at), "removed": one.removed, "note": one.note}
            for one in receipt.unreached
        ],
    }


def read_receipt(text: str) -> Forgotten:
    """Return the receipt that *text* holds; what is none raises ``ArgumentError``."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise _wrong(text, "it is not JSON") from error
    if not isinstance(given, dict) or given.get("type") != _KIND:
        raise _wrong(text, f'it has no "type": "{_KIND}"')
    if given.get("version") != _VERSION:
        raise _wrong(given.get("version"), f"version {_VERSION} is known here")
    try:
        return _receipt(given)
    except (KeyError, TypeError, ValueError) as error:
        raise _wrong(text, f"a field is missing or wrong: {error}") from error


def _receipt(given: dict[str, Any]) -> Forgotten:
    values = {name: given[name] for name in _NAMES if name in given}
    for name in _LISTS:
        if not isinstance(values[name], list) or not all(isinstance(one, str) for one in values[name]):
            raise TypeError(f"{name} is a list of texts")
        values[name] = tuple(values[name])
    for names, kind in ((_COUNTS, int), (_FLAGS, bool), (("namespace", "salt"), str)):
        for name in names:
            if type(values[name]) is not kind:
                raise TypeError(f"{name} is a {kind.__name__}")
    for name in _TIMES:
        values[name] = _read(values[name])
    values["parts"] = {str(part): int(count) for part, count in values["parts"].items()}
    values["unreached"] = tuple(Unreached(**{**one, "at": _read(one["at"])}) for one in values["unreached"])
    return Forgotten(**values)


def _written(moment: datetime | None) -> str | None:
    return None if moment is None else to_text(moment)


def _read(text: str | None) -> datetime | None:
    return None if text is None else from_text(text)


def _wrong(value: object, why: str) -> ArgumentError:
    return ArgumentError("receipt", value, f"the JSON of a receipt of this program is needed: {why}")
