"""Crash recovery: memories of messages that history holds and the store lacks are written afterwards.

A crash, or another program that writes history, leaves messages without their memories. They go through the same
pipeline, turn by turn, but are compared with what is stored by words alone: opening a memory calls no embedder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tellback.memory.errors import ArgumentError
from tellback.memory.history.protocol import HistoryRow
from tellback.memory.history.rows import HistoryRows
from tellback.memory.messages import ToolCallBlock, calls_by_message
from tellback.memory.models import Memory
from tellback.memory.partitions import CONVERSATION, store_namespace
from tellback.memory.runtime import run_sync
from tellback.memory.validation import checked_memory
from tellback.memory.write.draft import Draft, drafts_by_turn
from tellback.memory.write.memory_writer import memory_from_message
from tellback.memory.write.pipeline import MAX_ATTEMPTS, WritePipeline
from tellback.vectorstore import RevisionConflict

_BATCH_SIZE: Final = 256
_CALL_DISTANCE: Final = 16
"""The calls that a message tells of are looked for among so many messages before and after it."""
_MessagePlace: TypeAlias = tuple[str, str, int]
"""Namespace, session and sequence of a message."""


@dataclass(frozen=True, slots=True)
class CrashRecovery:
    """Completes memory by history; naive times of other programs are taken in the zone of the *pipeline*."""

    pipeline: WritePipeline

    def recover(self) -> int:
        """Remember what history holds and memory lacks, without vectors; return how many messages became memories.

        What was forgotten stays so. Runs in batches, each one transaction; stopping between them loses nothing.
        """
        added = conflicts = 0
        history = self.pipeline.entries.rows
        while rows := history.unsettled(_BATCH_SIZE):  # usually none: no write lock is taken, a file may be read-only
            rows = _without_partial_turn(rows)
            stored = self._stored_places(rows)
            decided = [  # asks models, so holds no lock
                draft
                for namespace, drafts in self._drafts(rows, stored).items()
                for draft in run_sync(self._decide(drafts, namespace))
            ]
            try:
                with self.pipeline.entries.settling(None) as settled:
                    reserved, count = self._write(rows, stored, decided)
                    settled += reserved
                added += count
                conflicts = 0
            except RevisionConflict:  # a store without transactions, which somebody else completes: looked at again
                conflicts += 1
                if conflicts == MAX_ATTEMPTS:
                    raise
        return added

    async def _decide(self, drafts: Sequence[Draft], namespace: str) -> list[Draft]:
        """Return *drafts* as the policies leave them: each turn beside what is stored, where a policy looks at that."""
        lookup = self.pipeline.lookup(namespace, embeds=False)
        if lookup is None:
            return await self.pipeline.run_policies(drafts, namespace)
        return await self.pipeline.decide_in_order(drafts, namespace, lookup)

    def _drafts(self, rows: Sequence[HistoryRow], stored: set[_MessagePlace]) -> dict[str, list[Draft]]:
        """Return drafts of messages by namespace; without what cannot be a memory, was forgotten, or is *stored*.

        The origin of a draft is the place of its message in *rows*.
        """
        origins = {_row_place(row): origin for origin, row in enumerate(rows)}
        found: dict[str, list[Draft]] = {}
        for turn, messages in enumerate(_split_turns([row for row in rows if _row_place(row) not in stored])):
            for row in messages:
                memory = self._row_memory(row)
                if memory is not None:
                    draft = Draft.new(memory, origin=origins[_row_place(row)], turn=turn, message=row.message)
                    found.setdefault(row.namespace, []).append(draft)
        return found

    def _write(
        self, rows: Sequence[HistoryRow], stored: set[_MessagePlace], drafts: Sequence[Draft]
    ) -> tuple[list[HistoryRow], int]:
        """Write *drafts* of those of *rows* that still wait.

        Return these rows as they are to be settled, and how many became memories.
        """
        history = self.pipeline.entries.rows
        waiting = {_row_place(row) for row in history.unsettled(_BATCH_SIZE)}
        memories = {draft.origin: draft.memory for draft in drafts if draft.settled is None}
        kept: set[int] = set()
        reserved: list[HistoryRow] = []
        for origin, row in enumerate(rows):
            if _row_place(row) not in waiting:
                continue
            memory, id = memories.get(origin), ""
            if not self._is_forgotten(row, "" if memory is None else memory.text):
                kept.add(origin)
                id = (row.memory or "") if _row_place(row) in stored else "" if memory is None else memory.id
            reserved.append(replace(row, memory=id))
        history.reserve(reserved)
        for turn in drafts_by_turn(drafts):
            remaining = [
                replace(draft, facts=tuple(fact for fact in draft.facts if kept.issuperset(fact.origins)))
                for draft in turn
                if draft.origin in kept
            ]
            self.pipeline.write(remaining, rows[turn[0].origin].namespace)
        return reserved, len(kept & memories.keys())

    def _row_memory(self, row: HistoryRow) -> Memory | None:
        calls = message_calls(self.pipeline.entries.rows, row)
        memory = memory_from_message(row.message, row.session, row.at, sequence=row.sequence, calls=calls)
        if isinstance(memory, str) or self._is_forgotten(row, memory.text):
            return None  # a policy may be a model, which need not see it again
        try:
            return checked_memory(replace(memory, id=row.memory or ""), zone=self.pipeline.zone)
        except ArgumentError:  # another program stored what cannot be one (a name of 5,000 letters); history has it
            return None

    def _stored_places(self, rows: Sequence[HistoryRow]) -> set[_MessagePlace]:
        """Return the places of *rows* whose memory was written before the process ended: only the note is missing."""
        found: set[_MessagePlace] = set()
        for namespace in dict.fromkeys(row.namespace for row in rows):
            reserved = {row.memory for row in rows if row.namespace == namespace and row.memory}
            entries = (
                self.pipeline.entries.store.get(sorted(reserved), namespace=_partition(namespace)) if reserved else []
            )
            stored = {entry.id for entry in entries if entry is not None}
            found.update(_row_place(row) for row in rows if row.namespace == namespace and row.memory in stored)
        return found

    def _is_forgotten(self, row: HistoryRow, text: str) -> bool:
        if row.memory and self.pipeline.tombstones.which(_partition(row.namespace), [row.memory]):
            return True
        times = [self.pipeline.tombstones.words_at(row.namespace, words) for words in {row.message.text, text}]
        return any(time is not None and row.at <= time for time in times)


def message_calls(history: HistoryRows, row: HistoryRow) -> tuple[ToolCallBlock, ...]:
    """Return the calls that the message of *row* tells of, among the messages around it."""
    if not (row.message.tool_calls or row.message.tool_results):
        return ()
    sequences = range(max(row.sequence - _CALL_DISTANCE, 0), row.sequence + _CALL_DISTANCE + 1)
    around = history.at([(row.session, sequence) for sequence in sequences], namespace=row.namespace)
    ordered = sorted(around, key=lambda other: other.sequence)
    calls = calls_by_message([other.message for other in ordered])
    return next((calls[place] for place, other in enumerate(ordered) if other.sequence == row.sequence), ())


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


def _row_place(row: HistoryRow) -> _MessagePlace:
    return row.namespace, row.session, row.sequence


def _partition(namespace: str) -> str:
    return store_namespace(namespace, CONVERSATION)
