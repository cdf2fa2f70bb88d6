"""Receipt of a forgetting: ids, counts and keyed hashes, never the text; made from a plan, written as JSON and read.

>>> receipt = Receipt(("a",), versions=2)
>>> read_receipt(receipt_text(receipt)) == receipt
True
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final

from tellback.memory.erasure.cascade_plan import CascadePlan
from tellback.memory.errors import ArgumentError
from tellback.memory.results import ExternalCopy, Receipt
from tellback.memory.timestamps import timestamp_from_text, timestamp_to_text
from tellback.vectorstore.persisted_names import RECEIPT_KIND

_VERSION: Final = 1
_HASH_BYTES: Final = 16
_KINDS: Final = {"int": int, "bool": bool, "str": str}


def plan_receipt(plan: CascadePlan, namespace: str) -> Receipt:
    """Return a receipt with the ids and counts of *plan*."""
    return Receipt(
        memories=tuple(plan.targets),
        versions=plan.versions,
        derived=tuple(plan.derived),
        also=tuple(plan.also),
        messages=len(plan.messages),
        named=tuple(plan.named),
        namespace=namespace,
        spared=plan.spared,
    )


def namespace_receipt(namespace: str, entries: dict[str, list[str]], messages: int) -> Receipt:
    """Return a receipt for a whole namespace: its *entries* (ids by partition) and the number of its messages."""
    plan = CascadePlan([], entries=entries)
    memories = tuple(plan.memories)
    return Receipt(memories=memories, versions=plan.versions, messages=messages, namespace=namespace, whole=True)


def receipt_hashes(key: bytes, salt: str, texts: Iterable[str]) -> tuple[str, ...]:
    """Return the sorted hashes of *texts* under the file's secret *key*: elsewhere they say nothing."""
    salted, hashes = blake2b(digest_size=_HASH_BYTES, key=key, person=b"receipt"), set()
    salted.update(len(salt.encode()).to_bytes(8, "little") + salt.encode())
    for text in texts:
        digest = salted.copy()
        digest.update(text.strip().encode())
        hashes.add(digest.hexdigest())
    return tuple(sorted(hashes))


def receipt_text(receipt: Receipt) -> str:
    """Return *receipt* as one JSON object, with its kind and version."""
    fields = {"type": RECEIPT_KIND, "version": _VERSION, **asdict(receipt)}
    return json.dumps(fields, ensure_ascii=False, default=timestamp_to_text)


def read_receipt(text: str) -> Receipt:
    """Return the receipt that the JSON *text* holds; any other text raises ``ArgumentError``."""
    try:
        receipt = json.loads(text)
    except ValueError as error:
        raise _invalid_receipt(text, "it is not JSON") from error
    if not isinstance(receipt, dict) or receipt.get("type") != RECEIPT_KIND:
        raise _invalid_receipt(text, f'it has no "type": "{RECEIPT_KIND}"')
    if receipt.get("version") != _VERSION:
        raise _invalid_receipt(receipt.get("version"), f"version {_VERSION} is known here")
    try:
        return _receipt_from_fields(receipt)
    except (KeyError, TypeError, ValueError) as error:
        raise _invalid_receipt(text, f"a field is missing or wrong: {error}") from error


def _receipt_from_fields(values: dict[str, Any]) -> Receipt:
    values = {field.name: values[field.name] for field in fields(Receipt) if field.name in values}
    values.setdefault("spared", 0)  # a receipt of an earlier version
    for name, kind in ((field.name, str(field.type)) for field in fields(Receipt)):
        if kind == "tuple[str, ...]":
            if not isinstance(values[name], list) or not all(isinstance(value, str) for value in values[name]):
                raise TypeError(f"{name} is a list of texts")
            values[name] = tuple(values[name])
        elif kind in _KINDS and type(values[name]) is not _KINDS[kind]:
            raise TypeError(f"{name} is a {kind}")
    values["at"], values["due"] = _moment(values["at"]), _moment(values["due"])
    values["parts"] = {str(part): int(count) for part, count in values["parts"].items()}
    values["unreached"] = tuple(ExternalCopy(**{**copy, "at": _moment(copy["at"])}) for copy in values["unreached"])
    return Receipt(**values)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else timestamp_from_text(text)


def _invalid_receipt(value: object, why: str) -> ArgumentError:
    return ArgumentError("receipt", value, f"the JSON of a receipt of this program is needed: {why}")
