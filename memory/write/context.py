"""Write context: the store, the history and tables beside it, ids and the clock, as every write uses them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Final

from memory.history.sync_history import HistoryRow, HistoryRows
from memory.models import Actor, MemoryChange, Operation
from memory.partitions import ARCHIVE, CONVERSATION, DOCUMENTS, store_namespace
from memory.tables.erasers import Eraser, ExportedPart
from memory.tables.idempotency_keys import IdempotencyKeys, InMemoryIdempotencyKeys, keyed_id
from memory.tables.operation_log import OperationLog
from memory.tables.soft_deletes import InMemorySoftDeletes, SoftDeletes
from memory.tables.tombstones import Tombstones
from memory.timestamps import Clock, to_aware
from memory.write.embedding_service import EmbeddingService
from memory.write.in_flight import WritesInFlight
from memory.write.policy_runner import PolicyRules
from vectorstore import Database, Entry, LifecycleStore, UnsupportedError, VectorStore, lifecycle_of

_MAX_SKIPPED: Final = 256
"""So many rows of others are read past before the archive is asked for the next ones: a page of it."""


@dataclass(frozen=True, slots=True)
class WriteContext:
    """One memory's parts, as its write path uses them; the methods run in a worker thread."""

    store: VectorStore
    rows: HistoryRows
    tombstones: Tombstones
    operations: OperationLog
    embedding: EmbeddingService
    rules: PolicyRules
    clock: Clock
    ids: Callable[[], str]
    operation_ids: Callable[[], str]
    zone: tzinfo | None
    held: SoftDeletes = field(default_factory=InMemorySoftDeletes)
    """What is forgotten and has a time of grace."""
    keys: IdempotencyKeys = field(default_factory=InMemoryIdempotencyKeys)
    """Keys of memories that have another id than the key would give them."""
    erasers: list[Eraser] = field(default_factory=list)
    """Other parts that keep something of memories; each adds itself here and is asked when something is forgotten."""
    carried: list[ExportedPart] = field(default_factory=list)
    """Other parts whose things an export carries; each adds itself here."""
    _lasting: LifecycleStore | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Looked at once: it reads each property of the store.
        object.__setattr__(self, "_lasting", lifecycle_of(self.store))

    @property
    def under_way(self) -> WritesInFlight:
        """The writes that have begun and not ended."""
        return self.embedding.under_way

    def transaction(self) -> AbstractContextManager[None]:
        """One transaction over the store's whole file; on a data-only store each call stands alone."""
        return nullcontext() if self._lasting is None else self._lasting.transaction()

    @property
    def database(self) -> Database | None:
        """The file of the store; None where it is in the process or data-only."""
        return None if self._lasting is None else self._lasting.database

    @property
    def lasting(self) -> LifecycleStore | None:
        """The store if it has the lifecycle part."""
        return self._lasting

    @property
    def apart(self) -> bool:
        """Whether history is kept elsewhere than what is remembered: no transaction holds both."""
        here = self.database
        return here is None or getattr(self.rows, "database", None) is not here

    @contextmanager
    def settling(self) -> Iterator[list[HistoryRow]]:
        """A ``transaction`` and a list for what of history it remembers, which is settled with it.

        Where history is kept elsewhere that comes after the commit: what ends in between is completed on opening.
        """
        remembered: list[HistoryRow] = []
        with self.transaction():
            yield remembered
            if not self.apart:
                self.rows.settle(remembered)
        if self.apart and remembered:
            self.rows.settle(remembered)

    def lifecycle(self, operation: str) -> LifecycleStore:
        """Return the store if it can do what *operation* needs, else refuse by name.

        It then takes the vectors that the file has now, whoever switched it to others.
        """
        if self._lasting is None:
            reason = f"{type(self.store).__name__} lacks the lifecycle part (transaction, erase)"
            raise UnsupportedError(operation, reason)
        self.embedding.follow()
        return self._lasting

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
        """Put the operation *id* into the log, within the transaction of the *changes*; without any, nothing."""
        if changes:
            at = to_aware(self.clock(), self.zone)
            self.operations.add(namespace, Operation(id, kind, actor, at, tuple(changes), undoes))

    def id_of_key(self, namespace: str, key: str) -> str:
        """Return the id of the memory that a caller's *key* names, whether it is there or not."""
        name = keyed_id(self.tombstones.key, namespace, key)
        return self.keys.get(namespace, name) or name

    def name_key(self, namespace: str, key: str, id: str) -> None:
        """Let a caller's *key* name the memory *id*."""
        name = keyed_id(self.tombstones.key, namespace, key)
        if name != id:
            self.keys.put(namespace, name, id)

    def document_lanes(self, namespace: str) -> list[str]:
        """Return the store namespaces in which a user's documents are."""
        prefix = store_namespace(namespace, DOCUMENTS) + "/"
        return [name for name in self.store.namespaces() if name.startswith(prefix)]

    def find(self, ids: Sequence[str], namespace: str) -> dict[str, tuple[str, Entry]]:
        """Return where each id is live: lane and entry; the conversation before documents."""
        found: dict[str, tuple[str, Entry]] = {}
        missing = list(dict.fromkeys(ids))
        for lane in self._live_lanes(namespace):
            for one, entry in zip(missing, self.store.get(missing, namespace=lane), strict=True):
                if entry is not None:
                    found[one] = (lane, entry)
            missing = [one for one in missing if one not in found]
            if not missing:
                break
        return found

    def versions(self, ids: Sequence[str], namespace: str) -> list[Entry]:
        """Return the archived versions of memories, of each the oldest first."""
        return sorted(self.each_version(ids, namespace), key=_version_order)

    def each_version(self, ids: Sequence[str], namespace: str) -> Iterator[Entry]:
        """Yield the archived versions of memories in order of their own ids, in one pass over the archive.

        What lies between is read past where it is little, and left out where it is much.
        """
        archive, owners = store_namespace(namespace, ARCHIVE), set(ids)
        begins = sorted(one + "@" for one in owners)
        at = 0
        while at < len(begins):
            between = 0
            for entry in self.store.scan(namespace=archive, after=begins[at]):
                if entry.id.rpartition("@")[0] in owners:
                    between = 0
                    yield entry
                    continue
                between += 1
                if between > _MAX_SKIPPED and not _is_version_of(entry.id, owners):
                    at = bisect_left(begins, entry.id)
                    break
            else:
                return

    def _live_lanes(self, namespace: str) -> Iterator[str]:
        yield store_namespace(namespace, CONVERSATION)
        yield from self.document_lanes(namespace)  # asked for only when the conversation lacks something


def _version_order(entry: Entry) -> tuple[str, int]:
    owner, _, revision = entry.id.rpartition("@")
    return owner, int(revision)


def _is_version_of(id: str, owners: Container[str]) -> bool:
    """Whether the archive's *id* lies among versions of one of *owners*: ids may hold an "@" themselves."""
    return any(id[:place] in owners for place, sign in enumerate(id) if sign == "@")
