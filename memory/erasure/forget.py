"""Forgetting: what the plan says is erased in one transaction, from every part of the file.

A dry run is the plan alone. What remains is a tombstone: ids and a keyed hash, never the text. With a time of grace
all of it is put aside instead (``grace_period``), and the bytes go when that is over. Memories and messages that are
trusted more than the actor are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import blake2b
from itertools import chain, islice
from typing import Final

from memory.codec import from_entry
from memory.erasure.external_copies import delete_backups, list_external_copies
from memory.erasure.grace_period import erase_soft_deleted, matching_soft_deletes, soft_deleted_entries, soft_deletes_of
from memory.erasure.plan import BACKREFERENCES, ErasurePlan, entry_pages, plan_erasure, remove_backreferences
from memory.erasure.selection import ErasureSelection, selected_ids, selected_messages
from memory.errors import ArgumentError
from memory.history.protocol import HistoryRow
from memory.messages import TRUST
from memory.models import Actor, Memory, Trust
from memory.partitions import ARCHIVE, CONVERSATION, parse_store_namespace, prefix_of, store_namespace
from memory.results import Receipt
from memory.tables.erasers import ErasedItems, RestorableEraser
from memory.tables.soft_deletes import SoftDelete
from memory.tables.tombstones import history_partition, message_hashes
from memory.timestamps import to_aware
from memory.validation import checked_actor
from memory.write.access_control import check_may_change, may_change
from memory.write.context import WriteContext
from vectorstore import Entry


def check_may_forget(
    actor: Actor, entries: Iterable[Entry], rows: Iterable[HistoryRow] = (), *, approved_by: Actor | None = None
) -> None:
    """Raise ``NotTrusted`` for the first of *entries* and messages (*rows*) that *actor* may not take away."""
    said = (Memory("", id=f"{row.sequence} of session {row.session}", trust=_message_trust(row)) for row in rows)
    check_may_change(actor, map(from_entry, entries), "forget", approved_by=approved_by)
    check_may_change(actor, said, "forget", approved_by=approved_by, what="message")


def is_owner(actor: Actor, approved_by: Actor | None) -> bool:
    """Whether *actor*, or who approved, may forget all that there is."""
    return may_change(actor, Memory("", trust=Trust.USER), approved_by=approved_by)


def _message_trust(row: HistoryRow) -> Trust:
    """Return how far a message is trusted: its role's word, or less where its metadata says so."""
    given = row.message.metadata.get(TRUST)
    return Trust.least([Trust.of(row.message.role), *(one for one in Trust if one == given)])


_HASH_BYTES: Final = 16
_NAMESPACE_PAGE: Final = 2000


def forget_memories(
    context: WriteContext,
    chosen: ErasureSelection,
    namespace: str,
    *,
    dry_run: bool,
    actor: Actor,
    approved_by: Actor | None = None,
    grace: timedelta | None = None,
    remove_backups: bool = False,
) -> Receipt:
    """Forget what is *chosen*; a memory that is forgotten already is passed over, an unknown one raises."""
    store = context.lifecycle("forget")
    checked_actor(actor, "actor")
    _check_grace_period(grace, remove_backups)
    if dry_run:
        plan = _plan_selection(context, chosen, namespace, final=grace is None)
        return replace(
            _plan_receipt(plan, namespace), dry_run=True, unreached=tuple(list_external_copies(context, namespace))
        )
    now = to_aware(context.clock(), context.zone)
    due = None if grace is None else _due_time(now, grace)
    with store.transaction():
        plan = _plan_selection(context, chosen, namespace, final=grace is None)
        operation = context.operation_ids()
        copies = tuple(list_external_copies(context, namespace))
        entries = [
            (lane, entry)
            for lane, ids in plan.gone.items()
            for page in entry_pages(context, lane, ids)
            for entry in page
        ]
        waiting = matching_soft_deletes(context, plan.live, plan.words, namespace) if grace is None else []
        every = [entry for _, entry in chain(entries, *(one.entries for one in waiting))]
        rows = [*plan.messages, *chain(*(one.messages for one in waiting))]
        check_may_forget(actor, every, rows, approved_by=approved_by)
        gone = ErasedItems(namespace, now, plan.gone, frozenset(entry.text for _, entry in entries), plan.messages)
        due = due if entries or plan.messages else None
        kept = _restorable_parts(context, gone) if due is not None else {}
        mentions = remove_backreferences(context, plan.leaning, frozenset(plan.live))
        if due is not None:
            kept |= {} if mentions is None else {BACKREFERENCES: mentions}
            context.held.put(_soft_delete(context, gone, plan, entries, operation, due, kept))
        parts = _erase(context, plan, gone)
        if waiting:
            parts["held"] = erase_soft_deleted(context, waiting, plan.words)
        changes = plan.changes()
        context.log(namespace, operation, "forget", actor, changes)
    if remove_backups and (plan.gone or plan.messages):
        copies = delete_backups(context, copies)
    return replace(
        _plan_receipt(plan, namespace),
        pending=store.pending_erasure(),
        operation=operation if changes or due is not None else None,
        at=now,
        due=due,
        salt=operation,
        hashes=receipt_hashes(context, operation, (from_entry(one).text for one in every)),
        parts=parts,
        unreached=copies,
    )


