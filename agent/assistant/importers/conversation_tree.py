"""Trees of messages, in which an edit or a new answer begins another branch; and texts as a memory can keep them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from memory.internals import redact_secrets

_TITLE_LENGTH = 120


def branch_to(leaf: str, parents: Mapping[str, str]) -> list[str]:
    """Return the ids from the root to *leaf*; *parents* maps each id to its parent. A circle ends where it closes."""
    branch: dict[str, None] = {}
    id = leaf
    while id in parents and id not in branch:
        branch[id] = None
        id = parents[id]
    return list(reversed(branch))


def objects(value: object) -> list[Mapping[str, Any]]:
    """Return the objects among the items of the list *value*; none where it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def object_of(value: object) -> Mapping[str, Any]:
    """Return *value*, or an empty object where it is none."""
    return value if isinstance(value, dict) else {}


def clean_text(text: str) -> str:
    """Return *text* without what no memory keeps: halves of characters, NUL, blanks at its ends."""
    return text.replace("\0", "").encode("utf-8", "replace").decode().strip()


def clean_title(value: object) -> str:
    """Return the title *value* on one line, without secrets; "" where it is no text."""
    words = " ".join(clean_text(value).split()) if isinstance(value, str) else ""
    title, _ = redact_secrets(words)
    return title[:_TITLE_LENGTH]


def time_of_seconds(value: object) -> datetime | None:
    """Return the time *value* seconds after 1970; None for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return datetime.fromtimestamp(value, UTC)
    except (OverflowError, ValueError, OSError):
        return None
