"""Settlement of contradicting memories: one of them holds, the others hold no longer, in one operation.

An older one ends at the time of the one that is kept. A later one that is not kept was wrong: it goes to the archive
and counts for no time. What was derived from one of them alone goes the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tellback.memory.codec import from_entry
from tellback.memory.errors import ArgumentError
from tellback.memory.models import Memory, MemoryChange, Operation, statement_time
from tellback.memory.partitions import ARCHIVE, CONVERSATION, store_namespace
from tellback.memory.results import NEWEST
from tellback.memory.validation import checked_label, checked_labels
from tellback.memory.write.access_control import Caller
from tellback.memory.write.pipeline import WritePipeline
from tellback.memory.write.provenance import EARLIEST, only_derived_from, retired_entry
from tellback.memory.write.replacements import end_entry, shortens
from tellback.vectorstore import Entry

MOST_TRUSTED: Final = "most trusted"


def kept_memory(memories: Sequence[Memory], keep: str) -> Memory:
    """Return that of *memories* which *keep* chooses: "newest", "most trusted" (of those the newest), or an id."""
    newest_first = sorted(memories, key=lambda memory: (_time(memory), memory.id), reverse=True)
    if keep == NEWEST:
        return newest_first[0]
    if keep == MOST_TRUSTED:
        return min(newest_first, key=lambda memory: memory.trust.rank)
    chosen = next((memory for memory in memories if memory.id == keep), None)
    if chosen is None:
        raise ArgumentError("keep", keep, f'"{NEWEST}", "{MOST_TRUSTED}" or one of the ids is needed')
    return chosen


@dataclass(frozen=True, slots=True)
class Settlement:
    """Settles contradictions; blocks."""

    pipeline: WritePipeline

    def settle(self, ids: Sequence[str], keep: str, caller: Caller) -> Operation:
        """Let the memory that *keep* chooses of *ids* hold alone; return the operation. In a thread."""
        store = self.pipeline.entries.lifecycle("settle")
        wanted = dict.fromkeys(checked_labels(ids, "ids"))
        checked_label(keep, "keep")
        if len(wanted) < 2:
            raise ArgumentError("ids", list(wanted), "two or more different memories are needed")
        with store.transaction(lock=caller.namespace):
            self.pipeline.entries.follow_space()
            entries = {id: self.pipeline.entries.live(id, caller.namespace) for id in wanted}
            memories = [from_entry(entry) for entry in entries.values()]
            kept = kept_memory(memories, keep)
            others = [memory for memory in memories if memory.id != kept.id]
            caller.check_may_change(others, "settle")
            operation, now = self.pipeline.log.new_id(), self.pipeline.clock()
            changes: dict[str, MemoryChange] = {}
            for memory in others:
                derived = only_derived_from(store, memory.id, caller.namespace, spared=entries.keys())
                ending = [
                    entry for entry in derived if entry.id not in changes and caller.may_change(from_entry(entry))
                ]
                for entry in (entries[memory.id], *ending):
                    if _time(memory) > _time(kept):
                        changes[entry.id] = self._withdraw(entry, caller, now)
                    elif shortens(_time(kept), from_entry(entry)):
                        end, stored = _time(kept), self.pipeline.entries
                        changes[entry.id] = end_entry(stored, entry, end, caller, at=now, operation=operation)
            if not changes:
                raise ArgumentError("ids", list(wanted), "they are settled already: all but one have ended")
            log = self.pipeline.log
            return log.record(caller.namespace, "settle", caller.actor, list(changes.values()), id=operation, at=now)

    def _withdraw(self, entry: Entry, caller: Caller, now: datetime) -> MemoryChange:
        """Put a memory that never held into the archive."""
        store = self.pipeline.entries.store
        archived = retired_entry(entry, now, counts_to=EARLIEST)
        store.upsert([archived], namespace=store_namespace(caller.namespace, ARCHIVE))
        store.delete([entry.id], namespace=store_namespace(caller.namespace, CONVERSATION))
        return MemoryChange(entry.id, entry.revision, gone=True)


def _time(memory: Memory) -> datetime:
    return statement_time(memory) or EARLIEST
