"""What is said, remembered: messages into history and their memories into the store, in one transaction.

Where history and store share a file the two are written together. Elsewhere history comes first, with the
ids of the memories to be written; what is missing after a crash is completed on opening.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, TypeAlias

from memory.captions import captions, stand_in
from memory.codec import text_of, to_entry
from memory.errors import ArgumentError
from memory.lanes import CONVERSATION, store_namespace
from memory.messages import Message, ToolCallBlock
from memory.records import Actor, Change, Memory, Outcome, Report, Source, Trust
from memory.runtime import run_sync
from memory.storage.rows import HistoryRow
from memory.storage.serialise import all_to_json, check_session
from memory.times import aware
from memory.tool_words import answered_words, call_words
from memory.turns import calls_told
from memory.write.checking import checked, names
from memory.write.cleaning import cleaned_message, cleaners
from memory.write.context import WriteContext
from memory.write.judging import Judged, judge_each
from memory.write.road import Road, embedded
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
_WORDLESS: Final = {
    "user": "no text; kept in history only",
    "assistant": "no text of its own; kept in history only",
    "tool": "it shows what is remembered already; kept in history only",
}
_BATCH: Final = 256
_GROUP: Final = 16
"""So many messages around one are looked through for the calls that it tells of."""
_Place: TypeAlias = tuple[str, str, int]
"""Namespace, session and sequence of a message."""


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
    told = zip(messages, calls_told(messages), strict=True)
    given = [memory_of(one, session, now, used, calls=calls) for one, calls in told]
    memories = {
        place: checked(one, zone=context.zone, argument="messages")
        for place, one in enumerate(given)
        if isinstance(one, Memory)
    }
    road = Road.into(context, namespace)
    said = [place for place, one in memories.items() if one.role != "tool"]
    taken = await road.together([memories[place] for place in said])
    judged = dict(zip(said, taken.own, strict=True))
    for place in memories.keys() - judged.keys():  # it is nobody's words: neither judged beside them nor made facts of
        (judged[place],) = (
            await replace(road, rules=replace(road.rules, making=False)).together([memories[place]])
        ).own
    clean = [cleaned_message(one, cleaners(context.rules.policies)) for one in messages]
    lines = [
        Report(Outcome.REJECTED, "", one, spans=spans) if isinstance(one, str) else judged[place]
        for place, (one, (_, spans)) in enumerate(zip(given, clean, strict=True))
    ]
    every = [one for one in (*lines, *(one for one, _ in taken.made)) if isinstance(one, Draft)]
    ready = iter(await embedded(context, every, road.ready))
    await road.let_go(text_of(one.memory) for one in every)
    lines = [next(ready) if isinstance(one, Draft) else one for one in lines]
    made = [(next(ready) if isinstance(one, Draft) else one, said[places[0]]) for one, places in taken.made]
    return await asyncio.to_thread(_put, context, session, [one for one, _ in clean], namespace, lines, made)


def complete(context: WriteContext) -> int:
    """Remember what history holds and memory lacks, without vectors; return how many were added.

    What was forgotten stays so. Runs in batches, each one transaction; stopping between them loses nothing.
    """
    added = 0
    while rows := context.rows.unsettled(_BATCH):  # the usual case takes no write lock, and works on a read-only file
        judged = _judged(context, rows)  # which may ask a model, and so holds no lock
        with context.settling() as settled:
            waiting = {(row.namespace, row.session, row.sequence) for row in context.rows.unsettled(len(rows))}
            rows = [row for row in rows if (row.namespace, row.session, row.sequence) in waiting]
            drafts = [_completed(context, row, judged[row.namespace, row.session, row.sequence]) for row in rows]
            intents = [replace(row, memory=one.memory.id if one else "") for row, one in zip(rows, drafts, strict=True)]
            context.rows.reserve(intents)
            for row, one in zip(intents, drafts, strict=True):
                added += one is not None and _add(context, one, row.namespace)
            settled += intents
    return added


def _judged(context: WriteContext, rows: Sequence[HistoryRow]) -> dict[_Place, Judged | None]:
    """Ask the policies about what history alone has; None for what cannot be a memory, or was forgotten."""
    memories: dict[_Place, Memory] = {}
    for row in rows:
        memory = memory_of(row.message, row.session, row.at, sequence=row.sequence, calls=_calls_of(context, row))
        if not isinstance(memory, Memory) or _is_forgotten(context, row, memory.text):
            continue  # a policy may be a model, which need not see it again
        try:
            memories[row.namespace, row.session, row.sequence] = checked(memory, zone=context.zone)
        except ArgumentError:  # another program stored what cannot be one (a name of 5,000 letters); history has it
            continue
    rules = replace(context.rules, making=False)
    found = run_sync(judge_each(list(memories.values()), rules)) if memories else []
    verdicts = {place: judged for place, (judged, _) in zip(memories, found, strict=True)}
    return {place: verdicts.get(place) for place in ((row.namespace, row.session, row.sequence) for row in rows)}


def _calls_of(context: WriteContext, row: HistoryRow) -> tuple[ToolCallBlock, ...]:
    """Return the calls that the message of *row* tells of, among the messages around it."""
    if not (row.message.tool_calls or row.message.tool_results):
        return ()
    near = range(max(row.sequence - _GROUP, 0), row.sequence + _GROUP + 1)
    beside = context.rows.at([(row.session, sequence) for sequence in near], namespace=row.namespace)
    messages = {one.sequence: one.message for one in beside}
    order = sorted(messages)
    told = dict(zip(order, calls_told([messages[sequence] for sequence in order]), strict=True))
    return told.get(row.sequence, ())


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


def _completed(context: WriteContext, row: HistoryRow, judged: Judged | None) -> Draft | None:
    if judged is None or judged.memory is None or _is_forgotten(context, row, judged.memory.text):
        return None
    made = draft(context, replace(judged.memory, id=row.memory or ""), row.namespace)
    return replace(made, named=False)


def _is_forgotten(context: WriteContext, row: HistoryRow, text: str) -> bool:
    if row.memory and context.tombstones.which(store_namespace(row.namespace, CONVERSATION), [row.memory]):
        return True
    at = [context.tombstones.words_at(row.namespace, words) for words in {row.message.text, text}]
    return any(one is not None and row.at <= one for one in at)


def _add(context: WriteContext, one: Draft, namespace: str) -> bool:
    lane, operation = store_namespace(namespace, CONVERSATION), context.operation_ids()
    entry = to_entry(replace(one.memory, operation=operation))
    try:
        context.store.upsert([entry], namespace=lane, expect={one.memory.id: 0})
    except RevisionConflict:  # it was written before the process ended; only the note of it was missing
        return False
    context.log(namespace, operation, "remember", one.memory.actor, [Change(one.memory.id)])
    return True
