"""Correcting: the old version goes to the archive, the new one takes its place; the id stays."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime

from memory.codec import from_entry, to_entry
from memory.errors import ArgumentError, NoSuchMemory, RejectedText
from memory.lanes import ARCHIVE, CONVERSATION, archived_id, store_namespace
from memory.records import Actor, Change, Memory, Outcome, Report
from memory.times import aware
from memory.write.checking import actor_named, checked, name, whole
from memory.write.context import WriteContext
from memory.write.policies import judge
from memory.write.remembering import embedded
from memory.write.writer import Draft
from vectorstore import Entry, RevisionConflict

_ATTEMPTS = 5


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
) -> Report:
    """Put *text* in the place of the memory's; validity stays unless given."""
    context.lifecycle("correct")
    name(id, "id")
    actor_named(actor, "actor")
    if expect is not None:
        whole(expect, "expect", 1)
    for attempt in range(_ATTEMPTS):
        before = await asyncio.to_thread(_live, context, id, namespace)
        if expect is not None and before.revision != expect:
            raise RevisionConflict(id, namespace, expect, before.revision)
        old = from_entry(before)
        wanted = replace(
            old,
            text=text,
            valid_from=valid_from or old.valid_from,
            valid_to=valid_to or old.valid_to,
            retired_at=None,
        )
        new = checked(wanted, zone=context.zone, argument="correction")
        judged = judge(new, context.policies)
        if judged.memory is None:
            raise RejectedText(judged.reason)
        if _content(judged.memory) == _content(old):
            return Report(Outcome.DUPLICATE, id, "nothing differs")
        draft = Draft(
            replace(
                judged.memory,
                id=id,
                recorded_at=aware(context.clock(), context.zone),
                supersedes=archived_id(id, before.revision),
                operation=context.operation_ids(),
                actor=actor,
            ),
            judged.outcome,
            judged.reason,
        )
        (ready,) = await embedded(context, [draft])
        try:
            await asyncio.to_thread(_swap, context, before, ready, namespace)
        except RevisionConflict:  # corrected by someone else meanwhile: that version is to be archived, too
            if expect is not None or attempt == _ATTEMPTS - 1:
                raise
            continue
        return ready.report()
    raise AssertionError("unreachable")


def history(context: WriteContext, id: str, namespace: str) -> list[Memory]:
    """Return all versions of a memory, newest first; archived ones have the id "id@revision"."""
    name(id, "id")
    live = context.find([id], namespace).get(id)
    if live is None:
        raise NoSuchMemory(id)
    versions = [from_entry(live[1])]
    for entry in reversed(context.versions([id], namespace)):
        versions.append(replace(from_entry(entry), revision=int(entry.id.rpartition("@")[2])))
    return versions


def _live(context: WriteContext, id: str, namespace: str) -> Entry:
    lane = store_namespace(namespace, CONVERSATION)
    (entry,) = context.store.get([id], namespace=lane)
    if entry is not None:
        return entry
    if id in context.find([id], namespace):
        raise ArgumentError("id", id, "a passage of a document is corrected in the document; ingest it again")
    raise NoSuchMemory(id)


def _swap(context: WriteContext, before: Entry, new: Draft, namespace: str) -> None:
    store = context.lifecycle("correct")
    old = replace(from_entry(before), id=archived_id(before.id, before.revision), retired_at=new.memory.recorded_at)
    archived = replace(to_entry(old), vector=before.vector, no_vector=before.no_vector)
    with store.transaction():
        operation = new.memory.operation or ""
        context.log(namespace, operation, "correct", new.memory.actor, [Change(before.id, before.revision)])
        store.upsert(
            [to_entry(new.memory, vector=new.vector, no_vector=new.no_vector)],
            namespace=store_namespace(namespace, CONVERSATION),
            expect={before.id: before.revision},
        )
        store.upsert([archived], namespace=store_namespace(namespace, ARCHIVE))


def _content(memory: Memory) -> tuple[object, ...]:
    return (memory.text, memory.kind, memory.tags, memory.valid_from, memory.valid_to, dict(memory.metadata))