def forget_namespace(
    context: WriteContext,
    namespace: str,
    *,
    dry_run: bool,
    actor: Actor,
    approved_by: Actor | None = None,
    remove_backups: bool = False,
) -> Receipt:
    """Forget everything of a namespace: all lanes, history, operations, and what any part keeps of it."""
    store = context.lifecycle("forget_namespace")
    checked_actor(actor, "actor")
    copies = tuple(list_external_copies(context, namespace))
    if dry_run:
        ids = {lane: [entry.id for entry in store.scan(namespace=lane)] for lane in _partitions(context, namespace)}
        messages = sum(1 for _ in context.rows.kept(namespace=namespace))
        whole = _namespace_receipt(namespace, ids, messages)
        return replace(whole, dry_run=True, unreached=copies)
    now, operation = to_aware(context.clock(), context.zone), context.operation_ids()
    found: dict[str, list[str]] = {}
    hashes: set[str] = set()
    parts: dict[str, int] = {}
    with store.transaction():
        if not is_owner(actor, approved_by):  # whose forgetting goes through where what waits cannot be read
            _check_may_forget_namespace(context, namespace, actor, approved_by)
        for lane in _partitions(context, namespace):
            while page := _first_page(context, lane):
                names = [entry.id for entry in page]
                found.setdefault(lane, []).extend(names)
                hashes.update(receipt_hashes(context, operation, (from_entry(entry).text for entry in page)))
                store.erase(names, namespace=lane)
                if parse_store_namespace(lane)[1] != ARCHIVE:
                    context.tombstones.add(lane, names, now)
                gone = ErasedItems(namespace, now, {lane: names}, frozenset(entry.text for entry in page))
                _run_erasers(context, gone, parts)
        rows = context.rows.kept(namespace=namespace)
        while said := list(islice(rows, _NAMESPACE_PAGE)):
            context.tombstones.add(history_partition(namespace), message_hashes(context.tombstones.key, said), now)
            _run_erasers(context, ErasedItems(namespace, now, {}, frozenset(), said), parts)
        messages = context.rows.erase_namespace(namespace)
        _run_erasers(context, ErasedItems(namespace, now, {}, frozenset(), everything=True), parts)
        parts["operations"] = context.operations.clear(namespace)
        parts["held"] = sum(context.held.erase(namespace, one) for one in context.held.of(namespace))
    if remove_backups and (messages or any(found.values())):
        copies = delete_backups(context, copies)
    return replace(
        _namespace_receipt(namespace, found, messages),
        pending=store.pending_erasure(),
        at=now,
        salt=operation,
        hashes=tuple(sorted(hashes)),
        parts={part: count for part, count in parts.items() if count},
        unreached=copies,
    )


def receipt_hashes(context: WriteContext, salt: str, texts: Iterable[str]) -> tuple[str, ...]:
    """Return the hashes of *texts* for a receipt: under the file's secret, so that they say nothing elsewhere."""
    return tuple(sorted({_receipt_hash(context.tombstones.key, salt, text) for text in texts}))


def _receipt_hash(key: bytes, salt: str, text: str) -> str:
    digest = blake2b(digest_size=_HASH_BYTES, key=key, person=b"receipt")
    digest.update(len(salt.encode()).to_bytes(8, "little") + salt.encode())
    digest.update(text.strip().encode())
    return digest.hexdigest()


