"""Correcting: the old version goes to the archive, the new one takes its place; the id stays."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from memory.codec import from_entry, to_entry, to_metadata
from memory.errors import RejectedText
from memory.lanes import ARCHIVE, CONVERSATION, archived_id, store_namespace
from memory.records import Actor, Change, Memory, Outcome, Report
from memory.times import aware
from memory.write.checking import actor_named, checked, name, whole
from memory.write.context import WriteContext
from memory.write.judging import judge
from memory.write.marking import hide
from memory.write.remembering import embedded
from memory.write.trust import check_may_change, trust_after
from memory.write.under_way import counted
from memory.write.versions import UNVERSIONED, begun, live, retired
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
    actor: Actor,
    approved_by: Actor | None = None,
) -> Report:
    """Put *text* in the place of the memory's; validity stays unless given."""
    context.lifecycle("correct")
    name(id, "id")
    actor_named(actor, "actor")
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
        )
        draft = await drafted(context, before, wanted, actor, argument="correction")
        if _content(draft.memory) == _content(old):
            return Report(Outcome.DUPLICATE, id, "nothing differs", of=id)
        (ready,) = await embedded(context, [draft])
        try:
            ready = await asyncio.to_thread(swap, context, "correct", [before], ready, namespace)
        except RevisionConflict:  # corrected by someone else meanwhile: that version is to be archived, too
            await asyncio.to_thread(context.embedding.forget, [to_entry(draft.memory).text])  # or it was forgotten
            if expect is not None or attempt == ATTEMPTS - 1:
                raise
            continue
        return ready.report()
    raise AssertionError("unreachable")


async def drafted(context: WriteContext, before: Entry, wanted: Memory, actor: Actor, *, argument: str) -> Draft:
    """Check and judge what is to take the place of *before*; a policy that says no raises ``RejectedText``."""
    new = checked(replace(wanted, actor=actor), zone=context.zone, argument=argument)
    judged, _ = await judge(new, replace(context.rules, making=False))
    if judged.memory is None:
        raise RejectedText(judged.reason)
    memory = replace(
        judged.memory,
        id=before.id,
        recorded_at=aware(context.clock(), context.zone),
        supersedes=archived_id(before.id, before.revision),
        operation=context.operation_ids(),
    )
    return Draft(memory, judged.outcome, judged.reason, spans=judged.spans)


def swap(context: WriteContext, kind: str, before: Sequence[Entry], new: Draft, namespace: str) -> Draft:
    """Archive *before* and put *new* in the place of its first, in one transaction; the others are there no more.

    What is returned is *new* as it was stored: without its vector when the space was left meanwhile.
    """
    store = context.lifecycle(kind)
    lane, archive = store_namespace(namespace, CONVERSATION), store_namespace(namespace, ARCHIVE)
    first, *others = before
    at, begins = new.memory.recorded_at or aware(context.clock(), context.zone), begun(new.memory)
    changes = [_changed(first, new.memory), *(Change(one.id, one.revision, gone=True) for one in others)]
    with store.transaction():
        (new,) = current(context, [new])
        old = []  # as they are now: they may have been embedded anew since they were read
        for seen, now in zip(before, store.get([one.id for one in before], namespace=lane), strict=True):
            if now is None or now.revision != seen.revision:
                raise RevisionConflict(seen.id, lane, seen.revision, 0 if now is None else now.revision)
            old.append(now)
        entry = to_entry(new.memory, vector=new.vector, no_vector=new.no_vector)
        store.upsert([entry], namespace=lane, expect={first.id: first.revision})
        store.upsert([retired(one, at, counts_to=begins) for one in old], namespace=archive)
        if others:
            store.delete([one.id for one in others], namespace=lane)
        hide(context, first.id, first.metadata, changes[0].new, namespace)
        context.log(namespace, new.memory.operation or "", kind, new.memory.actor, changes)
    return new


def _changed(before: Entry, new: Memory) -> Change:
    """Return the change for the log, with what a policy, or the union of several, made of fields without versions."""
    old, now = before.metadata, to_metadata(new)
    names = [one for one in (*UNVERSIONED, "expires_at_offset") if old.get(one) != now.get(one)]
    return Change(
        before.id, before.revision, old={one: old.get(one) for one in names}, new={one: now.get(one) for one in names}
    )


def _content(memory: Memory) -> tuple[object, ...]:
    return (memory.text, memory.kind, memory.tags, memory.valid_from, memory.valid_to, dict(memory.metadata))
