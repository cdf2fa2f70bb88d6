"""Memory eraser: forgets for good or with a grace period, restores, and verifies a forgetting.

The order of a forgetting: the cascade plan is made inside the transaction, the actor's trust is checked, everything is
erased from every part of the file, tombstones and the operation log are written; after the commit the bytes are wiped.
What remains is a tombstone (ids and a keyed hash, never the text) and a receipt without words. With a grace period
everything is soft-deleted instead (``soft_deleter``), and its bytes go when the period is over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from itertools import chain, islice
from typing import Final

from tellback.memory.codec import erased_texts, from_entry
from tellback.memory.entry_store import ERASED_PAGE_SIZE, EntryStore
from tellback.memory.erasure.backreferences import remove_backreferences
from tellback.memory.erasure.backup_eraser import BackupEraser, BackupErasure, ForgottenPart
from tellback.memory.erasure.cascade_plan import CascadePlan, CascadePlanner, is_archive
from tellback.memory.erasure.external_copies import ExternalCopies
from tellback.memory.erasure.receipt import namespace_receipt, plan_receipt, receipt_hashes
from tellback.memory.erasure.selection import ForgetSelection, SelectionResolver
from tellback.memory.erasure.soft_deleter import SoftDeleter
from tellback.memory.erasure.verify import verify_erasure
from tellback.memory.errors import ArgumentError
from tellback.memory.history.protocol import HistoryRow
from tellback.memory.models import Memory, MemoryChange, Operation, Trust
from tellback.memory.partitions import CONVERSATION, store_namespace
from tellback.memory.results import ErasureVerification, Receipt
from tellback.memory.selectors import ForgetSelectors
from tellback.memory.tables.erasers import ErasedItems, Eraser, run_erasers
from tellback.memory.tables.operation_log import OperationLog
from tellback.memory.tables.soft_deletes import SoftDeletes
from tellback.memory.tables.tombstones import Tombstones, history_partition, message_hashes
from tellback.memory.timestamps import Clock
from tellback.memory.write.access_control import Caller
from tellback.memory.write.memory_writer import message_trust
from tellback.vectorstore import Entry, VectorStoreError

_DUE_CHECK_INTERVAL: Final = timedelta(minutes=1)
"""Time between two looks for due soft deletes of other processes."""


@dataclass(eq=False)
class MemoryEraser:
    """Forgets memories and messages in one transaction over the whole file; soft deletes, restores and verifies.

    Its methods block. *erasers* is the list to which other parts add themselves. *clock* gives aware times; *zone* is
    that of naive ones.
    """

    entries: EntryStore
    operations: OperationLog
    tombstones: Tombstones
    soft_deletes: SoftDeletes
    erasers: Sequence[Eraser]
    clock: Clock
    backups: BackupEraser
    zone: tzinfo | None = None
    last_due_check: datetime | None = None

    def __post_init__(self) -> None:
        self._soft_deleter = SoftDeleter(
            self.entries, self.operations, self.tombstones, self.soft_deletes, self.erasers
        )
        self._copies = ExternalCopies(self.entries, self.operations)
        self._next_due = self.soft_deletes.next_due()

    def forget(
        self,
        ids: Sequence[str] | None,
        selectors: ForgetSelectors,
        caller: Caller,
        *,
        dry_run: bool,
        grace: timedelta | None,
        remove_backups: bool,
    ) -> Receipt:
        """Forget what *ids* and *selectors* name; a forgotten memory is passed over, an unknown id raises.

        A dry run returns the cascade plan as a receipt and changes nothing.
        """
        selection = ForgetSelection.of(ids, selectors, self.clock, self.zone)
        _check_grace_period(grace, remove_backups)
        namespace, final = caller.namespace, grace is None
        if not final:
            self.entries.lifecycle("forget with a time of grace")
        self.entries.follow_space()
        if dry_run:
            planned = plan_receipt(self._plan(selection, namespace, final=final), namespace)
            return replace(planned, dry_run=True, unreached=tuple(self._copies.list(namespace)))
        now = self.clock()
        due = None if grace is None else _due_time(now, grace)
        with self.backups.erasing() as in_backups, self.entries.transaction(namespace):
            plan = self._plan(selection, namespace, final=final)
            operation = self.operations.new_id()
            copies = tuple(self._copies.list(namespace))
            entries = [
                (partition, entry)
                for partition, ids in plan.entries.items()
                for page in self.entries.pages(ids, partition)
                for entry in page
            ]
            soft_deleted = self._soft_deleter.split(plan.memories, plan.texts, namespace) if final else []
            erased = [entry for _, entry in chain(entries, *(part.entries for part, _ in soft_deleted))]
            _check_may_forget(caller, erased, chain(plan.messages, *(part.messages for part, _ in soft_deleted)))
            texts = erased_texts(entry for _, entry in entries)
            items = ErasedItems(namespace, now, plan.entries, texts, plan.messages)
            due = due if entries or plan.messages else None
            removed_references = remove_backreferences(self.entries, plan.referring, frozenset(plan.memories))
            if due is not None:
                self._soft_deleter.put(operation, due, items, entries, plan.texts, removed_references)
            removed = self._erase(plan, items)
            if soft_deleted:
                removed["held"] = self._soft_deleter.erase(soft_deleted)
            changes = [MemoryChange(id, gone=True) for id in plan.memories]
            if changes or due is not None:  # of messages alone too, where it can be taken back
                self.operations.record(namespace, "forget", caller.actor, changes, id=operation)
            if due is None and (plan.entries or plan.messages):
                ids = list(dict.fromkeys([*plan.targets, *plan.derived, *plan.also]))
                words = sorted({*texts, *plan.texts.texts, *(row.message.text for row in plan.messages)})
                in_backups.parts.append(ForgottenPart(namespace, ids, words))
                self.backups.note(in_backups)
        receipt = replace(
            plan_receipt(plan, namespace),
            operation=operation if changes or due is not None else None,
            at=now,
            due=due,
            salt=operation,
            hashes=self._hashes(operation, erased),
            unreached=copies,
        )
        return self._finish(receipt, removed, in_backups, remove_backups and bool(plan.entries or plan.messages))

    def forget_namespace(self, caller: Caller, *, dry_run: bool, remove_backups: bool) -> Receipt:
        """Forget everything of the caller's namespace: all partitions, history, operations, data of every eraser."""
        namespace = caller.namespace
        self.entries.follow_space()
        copies, entry_ids = tuple(self._copies.list(namespace)), dict[str, list[str]]()
        if dry_run:
            for partition in self.entries.partitions(namespace):
                entry_ids[partition] = [entry.id for entry in self.entries.store.scan(namespace=partition)]
            messages = sum(1 for _ in self.entries.rows.kept(namespace=namespace))
            return replace(namespace_receipt(namespace, entry_ids, messages), dry_run=True, unreached=copies)
        now, salt = self.clock(), self.operations.new_id()
        hashes: set[str] = set()
        removed: Counter[str] = Counter()
        with self.backups.erasing() as in_backups, self.entries.transaction(namespace):
            if not caller.may_change(Memory("", trust=Trust.USER)):  # an owner also forgets damaged soft deletes
                self._check_may_forget_namespace(caller)
            for partition, page in self.entries.pages_to_erase(namespace):
                ids = [entry.id for entry in page]
                entry_ids.setdefault(partition, []).extend(ids)
                hashes.update(self._hashes(salt, page))
                if not is_archive(partition):
                    self.tombstones.add(partition, ids, now)
                self.entries.erase(ids, partition)
                items = ErasedItems(namespace, now, {partition: ids}, erased_texts(page))
                removed.update(run_erasers(self.erasers, items))
            rows = self.entries.rows.kept(namespace=namespace)
            while messages_page := list(islice(rows, ERASED_PAGE_SIZE)):
                items = ErasedItems(namespace, now, {}, frozenset(), messages_page)
                self._bury_messages(items)
                removed.update(run_erasers(self.erasers, items))
            messages = self.entries.rows.erase_namespace(namespace)
            rest = ErasedItems(namespace, now, {}, frozenset(), everything=True)
            removed.update(run_erasers(self.erasers, rest))
            removed["operations"] = self.operations.clear(namespace)
            removed["held"] = self._soft_deleter.erase_namespace(namespace)
            in_backups.parts.append(ForgottenPart(namespace, whole=True))
            self.backups.note(in_backups)
        receipt = namespace_receipt(namespace, entry_ids, messages)
        receipt = replace(receipt, at=now, salt=salt, hashes=tuple(sorted(hashes)), unreached=copies)
        return self._finish(receipt, removed, in_backups, remove_backups and bool(messages or entry_ids))

    def has_soft_delete(self, operation: str, namespace: str) -> bool:
        """Return whether the forgetting *operation* can be restored: its grace period is not over."""
        return operation in self.soft_deletes.of(namespace)

    def restore(self, operation: str, caller: Caller) -> Operation:
        """Restore what the forgetting *operation* soft-deleted; as ``SoftDeleter.restore``."""
        with self.entries.lifecycle("restore_forgotten").transaction(lock=caller.namespace):
            return self._soft_deleter.restore(operation, caller)

    def verify(self, receipt: Receipt, texts: Sequence[str]) -> ErasureVerification:
        """Search for remnants of what *receipt* names; as ``verify_erasure``."""
        return verify_erasure(receipt, texts, self.entries, self._soft_deleter, self.tombstones.key)

    def finish_deletions(self) -> None:
        """Delete from a store with data alone what has a tombstone and is still there: its deletion was interrupted."""
        if self.entries.lifecycle_store is not None:
            return
        for partition in set(self.tombstones.partitions()) & set(self.entries.store.namespaces()):
            last = ""
            while page := [id for id, _ in self.tombstones.ids(partition, after=last)]:
                self.entries.erase(page, partition)
                last = page[-1]

    def erase_buried(self, entries: EntryStore, namespace: str, messages: Sequence[HistoryRow]) -> None:
        """Erase those of *messages* that were forgotten before, in a process that ended before they were deleted."""
        hashes = message_hashes(self.tombstones.key, messages)
        buried = self.tombstones.which(history_partition(namespace), hashes)
        entries.rows.erase([row for row, digest in zip(messages, hashes, strict=True) if digest in buried])

    def erase_due(self) -> int:
        """Erase every soft delete whose grace period is over; return how many there were."""
        self.last_due_check = now = self.clock()
        erased = self._soft_deleter.erase_due(now, self.backups)
        self.backups.finish()
        self._next_due = self.soft_deletes.next_due()
        return erased

    @property
    def is_due(self) -> bool:
        """True if a grace period known here is over, or it is time to look for soft deletes of other processes."""
        now = self.clock()
        if self._next_due is not None and self._next_due <= now:
            return True
        return self.last_due_check is None or not timedelta(0) <= now - self.last_due_check < _DUE_CHECK_INTERVAL

    def erase_due_quietly(self) -> None:
        """Erase what is due after a call that succeeded: it must not seem to have failed, and this is tried again."""
        with suppress(VectorStoreError):
            self.erase_due()

    def _plan(self, selection: ForgetSelection, namespace: str, *, final: bool) -> CascadePlan:
        """Return the cascade plan; a *final* forgetting may name soft-deleted memories too."""
        resolver = SelectionResolver(self.entries, self.tombstones, self.zone)
        targets, spared = resolver.memory_ids(selection, namespace)
        messages = list(resolver.messages(selection, namespace))
        soft_deleted = self._soft_deleter.find(selection.ids or (), namespace) if final else {}
        targets += [id for id in soft_deleted if id not in targets]
        planner = CascadePlanner(self.entries, self.operations)
        plan = planner.plan(targets, messages, namespace, soft_deleted=[*chain(*soft_deleted.values())])
        return replace(plan, spared=spared)

    def _erase(self, plan: CascadePlan, items: ErasedItems) -> Counter[str]:
        """Erase *items* from store, history, log and every eraser's data, and write the tombstones.

        A store without transactions comes last: the tombstones then say what ``finish_deletions`` has to delete.
        """
        namespace, conversation = items.namespace, store_namespace(items.namespace, CONVERSATION)
        transactional = self.entries.lifecycle_store is not None
        if transactional:
            self._erase_entries(plan, conversation)
        with self.entries.rows.database.write(lock=namespace):
            for partition, ids in plan.entries.items():
                if not is_archive(partition):
                    self.tombstones.add(partition, ids, items.at)
            self.tombstones.add(conversation, plan.archived_only, items.at)
            self.tombstones.add_words(namespace, plan.texts.texts, items.at)
            self._bury_messages(items)
            self.entries.rows.erase(plan.messages)
            self.operations.erase(namespace, plan.memories, plan.texts.held_by)
            removed = run_erasers(self.erasers, items) if plan.entries or plan.messages else Counter[str]()
        if not transactional:
            self._erase_entries(plan, conversation)
        return removed

    def _erase_entries(self, plan: CascadePlan, conversation: str) -> None:
        """Erase the plan's entries; a live memory goes after its versions, so that its id finds what was left over."""
        for partition, ids in sorted(plan.entries.items(), key=lambda item: item[0] == conversation):
            self.entries.erase(ids, partition)
        if conversation not in plan.entries and plan.versions:
            self.entries.erase((), conversation)  # a version that was live once has left its terms there

    def _finish(
        self, receipt: Receipt, removed: Counter[str], in_backups: BackupErasure, remove_backups: bool
    ) -> Receipt:
        """Return *receipt* with what is known after the commit: what is pending, *removed* parts, backups deleted."""
        copies = receipt.unreached
        if remove_backups:
            copies = self._copies.delete_backups(copies)
        pending = self.entries.pending_erasure() or self.entries.rows.database.pending_erasure()
        self.erase_due_quietly()
        pending, removed["backups"] = pending or in_backups.pending, in_backups.changed
        parts = {name: count for name, count in removed.items() if count}
        return replace(receipt, pending=pending, parts=parts, unreached=copies)

    def _bury_messages(self, items: ErasedItems) -> None:
        hashes = message_hashes(self.tombstones.key, items.messages)
        self.tombstones.add(history_partition(items.namespace), hashes, items.at)

    def _check_may_forget_namespace(self, caller: Caller) -> None:
        """Raise ``NotTrusted`` for anything in the namespace that is trusted more, before any of it is erased."""
        store, namespace = self.entries.store, caller.namespace
        partitions = self.entries.partitions(namespace)
        entries = (entry for partition in partitions for entry in store.scan(namespace=partition))
        _check_may_forget(caller, entries, self.entries.rows.kept(namespace=namespace))
        for package in self._soft_deleter.of(namespace):
            _check_may_forget(caller, (entry for _, entry in package.entries), package.messages)

    def _hashes(self, salt: str, entries: Iterable[Entry]) -> tuple[str, ...]:
        return receipt_hashes(self.tombstones.key, salt, (from_entry(entry).text for entry in entries))


def _check_may_forget(caller: Caller, entries: Iterable[Entry], rows: Iterable[HistoryRow]) -> None:
    """Raise ``NotTrusted`` for the first of *entries* and messages (*rows*) that the caller may not forget."""
    caller.check_may_change(map(from_entry, entries), "forget")
    messages = (
        Memory("", id=f"{row.sequence} of session {row.session}", trust=message_trust(row.message)) for row in rows
    )
    caller.check_may_change(messages, "forget", what="message")


def _check_grace_period(grace: object, remove_backups: bool) -> None:
    if grace is not None and (not isinstance(grace, timedelta) or grace <= timedelta(0)):
        raise ArgumentError("grace", grace, "a length of time above zero is needed")
    if grace is not None and remove_backups:
        raise ArgumentError("remove_backups", remove_backups, "backups are removed for good; not with a time of grace")


def _due_time(now: datetime, grace: timedelta) -> datetime:
    try:
        return now + grace
    except OverflowError as error:
        raise ArgumentError("grace", grace, "a time of grace that ends before the year 10000 is needed") from error
