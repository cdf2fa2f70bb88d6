"""Grace period of a soft delete: restored while it lasts, erased for good when it is over.

What waits in it goes with a later forgetting for good that names it, or the same text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from memory.codec import from_entry
from memory.erasure.plan import BACKREFERENCES, restore_backreferences
from memory.erasure.verbatim_match import VerbatimTexts
from memory.errors import ArgumentError
from memory.history.protocol import HistoryRow
from memory.models import Actor, MemoryChange, Operation
from memory.partitions import ARCHIVE, CONVERSATION, parse_store_namespace, store_namespace
from memory.tables.erasers import RestorableEraser
from memory.tables.soft_deletes import SoftDelete
from memory.tables.tombstones import history_partition, message_hashes
from memory.timestamps import to_aware
from memory.validation import checked_actor
from memory.write.access_control import check_may_change, check_may_undo
from memory.write.context import WriteContext
from vectorstore import Entry


@dataclass(frozen=True, slots=True)
class SoftDeletedItems:
    """What goes of one *package*: entries by lane, and messages."""

    package: SoftDelete
    entries: tuple[tuple[str, Entry], ...]
    messages: tuple[HistoryRow, ...]

    def __len__(self) -> int:
        return len(self.entries) + len(self.messages)


def soft_deletes_of(context: WriteContext, namespace: str) -> Iterator[SoftDelete]:
    """Yield what is put aside of a user's *namespace*, the first due first."""
    for operation in context.held.of(namespace):
        if (package := context.held.get(namespace, operation)) is not None:
            yield package


def soft_deleted_entries(context: WriteContext, ids: Collection[str], namespace: str) -> dict[str, list[Entry]]:
    """Return by id those of the memories *ids* that are put aside, with their versions."""
    found: dict[str, list[Entry]] = {}
    for package in soft_deletes_of(context, namespace) if ids else ():
        for lane, entry in package.entries:
            if (owner := owning_memory(lane, entry)) in ids:
                found.setdefault(owner, []).append(entry)
    return found


def matching_soft_deletes(
    context: WriteContext, ids: Collection[str], words: VerbatimTexts, namespace: str
) -> list[SoftDeletedItems]:
    """Return what is put aside of the memories *ids*, and what holds *words*."""
    found = []
    for package in soft_deletes_of(context, namespace):
        entries = [one for one in package.entries if owning_memory(*one) in ids or words.in_entry(one[1])]
        whole = {*ids, *(entry.id for lane, entry in entries if parse_store_namespace(lane)[1] != ARCHIVE)}
        messages = [row for row in package.messages if row.memory in whole or words.in_message(row.message)]
        if entries or messages:
            found.append(SoftDeletedItems(package, tuple(entries), tuple(messages)))
    return found


def erase_soft_deleted(context: WriteContext, gone: Collection[SoftDeletedItems], words: VerbatimTexts) -> int:
    """Erase what is *gone*; what else was put aside with it can still be taken back. Return how many things went."""
    for one in gone:
        package, entries = one.package, {(lane, entry.id) for lane, entry in one.entries}
        context.held.erase(package.namespace, package.operation)
        left = replace(
            package,
            entries=tuple(at for at in package.entries if (at[0], at[1].id) not in entries),
            messages=tuple(row for row in package.messages if row not in one.messages),
            words=tuple(text for text in package.words if not words.held_by(text)),
        )
        if left.entries or left.messages:
            context.held.put(left)
    return sum(len(one) for one in gone)


def owning_memory(lane: str, entry: Entry) -> str:
    """Return the memory that *entry* is, or was a version of."""
    return entry.id.rpartition("@")[0] if parse_store_namespace(lane)[1] == ARCHIVE else entry.id


def restore_soft_delete(
    context: WriteContext, operation: str, namespace: str, *, actor: Actor, approved_by: Actor | None = None
) -> Operation:
    """Bring back all that the forgetting *operation* put aside; return the operation that did so.

    Vectors of another space than the present one are left out and made again. Where somebody remembered something
    under the same id meanwhile, nothing is brought back and ``ArgumentError`` says so; so it does where the bytes
    are gone, or were never held; where it was forgotten by somebody who is trusted more, ``NotTrusted``.
    """
    store = context.lifecycle("restore_forgotten")
    checked_actor(actor, "actor")
    with store.transaction():
        package = context.held.get(namespace, operation)
        if package is None:
            expected = "a forgetting whose time of grace is not over is needed; its bytes are gone, or it had none"
            raise ArgumentError("operation", operation, expected)
        decided = context.operations.get(namespace, operation)
        if decided is not None:  # of messages alone nothing is logged
            check_may_undo(actor, decided, approved_by=approved_by)
        check_may_change(actor, (from_entry(one) for _, one in package.entries), "restore", approved_by=approved_by)
        entries = _entries_by_partition(package, "" if store.space is None else store.space.fingerprint)
        for lane, held in entries.items():
            taken = [one.id for one in store.get([entry.id for entry in held], namespace=lane) if one is not None]
            if taken:
                expected = f"{taken[0]} was remembered anew since; forget that one first"
                raise ArgumentError("operation", operation, expected)
            store.upsert(held, namespace=lane)
            context.tombstones.lift(lane, [entry.id for entry in held])
        owners = {
            one.id.rpartition("@")[0] for lane, one in package.entries if parse_store_namespace(lane)[1] == ARCHIVE
        }
        context.tombstones.lift(store_namespace(namespace, CONVERSATION), sorted(owners))
        context.tombstones.lift_words(namespace, package.words)
        context.rows.place(package.messages)
        context.tombstones.lift(history_partition(namespace), message_hashes(context.tombstones.key, package.messages))
        kept = dict(package.parts)
        if BACKREFERENCES in kept:
            restore_backreferences(
                context, kept[BACKREFERENCES], {owning_memory(lane, entry) for lane, entry in package.entries}
            )
        for eraser in context.erasers:
            if isinstance(eraser, RestorableEraser) and eraser.name in kept:
                eraser.put_back(namespace, kept[eraser.name])
        context.held.erase(namespace, operation)
        changes = [
            MemoryChange(entry.id)
            for lane, held in entries.items()
            if parse_store_namespace(lane)[1] != ARCHIVE
            for entry in held
        ]
        done = Operation(
            context.operation_ids(),
            "restore",
            actor,
            to_aware(context.clock(), context.zone),
            tuple(changes),
            undoes=operation,
        )
        context.operations.add(namespace, done)
        if context.operations.get(namespace, operation) is not None:
            context.operations.undone(namespace, operation, done.id)
    return done


def erase_due_soft_deletes(context: WriteContext) -> int:
    """Let the bytes go of every forgetting whose time of grace is over; return how many there were."""
    due = context.held.due(to_aware(context.clock(), context.zone))
    if not due or (context.database is not None and context.database.read_only):
        return 0
    with context.lifecycle("forget").transaction():
        return sum(context.held.erase(namespace, operation) for namespace, operation in due)


def _entries_by_partition(package: SoftDelete, space: str) -> dict[str, Sequence[Entry]]:
    lanes: dict[str, list[Entry]] = {}
    for lane, entry in package.entries:
        fits = package.space == space or entry.vector is None
        lanes.setdefault(lane, []).append(entry if fits else replace(entry, vector=None))
    return dict(lanes)
