"""Crash recovery: memories of messages that history holds and the store lacks are written afterwards.

A crash, or another program that writes history, leaves messages without their memories. They go through the same
pipeline, turn by turn, but are compared with what is stored by words alone: opening a memory calls no embedder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from memory.errors import ArgumentError
from memory.history.sync_history import HistoryRow
from memory.messages import ToolCallBlock, calls_told
from memory.models import Change, Memory
from memory.partitions import CONVERSATION, store_namespace
from memory.runtime import run_sync
from memory.tables.operation_log import least_trusted
from memory.validation import checked
from memory.write.commit import Draft
from memory.write.context import WriteContext
from memory.write.pipeline import Road, Taken
from memory.write.similar_memories import StoredMemories
from memory.write.turn_writer import memory_of
from vectorstore import RevisionConflict

_BATCH: Final = 256
_GROUP: Final = 16
"""So many messages around one are looked through for the calls that it tells of."""
_ATTEMPTS: Final = 5
_Place: TypeAlias = tuple[str, str, int]
"""Namespace, session and sequence of a message."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """What is to be stored of one turn of a *namespace*: the *own* drafts of messages, and *facts* with theirs."""

    namespace: str
    own: dict[_Place, Draft]
    facts: list[tuple[Draft, frozenset[_Place]]]

    def still(self, kept: set[_Place]) -> list[Draft]:
        """Return the drafts of which every message is *kept*."""
        own = [one for place, one in self.own.items() if place in kept]
        return own + [fact for fact, places in self.facts if places <= kept]


def complete(context: WriteContext) -> int:
    """Remember what history holds and memory lacks, without vectors; return how many messages became memories.

    What was forgotten stays so. Runs in batches, each one transaction; stopping between them loses nothing.
    """
    added = conflicts = 0
    while rows := context.rows.unsettled(_BATCH):  # the usual case takes no write lock, and works on a read-only file
        rows = _without_a_cut_turn(rows)
        there = _written(context, rows)
        turns = _judged(context, [row for row in rows if _place(row) not in there])  # asks models, so holds no lock
        try:
            with context.settling() as settled:
                intents, kept = _write(context, rows, there, turns)
                settled += intents
                added += kept
            conflicts = 0
        except RevisionConflict:  # a store without transactions, which somebody else completes: looked at again
            conflicts += 1
            if conflicts == _ATTEMPTS:
                raise
    return added


def _write(
    context: WriteContext, rows: Sequence[HistoryRow], there: set[_Place], turns: Sequence[_Turn]
) -> tuple[list[HistoryRow], int]:
    """Write what *turns* hold for those of *rows* that still wait; return these as they are to be settled, and how many
    became memories.
    """
    waiting = {_place(row) for row in context.rows.unsettled(_BATCH)}
    rows = [row for row in rows if _place(row) in waiting]
    words = {place: one.memory.text for turn in turns for place, one in turn.own.items()}
    kept = {_place(row) for row in rows if not _is_forgotten(context, row, words.get(_place(row), ""))}
    ids = {place: one.memory.id for turn in turns for place, one in turn.own.items()}
    ids.update({_place(row): row.memory or "" for row in rows if _place(row) in there})
    intents = [replace(row, memory=ids.get(_place(row), "") if _place(row) in kept else "") for row in rows]
    context.rows.reserve(intents)
    for turn in turns:
        if drafts := turn.still(kept):
            operation = context.operation_ids()
            entries = [one.entry(operation) for one in drafts]
            context.store.upsert(entries, namespace=_lane(turn.namespace), expect={one.id: 0 for one in entries})
            actor = least_trusted(one.memory.actor for one in drafts)
            context.log(turn.namespace, operation, "remember", actor, [Change(one.id) for one in entries])
    return intents, sum(place in kept for turn in turns for place in turn.own)


def _judged(context: WriteContext, rows: Sequence[HistoryRow]) -> list[_Turn]:
    """Return what the policies make of messages; what cannot be a memory, or was forgotten, is left out."""
    turns: list[list[tuple[HistoryRow, Memory]]] = []
    for turn in _turns(rows):
        said = [(row, _memory_of(context, row)) for row in turn]
        turns.append([(row, memory) for row, memory in said if memory is not None])
    found: list[_Turn] = []
    for namespace in dict.fromkeys(row.namespace for row in rows):
        asked = [turn for turn in turns if turn and turn[0][0].namespace == namespace]
        taken = run_sync(_taken(context, namespace, [[memory for _, memory in turn] for turn in asked]))
        found += [
            _drafted(namespace, [_place(row) for row, _ in turn], one) for turn, one in zip(asked, taken, strict=True)
        ]
    return found


async def _taken(context: WriteContext, namespace: str, turns: Sequence[Sequence[Memory]]) -> list[Taken]:
    """Take *turns* the road of what is remembered: each beside what is stored, where a policy looks at that."""
    stored = StoredMemories(context, namespace, embeds=False) if context.rules.looking else None
    road = Road(context, namespace, context.rules, stored)
    if stored is None:
        return await road.apart(turns)
    await stored.prepare([memory for turn in turns for memory in turn])
    found = []
    for turn in turns:
        found.append(await road.together(turn))
        for one in (*found[-1].own, *(fact for fact, _ in found[-1].made)):
            if isinstance(one, Draft):
                stored.add(one.memory)
    return found


def _drafted(namespace: str, places: Sequence[_Place], taken: Taken) -> _Turn:
    own = {place: one for place, one in zip(places, taken.own, strict=True) if isinstance(one, Draft)}
    facts = [(one, frozenset(places[at] for at in of)) for one, of in taken.made if isinstance(one, Draft)]
    return _Turn(namespace, own, facts)


def _memory_of(context: WriteContext, row: HistoryRow) -> Memory | None:
    memory = memory_of(row.message, row.session, row.at, sequence=row.sequence, calls=calls_of(context, row))
    if isinstance(memory, str) or _is_forgotten(context, row, memory.text):
        return None  # a policy may be a model, which need not see it again
    try:
        return checked(replace(memory, id=row.memory or ""), zone=context.zone)
    except ArgumentError:  # another program stored what cannot be one (a name of 5,000 letters); history has it
        return None


def _turns(rows: Sequence[HistoryRow]) -> list[list[HistoryRow]]:
    """Cut *rows* of several sessions into turns, each of which begins with what the user says."""
    turns: list[list[HistoryRow]] = []
    open_: dict[tuple[str, str], list[HistoryRow]] = {}
    for row in rows:
        session = (row.namespace, row.session)
        if row.message.role == "user" or session not in open_:
            open_[session] = []
            turns.append(open_[session])
        open_[session].append(row)
    return turns


def _without_a_cut_turn(rows: list[HistoryRow]) -> list[HistoryRow]:
    """Return *rows* without the turn that a full batch may have cut off, unless there is no other."""
    turns = _turns(rows)
    if len(rows) < _BATCH or len(turns) == 1:
        return rows
    last = next(turn for turn in turns if turn[-1] is rows[-1])
    cut = {_place(row) for row in last}
    return [row for row in rows if _place(row) not in cut]


def _written(context: WriteContext, rows: Sequence[HistoryRow]) -> set[_Place]:
    """Return the places of *rows* whose memory was written before the process ended: only the note is missing."""
    found: set[_Place] = set()
    for namespace in dict.fromkeys(row.namespace for row in rows):
        named = [row for row in rows if row.namespace == namespace and row.memory]
        entries = context.store.get([row.memory or "" for row in named], namespace=_lane(namespace)) if named else []
        found.update(_place(row) for row, entry in zip(named, entries, strict=True) if entry is not None)
    return found


def calls_of(context: WriteContext, row: HistoryRow) -> tuple[ToolCallBlock, ...]:
    """Return the calls that the message of *row* tells of, among the messages around it."""
    if not (row.message.tool_calls or row.message.tool_results):
        return ()
    near = range(max(row.sequence - _GROUP, 0), row.sequence + _GROUP + 1)
    beside = context.rows.at([(row.session, sequence) for sequence in near], namespace=row.namespace)
    messages = {one.sequence: one.message for one in beside}
    order = sorted(messages)
    told = dict(zip(order, calls_told([messages[sequence] for sequence in order]), strict=True))
    return told.get(row.sequence, ())


def _is_forgotten(context: WriteContext, row: HistoryRow, text: str) -> bool:
    if row.memory and context.tombstones.which(_lane(row.namespace), [row.memory]):
        return True
    at = [context.tombstones.words_at(row.namespace, words) for words in {row.message.text, text}]
    return any(one is not None and row.at <= one for one in at)


def _place(row: HistoryRow) -> _Place:
    return row.namespace, row.session, row.sequence


def _lane(namespace: str) -> str:
    return store_namespace(namespace, CONVERSATION)
