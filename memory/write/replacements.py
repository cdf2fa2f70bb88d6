"""Replacements: a new memory ends those that it names in ``replaces``, in the transaction and operation that write it.

What is replaced was true in its time: it holds until the new memory's time and keeps its text, vector and id. What a
policy names is ended only where the author of the new memory may; what the caller names is refused where not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from tellback.memory.codec import from_entry, to_entry
from tellback.memory.entry_store import EntryStore
from tellback.memory.errors import ArgumentError, MemoryLayerError, NoSuchMemory, NotTrusted
from tellback.memory.models import Memory, MemoryChange, statement_time
from tellback.memory.partitions import ARCHIVE, CONVERSATION, store_namespace
from tellback.memory.results import Outcome, Report
from tellback.memory.write.access_control import Caller
from tellback.memory.write.draft import Draft, change_unsettled, drafts_to_store
from tellback.memory.write.provenance import counts_since, ended_version, only_derived_from, retired_entry
from tellback.vectorstore import Entry


def replacement_error(memory: Memory, caller: Caller, valid_to: datetime) -> MemoryLayerError | None:
    """Return why *caller* may not replace *memory* by what begins at *valid_to*; None where it may."""
    if not caller.may_change(memory):
        return NotTrusted(memory.id, "replace", caller.actor, memory.trust)
    begins = memory.valid_from or memory.occurred_at
    if begins is not None and begins > valid_to:
        expected = f"{memory.id} is of a later time ({begins}) than what is to replace it; give that its own time"
        return ArgumentError("replaces", valid_to, expected)
    return None


@dataclass(slots=True)
class Replacements:
    """Replacements by a batch of drafts in a *namespace*; checked against what is stored, written with the batch.

    *operation* is the id of the operation that writes the batch, at *now*.
    """

    entries: EntryStore
    namespace: str
    now: datetime
    operation: str = ""
    _stored: dict[str, Entry] = field(default_factory=dict)
    _replacing: dict[str, Draft] = field(default_factory=dict)
    """The draft that replaces each memory, by its id."""

    def checked(self, drafts: Sequence[Draft]) -> list[Draft]:
        """Return *drafts*; one whose caller names what it may not replace is settled, a policy's name is dropped.

        A memory of the same batch may be replaced by a later one.
        """
        named = {id for draft in drafts_to_store(drafts) for id in draft.memory.replaces}
        if not named:
            return list(drafts)
        stored = self.entries.store.get(sorted(named), namespace=store_namespace(self.namespace, CONVERSATION))
        self._stored = {entry.id: entry for entry in stored if entry is not None}
        known = {id: from_entry(entry) for id, entry in self._stored.items()}
        checked = []
        for draft in drafts:
            item = self._checked(draft, known, draft.given.replaces) if draft.settled is None else draft
            facts = tuple(self._checked(fact, known, ()) if fact.settled is None else fact for fact in item.facts)
            item = replace(item, facts=facts) if facts else item
            known.update({new.memory.id: new.memory for new in drafts_to_store([item]) if new.memory.id})
            checked.append(item)
        return change_unsettled(checked, self._ended_in_batch)

    def _checked(self, draft: Draft, known: Mapping[str, Memory], required: Sequence[str]) -> Draft:
        memory = draft.memory
        if not memory.replaces:
            return draft
        caller, begins = self._caller(draft), self._begins(memory)
        kept, reasons = [], list(draft.reasons)
        for id in dict.fromkeys(memory.replaces):
            old = known.get(id)
            error = self._unknown(id) if old is None else replacement_error(old, caller, begins)
            if error is None:
                kept.append(id)
            elif id in required:
                return draft.settle(Report(Outcome.REJECTED, "", str(error)), error)
            else:
                reasons.append(f"does not replace {id}: {error}")
        if kept and memory.valid_from is None:
            memory = replace(memory, counts_from=begins)
        draft = replace(draft, memory=replace(memory, replaces=tuple(kept)), reasons=tuple(reasons))
        for id in kept:
            self._replacing.setdefault(id, draft)
        return draft

    def _caller(self, draft: Draft) -> Caller:
        return Caller(self.namespace, draft.memory.actor, draft.approved_by)

    def _begins(self, memory: Memory) -> datetime:
        return statement_time(memory) or self.now

    def _unknown(self, id: str) -> MemoryLayerError:
        if id in self.entries.find([id], self.namespace):
            return ArgumentError("replaces", id, "a passage of a document is changed in the document; ingest it again")
        return NoSuchMemory(id)

    def _ended_in_batch(self, draft: Draft) -> Draft:
        """Return *draft* with an end where a later one of its batch replaces it."""
        later = self._replacing.get(draft.memory.id)
        if later is None or draft.memory.id in self._stored:
            return draft
        end = self._begins(later.memory)
        return replace(draft, memory=replace(draft.memory, valid_to=end)) if shortens(end, draft.memory) else draft

    def write(self) -> list[MemoryChange]:
        """End what is stored and replaced, with what was derived from it alone; return the changes for the log."""
        changes: dict[str, MemoryChange] = {}
        for id, draft in self._replacing.items():
            if id not in self._stored:
                continue
            caller, valid_to = self._caller(draft), self._begins(draft.memory)
            derived = only_derived_from(self.entries.store, id, self.namespace, spared=self._replacing.keys())
            for entry in (self._stored[id], *derived):
                memory = from_entry(entry)
                if entry.id in changes or not shortens(valid_to, memory):
                    continue
                if entry.id == id or replacement_error(memory, caller, valid_to) is None:
                    changes[entry.id] = end_entry(
                        self.entries, entry, valid_to, caller, at=self.now, operation=self.operation
                    )
        return list(changes.values())


def end_entry(
    entries: EntryStore, before: Entry, valid_to: datetime, caller: Caller, *, at: datetime, operation: str
) -> MemoryChange:
    """End a live memory, in a transaction of the caller's; the version without that end counts for no time."""
    ended = ended_version(before, valid_to, at=at, operation=operation, actor=caller.actor)
    entry = to_entry(ended, vector=before.vector, no_vector=before.no_vector)
    partition, archive = (store_namespace(caller.namespace, name) for name in (CONVERSATION, ARCHIVE))
    entries.store.upsert([entry], namespace=partition, expect={before.id: before.revision})
    entries.store.upsert([retired_entry(before, at, counts_to=counts_since(ended))], namespace=archive)
    return MemoryChange(before.id, before.revision)


def shortens(end: datetime, memory: Memory) -> bool:
    """Return whether *memory* holds beyond *end*."""
    return memory.valid_to is None or memory.valid_to > end
