"""Ending: from when on a memory does not hold any more. The words stay, and so does the vector."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from memory.codec import from_entry
from memory.lanes import archived_id
from memory.records import Actor, Outcome, Report
from memory.times import aware
from memory.write.checking import actor_named, checked, name
from memory.write.context import WriteContext
from memory.write.correcting import swap
from memory.write.trust import check_may_change
from memory.write.versions import ALWAYS, live, since
from memory.write.writer import Draft


def end(
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
    name(id, "id")
    actor_named(actor, "actor")
    with store.transaction():
        before = live(context, id, namespace)
        old = from_entry(before)
        check_may_change(actor, [old], "end", approved_by=approved_by)
        ended = checked(replace(old, valid_to=valid_to, counts_from=None), zone=context.zone, argument="ended")
        if ended.valid_to == old.valid_to:
            return Report(Outcome.DUPLICATE, id, "nothing differs")
        new = replace(
            ended,
            recorded_at=aware(context.clock(), context.zone),
            counts_from=since(old) or ALWAYS,
            supersedes=archived_id(id, before.revision),
            operation=context.operation_ids(),
            actor=actor,
        )
        space = context.embedding.follow()
        draft = Draft(new, vector=before.vector, no_vector=before.no_vector, space=space)
        swap(context, "end", [before], draft, namespace)
    return draft.report()
