"""Write context: the bundle of services that functions take which are not methods of a service yet.

It disappears when erasure and export_import are services; new code takes ``EntryStore``, ``OperationLog``,
``IdempotencyKeys`` and so on by constructor instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import tzinfo

from memory.entry_store import EntryStore
from memory.history.rows import HistoryRows
from memory.models import Actor, MemoryChange
from memory.tables.erasers import Eraser, ExportedPart
from memory.tables.idempotency_keys import IdempotencyKeys
from memory.tables.operation_log import OperationLog
from memory.tables.tombstones import Tombstones
from memory.timestamps import Clock
from memory.write.embedding_service import EmbeddingService
from memory.write.pipeline import WritePipeline
from memory.write.policy_runner import PolicyRules
from vectorstore import Database, Entry, LifecycleStore, VectorStore


@dataclass(frozen=True, slots=True)
class WriteContext:
    """The services of one memory, as export and import use them; the methods run in a worker thread."""

    entries: EntryStore
    tombstones: Tombstones
    operations: OperationLog
    embedding: EmbeddingService
    pipeline: WritePipeline
    keys: IdempotencyKeys
    erasers: list[Eraser]
    carried: list[ExportedPart]
    clock: Clock
    zone: tzinfo | None

    @property
    def rules(self) -> PolicyRules:
        """The write policies."""
        return self.pipeline.rules

    @property
    def store(self) -> VectorStore:
        """The vector store."""
        return self.entries.store

    @property
    def rows(self) -> HistoryRows:
        """Conversation history."""
        return self.entries.rows

    @property
    def database(self) -> Database | None:
        """The database of the store; None where it has none."""
        return self.entries.database

    @property
    def apart(self) -> bool:
        """As ``EntryStore.history_apart``."""
        return self.entries.history_apart

    def operation_ids(self) -> str:
        """As ``OperationLog.new_id``."""
        return self.operations.new_id()

    def transaction(self) -> AbstractContextManager[None]:
        """As ``EntryStore.transaction``."""
        return self.entries.transaction()

    def lifecycle(self, operation: str) -> LifecycleStore:
        """As ``EntryStore.lifecycle``."""
        return self.entries.lifecycle(operation)

    def log(
        self,
        namespace: str,
        id: str,
        kind: str,
        actor: Actor,
        changes: Sequence[MemoryChange],
        *,
        undoes: str | None = None,
    ) -> None:
        """Record the operation *id*, within the transaction of the *changes*; without any, nothing."""
        if changes:
            self.operations.record(namespace, kind, actor, changes, id=id, undoes=undoes)

    def id_of_key(self, namespace: str, key: str) -> str:
        """As ``IdempotencyKeys.id_of_key``."""
        return self.keys.id_of_key(namespace, key)

    def name_key(self, namespace: str, key: str, id: str) -> None:
        """As ``IdempotencyKeys.name_key``."""
        self.keys.name_key(namespace, key, id)

    def document_lanes(self, namespace: str) -> list[str]:
        """As ``EntryStore.document_partitions``."""
        return self.entries.document_partitions(namespace)

    def versions(self, ids: Sequence[str], namespace: str) -> list[Entry]:
        """As ``EntryStore.versions``."""
        return self.entries.versions(ids, namespace)
