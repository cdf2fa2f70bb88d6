"""Soft delete: forgotten items wait in a grace period, from which they are restored or, after it, erased for good.

A later forgetting for good that selects a waiting memory, or the same words, erases it there too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tellback.memory.codec import from_entry
from tellback.memory.entry_store import EntryStore
from tellback.memory.erasure.backreferences import BACKREFERENCES, restore_backreferences
from tellback.memory.erasure.backup_eraser import BackupEraser, ForgottenPart
from tellback.memory.erasure.cascade_plan import is_archive, owner_of
from tellback.memory.erasure.verbatim_match import VerbatimTexts
from tellback.memory.errors import ArgumentError
from tellback.memory.models import MemoryChange, Operation
from tellback.memory.partitions import CONVERSATION, store_namespace
from tellback.memory.tables.erasers import ErasedItems, Eraser, RestorableEraser
from tellback.memory.tables.operation_log import OperationLog
from tellback.memory.tables.soft_deletes import SoftDelete, SoftDeletes
from tellback.memory.tables.tombstones import Tombstones, history_partition, message_hashes
from tellback.memory.write.access_control import Caller
from tellback.vectorstore import DamageError, Entry


@dataclass(frozen=True, slots=True)
class SoftDeleter:
    """Keeps soft-deleted items, restores them, and erases them for good. Its methods run inside a transaction."""

    entries: EntryStore
    operations: OperationLog
    tombstones: Tombstones
    soft_deletes: SoftDeletes
    erasers: Sequence[Eraser]

    def of(self, namespace: str) -> Iterator[SoftDelete]:
        """Yield the soft deletes of a user's namespace, the first due first."""
        for operation in self.soft_deletes.of(namespace):
            if (package := self.soft_deletes.get(namespace, operation)) is not None:
                yield package

    def put(
        self,
        operation: str,
        due: datetime,
        items: ErasedItems,
        entries: Sequence[tuple[str, Entry]],
        texts: VerbatimTexts,
        backreferences: str | None,
    ) -> None:
        """Keep *items* until *due*: their *entries* with partitions, the forgotten *texts*, the *backreferences* that
        were removed, and what restorable erasers need to come back. Before anything is erased.
        """
        parts = {eraser.name: eraser.put_away(items) for eraser in self.erasers if isinstance(eraser, RestorableEraser)}
        parts[BACKREFERENCES] = backreferences
        self.soft_deletes.put(
            SoftDelete(
                operation=operation,
                namespace=items.namespace,
                due=due,
                space=self._fingerprint,
                entries=tuple(entries),
                messages=tuple(items.messages),
                words=tuple(sorted(texts.texts)),
                parts=tuple((name, data) for name, data in parts.items() if data is not None),
            )
        )

    def find(self, ids: Collection[str], namespace: str) -> dict[str, list[Entry]]:
        """Return the soft-deleted entries of the memories *ids*, by id, with their versions."""
        entries_by_id: dict[str, list[Entry]] = {}
        for package in self.of(namespace) if ids else ():
            for partition, entry in package.entries:
                if (owner := owner_of(partition, entry)) in ids:
                    entries_by_id.setdefault(owner, []).append(entry)
        return entries_by_id

    def split(self, ids: Collection[str], texts: VerbatimTexts, namespace: str) -> list[tuple[SoftDelete, SoftDelete]]:
        """Return the parts of soft deletes that are of the memories *ids* or hold *texts*, each with the rest of it."""
        parts = []
        for package in self.of(namespace):
            entries = tuple(pair for pair in package.entries if owner_of(*pair) in ids or texts.in_entry(pair[1]))
            memories = {*ids, *(entry.id for partition, entry in entries if not is_archive(partition))}
            messages = tuple(row for row in package.messages if row.memory in memories or texts.in_message(row.message))
            if entries or messages:
                gone = {(partition, entry.id) for partition, entry in entries}
                rest = replace(
                    package,
                    entries=tuple(pair for pair in package.entries if (pair[0], pair[1].id) not in gone),
                    messages=tuple(row for row in package.messages if row not in messages),
                    words=tuple(text for text in package.words if not texts.held_by(text)),
                )
                parts.append((replace(package, entries=entries, messages=messages), rest))
        return parts

    def erase(self, found: Collection[tuple[SoftDelete, SoftDelete]]) -> int:
        """Erase the parts that ``split`` *found*; the rest can still be restored. Return how many items went."""
        for part, rest in found:
            self.soft_deletes.erase(part.namespace, part.operation)
            if rest.entries or rest.messages:
                self.soft_deletes.put(rest)
        return sum(len(part.entries) + len(part.messages) for part, _ in found)

    def erase_namespace(self, namespace: str) -> int:
        """Erase all soft deletes of a namespace; return how many there were."""
        return sum(self.soft_deletes.erase(namespace, operation) for operation in self.soft_deletes.of(namespace))

    def restore(self, operation: str, caller: Caller) -> Operation:
        """Restore all that the forgetting *operation* soft-deleted; return the operation that did so.

        Vectors of another space than the present one are left out and made again. Where another memory has one of the
        ids by now, nothing is restored and ``ArgumentError`` says so; so it does where the grace period is over, or
        there was none. Where a more trusted actor forgot it, ``NotTrusted`` is raised.
        """
        namespace = caller.namespace
        package = self.soft_deletes.get(namespace, operation)
        if package is None:
            expected = "a forgetting whose time of grace is not over is needed; its bytes are gone, or it had none"
            raise ArgumentError("operation", operation, expected)
        forgetting = self.operations.get(namespace, operation)
        if forgetting is not None:  # a file of an earlier version logged nothing of messages alone
            caller.check_may_undo(forgetting)
        caller.check_may_change((from_entry(entry) for _, entry in package.entries), "restore")
        restored = [entry.id for partition, entry in package.entries if not is_archive(partition)]
        self._restore_entries(package)
        self.tombstones.lift_words(namespace, package.words)
        self.entries.rows.place(package.messages)
        hashes = message_hashes(self.tombstones.key, package.messages)
        self.tombstones.lift(history_partition(namespace), hashes)
        parts = dict(package.parts)
        if BACKREFERENCES in parts:
            owners = {owner_of(partition, entry) for partition, entry in package.entries}
            restore_backreferences(self.entries, parts[BACKREFERENCES], owners)
        for eraser in self.erasers:
            if isinstance(eraser, RestorableEraser) and eraser.name in parts:
                eraser.put_back(namespace, parts[eraser.name])
        self.soft_deletes.erase(namespace, operation)
        changes = [MemoryChange(id) for id in restored]
        restoring = self.operations.record(namespace, "restore", caller.actor, changes, undoes=operation)
        if forgetting is not None:
            self.operations.undone(namespace, operation, restoring.id)
        return restoring

    @property
    def _fingerprint(self) -> str:
        """That of the space of the vectors; "" without one."""
        space = self.entries.store.space
        return "" if space is None else space.fingerprint

    def _restore_entries(self, package: SoftDelete) -> None:
        """Write the entries of *package* back and lift their tombstones."""
        partitions: dict[str, list[Entry]] = {}
        same_space = package.space == self._fingerprint
        for partition, entry in package.entries:
            fits = same_space or entry.vector is None
            partitions.setdefault(partition, []).append(entry if fits else replace(entry, vector=None))
        for partition, entries in partitions.items():
            ids = [entry.id for entry in entries]
            present = [entry.id for entry in self.entries.store.get(ids, namespace=partition) if entry is not None]
            if present:
                expected = f"{present[0]} was remembered anew since; forget that one first"
                raise ArgumentError("operation", package.operation, expected)
            self.entries.store.upsert(entries, namespace=partition)
            self.tombstones.lift(partition, ids)
        owners = {owner_of(partition, entry) for partition, entry in package.entries if is_archive(partition)}
        self.tombstones.lift(store_namespace(package.namespace, CONVERSATION), sorted(owners))

    def erase_due(self, now: datetime, backups: BackupEraser) -> int:
        """Erase every soft delete whose grace period is over, from *backups* too; return how many there were.

        Opens its transaction.
        """
        due = self.soft_deletes.due(now)
        database = self.entries.database
        if not due or (database is not None and database.read_only):
            return 0
        with backups.erasing() as in_backups, self.entries.transaction():
            for namespace, operation in due:
                in_backups.parts.append(self._forgotten_part(namespace, operation))
            backups.note(in_backups)
            return sum(self.soft_deletes.erase(namespace, operation) for namespace, operation in due)

    def _forgotten_part(self, namespace: str, operation: str) -> ForgottenPart:
        """Return what the soft delete holds; of a damaged one, words that nobody can search for."""
        try:
            package = self.soft_deletes.get(namespace, operation)
        except DamageError:
            return ForgottenPart(namespace, texts=("",))
        if package is None:
            return ForgottenPart(namespace)
        ids = sorted({owner_of(partition, entry) for partition, entry in package.entries})
        return ForgottenPart(namespace, ids, package.words)
