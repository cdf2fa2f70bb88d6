"""Pinned memories of a namespace: read once, then kept fresh by the store's log of changes.

So a turn of a conversation, which shows them each time, costs what was written since the last one and not what there
is. A store without such a log is scanned each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock

from memory.codec import from_entry
from memory.models import Memory
from memory.partitions import CONVERSATION, store_namespace
from vectorstore import Cursor, Entry, LifecycleStore, VectorStore, lifecycle_of

_DEFAULT_IMPORTANCE = 0.5
"""The importance of a memory that has none."""
_MAX_CHANGES = 1000
"""So many changes are not looked at one by one."""
_EARLIEST = datetime.min.replace(tzinfo=UTC)


class PinnedMemories:
    """The pinned memories of *store*. Any thread may call."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._lasting = lifecycle_of(store)
        self._lock = Lock()
        self._held: dict[str, _PinnedState] = {}

    def standing(self, namespace: str, now: datetime) -> list[Memory]:
        """Return those that hold at *now*, are enabled and not expired: most important first, then newest."""
        lane = store_namespace(namespace, CONVERSATION)
        with self._lock:
            memories = self._scanned(lane) if self._lasting is None else self._followed(self._lasting, lane)
            there = [one for one in memories.values() if _is_current(one, now)]
        newest = sorted(there, key=lambda one: (one.recorded_at or _EARLIEST, one.id), reverse=True)
        return sorted(newest, key=lambda one: -(_DEFAULT_IMPORTANCE if one.importance is None else one.importance))

    def _scanned(self, lane: str) -> dict[str, Memory]:
        return {one.id: from_entry(one) for one in self._store.scan(where={"pinned": True}, namespace=lane)}

    def _followed(self, store: LifecycleStore, lane: str) -> dict[str, Memory]:
        held = self._held.setdefault(lane, _PinnedState())
        changes = store.changes(held.cursor, namespace=lane)
        if not changes.complete or len(changes.written) + len(changes.removed) > _MAX_CHANGES:
            held.memories = self._scanned(lane)  # what is written meanwhile stands in the log behind the cursor
        else:
            for id in changes.removed:
                held.memories.pop(id, None)
            self._read(held, changes.written, lane)
        held.cursor = changes.cursor
        return held.memories

    def _read(self, held: _PinnedState, ids: Sequence[str], lane: str) -> None:
        entries: list[Entry | None] = self._store.get(ids, namespace=lane) if ids else []
        for id, entry in zip(ids, entries, strict=True):
            if entry is not None and entry.metadata.get("pinned") is True:
                held.memories[id] = from_entry(entry)
            else:
                held.memories.pop(id, None)


@dataclass(slots=True)
class _PinnedState:
    """One lane's pinned memories, and up to where the log was read."""

    cursor: Cursor | None = None
    memories: dict[str, Memory] = field(default_factory=dict)


def _is_current(memory: Memory, now: datetime) -> bool:
    begun = memory.valid_from is None or memory.valid_from <= now
    ended = any(end is not None and end <= now for end in (memory.valid_to, memory.expires_at))
    return begun and not ended and not memory.disabled
