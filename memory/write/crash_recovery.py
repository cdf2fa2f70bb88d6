"""Crash recovery: memories of messages that history holds and the store lacks are written afterwards.

A crash, or another program that writes history, leaves messages without their memories. They go through the same
pipeline, turn by turn, but are compared with what is stored by words alone: opening a memory calls no embedder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from memory.errors import ArgumentError
from memory.history.protocol import HistoryRow
from memory.messages import ToolCallBlock, calls_by_message
from memory.models import Memory, MemoryChange
from memory.partitions import CONVERSATION, store_namespace
from memory.runtime import run_sync
from memory.tables.operation_log import least_trusted_actor
from memory.validation import checked_memory
from memory.write.commit import Draft
from memory.write.context import WriteContext
from memory.write.pipeline import PipelineResult, WritePipeline
from memory.write.similar_memories import SimilarMemoryLookup
from memory.write.turn_writer import memory_from_message
from vectorstore import RevisionConflict

_BATCH_SIZE: Final = 256
_CALL_DISTANCE: Final = 16
"""So many messages around one are looked through for the calls that it tells of."""
_MAX_ATTEMPTS: Final = 5
_MessagePlace: TypeAlias = tuple[str, str, int]
"""Namespace, session and sequence of a message."""


@dataclass(frozen=True, slots=True)
class _RecoveredTurn:
    """What is to be stored of one turn of a *namespace*: the *own* drafts of messages, and *facts* with theirs."""

    namespace: str
    own: dict[_MessagePlace, Draft]
    facts: list[tuple[Draft, frozenset[_MessagePlace]]]

    def still(self, kept: set[_MessagePlace]) -> list[Draft]:
        """Return the drafts of which every message is *kept*."""
        own = [one for place, one in self.own.items() if place in kept]
        return own + [fact for fact, places in self.facts if places <= kept]


def recover_memories(context: WriteContext) -> int:
    """Remember what history holds and memory lacks, without vectors; return how many messages became memories.

    What was forgotten stays so. Runs in batches, each one transaction; stopping between them loses nothing.
    """
    added = conflicts = 0
    while rows := context.rows.unsettled(
        _BATCH_SIZE
    ):  # the usual case takes no write lock, and works on a read-only file
        rows = _without_partial_turn(rows)
        there = _stored_places(context, rows)
        turns = _draft_turns(
            context, [row for row in rows if _row_place(row) not in there]
        )  # asks models, so holds no lock
        try:
            with context.settling() as settled:
                intents, kept = _write_turns(context, rows, there, turns)
                settled += intents
                added += kept
            conflicts = 0
        except RevisionConflict:  # a store without transactions, which somebody else completes: looked at again
            conflicts += 1
            if conflicts == _MAX_ATTEMPTS:
                raise
    return added


def _write_turns(
    context: WriteContext, rows: Sequence[HistoryRow], there: set[_MessagePlace], turns: Sequence[_RecoveredTurn]
) -> tuple[list[HistoryRow], int]:
    """Write what *turns* hold for those of *rows* that still wait; return these as they are to be settled, and how many
    became memories.
    """
    waiting = {_row_place(row) for row in context.rows.unsettled(_BATCH_SIZE)}
    rows = [row for row in rows if _row_place(row) in waiting]
    words = {place: one.memory.text for turn in turns for place, one in turn.own.items()}
    kept = {_row_place(row) for row in rows if not _is_forgotten(context, row, words.get(_row_place(row), ""))}
    ids = {place: one.memory.id for turn in turns for place, one in turn.own.items()}
    ids.update({_row_place(row): row.memory or "" for row in rows if _row_place(row) in there})
    intents = [replace(row, memory=ids.get(_row_place(row), "") if _row_place(row) in kept else "") for row in rows]
    context.rows.reserve(intents)
    for turn in turns:
        if drafts := turn.still(kept):
            operation = context.operation_ids()
            entries = [one.entry(operation) for one in drafts]
            context.store.upsert(entries, namespace=_partition(turn.namespace), expect={one.id: 0 for one in entries})
            actor = least_trusted_actor(one.memory.actor for one in drafts)
            context.log(turn.namespace, operation, "remember", actor, [MemoryChange(one.id) for one in entries])
    return intents, sum(place in kept for turn in turns for place in turn.own)


def _draft_turns(context: WriteContext, rows: Sequence[HistoryRow]) -> list[_RecoveredTurn]:
    """Return what the policies make of messages; what cannot be a memory, or was forgotten, is left out."""
    turns: list[list[tuple[HistoryRow, Memory]]] = []
    for turn in _split_turns(rows):
        said = [(row, _row_memory(context, row)) for row in turn]
        turns.append([(row, memory) for row, memory in said if memory is not None])
    found: list[_RecoveredTurn] = []
    for namespace in dict.fromkeys(row.namespace for row in rows):
        asked = [turn for turn in turns if turn and turn[0][0].namespace == namespace]
        taken = run_sync(_run_policies(context, namespace, [[memory for _, memory in turn] for turn in asked]))
        found += [
            _recovered_turn(namespace, [_row_place(row) for row, _ in turn], one)
            for turn, one in zip(asked, taken, strict=True)
        ]
    return found


async def _run_policies(
    context: WriteContext, namespace: str, turns: Sequence[Sequence[Memory]]
) -> list[PipelineResult]:
    """Take *turns* the road of what is remembered: each beside what is stored, where a policy looks at that."""
    stored = SimilarMemoryLookup(context, namespace, embeds=False) if context.rules.looking else None
    road = WritePipeline(context, namespace, context.rules, stored)
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


def _recovered_turn(namespace: str, places: Sequence[_MessagePlace], taken: PipelineResult) -> _RecoveredTurn:
    own = {place: one for place, one in zip(places, taken.own, strict=True) if isinstance(one, Draft)}
    facts = [(one, frozenset(places[at] for at in of)) for one, of in taken.made if isinstance(one, Draft)]
    return _RecoveredTurn(namespace, own, facts)


def _row_memory(context: WriteContext, row: HistoryRow) -> Memory | None:
    memory = memory_from_message(
        row.message, row.session, row.at, sequence=row.sequence, calls=message_calls(context, row)
    )
    if isinstance(memory, str) or _is_forgotten(context, row, memory.text):
        return None  # a policy may be a model, which need not see it again
    try:
        return checked_memory(replace(memory, id=row.memory or ""), zone=context.zone)
    except ArgumentError:  # another program stored what cannot be one (a name of 5,000 letters); history has it
        return None


def _split_turns(rows: Sequence[HistoryRow]) -> list[list[HistoryRow]]:
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


def _without_partial_turn(rows: list[HistoryRow]) -> list[HistoryRow]:
    """Return *rows* without the turn that a full batch may have cut off, unless there is no other."""
    turns = _split_turns(rows)
    if len(rows) < _BATCH_SIZE or len(turns) == 1:
        return rows
    last = next(turn for turn in turns if turn[-1] is rows[-1])
    cut = {_row_place(row) for row in last}
    return [row for row in rows if _row_place(row) not in cut]


def _stored_places(context: WriteContext, rows: Sequence[HistoryRow]) -> set[_MessagePlace]:
    """Return the places of *rows* whose memory was written before the process ended: only the note is missing."""
    found: set[_MessagePlace] = set()
    for namespace in dict.fromkeys(row.namespace for row in rows):
        named = [row for row in rows if row.namespace == namespace and row.memory]
        entries = (
            context.store.get([row.memory or "" for row in named], namespace=_partition(namespace)) if named else []
        )
        found.update(_row_place(row) for row, entry in zip(named, entries, strict=True) if entry is not None)
    return found


def message_calls(context: WriteContext, row: HistoryRow) -> tuple[ToolCallBlock, ...]:
    """Return the calls that the message of *row* tells of, among the messages around it."""
    if not (row.message.tool_calls or row.message.tool_results):
        return ()
    near = range(max(row.sequence - _CALL_DISTANCE, 0), row.sequence + _CALL_DISTANCE + 1)
    beside = context.rows.at([(row.session, sequence) for sequence in near], namespace=row.namespace)
    messages = {one.sequence: one.message for one in beside}
    order = sorted(messages)
    told = dict(zip(order, calls_by_message([messages[sequence] for sequence in order]), strict=True))
    return told.get(row.sequence, ())


def _is_forgotten(context: WriteContext, row: HistoryRow, text: str) -> bool:
    if row.memory and context.tombstones.which(_partition(row.namespace), [row.memory]):
        return True
    at = [context.tombstones.words_at(row.namespace, words) for words in {row.message.text, text}]
    return any(one is not None and row.at <= one for one in at)


def _row_place(row: HistoryRow) -> _MessagePlace:
    return row.namespace, row.session, row.sequence


def _partition(namespace: str) -> str:
    return store_namespace(namespace, CONVERSATION)
