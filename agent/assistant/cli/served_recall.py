"""Recall by a resident server, where one runs: its answer as the values of a recall here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tellback.memory import Hit, Memory, RecallOptions, RecallResult

_TIMES: Final = ("occurred_at", "recorded_at", "retired_at", "valid_from", "valid_to", "expires_at")
_PLACE: Final = ("title", "page", "heading", "start", "end")


@dataclass(frozen=True, slots=True)
class ServedRecall:
    """Answer of a server: what was *found* as JSON, why others were *left_out*, and the memory's *language*."""

    found: Mapping[str, Any]
    left_out: Sequence[str]
    language: str

    def result(self) -> RecallResult:
        """Return what was found."""
        from tellback.memory import RecallResult
        from tellback.memory.internals import Omitted

        own = {name: _frozen(self.found[name]) for name in ("confidence", "abstain", "notes", "searched", "beyond")}
        left_out = tuple(Omitted("", reason) for reason in self.left_out)
        return RecallResult(tuple(map(_hit, self.found["hits"])), left_out=left_out, **own)


def served_recall(flags: Mapping[str, Any], question: str, k: int, options: RecallOptions) -> ServedRecall | None:
    """Return the answer of a server that runs; None where none does, or it leaves the question to this process."""
    from tellback.agent.assistant.resident.client import ask_server

    given: dict[str, Any] = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in options.items()
        if value not in (None, ())
    }
    answer = ask_server("/recall", {"question": question, "k": k, "options": given}, flags)
    return None if answer is None else ServedRecall(answer["found"], answer["left_out"], answer["language"])


def _hit(found: Mapping[str, Any]) -> Hit:
    from tellback.memory import Hit
    from tellback.memory.internals import TermMatch

    own = {name: found[name] for name in ("score", "parts", "outdated_by", "later_than", "likely_change")}
    matched = tuple(TermMatch(**match) for match in found["matched"])
    before, after = (tuple(map(_memory, found[side])) for side in ("before", "after"))
    return Hit(_memory(found), partition=found["lane"], matched=matched, before=before, after=after, **own)


def _memory(found: Mapping[str, Any]) -> Memory:
    from tellback.memory import Memory, Source

    names = {field.name for field in fields(Memory)} - {"source", "repeated"}
    own = {name: _frozen(value) for name, value in found.items() if name in names}
    own |= {name: datetime.fromisoformat(own[name]) for name in _TIMES if own.get(name)}
    document = found.get("source")
    place = {name: _frozen(found[name]) for name in _PLACE} if document is not None else {}
    return Memory(source=None if document is None else Source(document=document, **place), **own)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
