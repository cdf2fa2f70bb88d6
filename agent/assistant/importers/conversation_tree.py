"""Trees of messages, where an edit or a new answer begins a branch, and the cleaning of their texts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from tellback.memory.internals import redact_secrets

_TITLE_LENGTH = 120


def branch_to(leaf: str, parents: Mapping[str, str]) -> list[str]:
    """Return the ids from the root to *leaf*; *parents* maps ids to parents, and a cycle ends where it closes."""
    branch: dict[str, None] = {}
    id = leaf
    while id in parents and id not in branch:
        branch[id] = None
        id = parents[id]
    return list(reversed(branch))


def clean_text(text: str) -> str:
    """Return *text* without NUL and surrounding blanks, lone surrogates replaced: no memory keeps them."""
    return text.replace("\0", "").encode("utf-8", "replace").decode().strip()


def clean_title(value: object) -> str:
    """Return the title *value* on one line, without secrets; "" where it is not a text."""
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
