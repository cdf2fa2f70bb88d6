"""Correcting: the old version goes to the archive, the new one takes its place; the id stays."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from memory.codec import from_entry, text_of, to_entry, to_metadata
from memory.errors import RejectedText
from memory.lanes import ARCHIVE, CONVERSATION, archived_id, store_namespace
from memory.records import Actor, Change, Memory, Outcome, Report
from memory.times import aware
from memory.write.checking import actor_named, checked, flag, name, whole
from memory.write.context import WriteContext
from memory.write.deriving import derived_alone
from memory.write.marking import hide
from memory.write.policies import NEAR
from memory.write.road import Road, embedded
from memory.write.trust import check_may_change, may_change, trust_after
from memory.write.under_way import counted
from memory.write.versions import begun, live, remarked, retired
from memory.write.writer import Draft, current
from vectorstore import Entry, RevisionConflict

ATTEMPTS = 5


@counted
async def correct(
    context: WriteContext,
    id: str,
    text: str,
    namespace: str,
    *,
    valid_from: datetime | None,
    valid_to: datetime | None,
    expect: int | None,
    sensitive: bool,
    actor: Actor,
    approved_by: Actor | None = None,
) -> Report:
    """Put *text* in the place of the memory's; validity stays unless given."""
    context.lifecycle("correct")
    name(id, "id")
    actor_named(actor, "actor")
    flag(sensitive, "sensitive")
    if expect is not None:
        whole(expect, "expect", 1)
    for attempt in range(ATTEMPTS):
        before = await asyncio.to_thread(live, context, id, namespace)
        if expect is not None and before.revision != expect:
            raise RevisionConflict(id, namespace, expect, before.revision)
        old = from_entry(before)
        check_may_change(actor, [old], "correct", approved_by=approved_by)
        wanted = replace(
            old,
            text=text,
            trust=trust_after(actor, old, approved_by=approved_by),
            valid_from=valid_from or old.valid_from,
            valid_to=valid_to or old.valid_to,
            counts_from=None,
            sensitive=old.sensitive or sensitive,
        )
        rules = replace(context.rules, making=text != old.text, in_place=True)
        road = Road.into(context, namespace, rules=rules, hidden={id})
        draft, facts = await drafted(road, before, wanted, actor, argument="correction")
        if _content(draft.memory) == _content(old):
            await road.let_go([before.text])
            return Report(Outcome.DUPLICATE, id, "nothing differs", of=id)
        if draft.memory.text == old.text:
            facts = None
        drafts = [draft, *(one for one in facts or () if isinstance(one, Draft))]
        ready = iter(await embedded(context, drafts, road.ready))
        texts = [text_of(one.memory) for one in drafts]
        await road.let_go(texts)
        draft = next(ready)
        facts = None if facts is None else [next(ready) if isinstance(one, Draft) else one for one in facts]
        try:
            return await asyncio.to_thread(swap, context, "correct", [before], draft, namespace, facts, approved_by)
        except RevisionConflict:  # corrected by someone else meanwhile: that version is to be archived, too
            await asyncio.to_thread(context.embedding.forget, texts)  # or it was forgotten
            if expect is not None or attempt == ATTEMPTS - 1:
                raise
            continue
    raise AssertionError("unreachable")


async def drafted(
    road: Road, before: Entry, wanted: Memory, actor: Actor, *, argument: str
) -> tuple[Draft, list[Draft | Report] | None]:
    """Check and judge what is to take the place of *before*, and draft what is made of it.

    A policy that says no raises ``RejectedText``.
    """
    context = road.context
    metadata = {name: value for name, value in wanted.metadata.items() if name != NEAR}  # it was near the old words
    now = aware(context.clock(), context.zone)
    wanted = replace(wanted, actor=actor, metadata=metadata, id=before.id, recorded_at=now)
    taken = await road.together([checked(wanted, zone=context.zone, argument=argument)])
    (draft,) = taken.own
    if isinstance(draft, Report):
        await road.let_go([before.text])
        raise RejectedText(draft.reason)
    old = archived_id(before.id, before.revision)
    memory = replace(draft.memory, id=before.id, recorded_at=now, supersedes=old, operation=context.operation_ids())
    return replace(draft, memory=memory), [one for one, _ in taken.made]


