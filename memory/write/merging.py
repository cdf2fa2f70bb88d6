"""Merging: several memories become one text under the id of the first; the others go to the archive."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from memory.codec import from_entry, text_of
from memory.errors import ArgumentError
from memory.lanes import archived_id
from memory.records import Actor, Memory, Report, Trust
from memory.write.checking import actor_named, flag, names
from memory.write.context import WriteContext
from memory.write.correcting import ATTEMPTS, drafted, swap
from memory.write.road import Road, embedded
from memory.write.trust import check_may_change, trust_of
from memory.write.under_way import counted
from memory.write.versions import live
from vectorstore import Entry, RevisionConflict


@counted
async def merge(
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
    wanted = names(ids, "ids")
    actor_named(actor, "actor")
    flag(sensitive, "sensitive")
    if len(wanted) < 2 or len(set(wanted)) < len(wanted):
        raise ArgumentError("ids", list(wanted), "two or more different memories are needed")
    for attempt in range(ATTEMPTS):
        before = await asyncio.to_thread(_all_live, context, wanted, namespace)
        memories = [from_entry(one) for one in before]
        check_may_change(actor, memories, "merge", approved_by=approved_by)
        merged = together(memories, text)
        merged = replace(
            merged, trust=Trust.least([merged.trust, trust_of(actor)]), sensitive=merged.sensitive or sensitive
        )
        rules = replace(context.rules, making=False, in_place=True)  # what was made of them is not wrong by it
        road = Road.into(context, namespace, rules=rules, hidden=set(wanted))
        draft, _ = await drafted(road, before[0], merged, actor, argument="merged")
        (ready,) = await embedded(context, [draft], road.ready)
        await road.let_go([text_of(draft.memory)])
        try:
            return await asyncio.to_thread(swap, context, "merge", before, ready, namespace)
        except RevisionConflict:  # one of them was changed meanwhile, or forgotten
            await asyncio.to_thread(context.embedding.forget, [text_of(draft.memory)])
            if attempt == ATTEMPTS - 1:
                raise
            continue
    raise AssertionError("unreachable")


def together(memories: Sequence[Memory], text: str) -> Memory:
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


def _all_live(context: WriteContext, ids: Sequence[str], namespace: str) -> list[Entry]:
    return [live(context, one, namespace) for one in ids]
