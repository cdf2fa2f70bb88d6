"""Entries as values: copies that share no memory, and whether one has a vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vectorstore.types import Entry


def copied(entry: Entry) -> Entry:
    """Return an entry that shares no memory with *entry*."""
    return Entry(
        entry.id,
        None if entry.vector is None else entry.vector.copy(),
        entry.text,
        entry.context,
        _deep(entry.metadata),
        entry.revision,
        entry.no_vector,
    )


def is_embedded(entry: Entry, wanted: bool | None) -> bool:
    """Whether an entry is among those that ``scan`` asks for: True with a vector, False pending, None all."""
    if wanted is None:
        return True
    return entry.vector is not None if wanted else entry.vector is None and entry.no_vector is None


def _deep(value: Any) -> Any:
    if isinstance(value, (str, int, float)) or value is None:
        return value
    if isinstance(value, Mapping):
        return {name: _deep(inner) for name, inner in value.items()}
    return [_deep(inner) for inner in value] if isinstance(value, list) else value
