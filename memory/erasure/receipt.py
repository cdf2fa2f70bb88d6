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
from memory.results import ExternalCopy, Receipt
from memory.timestamps import timestamp_from_text, timestamp_to_text
from vectorstore.persisted_names import RECEIPT_KIND

_KIND: Final = RECEIPT_KIND
_VERSION: Final = 1
_FIELD_NAMES: Final = tuple(one.name for one in fields(Receipt))
_LIST_FIELDS: Final = ("memories", "derived", "also", "named", "hashes")
_COUNT_FIELDS: Final = ("versions", "messages")
_FLAG_FIELDS: Final = ("pending", "dry_run", "whole")
_TIME_FIELDS: Final = ("at", "due")


def receipt_text(receipt: Receipt) -> str:
    """Return *receipt* as one JSON object, with its kind and version."""
    return json.dumps({"type": _KIND, "version": _VERSION, **receipt_fields(receipt)}, ensure_ascii=False)


def receipt_fields(receipt: Receipt) -> dict[str, Any]:
    """Return the fields of *receipt* as JSON values."""
    values = {name: getattr(receipt, name) for name in _FIELD_NAMES}
    return {
        **values,
        **{name: list(values[name]) for name in _LIST_FIELDS},
        **{name: _moment_to_text(values[name]) for name in _TIME_FIELDS},
        "parts": dict(receipt.parts),
        "unreached": [
            {
                "kind": one.kind,
                "path": one.path,
                "at": _moment_to_text(one.at),
                "removed": one.removed,
                "note": one.note,
            }
            for one in receipt.unreached
        ],
    }


def read_receipt(text: str) -> Receipt:
    """Return the receipt that *text* holds; what is none raises ``ArgumentError``."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise _invalid_receipt(text, "it is not JSON") from error
    if not isinstance(given, dict) or given.get("type") != _KIND:
        raise _invalid_receipt(text, f'it has no "type": "{_KIND}"')
    if given.get("version") != _VERSION:
        raise _invalid_receipt(given.get("version"), f"version {_VERSION} is known here")
    try:
        return _receipt_from_fields(given)
    except (KeyError, TypeError, ValueError) as error:
        raise _invalid_receipt(text, f"a field is missing or wrong: {error}") from error


def _receipt_from_fields(given: dict[str, Any]) -> Receipt:
    values = {name: given[name] for name in _FIELD_NAMES if name in given}
    for name in _LIST_FIELDS:
        if not isinstance(values[name], list) or not all(isinstance(one, str) for one in values[name]):
            raise TypeError(f"{name} is a list of texts")
        values[name] = tuple(values[name])
    for names, kind in ((_COUNT_FIELDS, int), (_FLAG_FIELDS, bool), (("namespace", "salt"), str)):
        for name in names:
            if type(values[name]) is not kind:
                raise TypeError(f"{name} is a {kind.__name__}")
    for name in _TIME_FIELDS:
        values[name] = _moment_from_text(values[name])
    values["parts"] = {str(part): int(count) for part, count in values["parts"].items()}
    values["unreached"] = tuple(
        ExternalCopy(**{**one, "at": _moment_from_text(one["at"])}) for one in values["unreached"]
    )
    return Receipt(**values)


def _moment_to_text(moment: datetime | None) -> str | None:
    return None if moment is None else timestamp_to_text(moment)


def _moment_from_text(text: str | None) -> datetime | None:
    return None if text is None else timestamp_from_text(text)


def _invalid_receipt(value: object, why: str) -> ArgumentError:
    return ArgumentError("receipt", value, f"the JSON of a receipt of this program is needed: {why}")
