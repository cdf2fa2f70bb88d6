"""Commit of drafts to the conversation partition: new ones are added, known ones recognised, none overwritten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memory.codec import from_entry, to_entry
from memory.embedders.protocol import Truncation
from memory.errors import DuplicateKey
from memory.models import Memory, MemoryChange
from memory.partitions import CONVERSATION, store_namespace
from memory.results import Outcome, Report
from memory.tables.operation_log import least_trusted_actor
from memory.timestamps import to_aware
from memory.write.context import WriteContext
from memory.write.embedding_service import SPACE_SWITCHED
from vectorstore import Entry, RevisionConflict, Space, Vector

_MAX_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Draft:
    """A memory that is ready to be stored: checked, judged, named, with its vector or the reason for none."""

    memory: Memory
    outcome: Outcome = Outcome.STORED
    reason: str = ""
    vector: Vector | None = None
    no_vector: str | None = None
    deferred: str | None = None
    spans: int = 0
    of: str | None = None
    truncated: Truncation | None = None
    space: Space | None = None
    """That of the vector."""
    named: bool = False
    """Whether the caller chose the id; a forgotten one is then not brought back."""

    def entry(self, operation: str | None) -> Entry:
        """Return it as it is stored by *operation*."""
        return to_entry(self.memory, vector=self.vector, no_vector=self.no_vector, operation=operation)

    def report(self, operation: str | None = None) -> Report:
        """Return the line for it as stored, by *operation* or by the one that its memory names."""
        return Report(
            self.outcome,
            self.memory.id,
            self.reason,
            self.deferred,
            operation or self.memory.operation,
            of=self.of,
            spans=self.spans,
            kept=None if self.truncated is None else self.truncated.kept,
            total=None if self.truncated is None else self.truncated.of,
        )


def make_draft(context: WriteContext, memory: Memory, namespace: str) -> Draft:
    """Give *memory* its id and the time of its recording."""
    chosen = memory.id
    if not chosen and memory.key is not None:
        chosen = context.id_of_key(namespace, memory.key)
    recorded_at = memory.recorded_at or to_aware(context.clock(), context.zone)
    return Draft(replace(memory, id=chosen or context.ids(), recorded_at=recorded_at), named=bool(memory.id))


def known_reports(context: WriteContext, drafts: Sequence[Draft], namespace: str) -> dict[int, Report | DuplicateKey]:
    """Return, by place in *drafts*, what is not to be written: known already, or forgotten."""
    lane = store_namespace(namespace, CONVERSATION)
    asked = [place for place, one in enumerate(drafts) if one.named or one.memory.key is not None]
    if not asked:
        return {}
    settled: dict[int, Report | DuplicateKey] = {}
    there = {
        entry.id: from_entry(entry)
        for entry in context.store.get([drafts[place].memory.id for place in asked], namespace=lane)
        if entry is not None
    }
    named = [drafts[place].memory.id for place in asked if drafts[place].named]
    forgotten = context.tombstones.which(lane, named)
    for place in asked:
        memory = drafts[place].memory
        before = there.get(memory.id)
        if before is None and drafts[place].named and memory.id in forgotten:
            settled[place] = Report(Outcome.REJECTED, memory.id, "forgotten")
        elif before is None:
            there[memory.id] = memory
        elif (before.text, before.caption) == (memory.text, memory.caption):
            settled[place] = Report(Outcome.DUPLICATE, memory.id, "known already", of=memory.id)
        else:
            settled[place] = DuplicateKey(memory.key if memory.key is not None else memory.id, memory.id)
    return settled


def without_stale_vectors(context: WriteContext, drafts: Sequence[Draft]) -> list[Draft]:
    """Return *drafts* without vectors of a space that was left meanwhile; in the transaction that stores them."""
    space = context.embedding.follow()
    return [
        one if one.vector is None or one.space == space else replace(one, vector=None, deferred=SPACE_SWITCHED)
        for one in drafts
    ]


def log_drafts(context: WriteContext, kind: str, drafts: Sequence[Draft], namespace: str) -> list[Draft]:
    """Put one operation for new memories into the log; return them with its id."""
    operation = _log_operation(context, kind, drafts, namespace)
    return [replace(one, memory=replace(one.memory, operation=operation)) for one in drafts]


def _log_operation(context: WriteContext, kind: str, drafts: Sequence[Draft], namespace: str) -> str | None:
    """Put one operation for new memories into the log; return its id, None where there are none."""
    if not drafts:
        return None
    operation = context.operation_ids()
    actor = least_trusted_actor(one.memory.actor for one in drafts)
    context.log(namespace, operation, kind, actor, [MemoryChange(one.memory.id) for one in drafts])
    return operation


def store_drafts(context: WriteContext, drafts: Sequence[Draft], namespace: str) -> list[Report | DuplicateKey]:
    """Store *drafts* in one transaction; return what became of each, in order."""
    lane = store_namespace(namespace, CONVERSATION)
    for attempt in range(_MAX_ATTEMPTS):
        try:
            with context.transaction():
                settled = known_reports(context, drafts, namespace)
                fresh = without_stale_vectors(
                    context, [one for place, one in enumerate(drafts) if place not in settled]
                )
                operation = _log_operation(context, "remember", fresh, namespace)
                keyed = [one.memory.id for one in fresh if one.memory.key is not None and not one.named]
                if keyed:
                    context.tombstones.lift(lane, keyed)
                context.store.upsert(
                    [one.entry(operation) for one in fresh],
                    namespace=lane,
                    expect={one.memory.id: 0 for one in fresh},
                )
            reports = (one.report(operation) for one in fresh)
            return [settled.get(place) or next(reports) for place in range(len(drafts))]
        except RevisionConflict:  # without a transaction, another writer may have used the same key meanwhile
            if attempt == _MAX_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")
