"""Corrections of memories: new text, an end of validity, a merge, and attributes.

A correction moves the old version to the archive and keeps the id. An end keeps text and vector, and says from when on
the memory does not hold. A merge makes several memories one, under the id of the first; the others go to the archive.
Attributes (pinned, disabled, tags, importance, expiry) change in place, without a version; the log keeps both values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, TypeAlias

from memory.codec import entry_text, from_entry, to_entry, to_metadata
from memory.errors import ArgumentError, RejectedText
from memory.models import Actor, Memory, MemoryChange, Operation, Trust
from memory.partitions import ARCHIVE, CONVERSATION, archived_id, store_namespace
from memory.results import Outcome, Report
from memory.timestamps import to_aware
from memory.validation import checked_actor, checked_bool, checked_int, checked_label, checked_labels, checked_memory
from memory.write.access_control import actor_trust, check_may_change, may_change, trust_after_change
from memory.write.commit import Draft, without_stale_vectors
from memory.write.context import WriteContext
from memory.write.in_flight import tracked_write
from memory.write.pipeline import WritePipeline, embed_drafts
from memory.write.policies import NEAR_DUPLICATE_KEY
from memory.write.provenance import (
    EARLIEST,
    counts_since,
    derived_only_from,
    recorded_since,
    replacement_change,
    retired_entry,
)
from vectorstore import Entry, Metadata, RevisionConflict

AttributeFields: TypeAlias = Mapping[str, Any]
ATTRIBUTE_KINDS: Final = ("pin", "unpin", "disable", "enable", "tag", "untag", "importance", "expire")
"""The kinds of operations that change fields in place."""
_FIELDS_OF_ALL_VERSIONS: Final = ("disabled", "expires_at", "expires_at_offset")
"""What hides a memory hides its earlier versions too."""


def set_attributes(
    context: WriteContext,
    kind: str,
    ids: Sequence[str] | str,
    namespace: str,
    new: Callable[[Metadata], AttributeFields],
    *,
    actor: Actor,
    approved_by: Actor | None = None,
) -> Operation | None:
    """Give memories the fields that *new* returns for theirs (None: no value), all or none; None if nothing differs."""
    wanted = dict.fromkeys(checked_labels([ids] if isinstance(ids, str) else ids, "ids"))
    checked_actor(actor, "actor")
    with context.transaction():
        changes = []
        entries = [context.entries.live(one, namespace) for one in wanted]
        check_may_change(actor, [from_entry(one) for one in entries], kind, approved_by=approved_by)
        for entry in entries:
            changes += patch_attributes(context, entry, new(entry.metadata), namespace)
        if not changes:
            return None
        operation = Operation(
            context.operation_ids(), kind, actor, to_aware(context.clock(), context.zone), tuple(changes)
        )
        context.operations.add(namespace, operation)
    return operation


def patch_attributes(
    context: WriteContext, entry: Entry, fields: AttributeFields, namespace: str
) -> list[MemoryChange]:
    """Patch *entry* so that it has *fields*; return what changed, nothing if it had them."""
    fields = {name: value for name, value in fields.items() if entry.metadata.get(name) != value}
    if not fields:
        return []
    lane = store_namespace(namespace, CONVERSATION)
    context.store.patch(
        {entry.id: patched_metadata(entry.metadata, fields)}, namespace=lane, expect={entry.id: entry.revision}
    )
    hide_versions(context, entry.id, fields, namespace)
    before = {name: entry.metadata.get(name) for name in fields}
    return [MemoryChange(entry.id, entry.revision, old=before, new=fields)]


def hide_versions(context: WriteContext, id: str, new: AttributeFields, namespace: str) -> None:
    """Let what hides a memory, or does no more, hold for its earlier versions too."""
    hiding = {name: new[name] for name in _FIELDS_OF_ALL_VERSIONS if name in new}
    if not hiding:
        return
    changed = {}
    for version in context.versions([id], namespace):
        fields = {name: value for name, value in hiding.items() if version.metadata.get(name) != value}
        if fields:
            changed[version.id] = patched_metadata(version.metadata, fields)
    if changed:
        context.store.patch(changed, namespace=store_namespace(namespace, ARCHIVE))


def patched_metadata(metadata: Metadata, fields: AttributeFields) -> dict[str, Any]:
    """Return *metadata* with *fields*; None takes a field away."""
    return {name: value for name, value in {**metadata, **fields}.items() if name not in fields or value is not None}


MAX_ATTEMPTS = 5


@tracked_write
async def correct_memory(
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
    checked_label(id, "id")
    checked_actor(actor, "actor")
    checked_bool(sensitive, "sensitive")
    if expect is not None:
        checked_int(expect, "expect", 1)
    for attempt in range(MAX_ATTEMPTS):
        before = await asyncio.to_thread(context.entries.live, id, namespace)
        if expect is not None and before.revision != expect:
            raise RevisionConflict(id, namespace, expect, before.revision)
        old = from_entry(before)
        check_may_change(actor, [old], "correct", approved_by=approved_by)
        wanted = replace(
            old,
            text=text,
            trust=trust_after_change(actor, old, approved_by=approved_by),
            valid_from=valid_from or old.valid_from,
            valid_to=valid_to or old.valid_to,
            counts_from=None,
            sensitive=old.sensitive or sensitive,
        )
        rules = replace(context.rules, making=text != old.text, in_place=True)
        road = WritePipeline.into(context, namespace, rules=rules, hidden={id})
        draft, facts = await draft_replacement(road, before, wanted, actor, argument="correction")
        if _comparable_fields(draft.memory) == _comparable_fields(old):
            await road.let_go([before.text])
            return Report(Outcome.DUPLICATE, id, "nothing differs", of=id)
        if draft.memory.text == old.text:
            facts = None
        drafts = [draft, *(one for one in facts or () if isinstance(one, Draft))]
        ready = iter(await embed_drafts(context, drafts, road.ready))
        texts = [entry_text(one.memory) for one in drafts]
        await road.let_go(texts)
        draft = next(ready)
        facts = None if facts is None else [next(ready) if isinstance(one, Draft) else one for one in facts]
        try:
            return await asyncio.to_thread(
                replace_entries, context, "correct", [before], draft, namespace, facts, approved_by
            )
        except RevisionConflict:  # corrected by someone else meanwhile: that version is to be archived, too
            await asyncio.to_thread(context.embedding.forget, texts)  # or it was forgotten
            if attempt == MAX_ATTEMPTS - 1:
                raise
            continue
    raise AssertionError("unreachable")


async def draft_replacement(
    road: WritePipeline, before: Entry, wanted: Memory, actor: Actor, *, argument: str
) -> tuple[Draft, list[Draft | Report] | None]:
    """Check and judge what is to take the place of *before*, and draft what is made of it.

    A policy that says no raises ``RejectedText``.
    """
    context = road.context
    metadata = {
        name: value for name, value in wanted.metadata.items() if name != NEAR_DUPLICATE_KEY
    }  # it was near the old words
    now = to_aware(context.clock(), context.zone)
    wanted = replace(wanted, actor=actor, metadata=metadata, id=before.id, recorded_at=now)
    taken = await road.together([checked_memory(wanted, zone=context.zone, argument=argument)])
    (draft,) = taken.own
    if isinstance(draft, Report):
        await road.let_go([before.text])
        raise RejectedText(draft.reason)
    old = archived_id(before.id, before.revision)
    memory = replace(draft.memory, id=before.id, recorded_at=now, supersedes=old, operation=context.operation_ids())
    return replace(draft, memory=memory), [one for one, _ in taken.made]


def replace_entries(
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
    at, begins = new.memory.recorded_at or to_aware(context.clock(), context.zone), counts_since(new.memory)
    with store.transaction():
        stale, lines = (
            ([], []) if facts is None else _outdated_facts(context, first.id, new.memory, facts, namespace, approved_by)
        )
        fresh = [one for one in lines if isinstance(one, Draft)]
        changes = [
            replacement_change(first, to_metadata(new.memory)),
            *(MemoryChange(one.id, one.revision, gone=True) for one in (*others, *stale)),
        ]
        changes += [MemoryChange(one.memory.id) for one in fresh]
        new, *fresh = without_stale_vectors(context, [new, *fresh])
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
        store.upsert([retired_entry(one, at, counts_to=begins) for one in (*old, *stale)], namespace=archive)
        if others or stale:
            store.delete([one.id for one in (*others, *stale)], namespace=lane)
        hide_versions(context, first.id, changes[0].new, namespace)
        context.log(namespace, new.memory.operation or "", kind, new.memory.actor, changes)
    there = iter(fresh)
    made = (
        replace(next(there).report(), operation=new.memory.operation) if isinstance(one, Draft) else one
        for one in lines
    )
    return replace(new.report(), made=tuple(made), retired=tuple(one.id for one in stale))


def _outdated_facts(
    context: WriteContext,
    id: str,
    new: Memory,
    facts: Sequence[Draft | Report],
    namespace: str,
    approved_by: Actor | None,
) -> tuple[list[Entry], list[Draft | Report]]:
    """Return what leans on the old words of *id* alone, and what becomes of *facts* beside it."""
    leaning = {one.id: from_entry(one) for one in derived_only_from(context, id, namespace)}
    spared = {one for one, memory in leaning.items() if not may_change(new.actor, memory, approved_by=approved_by)}
    lines: list[Draft | Report] = []
    for fact in facts:
        again = fact.memory if isinstance(fact, Draft) else None
        same = (
            None
            if again is None
            else next((one for one in leaning.values() if _statement(one) == _statement(again)), None)
        )
        if same is not None:
            spared.add(same.id)
            lines.append(Report(Outcome.DUPLICATE, same.id, "known already", of=same.id))
        else:
            lines.append(fact)
    return derived_only_from(context, id, namespace, spared) if leaning else [], lines


def _statement(memory: Memory) -> tuple[object, ...]:
    return (memory.text.strip(), memory.kind, memory.speaker, memory.derived_from)


def _comparable_fields(memory: Memory) -> tuple[object, ...]:
    metadata = {name: value for name, value in memory.metadata.items() if name != NEAR_DUPLICATE_KEY}
    return (memory.text, memory.kind, memory.tags, memory.valid_from, memory.valid_to, memory.sensitive, metadata)


def end_memory(
    context: WriteContext,
    id: str,
    valid_to: datetime | None,
    namespace: str,
    *,
    actor: Actor,
    approved_by: Actor | None = None,
) -> Report:
    """Let a memory hold until *valid_to*, or (None) without an end. The version before counts for no time at all."""
    store = context.lifecycle("end")
    checked_label(id, "id")
    checked_actor(actor, "actor")
    with store.transaction():
        before = context.entries.live(id, namespace)
        old = from_entry(before)
        check_may_change(actor, [old], "end", approved_by=approved_by)
        ended = checked_memory(replace(old, valid_to=valid_to, counts_from=None), zone=context.zone, argument="ended")
        if ended.valid_to == old.valid_to:
            return Report(Outcome.DUPLICATE, id, "nothing differs")
        new = replace(
            ended,
            recorded_at=to_aware(context.clock(), context.zone),
            counts_from=recorded_since(old) or EARLIEST,
            supersedes=archived_id(id, before.revision),
            operation=context.operation_ids(),
            actor=actor,
        )
        space = context.embedding.follow()
        draft = Draft(new, vector=before.vector, no_vector=before.no_vector, space=space)
        replace_entries(context, "end", [before], draft, namespace)
    return draft.report()


@tracked_write
async def merge_memories(
    context: WriteContext,
    ids: Sequence[str],
    text: str,
    namespace: str,
    *,
    sensitive: bool,
    actor: Actor,
    approved_by: Actor | None = None,
) -> Report:
    """Put *text* in the place of the first memory's and archive the others."""
    context.lifecycle("merge")
    wanted = checked_labels(ids, "ids")
    checked_actor(actor, "actor")
    checked_bool(sensitive, "sensitive")
    if len(wanted) < 2 or len(set(wanted)) < len(wanted):
        raise ArgumentError("ids", list(wanted), "two or more different memories are needed")
    for attempt in range(MAX_ATTEMPTS):
        before = await asyncio.to_thread(_live_entries, context, wanted, namespace)
        memories = [from_entry(one) for one in before]
        check_may_change(actor, memories, "merge", approved_by=approved_by)
        merged = merged_memory(memories, text)
        merged = replace(
            merged, trust=Trust.least([merged.trust, actor_trust(actor)]), sensitive=merged.sensitive or sensitive
        )
        rules = replace(context.rules, making=False, in_place=True)  # what was made of them is not wrong by it
        road = WritePipeline.into(context, namespace, rules=rules, hidden=set(wanted))
        draft, _ = await draft_replacement(road, before[0], merged, actor, argument="merged")
        (ready,) = await embed_drafts(context, [draft], road.ready)
        await road.let_go([entry_text(draft.memory)])
        try:
            return await asyncio.to_thread(replace_entries, context, "merge", before, ready, namespace)
        except RevisionConflict:  # one of them was changed meanwhile, or forgotten
            await asyncio.to_thread(context.embedding.forget, [entry_text(draft.memory)])
            if attempt == MAX_ATTEMPTS - 1:
                raise
            continue
    raise AssertionError("unreachable")


