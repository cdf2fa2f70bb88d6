"""Attributes of memories, which change in place: marks, tags, importance, expiry, the line that says what it is about.

They change without a version; the log keeps old and new values, and text and validity stay. What hides a memory
(disabled, expired) hides its earlier versions too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from tellback.memory.codec import entry_embedding_text, from_entry, with_metadata
from tellback.memory.entry_store import EntryStore, patched_metadata
from tellback.memory.models import MemoryChange, Operation
from tellback.memory.partitions import CONVERSATION, store_namespace
from tellback.memory.tables.operation_log import OperationLog
from tellback.memory.validation import checked_labels
from tellback.memory.write.access_control import Caller
from tellback.memory.write.embedding_service import NOT_YET_EMBEDDED, EmbeddedText, EmbeddingService
from tellback.vectorstore import Entry

AttributeFields: TypeAlias = Mapping[str, Any]
_NOTHING: Final[Mapping[str, EmbeddedText]] = MappingProxyType({})
ATTRIBUTE_KINDS: Final = (
    "pin",
    "unpin",
    "disable",
    "enable",
    "tag",
    "untag",
    "importance",
    "expire",
    "promote",
    "demote",
    "repeat",
    "describe",
)
"""The kinds of operations that change fields in place."""
_INDEXED_FIELDS: Final = frozenset({"tags", "about"})
"""Those of them that are indexed with the text."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """Sets attributes of memories in *entries* and records it in the *log*."""

    entries: EntryStore
    log: OperationLog
    embedding: EmbeddingService

    def set(
        self,
        kind: str,
        ids: Sequence[str] | str,
        new: Callable[[Entry], AttributeFields],
        caller: Caller,
        embedded: Mapping[str, EmbeddedText] = _NOTHING,
    ) -> Operation | None:
        """Set the fields that *new* returns for each memory (None: no value), on all memories or none.

        *embedded* as in ``patch``. Return the operation of that *kind*; None if nothing differs. In a thread.
        """
        checked_ids = dict.fromkeys(checked_labels([ids] if isinstance(ids, str) else ids, "ids"))
        with self.entries.transaction(caller.namespace):
            entries = [self.entries.live(id, caller.namespace) for id in checked_ids]
            caller.check_may_change([from_entry(entry) for entry in entries], kind)
            changes = [
                change for entry in entries for change in self.patch(entry, new(entry), caller.namespace, embedded)
            ]
            return self.log.record(caller.namespace, kind, caller.actor, changes) if changes else None

    def patch(
        self, entry: Entry, fields: AttributeFields, namespace: str, embedded: Mapping[str, EmbeddedText] = _NOTHING
    ) -> list[MemoryChange]:
        """Patch *entry* so that it has *fields*; return what changed, nothing if it had them.

        With another line that says what it is about, it has its vector of *embedded* (by text), or waits for one.
        """
        fields = {name: value for name, value in fields.items() if entry.metadata.get(name) != value}
        if not fields:
            return []
        metadata, partition = patched_metadata(entry.metadata, fields), store_namespace(namespace, CONVERSATION)
        expect = {entry.id: entry.revision}
        if not _INDEXED_FIELDS.isdisjoint(fields):
            changed = with_metadata(entry, metadata)
            if "about" in fields:
                # nothing would name the former line to the cache once the memory is forgotten
                self.embedding.forget([entry_embedding_text(entry)], keeping=[entry_embedding_text(changed)])
                (answer,) = self.embedding.still([embedded.get(entry_embedding_text(changed), NOT_YET_EMBEDDED)])
                changed = replace(changed, vector=answer.vector, no_vector=answer.no_vector)
            self.entries.store.upsert([changed], namespace=partition, expect=expect)
        else:
            self.entries.store.patch({entry.id: metadata}, namespace=partition, expect=expect)
        self.entries.hide_versions(entry.id, fields, namespace)
        before = {name: entry.metadata.get(name) for name in fields}
        return [MemoryChange(entry.id, entry.revision, old=before, new=fields)]
