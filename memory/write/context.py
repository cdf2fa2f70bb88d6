"""Write context: the bundle of services that functions take which are not methods of a service yet.

It disappears when erasure and export_import are services; new code takes ``EntryStore``, ``OperationLog``,
``IdempotencyKeys`` and so on by constructor instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import tzinfo

from memory.entry_store import EntryStore
from memory.history.protocol import HistoryRow
from memory.history.rows import HistoryRows
from memory.models import Actor, MemoryChange
from memory.tables.erasers import Eraser, ExportedPart
from memory.tables.idempotency_keys import IdempotencyKeys
from memory.tables.operation_log import OperationLog
from memory.tables.soft_deletes import SoftDeletes
from memory.tables.tombstones import Tombstones
from memory.timestamps import Clock
from memory.write.embedding_service import EmbeddingService
from memory.write.in_flight import WritesInFlight
from memory.write.policy_runner import PolicyRules
from vectorstore import Database, Entry, LifecycleStore, VectorStore


@dataclass(frozen=True, slots=True)
class WriteContext:
    """One memory's parts, as its write path uses them; the methods run in a worker thread."""

    entries: EntryStore
    tombstones: Tombstones
    operations: OperationLog
    embedding: EmbeddingService
    rules: PolicyRules
    clock: Clock
    ids: Callable[[], str]
    zone: tzinfo | None
    held: SoftDeletes
    """What is forgotten and has a time of grace."""
    keys: IdempotencyKeys
    """Keys of memories that have another id than the key would give them."""
    erasers: list[Eraser] = field(default_factory=list)
    """Other parts that keep something of memories; each adds itself here and is asked when something is forgotten."""
    carried: list[ExportedPart] = field(default_factory=list)
    """Other parts whose things an export carries; each adds itself here."""

    @property
    def store(self) -> VectorStore:
        """The vector store."""
        return self.entries.store

    @property
    def rows(self) -> HistoryRows:
        """Conversation history."""
        return self.entries.rows

    @property
    def under_way(self) -> WritesInFlight:
        """The writes that have begun and not ended."""
        return self.embedding.under_way

    @property
    def database(self) -> Database | None:
        """The database of the store; None where it has none."""
        return self.entries.database

    @property
    def lasting(self) -> LifecycleStore | None:
        """The store if it has the lifecycle part."""
        return self.entries.lifecycle_store

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

    def settling(self) -> AbstractContextManager[list[HistoryRow]]:
        """As ``EntryStore.settling``."""
        return self.entries.settling()

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

    def find(self, ids: Sequence[str], namespace: str) -> dict[str, tuple[str, Entry]]:
        """As ``EntryStore.find``."""
        return self.entries.find(ids, namespace)

    def versions(self, ids: Sequence[str], namespace: str) -> list[Entry]:
        """As ``EntryStore.versions``."""
        return self.entries.versions(ids, namespace)

    def each_version(self, ids: Sequence[str], namespace: str) -> Iterator[Entry]:
        """As ``EntryStore.each_version``."""
        return self.entries.each_version(ids, namespace)