def swap(
    context: WriteContext,
    kind: str,
    before: Sequence[Entry],
    new: Draft,
    namespace: str,
    facts: Sequence[Draft | Report] | None = None,
    approved_by: Actor | None = None,
) -> Report:
    """Archive *before* and put *new* in the place of its first, in one transaction; the others are there no more.

    *facts* were made of *new*: what had been made of the first alone goes to the archive with it, but for what was
    found again, and what is trusted more than who corrects. Without them, what was made of it stays.
    """
    store = context.lifecycle(kind)
    lane, archive = store_namespace(namespace, CONVERSATION), store_namespace(namespace, ARCHIVE)
    first, *others = before
    at, begins = new.memory.recorded_at or aware(context.clock(), context.zone), begun(new.memory)
    with store.transaction():
        stale, lines = (
            ([], []) if facts is None else _replaced(context, first.id, new.memory, facts, namespace, approved_by)
        )
        fresh = [one for one in lines if isinstance(one, Draft)]
        changes = [
            remarked(first, to_metadata(new.memory)),
            *(Change(one.id, one.revision, gone=True) for one in (*others, *stale)),
        ]
        changes += [Change(one.memory.id) for one in fresh]
        new, *fresh = current(context, [new, *fresh])
        old = []  # as they are now: they may have been embedded anew since they were read
        for seen, now in zip(before, store.get([one.id for one in before], namespace=lane), strict=True):
            if now is None or now.revision != seen.revision:
                raise RevisionConflict(seen.id, lane, seen.revision, 0 if now is None else now.revision)
            old.append(now)
        written = [
            to_entry(replace(one.memory, operation=new.memory.operation), vector=one.vector, no_vector=one.no_vector)
            for one in (new, *fresh)
        ]
        expect = {**{entry.id: 0 for entry in written}, first.id: first.revision}
        store.upsert(written, namespace=lane, expect=expect)
        store.upsert([retired(one, at, counts_to=begins) for one in (*old, *stale)], namespace=archive)
        if others or stale:
            store.delete([one.id for one in (*others, *stale)], namespace=lane)
        hide(context, first.id, first.metadata, changes[0].new, namespace)
        context.log(namespace, new.memory.operation or "", kind, new.memory.actor, changes)
    there = iter(fresh)
    made = (
        replace(next(there).report(), operation=new.memory.operation) if isinstance(one, Draft) else one
        for one in lines
    )
    return replace(new.report(), made=tuple(made), retired=tuple(one.id for one in stale))


def _replaced(
    context: WriteContext,
    id: str,
    new: Memory,
    facts: Sequence[Draft | Report],
    namespace: str,
    approved_by: Actor | None,
) -> tuple[list[Entry], list[Draft | Report]]:
    """Return what leans on the old words of *id* alone, and what becomes of *facts* beside it."""
    leaning = {one.id: from_entry(one) for one in derived_alone(context, id, namespace)}
    spared = {one for one, memory in leaning.items() if not may_change(new.actor, memory, approved_by=approved_by)}
    lines: list[Draft | Report] = []
    for fact in facts:
        again = fact.memory if isinstance(fact, Draft) else None
        same = None if again is None else next((one for one in leaning.values() if _says(one) == _says(again)), None)
        if same is not None:
            spared.add(same.id)
            lines.append(Report(Outcome.DUPLICATE, same.id, "known already", of=same.id))
        else:
            lines.append(fact)
    return derived_alone(context, id, namespace, spared) if leaning else [], lines


def _says(memory: Memory) -> tuple[object, ...]:
    return (memory.text.strip(), memory.kind, memory.speaker, memory.derived_from)


def _content(memory: Memory) -> tuple[object, ...]:
    metadata = {name: value for name, value in memory.metadata.items() if name != NEAR}
    return (memory.text, memory.kind, memory.tags, memory.valid_from, memory.valid_to, memory.sensitive, metadata)
