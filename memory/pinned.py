"""Pinned memories of a namespace: read once, then kept fresh by the store's log of changes.

So a turn of a conversation, which shows them each time, costs what was written since the last one and not what there
is. A store without such a log is scanned each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock

from tellback.memory.codec import from_entry
from tellback.memory.models import DEFAULT_IMPORTANCE, Memory
from tellback.memory.partitions import CONVERSATION, store_namespace
from tellback.vectorstore import Cursor, LifecycleStore, VectorStore, lifecycle_of

_MAX_CHANGES = 1000
"""Above so many changes the partition is scanned instead."""
_EARLIEST = datetime.min.replace(tzinfo=UTC)


class PinnedMemories:
    """The pinned memories of *store*. Any thread may call."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._lifecycle = lifecycle_of(store)
        self._lock = Lock()
        self._held: dict[str, _PinnedState] = {}

    def current(self, namespace: str, now: datetime) -> list[Memory]:
        """Return those that hold at *now*, are enabled and not expired: most important first, then newest."""
        partition = store_namespace(namespace, CONVERSATION)
        with self._lock:
            memories = (
                self._scanned(partition) if self._lifecycle is None else self._followed(self._lifecycle, partition)
            )
            current = [memory for memory in memories.values() if _is_current(memory, now)]
        return sorted(current, key=_display_order, reverse=True)

    def _scanned(self, partition: str) -> dict[str, Memory]:
        entries = self._store.scan(where={"pinned": True}, namespace=partition)
        return {entry.id: from_entry(entry) for entry in entries}

    def _followed(self, store: LifecycleStore, partition: str) -> dict[str, Memory]:
        state = self._held.setdefault(partition, _PinnedState())
        changes = store.changes(state.cursor, namespace=partition)
        if not changes.complete or len(changes.written) + len(changes.removed) > _MAX_CHANGES:
            state.memories = self._scanned(partition)  # what is written meanwhile is in the log behind the cursor
        else:
            for id in (*changes.removed, *changes.written):
                state.memories.pop(id, None)
            entries = store.get(changes.written, namespace=partition) if changes.written else []
            pinned = (entry for entry in entries if entry is not None and entry.metadata.get("pinned") is True)
            state.memories.update((entry.id, from_entry(entry)) for entry in pinned)
        state.cursor = changes.cursor
        return state.memories


@dataclass(slots=True)
class _PinnedState:
    """Pinned memories of one partition, and the position of the change log up to which they are current."""

    cursor: Cursor | None = None
    memories: dict[str, Memory] = field(default_factory=dict)


def _display_order(memory: Memory) -> tuple[float, datetime, str]:
    importance = DEFAULT_IMPORTANCE if memory.importance is None else memory.importance
    return importance, memory.recorded_at or _EARLIEST, memory.id


def _is_current(memory: Memory, now: datetime) -> bool:
    begun = memory.valid_from is None or memory.valid_from <= now
    ended = any(end is not None and end <= now for end in (memory.valid_to, memory.expires_at))
    return begun and not ended and not memory.disabled
