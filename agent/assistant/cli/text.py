"""Lines for people about operations, versions and scores.

A line about an operation says what changed in which memory, and never shows the text of memories. A line about a score
gives its parts, the largest first, and the words that matched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from agent.assistant.cli.output import format_count, format_minute

if TYPE_CHECKING:
    from memory import Memory
    from memory.internals import MemoryChange, Operation, TermMatch

_KINDS_WITHOUT_DETAIL: Final = ("pin", "unpin", "disable", "enable")
"""Kinds of operation whose name says everything."""


def operation_line(operation: Operation, memory: str | None = None) -> str:
    """Return an operation in one line: id, time, kind, actor, its changes (of *memory*), and what undid it."""
    line = f"{operation.id}  {format_minute(operation.at)}  {operation.kind} by {operation.actor}"
    if detail := _operation_detail(operation, memory):
        line += f": {detail}"
    if operation.undoes:
        line += f"  (takes back {operation.undoes})"
    return line + (f"  (taken back by {operation.undone_by})" if operation.undone_by else "")


def version_line(version: Memory) -> str:
    """Return id, validity and actor of a version in one line, each only if it says something."""
    parts = [f"as {version.id}"] if version.retired_at is not None else []
    if version.valid_from is not None or version.valid_to is not None:
        since = f" from {format_minute(version.valid_from)}" if version.valid_from is not None else ""
        until = f" until {format_minute(version.valid_to)}" if version.valid_to is not None else ""
        parts.append(f"holds{since}{until}")
    if version.actor != "user":
        parts.append(f"by {version.actor}")
    return ", ".join(parts)


def _operation_detail(operation: Operation, memory: str | None) -> str:
    changes = [change for change in operation.changes if memory in (None, change.id)]
    first = operation.changes[0].id if operation.changes else ""
    if operation.kind == "merge" and memory is not None:
        others = [change.id for change in operation.changes[1:]]
        return f"with {', '.join(others)}" if memory == first else f"into {first}"
    if operation.kind in _KINDS_WITHOUT_DETAIL:
        return ""
    details = list(dict.fromkeys(part for change in changes for part in _field_changes(change)))
    return ", ".join(details) if memory is not None or len(changes) == 1 or len(details) == 1 else ""


def _field_changes(change: MemoryChange) -> Iterator[str]:
    """Yield the changes of fields that are kept without versions."""
    if "path" in change.new:
        yield f"to {change.new['path']}"
    if "replaced" in change.new:
        yield f"in the place of {format_count(change.new['replaced'], 'entry', 'entries')}"
    yield from _tag_changes(change.old, change.new)
    for name, what, none in (("importance", "importance", "none"), ("expires_at", "expires", "never")):
        if name in change.new:
            before = change.old.get(name)
            yield f"{what} {_field_value_text(change.new[name], none)}" + (
                f" (was {_field_value_text(before, none)})" if before is not None else ""
            )
    for name in ("pinned", "disabled"):
        if name in change.new:
            yield name if change.new[name] else f"not {name}"


def _tag_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    before, after = (list(fields.get("tags") or ()) for fields in (old, new))
    changed = [f"+{tag}" for tag in after if tag not in before] + [f"-{tag}" for tag in before if tag not in after]
    if changed:
        yield f"tags {' '.join(changed)}"


def _field_value_text(value: Any, none: str) -> str:
    if value is None:
        return none
    return format_minute(datetime.fromisoformat(value)) if isinstance(value, str) else f"{value:g}"


_MATCH_LOCATIONS = {"here": "", "before": " before", "after": " after", "question": " in the question it answers"}
_EXACT_SIMILARITY = 0.995
_NEGLIGIBLE_PART = 0.005


def score_line(score: float, parts: Mapping[str, float]) -> str:
    """Return a score as the sum of its parts; those that round to nothing are left out."""
    seen = sorted(
        (part for part in parts.items() if abs(part[1]) >= _NEGLIGIBLE_PART), key=lambda part: (-part[1], part[0])
    )
    line = f"{score:.2f}"
    for number, (name, value) in enumerate(seen):
        sign = "= " if number == 0 and value > 0 else "= -" if number == 0 else "+ " if value > 0 else "- "
        line += f" {sign}{name} {abs(value):.2f}"
    return line


def matched_terms_line(matched: Sequence[TermMatch]) -> str:
    """Return the words of a question with the terms they matched: the same one, or (``~``) one that is near."""
    if not matched:
        return "no word of the question, nor one near it"
    return ", ".join(_matched_term_text(match) for match in matched)


def _matched_term_text(match: TermMatch) -> str:
    location = _MATCH_LOCATIONS[match.where]
    if match.similarity >= _EXACT_SIMILARITY:
        return f"{match.word}{location}"
    return f"{match.word} ~ {match.by} {match.similarity:.2f}{location}"
