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
from memory.erasure.external_copies import unreached, without_backups
from memory.erasure.grace_period import aside, let_go, named_aside, packages
from memory.erasure.plan import PART, Plan, loosen, pages_of, plan_of
from memory.erasure.selection import Selection, selected, selected_messages
from memory.errors import ArgumentError
from memory.history.sync_history import HistoryRow
from memory.messages import TRUST
from memory.models import Actor, Memory, Trust
from memory.partitions import ARCHIVE, CONVERSATION, lane_of, prefix_of, store_namespace
from memory.results import Forgotten
from memory.tables.erasers import Gone, Returning
from memory.tables.soft_deletes import Package
from memory.tables.tombstones import history_lane, marks_of
from memory.timestamps import aware
from memory.validation import actor_named
from memory.write.access_control import check_may_change, may_change
from memory.write.context import WriteContext
from vectorstore import Entry


def check_may_forget(
    actor: Actor, entries: Iterable[Entry], rows: Iterable[HistoryRow] = (), *, approved_by: Actor | None = None
) -> None:
    """Raise ``NotTrusted`` for the first of *entries* and messages (*rows*) that *actor* may not take away."""
    said = (Memory("", id=f"{row.sequence} of session {row.session}", trust=_trust_of(row)) for row in rows)
    check_may_change(actor, map(from_entry, entries), "forget", approved_by=approved_by)
    check_may_change(actor, said, "forget", approved_by=approved_by, what="message")


def is_owner(actor: Actor, approved_by: Actor | None) -> bool:
    """Whether *actor*, or who approved, may forget all that there is."""
    return may_change(actor, Memory("", trust=Trust.USER), approved_by=approved_by)


def _trust_of(row: HistoryRow) -> Trust:
    """Return how far a message is trusted: its role's word, or less where its metadata says so."""
    given = row.message.metadata.get(TRUST)
    return Trust.least([Trust.of(row.message.role), *(one for one in Trust if one == given)])


_HASH: Final = 16
_WHOLE_PAGE: Final = 2000


