"""The time of grace of a forgetting: taken back while it lasts, carried out when it is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memory.codec import from_entry
from memory.erasure.mentions import PART, tighten
from memory.erasure.put_aside import owner_of
from memory.errors import ArgumentError
from memory.forgotten.erasers import Returning
from memory.forgotten.held import Package
from memory.forgotten.message_marks import history_lane, marks_of
from memory.lanes import ARCHIVE, CONVERSATION, lane_of, store_namespace
from memory.records import Actor, Change, Operation
from memory.times import aware
from memory.write.checking import actor_named
from memory.write.context import WriteContext
from memory.write.trust import check_may_change, check_may_undo
from vectorstore import Entry


def restore_forgotten(
    context: WriteContext, operation: str, namespace: str, *, actor: Actor, approved_by: Actor | None = None
) -> Operation:
    """Bring back all that the forgetting *operation* put aside; return the operation that did so.

    Vectors of another space than the present one are left out and made again. Where somebody remembered something
    under the same id meanwhile, nothing is brought back and ``ArgumentError`` says so; so it does where the bytes
    are gone, or were never held; where it was forgotten by somebody who is trusted more, ``NotTrusted``.
    """
    store = context.lifecycle("restore_forgotten")
    actor_named(actor, "actor")
    with store.transaction():
        package = context.held.get(namespace, operation)
        if package is None:
            expected = "a forgetting whose time of grace is not over is needed; its bytes are gone, or it had none"
            raise ArgumentError("operation", operation, expected)
        decided = context.operations.get(namespace, operation)
        if decided is not None:  # of messages alone nothing is logged
            check_may_undo(actor, decided, approved_by=approved_by)
        check_may_change(actor, (from_entry(one) for _, one in package.entries), "restore", approved_by=approved_by)
        entries = _by_lane(package, "" if store.space is None else store.space.fingerprint)
        for lane, held in entries.items():
            taken = [one.id for one in store.get([entry.id for entry in held], namespace=lane) if one is not None]
            if taken:
                expected = f"{taken[0]} was remembered anew since; forget that one first"
                raise ArgumentError("operation", operation, expected)
            store.upsert(held, namespace=lane)
            context.tombstones.lift(lane, [entry.id for entry in held])
        owners = {one.id.rpartition("@")[0] for lane, one in package.entries if lane_of(lane)[1] == ARCHIVE}
        context.tombstones.lift(store_namespace(namespace, CONVERSATION), sorted(owners))
        context.tombstones.lift_words(namespace, package.words)
        context.rows.place(package.messages)
        context.tombstones.lift(history_lane(namespace), marks_of(context.tombstones.key, package.messages))
        kept = dict(package.parts)
        if PART in kept:
            tighten(context, kept[PART], {owner_of(lane, entry) for lane, entry in package.entries})
        for eraser in context.erasers:
            if isinstance(eraser, Returning) and eraser.name in kept:
                eraser.put_back(namespace, kept[eraser.name])
        context.held.erase(namespace, operation)
        changes = [Change(entry.id) for lane, held in entries.items() if lane_of(lane)[1] != ARCHIVE for entry in held]
        done = Operation(
            context.operation_ids(),
            "restore",
            actor,
            aware(context.clock(), context.zone),
            tuple(changes),
            undoes=operation,
        )
        context.operations.add(namespace, done)
        if context.operations.get(namespace, operation) is not None:
            context.operations.undone(namespace, operation, done.id)
    return done


def carry_out(context: WriteContext) -> int:
    """Let the bytes go of every forgetting whose time of grace is over; return how many there were."""
    due = context.held.due(aware(context.clock(), context.zone))
    if not due or (context.database is not None and context.database.read_only):
        return 0
    with context.lifecycle("forget").transaction():
        return sum(context.held.erase(namespace, operation) for namespace, operation in due)


def _by_lane(package: Package, space: str) -> dict[str, Sequence[Entry]]:
    lanes: dict[str, list[Entry]] = {}
    for lane, entry in package.entries:
        fits = package.space == space or entry.vector is None
        lanes.setdefault(lane, []).append(entry if fits else replace(entry, vector=None))
    return dict(lanes)
