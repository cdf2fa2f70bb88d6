"""Attributes of memories: fields that change in place, without a version; the log keeps old and new values.

Text, vector and validity stay. What hides a memory (disabled, expired) hides its earlier versions too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from memory.codec import from_entry
from memory.entry_store import EntryStore, patched_metadata
from memory.models import MemoryChange, Operation
from memory.partitions import CONVERSATION, store_namespace
from memory.tables.operation_log import OperationLog
from memory.validation import checked_labels
from memory.write.access_control import Caller
from vectorstore import Entry, Metadata

AttributeFields: TypeAlias = Mapping[str, Any]
ATTRIBUTE_KINDS: Final = ("pin", "unpin", "disable", "enable", "tag", "untag", "importance", "expire")
"""The kinds of operations that change fields in place."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """Sets attributes of memories in *entries* and records it in the *log*."""

    entries: EntryStore
    log: OperationLog

    def set(
        self, kind: str, ids: Sequence[str] | str, new: Callable[[Metadata], AttributeFields], caller: Caller
    ) -> Operation | None:
        """Give memories the fields that *new* returns for theirs (None: no value), all or none.

        Return the operation of that *kind*; None if nothing differs. In a thread.
        """
        wanted = dict.fromkeys(checked_labels([ids] if isinstance(ids, str) else ids, "ids"))
        with self.entries.transaction():
            entries = [self.entries.live(id, caller.namespace) for id in wanted]
            caller.check_may_change([from_entry(entry) for entry in entries], kind)
            changes = [
                change for entry in entries for change in self.patch(entry, new(entry.metadata), caller.namespace)
            ]
            return self.log.record(caller.namespace, kind, caller.actor, changes) if changes else None

    def patch(self, entry: Entry, fields: AttributeFields, namespace: str) -> list[MemoryChange]:
        """Patch *entry* so that it has *fields*; return what changed, nothing if it had them."""
        fields = {name: value for name, value in fields.items() if entry.metadata.get(name) != value}
        if not fields:
            return []
        self.entries.store.patch(
            {entry.id: patched_metadata(entry.metadata, fields)},
            namespace=store_namespace(namespace, CONVERSATION),
            expect={entry.id: entry.revision},
        )
        self.entries.hide_versions(entry.id, fields, namespace)
        before = {name: entry.metadata.get(name) for name in fields}
        return [MemoryChange(entry.id, entry.revision, old=before, new=fields)]
