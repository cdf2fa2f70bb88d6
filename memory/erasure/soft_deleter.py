"""Soft delete: forgotten items wait in a grace period, from which they are restored or, after it, erased for good.

A later forgetting for good that selects a waiting memory, or the same words, erases it there too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memory.codec import from_entry
from memory.entry_store import EntryStore
from memory.erasure.backreferences import BACKREFERENCES, Backreferences
from memory.erasure.cascade_plan import is_archive, owner_of
from memory.erasure.verbatim_match import VerbatimTexts
from memory.errors import ArgumentError
from memory.history.protocol import HistoryRow
from memory.models import MemoryChange, Operation
from memory.partitions import CONVERSATION, store_namespace
from memory.tables.erasers import ErasedItems, Eraser, RestorableEraser
from memory.tables.operation_log import OperationLog
from memory.tables.soft_deletes import SoftDelete, SoftDeletes
from memory.tables.tombstones import Tombstones, history_partition, message_hashes
from memory.write.access_control import Caller
from vectorstore import Entry


@dataclass(frozen=True, slots=True)
class SoftDeletedItems:
    """Part of one soft delete (*package*): *entries* with their partitions, and *messages*."""

    package: SoftDelete
    entries: tuple[tuple[str, Entry], ...]
    messages: tuple[HistoryRow, ...]

    def __len__(self) -> int:
        return len(self.entries) + len(self.messages)


class SoftDeleter:
    """Keeps soft-deleted items, restores them, and erases them for good. Its methods run inside a transaction."""

    def __init__(
        self,
        entries: EntryStore,
        operations: OperationLog,
        tombstones: Tombstones,
        soft_deletes: SoftDeletes,
        erasers: Sequence[Eraser],
    ) -> None:
        self._entries = entries
        self._operations = operations
        self._tombstones = tombstones
        self._soft_deletes = soft_deletes
        self._erasers = erasers
        self._backreferences = Backreferences(entries)

    def of(self, namespace: str) -> Iterator[SoftDelete]:
        """Yield the soft deletes of a user's namespace, the first due first."""
        for operation in self._soft_deletes.of(namespace):
            if (package := self._soft_deletes.get(namespace, operation)) is not None:
                yield package

    def has(self, operation: str, namespace: str) -> bool:
        """Whether the forgetting *operation* has items that wait."""
        return operation in self._soft_deletes.of(namespace)

    def restorable_parts(self, items: ErasedItems) -> dict[str, str]:
        """Return the data that restorable erasers need to come back, by their names; before anything is erased."""
        parts = {
            eraser.name: eraser.put_away(items) for eraser in self._erasers if isinstance(eraser, RestorableEraser)
        }
        return {name: data for name, data in parts.items() if data is not None}

    def put(
        self,
        operation: str,
        due: datetime,
        items: ErasedItems,
        entries: Sequence[tuple[str, Entry]],
        texts: VerbatimTexts,
        parts: dict[str, str],
    ) -> None:
        """Keep *items* until *due*: their *entries* with partitions, the forgotten *texts* and what *parts* keep."""
        space = self._entries.store.space
        self._soft_deletes.put(
            SoftDelete(
                operation=operation,
                namespace=items.namespace,
                due=due,
                space="" if space is None else space.fingerprint,
                entries=tuple(entries),
                messages=tuple(items.messages),
                words=tuple(sorted(texts.texts)),
                parts=tuple(parts.items()),
            )
        )

    def entries(self, ids: Collection[str], namespace: str) -> dict[str, list[Entry]]:
        """Return the soft-deleted entries of the memories *ids*, by id, with their versions."""
        found: dict[str, list[Entry]] = {}
        for package in self.of(namespace) if ids else ():
            for partition, entry in package.entries:
                if (owner := owner_of(partition, entry)) in ids:
                    found.setdefault(owner, []).append(entry)
        return found

    def matching(self, ids: Collection[str], texts: VerbatimTexts, namespace: str) -> list[SoftDeletedItems]:
        """Return the soft-deleted items of the memories *ids*, and those that hold *texts*."""
        found = []
        for package in self.of(namespace):
            entries = [
                (partition, entry)
                for partition, entry in package.entries
                if owner_of(partition, entry) in ids or texts.in_entry(entry)
            ]
            memories = {*ids, *(entry.id for partition, entry in entries if not is_archive(partition))}
            messages = [row for row in package.messages if row.memory in memories or texts.in_message(row.message)]
            if entries or messages:
                found.append(SoftDeletedItems(package, tuple(entries), tuple(messages)))
        return found

    def erase(self, found: Collection[SoftDeletedItems], texts: VerbatimTexts) -> int:
        """Erase the items *found*; the rest of their soft deletes can still be restored. Return how many went."""
        for items in found:
            package, erased = items.package, {(partition, entry.id) for partition, entry in items.entries}
            self._soft_deletes.erase(package.namespace, package.operation)
            rest = replace(
                package,
                entries=tuple(
                    (partition, entry) for partition, entry in package.entries if (partition, entry.id) not in erased
                ),
                messages=tuple(row for row in package.messages if row not in items.messages),
                words=tuple(text for text in package.words if not texts.held_by(text)),
            )
            if rest.entries or rest.messages:
                self._soft_deletes.put(rest)
        return sum(map(len, found))

    def erase_namespace(self, namespace: str) -> int:
        """Erase all soft deletes of a namespace; return how many there were."""
        return sum(self._soft_deletes.erase(namespace, operation) for operation in self._soft_deletes.of(namespace))

    def restore(self, operation: str, caller: Caller) -> Operation:
        """Restore all that the forgetting *operation* soft-deleted; return the operation that did so.

        Vectors of another space than the present one are left out and made again. Where another memory has one of the
        ids by now, nothing is restored and ``ArgumentError`` says so; so it does where the grace period is over, or
        there was none. Where a more trusted actor forgot it, ``NotTrusted`` is raised.
        """
        store, namespace = self._entries.lifecycle("restore_forgotten"), caller.namespace
        package = self._soft_deletes.get(namespace, operation)
        if package is None:
            expected = "a forgetting whose time of grace is not over is needed; its bytes are gone, or it had none"
            raise ArgumentError("operation", operation, expected)
        forgetting = self._operations.get(namespace, operation)
        if forgetting is not None:  # of messages alone nothing is logged
            caller.check_may_undo(forgetting)
        caller.check_may_change((from_entry(entry) for _, entry in package.entries), "restore")
        restored = [entry.id for partition, entry in package.entries if not is_archive(partition)]
        self._restore_entries(package, operation, "" if store.space is None else store.space.fingerprint)
        self._tombstones.lift_words(namespace, package.words)
        self._entries.rows.place(package.messages)
        hashes = message_hashes(self._tombstones.key, package.messages)
        self._tombstones.lift(history_partition(namespace), hashes)
        parts = dict(package.parts)
        if BACKREFERENCES in parts:
            owners = {owner_of(partition, entry) for partition, entry in package.entries}
            self._backreferences.restore(parts[BACKREFERENCES], owners)
        for eraser in self._erasers:
            if isinstance(eraser, RestorableEraser) and eraser.name in parts:
                eraser.put_back(namespace, parts[eraser.name])
        self._soft_deletes.erase(namespace, operation)
        changes = [MemoryChange(id) for id in restored]
        restoring = self._operations.record(namespace, "restore", caller.actor, changes, undoes=operation)
        if forgetting is not None:
            self._operations.undone(namespace, operation, restoring.id)
        return restoring

    def _restore_entries(self, package: SoftDelete, operation: str, space: str) -> None:
        """Write the entries of *package* back and lift their tombstones."""
        partitions: dict[str, list[Entry]] = {}
        for partition, entry in package.entries:
            fits = package.space == space or entry.vector is None
            partitions.setdefault(partition, []).append(entry if fits else replace(entry, vector=None))
        for partition, entries in partitions.items():
            ids = [entry.id for entry in entries]
            taken = [entry.id for entry in self._entries.store.get(ids, namespace=partition) if entry is not None]
            if taken:
                expected = f"{taken[0]} was remembered anew since; forget that one first"
                raise ArgumentError("operation", operation, expected)
            self._entries.store.upsert(entries, namespace=partition)
            self._tombstones.lift(partition, ids)
        owners = {owner_of(partition, entry) for partition, entry in package.entries if is_archive(partition)}
        self._tombstones.lift(store_namespace(package.namespace, CONVERSATION), sorted(owners))

    def erase_due(self, now: datetime) -> int:
        """Erase every soft delete whose grace period is over; return how many there were. Opens its transaction."""
        due = self._soft_deletes.due(now)
        database = self._entries.database
        if not due or (database is not None and database.read_only):
            return 0
        with self._entries.lifecycle("forget").transaction():
            return sum(self._soft_deletes.erase(namespace, operation) for namespace, operation in due)

    def next_due(self) -> datetime | None:
        """Return when the next grace period ends; None where nothing waits."""
        return self._soft_deletes.next_due()