def forget(
    context: WriteContext,
    chosen: Selection,
    namespace: str,
    *,
    dry_run: bool,
    actor: Actor,
    approved_by: Actor | None = None,
    grace: timedelta | None = None,
    remove_backups: bool = False,
) -> Forgotten:
    """Forget what is *chosen*; a memory that is forgotten already is passed over, an unknown one raises."""
    store = context.lifecycle("forget")
    actor_named(actor, "actor")
    _check_grace(grace, remove_backups)
    if dry_run:
        plan = _planned(context, chosen, namespace, final=grace is None)
        return replace(_receipt(plan, namespace), dry_run=True, unreached=tuple(unreached(context, namespace)))
    now = aware(context.clock(), context.zone)
    due = None if grace is None else _later(now, grace)
    with store.transaction():
        plan = _planned(context, chosen, namespace, final=grace is None)
        operation = context.operation_ids()
        copies = tuple(unreached(context, namespace))
        entries = [
            (lane, entry) for lane, ids in plan.gone.items() for page in pages_of(context, lane, ids) for entry in page
        ]
        waiting = aside(context, plan.live, plan.words, namespace) if grace is None else []
        every = [entry for _, entry in chain(entries, *(one.entries for one in waiting))]
        rows = [*plan.messages, *chain(*(one.messages for one in waiting))]
        check_may_forget(actor, every, rows, approved_by=approved_by)
        gone = Gone(namespace, now, plan.gone, frozenset(entry.text for _, entry in entries), plan.messages)
        due = due if entries or plan.messages else None
        kept = _kept(context, gone) if due is not None else {}
        mentions = loosen(context, plan.leaning, frozenset(plan.live))
        if due is not None:
            kept |= {} if mentions is None else {PART: mentions}
            context.held.put(_package(context, gone, plan, entries, operation, due, kept))
        parts = _erase(context, plan, gone)
        if waiting:
            parts["held"] = let_go(context, waiting, plan.words)
        changes = plan.changes()
        context.log(namespace, operation, "forget", actor, changes)
    if remove_backups and (plan.gone or plan.messages):
        copies = without_backups(context, copies)
    return replace(
        _receipt(plan, namespace),
        pending=store.pending_erasure(),
        operation=operation if changes or due is not None else None,
        at=now,
        due=due,
        salt=operation,
        hashes=hashes_of(context, operation, (from_entry(one).text for one in every)),
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
) -> Forgotten:
    """Forget everything of a namespace: all lanes, history, operations, and what any part keeps of it."""
    store = context.lifecycle("forget_namespace")
    actor_named(actor, "actor")
    copies = tuple(unreached(context, namespace))
    if dry_run:
        ids = {lane: [entry.id for entry in store.scan(namespace=lane)] for lane in _lanes(context, namespace)}
        messages = sum(1 for _ in context.rows.kept(namespace=namespace))
        whole = _whole(namespace, ids, messages)
        return replace(whole, dry_run=True, unreached=copies)
    now, operation = aware(context.clock(), context.zone), context.operation_ids()
    found: dict[str, list[str]] = {}
    hashes: set[str] = set()
    parts: dict[str, int] = {}
    with store.transaction():
        if not is_owner(actor, approved_by):  # whose forgetting goes through where what waits cannot be read
            _check_all(context, namespace, actor, approved_by)
        for lane in _lanes(context, namespace):
            while page := _first(context, lane):
                names = [entry.id for entry in page]
                found.setdefault(lane, []).extend(names)
                hashes.update(hashes_of(context, operation, (from_entry(entry).text for entry in page)))
                store.erase(names, namespace=lane)
                if lane_of(lane)[1] != ARCHIVE:
                    context.tombstones.add(lane, names, now)
                gone = Gone(namespace, now, {lane: names}, frozenset(entry.text for entry in page))
                _ask(context, gone, parts)
        rows = context.rows.kept(namespace=namespace)
        while said := list(islice(rows, _WHOLE_PAGE)):
            context.tombstones.add(history_lane(namespace), marks_of(context.tombstones.key, said), now)
            _ask(context, Gone(namespace, now, {}, frozenset(), said), parts)
        messages = context.rows.erase_namespace(namespace)
        _ask(context, Gone(namespace, now, {}, frozenset(), everything=True), parts)
        parts["operations"] = context.operations.clear(namespace)
        parts["held"] = sum(context.held.erase(namespace, one) for one in context.held.of(namespace))
    if remove_backups and (messages or any(found.values())):
        copies = without_backups(context, copies)
    return replace(
        _whole(namespace, found, messages),
        pending=store.pending_erasure(),
        at=now,
        salt=operation,
        hashes=tuple(sorted(hashes)),
        parts={part: count for part, count in parts.items() if count},
        unreached=copies,
    )


def hashes_of(context: WriteContext, salt: str, texts: Iterable[str]) -> tuple[str, ...]:
    """Return the hashes of *texts* for a receipt: under the file's secret, so that they say nothing elsewhere."""
    return tuple(sorted({_hash(context.tombstones.key, salt, text) for text in texts}))


def _hash(key: bytes, salt: str, text: str) -> str:
    digest = blake2b(digest_size=_HASH, key=key, person=b"receipt")
    digest.update(len(salt.encode()).to_bytes(8, "little") + salt.encode())
    digest.update(text.strip().encode())
    return digest.hexdigest()


def _planned(context: WriteContext, chosen: Selection, namespace: str, *, final: bool) -> Plan:
    """Return what goes; where it is *final*, memories that were put aside can be named, too."""
    targets = selected(context, chosen, namespace)
    messages = [*selected_messages(context, chosen, namespace)]
    waiting = named_aside(context, chosen.ids or (), namespace) if final else {}
    targets += [one for one in waiting if one not in targets]
    return plan_of(context, targets, messages, namespace, aside=[*chain(*waiting.values())])