def _plan_selection(context: WriteContext, chosen: ErasureSelection, namespace: str, *, final: bool) -> ErasurePlan:
    """Return what goes; where it is *final*, memories that were put aside can be named, too."""
    targets = selected_ids(context, chosen, namespace)
    messages = [*selected_messages(context, chosen, namespace)]
    waiting = soft_deleted_entries(context, chosen.ids or (), namespace) if final else {}
    targets += [one for one in waiting if one not in targets]
    return plan_erasure(context, targets, messages, namespace, aside=[*chain(*waiting.values())])


def _erase(context: WriteContext, plan: ErasurePlan, gone: ErasedItems) -> dict[str, int]:
    """Take what is *gone* out of the store, history and log, and out of what every other part keeps."""
    store, namespace = context.lifecycle("forget"), gone.namespace
    for lane, ids in plan.gone.items():
        store.erase(ids, namespace=lane)
        if parse_store_namespace(lane)[1] != ARCHIVE:
            context.tombstones.add(lane, ids, gone.at)
    conversation = store_namespace(namespace, CONVERSATION)
    if conversation not in plan.gone and plan.versions:
        store.erase((), namespace=conversation)  # a version that was live once has left its terms there
    context.tombstones.add(conversation, plan.archived_only, gone.at)
    context.tombstones.add_words(namespace, plan.words.texts, gone.at)
    marks = message_hashes(context.tombstones.key, plan.messages)
    context.tombstones.add(history_partition(namespace), marks, gone.at)
    context.rows.erase(plan.messages)
    context.operations.erase(namespace, plan.live, plan.words.held_by)
    parts: dict[str, int] = {}
    if plan.gone or plan.messages:
        _run_erasers(context, gone, parts)
    return {part: count for part, count in parts.items() if count}


def _run_erasers(context: WriteContext, gone: ErasedItems, parts: dict[str, int]) -> None:
    for eraser in context.erasers:
        parts[eraser.name] = parts.get(eraser.name, 0) + eraser.erase(gone)


def _restorable_parts(context: WriteContext, gone: ErasedItems) -> dict[str, str]:
    """Return what other parts need to come back, by their name; before anything of it goes."""
    kept = {one.name: one.put_away(gone) for one in context.erasers if isinstance(one, RestorableEraser)}
    return {name: text for name, text in kept.items() if text is not None}


def _soft_delete(
    context: WriteContext,
    gone: ErasedItems,
    plan: ErasurePlan,
    entries: Sequence[tuple[str, Entry]],
    operation: str,
    due: datetime,
    parts: dict[str, str],
) -> SoftDelete:
    return SoftDelete(
        operation=operation,
        namespace=gone.namespace,
        due=due,
        space="" if context.store.space is None else context.store.space.fingerprint,
        entries=tuple(entries),
        messages=tuple(plan.messages),
        words=tuple(sorted(plan.words.texts)),
        parts=tuple(parts.items()),
    )


def _plan_receipt(plan: ErasurePlan, namespace: str) -> Receipt:
    return Receipt(
        memories=tuple(plan.targets),
        versions=plan.versions,
        derived=tuple(plan.derived),
        also=tuple(plan.also),
        messages=len(plan.messages),
        named=tuple(plan.named),
        namespace=namespace,
    )


def _namespace_receipt(namespace: str, found: dict[str, list[str]], messages: int) -> Receipt:
    plan = ErasurePlan([], gone=found)
    return Receipt(
        memories=tuple(plan.live), versions=plan.versions, messages=messages, namespace=namespace, whole=True
    )


def _check_may_forget_namespace(context: WriteContext, namespace: str, actor: Actor, approved_by: Actor | None) -> None:
    """Raise ``NotTrusted`` where something of a namespace is trusted more, before anything of it goes."""
    entries = (entry for lane in _partitions(context, namespace) for entry in context.store.scan(namespace=lane))
    check_may_forget(actor, entries, context.rows.kept(namespace=namespace), approved_by=approved_by)
    for one in soft_deletes_of(context, namespace):
        check_may_forget(actor, (entry for _, entry in one.entries), one.messages, approved_by=approved_by)


def _partitions(context: WriteContext, namespace: str) -> list[str]:
    return [lane for lane in context.store.namespaces() if lane.startswith(prefix_of(namespace))]


def _first_page(context: WriteContext, lane: str) -> list[Entry]:
    page = []
    for entry in context.store.scan(namespace=lane):
        page.append(entry)
        if len(page) == _NAMESPACE_PAGE:
            break
    return page


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
