"""What is said, remembered: messages into history and their memories into the store, in one transaction.

Where history and store share a file the two are written together. Elsewhere history comes first, with the
ids of the memories to be written; what is missing after a crash is completed on opening.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from memory.captions import captions, stand_in
from memory.codec import to_entry
from memory.errors import ArgumentError
from memory.lanes import CONVERSATION, store_namespace
from memory.messages import Message
from memory.records import Actor, Memory, Outcome, Report, Source, Trust
from memory.storage.rows import HistoryRow
from memory.storage.serialise import all_to_json, check_session
from memory.times import aware
from memory.write.checking import checked, names
from memory.write.context import WriteContext
from memory.write.policies import judge
from memory.write.remembering import embedded
from memory.write.under_way import counted
from memory.write.writer import Draft, current, draft, logged
from vectorstore import RevisionConflict

QUOTES: Final = "quotes"
"""Metadata of an answer: the ids of the memories whose words it repeats. It is no memory of its own, so that what was
corrected does not live on in it, and it is forgotten with them."""
USED: Final = "used"
"""Metadata of a memory: ids of memories that the answer was made with; named when one is forgotten."""
TRUST: Final = "trust"
"""Metadata of a message: whose word it is, where it was made from words that are trusted less than its role's own."""
_BATCH: Final = 256


def memory_of(
    message: Message, session: str, at: datetime, used: Sequence[str] = (), sequence: int | None = None
) -> Memory | str:
    """Return what is to be remembered of *message*, or the reason why nothing is."""
    if message.role not in ("user", "assistant"):
        return f"{message.role} messages are kept in history only"
    text = message.text if message.text.strip() else stand_in(message)
    if not text:
        return "no text; kept in history only"
    actor: Actor = "user" if message.role == "user" else "assistant"
    if actor == "assistant" and quotes(message):
        return "it quotes what is remembered already; kept in history only"
    metadata = {USED: list(used)} if used and actor == "assistant" else {}
    trust = _trust(message, Trust(actor))
    return Memory(
        text=text,
        caption=captions(message) if message.text.strip() else "",
        kind="turn",
        role=message.role,
        speaker=message.name,
        session=session,
        sequence=sequence,
        source=Source(session=session, sequence=sequence),
        trust=trust,
        actor=actor if trust == actor else trust.value,
        occurred_at=message.at or at,
        metadata=metadata,
    )


def _trust(message: Message, own: Trust) -> Trust:
    """Return how far *message* is trusted: its role's *own*, or less where its metadata says so."""
    said = message.metadata.get(TRUST)
    return max(own, Trust(said), key=list(Trust).index) if said in tuple(Trust) else own


def quotes(message: Message) -> tuple[str, ...]:
    """Return the ids of the memories that *message* quotes: texts, or objects with an "id"."""
    given = message.metadata.get(QUOTES, ())
    if not isinstance(given, (list, tuple)):
        return ()
    ids = [one.get("id") if isinstance(one, dict) else one for one in given]
    return tuple(dict.fromkeys(one for one in ids if isinstance(one, str) and one))


@counted
async def remember_turn(
    context: WriteContext, session: str, messages: Sequence[Message], namespace: str, used: Sequence[str]
) -> list[Report]:
    """Append *messages* to *session* and remember what was said; a report for each message."""
    check_session(session)
    all_to_json(messages)
    used = names(used, "used")
    now = aware(context.clock(), context.zone)
    drafts = [_drafted(context, memory_of(one, session, now, used), namespace) for one in messages]
    kept = [one for one in drafts if isinstance(one, Draft)]
    ready = iter(await embedded(context, kept))
    lines = [next(ready) if isinstance(one, Draft) else one for one in drafts]
    return await asyncio.to_thread(_put, context, session, messages, namespace, lines)


def complete(context: WriteContext) -> int:
    """Remember what history holds and memory lacks, without vectors; return how many were added.

    What was forgotten stays so. Runs in batches, each one transaction; stopping between them loses nothing.
    """
    added = 0
    if not context.rows.unsettled(1):  # the usual case takes no write lock, and works on a read-only file
        return 0
    while True:
        with context.transaction():
            rows = context.rows.unsettled(_BATCH)
            drafts = [_completed(context, row) for row in rows]
            intents = [replace(row, memory=one.memory.id if one else "") for row, one in zip(rows, drafts, strict=True)]
            context.rows.reserve(intents)
            for row, one in zip(intents, drafts, strict=True):
                added += one is not None and _add(context, one, row.namespace)
            context.rows.settle(intents)
        if len(rows) < _BATCH:
            return added


def _drafted(context: WriteContext, memory: Memory | str, namespace: str) -> Draft | Report:
    if isinstance(memory, str):
        return Report(Outcome.REJECTED, "", memory)
    judged = judge(checked(memory, zone=context.zone, argument="messages"), context.policies)
    if judged.memory is None:
        return Report(judged.outcome, "", judged.reason)
    made = draft(context, replace(judged.memory, id=""), namespace)
    return replace(made, outcome=judged.outcome, reason=judged.reason)


def _put(
    context: WriteContext,
    session: str,
    messages: Sequence[Message],
    namespace: str,
    lines: Sequence[Draft | Report],
) -> list[Report]:
    ids = [line.memory.id if isinstance(line, Draft) else "" for line in lines]
    with context.transaction():
        drafts = current(context, [line for line in lines if isinstance(line, Draft)])
        kept = iter(logged(context, "remember", drafts, namespace))
        lines = [next(kept) if isinstance(line, Draft) else line for line in lines]
        sequences = context.rows.append(session, messages, namespace=namespace, memories=ids)
        entries, settled = [], []
        for sequence, line, message in zip(sequences, lines, messages, strict=True):
            if isinstance(line, Draft):
                memory = replace(line.memory, sequence=sequence, source=_placed(line.memory, sequence))
                entries.append(to_entry(memory, vector=line.vector, no_vector=line.no_vector))
                row = HistoryRow(namespace, session, sequence, message, context.clock(), memory.id)
                settled.append(row)
        lane = store_namespace(namespace, CONVERSATION)
        context.store.upsert(entries, namespace=lane, expect={entry.id: 0 for entry in entries})
        context.rows.settle(settled)
    return [line.report() if isinstance(line, Draft) else line for line in lines]


def _placed(memory: Memory, sequence: int) -> Source | None:
    return None if memory.source is None else replace(memory.source, sequence=sequence)


def _completed(context: WriteContext, row: HistoryRow) -> Draft | None:
    lane = store_namespace(row.namespace, CONVERSATION)
    if row.memory and context.tombstones.which(lane, [row.memory]):
        return None
    forgotten_at = context.tombstones.words_at(row.namespace, row.message.text)
    if forgotten_at is not None and row.at <= forgotten_at:
        return None
    memory = memory_of(row.message, row.session, row.at, sequence=row.sequence)
    try:
        made = _drafted(context, memory, row.namespace)
    except ArgumentError:  # another program stored what cannot be a memory (a name of 5,000 letters); history has it
        return None
    if isinstance(made, Report):
        return None
    return replace(made, memory=replace(made.memory, id=row.memory)) if row.memory else made


def _add(context: WriteContext, one: Draft, namespace: str) -> bool:
    lane = store_namespace(namespace, CONVERSATION)
    try:
        context.store.upsert([to_entry(one.memory)], namespace=lane, expect={one.memory.id: 0})
    except RevisionConflict:  # it was written before the process ended; only the note of it was missing
        return False
    return True