def _erase(context: WriteContext, plan: Plan, gone: Gone) -> dict[str, int]:
    """Take what is *gone* out of the store, history and log, and out of what every other part keeps."""
    store, namespace = context.lifecycle("forget"), gone.namespace
    for lane, ids in plan.gone.items():
        store.erase(ids, namespace=lane)
        if lane_of(lane)[1] != ARCHIVE:
            context.tombstones.add(lane, ids, gone.at)
    conversation = store_namespace(namespace, CONVERSATION)
    if conversation not in plan.gone and plan.versions:
        store.erase((), namespace=conversation)  # a version that was live once has left its terms there
    context.tombstones.add(conversation, plan.archived_only, gone.at)
    context.tombstones.add_words(namespace, plan.words.texts, gone.at)
    marks = marks_of(context.tombstones.key, plan.messages)
    context.tombstones.add(history_lane(namespace), marks, gone.at)
    context.rows.erase(plan.messages)
    context.operations.erase(namespace, plan.live, plan.words.held_by)
    parts: dict[str, int] = {}
    if plan.gone or plan.messages:
        _ask(context, gone, parts)
    return {part: count for part, count in parts.items() if count}


def _ask(context: WriteContext, gone: Gone, parts: dict[str, int]) -> None:
    for eraser in context.erasers:
        parts[eraser.name] = parts.get(eraser.name, 0) + eraser.erase(gone)


def _kept(context: WriteContext, gone: Gone) -> dict[str, str]:
    """Return what other parts need to come back, by their name; before anything of it goes."""
    kept = {one.name: one.put_away(gone) for one in context.erasers if isinstance(one, Returning)}
    return {name: text for name, text in kept.items() if text is not None}


def _package(
    context: WriteContext,
    gone: Gone,
    plan: Plan,
    entries: Sequence[tuple[str, Entry]],
    operation: str,
    due: datetime,
    parts: dict[str, str],
) -> Package:
    return Package(
        operation=operation,
        namespace=gone.namespace,
        due=due,
        space="" if context.store.space is None else context.store.space.fingerprint,
        entries=tuple(entries),
        messages=tuple(plan.messages),
        words=tuple(sorted(plan.words.texts)),
        parts=tuple(parts.items()),
    )


def _receipt(plan: Plan, namespace: str) -> Forgotten:
    return Forgotten(
        memories=tuple(plan.targets),
        versions=plan.versions,
        derived=tuple(plan.derived),
        also=tuple(plan.also),
        messages=len(plan.messages),
        named=tuple(plan.named),
        namespace=namespace,
    )


def _whole(namespace: str, found: dict[str, list[str]], messages: int) -> Forgotten:
    plan = Plan([], gone=found)
    return Forgotten(
        memories=tuple(plan.live), versions=plan.versions, messages=messages, namespace=namespace, whole=True
    )


def _check_all(context: WriteContext, namespace: str, actor: Actor, approved_by: Actor | None) -> None:
    """Raise ``NotTrusted`` where something of a namespace is trusted more, before anything of it goes."""
    entries = (entry for lane in _lanes(context, namespace) for entry in context.store.scan(namespace=lane))
    check_may_forget(actor, entries, context.rows.kept(namespace=namespace), approved_by=approved_by)
    for one in packages(context, namespace):
        check_may_forget(actor, (entry for _, entry in one.entries), one.messages, approved_by=approved_by)


def _lanes(context: WriteContext, namespace: str) -> list[str]:
    return [lane for lane in context.store.namespaces() if lane.startswith(prefix_of(namespace))]


def _first(context: WriteContext, lane: str) -> list[Entry]:
    page = []
    for entry in context.store.scan(namespace=lane):
        page.append(entry)
        if len(page) == _WHOLE_PAGE:
            break
    return page


def _check_grace(grace: object, remove_backups: bool) -> None:
    if grace is not None and (not isinstance(grace, timedelta) or grace <= timedelta(0)):
        raise ArgumentError("grace", grace, "a length of time above zero is needed")
    if grace is not None and remove_backups:
        raise ArgumentError("remove_backups", remove_backups, "backups are removed for good; not with a time of grace")


def _later(now: datetime, grace: timedelta) -> datetime:
    try:
        return now + grace
    except OverflowError as error:
        raise ArgumentError("grace", grace, "a time of grace that ends before the year 10000 is needed") from error