def merged_memory(memories: Sequence[Memory], text: str) -> Memory:
    """Return what *memories* are as one: place, speaker and time of the first, and of the rest what is safe.

    Tags of all; pinned or sensitive if one is; the greatest importance, the earliest expiry, the least trust; valid
    from the first beginning to the last end. Disabled ones and different scopes raise: their words would be shown
    to somebody who was not to see them.
    """
    first = memories[0]
    for one in memories:
        if one.disabled:
            raise ArgumentError("ids", one.id, "is disabled; enable it before it is merged")
        if dict(one.scopes) != dict(first.scopes):
            raise ArgumentError("ids", one.id, f"has other scopes than {first.id}; only equal ones are merged")
    starts, ends = [one.valid_from for one in memories], [one.valid_to for one in memories]
    parents = [archived_id(first.id, first.revision), *(one.id for one in memories[1:])]
    return replace(
        first,
        text=text,
        tags=tuple(dict.fromkeys(tag for one in memories for tag in one.tags)),
        pinned=any(one.pinned for one in memories),
        sensitive=any(one.sensitive for one in memories),
        importance=max((one.importance for one in memories if one.importance is not None), default=None),
        trust=Trust.least(one.trust for one in memories),
        valid_from=min((one for one in starts if one is not None), default=None) if None not in starts else None,
        valid_to=max((one for one in ends if one is not None), default=None) if None not in ends else None,
        expires_at=min((one.expires_at for one in memories if one.expires_at is not None), default=None),
        counts_from=None,
        derived_from=tuple(dict.fromkeys((*first.derived_from, *parents))),
    )


def _live_entries(context: WriteContext, ids: Sequence[str], namespace: str) -> list[Entry]:
    return [context.entries.live(one, namespace) for one in ids]
