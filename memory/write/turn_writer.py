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

from memory.codec import text_of, to_entry
from memory.history.codec import all_to_json, check_session
from memory.history.sync_history import HistoryRow
from memory.message_text import answered_words, call_words, captions, stand_in
from memory.messages import QUOTES, TRUST, USED, Message, ToolCallBlock, calls_told
from memory.models import Actor, Memory, Source, Trust
from memory.partitions import CONVERSATION, store_namespace
from memory.results import Outcome, Report
from memory.timestamps import aware
from memory.validation import checked, names
from memory.write.commit import Draft, current, logged
from memory.write.context import WriteContext
from memory.write.in_flight import counted
from memory.write.pipeline import Road, embedded
from memory.write.policy_runner import cleaned_message, cleaners

_WORDLESS: Final = {
    "user": "no text; kept in history only",
    "assistant": "no text of its own; kept in history only",
    "tool": "it shows what is remembered already; kept in history only",
}


def memory_of(
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
    text = _words(message, calls)
    if not text:
        return _WORDLESS[message.role]
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


def _words(message: Message, calls: Sequence[ToolCallBlock]) -> str:
    """Return what *message* says, what stands for its images, or what it asked tools or was answered by them."""
    if message.role == "tool":
        return answered_words(message, calls).strip()
    if message.text.strip():
        return message.text
    return stand_in(message) or "\n".join(map(call_words, calls)).strip()


def _trust(message: Message, own: Trust) -> Trust:
    """Return how far *message* is trusted: its role's *own*, or less where its metadata says so."""
    said = message.metadata.get(TRUST)
    return Trust.least((own, Trust(said))) if said in tuple(Trust) else own


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
    told = zip(messages, calls_told(messages), strict=True)
    given = [memory_of(one, session, now, used, calls=calls) for one, calls in told]
    memories = [checked(one, zone=context.zone, argument="messages") for one in given if isinstance(one, Memory)]
    road = Road.into(context, namespace)
    taken = await road.together(memories)
    clean = [cleaned_message(one, cleaners(context.rules.policies)) for one in messages]
    rest = iter(taken.own)
    lines = [
        Report(Outcome.REJECTED, "", one, spans=spans) if isinstance(one, str) else next(rest)
        for one, (_, spans) in zip(given, clean, strict=True)
    ]
    every = [one for one in (*lines, *(one for one, _ in taken.made)) if isinstance(one, Draft)]
    ready = iter(await embedded(context, every, road.ready))
    await road.let_go(text_of(one.memory) for one in every)
    lines = [next(ready) if isinstance(one, Draft) else one for one in lines]
    said = [place for place, one in enumerate(given) if isinstance(one, Memory)]
    made = [(next(ready) if isinstance(one, Draft) else one, said[places[0]]) for one, places in taken.made]
    return await asyncio.to_thread(_put, context, session, [one for one, _ in clean], namespace, lines, made)


def _put(
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
        kept = iter(logged(context, "remember", current(context, every), namespace))
        lines = [next(kept) if isinstance(line, Draft) else line for line in lines]
        facts = [(next(kept) if isinstance(one, Draft) else one, place) for one, place in made]
        sequences = context.rows.append(session, messages, namespace=namespace, memories=ids)
        entries = []
        for sequence, line, message in zip(sequences, lines, messages, strict=True):
            if isinstance(line, Draft):
                memory = replace(line.memory, sequence=sequence, source=_placed(line.memory, sequence))
                entries.append(to_entry(memory, vector=line.vector, no_vector=line.no_vector))
                row = HistoryRow(namespace, session, sequence, message, context.clock(), memory.id)
                settled.append(row)
        for fact, place in facts:
            if isinstance(fact, Report):
                continue
            memory = replace(fact.memory, source=_placed(fact.memory, sequences[place]))
            entries.append(to_entry(memory, vector=fact.vector, no_vector=fact.no_vector))
        lane = store_namespace(namespace, CONVERSATION)
        context.store.upsert(entries, namespace=lane, expect={entry.id: 0 for entry in entries})
    reports = [line.report() if isinstance(line, Draft) else line for line in lines]
    for fact, place in facts:
        line = fact.report() if isinstance(fact, Draft) else fact
        reports[place] = replace(reports[place], made=(*reports[place].made, line))
    return reports


def _placed(memory: Memory, sequence: int) -> Source | None:
    return None if memory.source is None else replace(memory.source, sequence=sequence)
