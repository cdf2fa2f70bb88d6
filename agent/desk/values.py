"""Values of the library from the JSON of ``results``: what another process answered, for code that takes the values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, Final

from tellback.memory import Hit, Memory, RecallResult, Source
from tellback.memory.internals import TermMatch

_TIMES: Final = ("occurred_at", "recorded_at", "retired_at", "valid_from", "valid_to", "expires_at")
_PLACE: Final = ("title", "page", "heading", "start", "end")


def recall_result(found: Mapping[str, Any], **more: Any) -> RecallResult:
    """Return what a recall *found*; *more* are fields that its JSON does not have."""
    own = {name: _frozen(found[name]) for name in ("confidence", "abstain", "notes", "searched", "beyond", "likely")}
    return RecallResult(tuple(map(_hit, found["hits"])), **own, **more)


def memory_value(found: Mapping[str, Any]) -> Memory:
    """Return a memory; its repetitions are left out."""
    names = {field.name for field in fields(Memory)} - {"source", "repeated"}
    own = {name: _frozen(value) for name, value in found.items() if name in names}
    own |= {name: datetime.fromisoformat(own[name]) for name in _TIMES if own.get(name)}
    document = found.get("source")
    place = {name: _frozen(found[name]) for name in _PLACE} if document is not None else {}
    return Memory(source=None if document is None else Source(document=document, **place), **own)


def _hit(found: Mapping[str, Any]) -> Hit:
    own = {name: found[name] for name in ("score", "parts", "outdated_by", "later_than", "likely_change")}
    matched = tuple(TermMatch(**match) for match in found["matched"])
    before, after = (tuple(map(memory_value, found[side])) for side in ("before", "after"))
    return Hit(memory_value(found), partition=found["lane"], matched=matched, before=before, after=after, **own)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
