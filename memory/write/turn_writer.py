"""Turn writer: messages into history and their memories into the store, in one transaction.

Where history and store share a file the two are written together. Elsewhere history comes first, with the ids of the
memories to be written; what is missing after a crash is completed on opening (``crash_recovery``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from memory.codec import entry_text, to_entry
from memory.history.codec import checked_session, messages_to_json
from memory.history.protocol import HistoryRow
from memory.message_text import image_captions, media_text, tool_call_text, tool_results_text
from memory.messages import QUOTES, TRUST, USED, Message, ToolCallBlock, calls_by_message
from memory.models import Actor, Memory, Source, Trust
from memory.partitions import CONVERSATION, store_namespace
from memory.results import Outcome, Report
from memory.timestamps import to_aware
from memory.validation import checked_labels, checked_memory
from memory.write.commit import Draft, log_drafts, without_stale_vectors
from memory.write.context import WriteContext
from memory.write.in_flight import tracked_write
from memory.write.pipeline import WritePipeline, embed_drafts
from memory.write.policy_runner import redacted_message, redaction_policies

_NO_TEXT_REASONS: Final = {
    "user": "no text; kept in history only",
    "assistant": "no text of its own; kept in history only",
    "tool": "it shows what is remembered already; kept in history only",
}


def memory_from_message(
    message: Message,
    session: str,
    at: datetime,
    used: Sequence[str] = (),
    sequence: int | None = None,
    calls: Sequence[ToolCallBlock] = (),
) -> Memory | str:
    """Return what is to be remembered of *message*, or the reason why nothing is; *calls* are those it tells of."""
    if message.role == "system":
        return "system messages are kept in history only"
    actor: Actor = message.role
    text = _message_text(message, calls)
    if not text:
        return _NO_TEXT_REASONS[message.role]
    if actor == "assistant" and quoted_ids(message):
        return "it quotes what is remembered already; kept in history only"
    metadata = {USED: list(used)} if used and actor == "assistant" else {}
    trust = _message_trust(message, Trust(actor))
    return Memory(
        text=text,
        caption=image_captions(message) if message.text.strip() else "",
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


def _message_text(message: Message, calls: Sequence[ToolCallBlock]) -> str:
    """Return what *message* says, what stands for its images, or what it asked tools or was answered by them."""
    if message.role == "tool":
        return tool_results_text(message, calls).strip()
    if message.text.strip():
        return message.text
    return media_text(message) or "\n".join(map(tool_call_text, calls)).strip()


def _message_trust(message: Message, own: Trust) -> Trust:
    """Return how far *message* is trusted: its role's *own*, or less where its metadata says so."""
    said = message.metadata.get(TRUST)
    return Trust.least((own, Trust(said))) if said in tuple(Trust) else own


def quoted_ids(message: Message) -> tuple[str, ...]:
    """Return the ids of the memories that *message* quotes: texts, or objects with an "id"."""
    given = message.metadata.get(QUOTES, ())
    if not isinstance(given, (list, tuple)):
        return ()
    ids = [one.get("id") if isinstance(one, dict) else one for one in given]
    return tuple(dict.fromkeys(one for one in ids if isinstance(one, str) and one))


@tracked_write
async def remember_turn(
    context: WriteContext, session: str, messages: Sequence[Message], namespace: str, used: Sequence[str]
) -> list[Report]:
    """Append *messages* to *session* and remember what was said; a report for each message."""
    checked_session(session)
    messages_to_json(messages)
    used = checked_labels(used, "used")
    now = to_aware(context.clock(), context.zone)
    told = zip(messages, calls_by_message(messages), strict=True)
    given = [memory_from_message(one, session, now, used, calls=calls) for one, calls in told]
    memories = [checked_memory(one, zone=context.zone, argument="messages") for one in given if isinstance(one, Memory)]
    road = WritePipeline.into(context, namespace)
    taken = await road.together(memories)
    clean = [redacted_message(one, redaction_policies(context.rules.policies)) for one in messages]
    rest = iter(taken.own)
    lines = [
        Report(Outcome.REJECTED, "", one, spans=spans) if isinstance(one, str) else next(rest)
        for one, (_, spans) in zip(given, clean, strict=True)
    ]
    every = [one for one in (*lines, *(one for one, _ in taken.made)) if isinstance(one, Draft)]
    ready = iter(await embed_drafts(context, every, road.ready))
    await road.let_go(entry_text(one.memory) for one in every)
    lines = [next(ready) if isinstance(one, Draft) else one for one in lines]
    said = [place for place, one in enumerate(given) if isinstance(one, Memory)]
    made = [(next(ready) if isinstance(one, Draft) else one, said[places[0]]) for one, places in taken.made]
    return await asyncio.to_thread(_store_turn, context, session, [one for one, _ in clean], namespace, lines, made)


def _store_turn(
    context: WriteContext,
    session: str,
    messages: Sequence[Message],
    namespace: str,
    lines: Sequence[Draft | Report],
    made: Sequence[tuple[Draft | Report, int]],
) -> list[Report]:
    """Write it all; *made* come with the place of the message that each is reported with."""
    ids = [line.memory.id if isinstance(line, Draft) else "" for line in lines]
    with context.settling() as settled:
        every = [one for one in (*lines, *(one for one, _ in made)) if isinstance(one, Draft)]
        kept = iter(log_drafts(context, "remember", without_stale_vectors(context, every), namespace))
        lines = [next(kept) if isinstance(line, Draft) else line for line in lines]
        facts = [(next(kept) if isinstance(one, Draft) else one, place) for one, place in made]
        sequences = context.rows.append(session, messages, namespace=namespace, memories=ids)
        entries = []
        for sequence, line, message in zip(sequences, lines, messages, strict=True):
            if isinstance(line, Draft):
                memory = replace(line.memory, sequence=sequence, source=_source_at(line.memory, sequence))
                entries.append(to_entry(memory, vector=line.vector, no_vector=line.no_vector))
                row = HistoryRow(namespace, session, sequence, message, context.clock(), memory.id)
                settled.append(row)
        for fact, place in facts:
            if isinstance(fact, Report):
                continue
            memory = replace(fact.memory, source=_source_at(fact.memory, sequences[place]))
            entries.append(to_entry(memory, vector=fact.vector, no_vector=fact.no_vector))
        lane = store_namespace(namespace, CONVERSATION)
        context.store.upsert(entries, namespace=lane, expect={entry.id: 0 for entry in entries})
    reports = [line.report() if isinstance(line, Draft) else line for line in lines]
    for fact, place in facts:
        line = fact.report() if isinstance(fact, Draft) else fact
        reports[place] = replace(reports[place], made=(*reports[place].made, line))
    return reports


def _source_at(memory: Memory, sequence: int) -> Source | None:
    return None if memory.source is None else replace(memory.source, sequence=sequence)
