"""Corrections of memories: new text, an end of validity, and a merge.

A correction moves the old version to the archive and keeps the id. An end keeps text and vector, and says from when on
the memory does not hold. A merge makes several memories one, under the id of the first; the others go to the archive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from tellback.memory.codec import entry_embedding_text, from_entry, to_metadata
from tellback.memory.errors import ArgumentError, RejectedText
from tellback.memory.models import ORIGIN, Memory, MemoryChange, Trust
from tellback.memory.partitions import ARCHIVE, CONVERSATION, archived_id, store_namespace
from tellback.memory.results import KNOWN, Outcome, Report
from tellback.memory.validation import (
    checked_about,
    checked_bool,
    checked_int,
    checked_label,
    checked_labels,
    checked_memory,
)
from tellback.memory.write.access_control import Caller
from tellback.memory.write.draft import Draft, drafts_to_store, with_operation
from tellback.memory.write.embedding_service import EmbeddedText
from tellback.memory.write.pipeline import MAX_ATTEMPTS, WritePipeline
from tellback.memory.write.policies.base import NEAR_DUPLICATE_KEY
from tellback.memory.write.policy_runner import PolicyRules
from tellback.memory.write.provenance import (
    counts_since,
    ended_version,
    only_derived_from,
    replacement_change,
    retired_entry,
)
from tellback.memory.write.similar_memories import SimilarMemoryLookup
from tellback.vectorstore import Entry, RevisionConflict


@dataclass(frozen=True, slots=True)
class Corrections:
    """Replaces memories by what is right."""

    pipeline: WritePipeline

    async def correct(
        self,
        id: str,
        text: str,
        caller: Caller,
        *,
        valid_from: datetime | None,
        valid_to: datetime | None,
        expect: int | None,
        sensitive: bool,
        origin: str,
        about: str | None,
    ) -> Report:
        """Put *text* in the place of the memory's; validity and origin stay unless given."""
        self.pipeline.entries.lifecycle("correct")
        checked_label(id, "id")
        checked_bool(sensitive, "sensitive")
        if expect is not None:
            checked_int(expect, "expect", 1)
        given_line = None if about is None else checked_about(about, "about")
        told_by = {ORIGIN: checked_label(origin, "origin")} if origin else {}

        def corrected(memories: Sequence[Memory]) -> Memory:
            (old,) = memories
            return replace(
                old,
                text=text,
                trust=caller.trust_after_change(old),
                metadata={**old.metadata, **told_by},
                valid_from=valid_from or old.valid_from,
                valid_to=valid_to or old.valid_to,
                counts_from=None,
                sensitive=old.sensitive or sensitive,
                repeated=() if text != old.text else old.repeated,
                **_line_fields(old, text, given_line),
                utterance=None if text != old.text else old.utterance,
                utterance_reason="" if text != old.text else old.utterance_reason,
            )

        return await self._put("correct", [id], corrected, caller, argument="correction", expect=expect)

    async def merge(self, ids: Sequence[str], text: str, caller: Caller, *, sensitive: bool) -> Report:
        """Put *text* in the place of the first memory's and archive the others."""
        self.pipeline.entries.lifecycle("merge")
        checked_ids = checked_labels(ids, "ids")
        checked_bool(sensitive, "sensitive")
        if len(checked_ids) < 2 or len(set(checked_ids)) < len(checked_ids):
            raise ArgumentError("ids", list(checked_ids), "two or more different memories are needed")

        def merged(memories: Sequence[Memory]) -> Memory:
            memory = merged_memory(memories, text)
            trust = Trust.least([memory.trust, caller.trust])
            line = _line_fields(memories[0], text, None)
            return replace(memory, trust=trust, sensitive=memory.sensitive or sensitive, **line)

        return await self._put("merge", checked_ids, merged, caller, argument="merged")

    async def _put(
        self,
        kind: Literal["correct", "merge"],
        ids: Sequence[str],
        replacement: Callable[[Sequence[Memory]], Memory],
        caller: Caller,
        *,
        argument: str,
        expect: int | None = None,
    ) -> Report:
        """Put the *replacement* of the memories *ids* in the place of the first; the others go to the archive.

        What was made of memories that are merged is not wrong by that, so facts change with a correction alone.
        """
        entries = self.pipeline.entries
        with self.pipeline.embedding.in_flight.write():
            for attempt in range(MAX_ATTEMPTS):
                before = await asyncio.to_thread(lambda: [entries.live(id, caller.namespace) for id in ids])
                if expect is not None and before[0].revision != expect:
                    raise RevisionConflict(ids[0], caller.namespace, expect, before[0].revision)
                memories = [from_entry(entry) for entry in before]
                caller.check_may_change(memories, kind)
                old, corrected = memories[0], replacement(memories)
                lookup = self.pipeline.lookup(caller.namespace, hidden=set(ids))
                rules = replace(self.pipeline.rules, making=kind == "correct" and corrected.text != old.text)
                draft = await self._draft(before[0], corrected, caller, lookup, rules, argument=argument)
                if kind == "correct" and _comparable_fields(draft.memory) == _comparable_fields(old):
                    if lookup is not None:
                        await lookup.forget_unused([entry_embedding_text(before[0])])
                    return Report(Outcome.DUPLICATE, ids[0], "nothing differs", of=ids[0])
                new_words = kind == "correct" and draft.memory.text != old.text
                (draft,) = await self.pipeline.embed([draft if new_words else replace(draft, facts=())], lookup)
                try:
                    return await asyncio.to_thread(self._replace, kind, before, draft, caller, retires_facts=new_words)
                except RevisionConflict:  # changed by someone else meanwhile: that version is to be archived, too
                    texts = [stored.text for stored in drafts_to_store([draft])]
                    await asyncio.to_thread(self.pipeline.embedding.forget, texts)  # or it was forgotten
                    if attempt == MAX_ATTEMPTS - 1:
                        raise
        raise AssertionError("unreachable")

    def end(self, id: str, valid_to: datetime | None, caller: Caller) -> Report:
        """Let a memory hold until *valid_to*, or (None) without an end. In a thread.

        The version before counts for no time at all.
        """
        store = self.pipeline.entries.lifecycle("end")
        checked_label(id, "id")
        with store.transaction(lock=caller.namespace):
            before = self.pipeline.entries.live(id, caller.namespace)
            old = from_entry(before)
            caller.check_may_change([old], "end")
            ended = replace(old, valid_to=valid_to, counts_from=None)
            ended = checked_memory(ended, zone=self.pipeline.zone, argument="ended")
            if ended.valid_to == old.valid_to:
                return Report(Outcome.DUPLICATE, id, "nothing differs")
            now, operation = self.pipeline.clock(), self.pipeline.log.new_id()
            memory = ended_version(before, ended.valid_to, at=now, operation=operation, actor=caller.actor)
            space = self.pipeline.entries.follow_space()
            draft = replace(Draft.new(memory), embedded=EmbeddedText(before.vector, before.no_vector, space=space))
            self._replace("end", [before], draft, caller)
        return draft.report()

    async def _draft(  # a correction and a merge differ in all of these
        self,
        before: Entry,
        corrected: Memory,
        caller: Caller,
        lookup: SimilarMemoryLookup | None,
        rules: PolicyRules,
        *,
        argument: str,
    ) -> Draft:
        """Check and judge what is to replace *before*; a policy that rejects it raises ``RejectedText``."""
        # near the old words it was, so that mark goes
        metadata = {name: value for name, value in corrected.metadata.items() if name != NEAR_DUPLICATE_KEY}
        now = self.pipeline.clock()
        corrected = replace(corrected, actor=caller.actor, metadata=metadata, id=before.id, recorded_at=now)
        draft = Draft.new(checked_memory(corrected, zone=self.pipeline.zone, argument=argument))
        draft = replace(draft, in_place=True)
        (judged,) = await self.pipeline.run_policies([draft], caller.namespace, lookup, rules)
        if judged.settled is not None:
            if lookup is not None:
                await lookup.forget_unused([entry_embedding_text(before)])
            raise RejectedText(judged.settled.reason)
        supersedes, operation = archived_id(before.id, before.revision), self.pipeline.log.new_id()
        memory = replace(
            judged.memory, recorded_at=now, supersedes=supersedes, operation=operation, replaces=corrected.replaces
        )
        return replace(judged, memory=memory)

    def _replace(
        self, kind: str, before: Sequence[Entry], draft: Draft, caller: Caller, *, retires_facts: bool = False
    ) -> Report:
        """Archive *before* and put *draft* in the place of its first, in one transaction; the others are deleted.

        With *retires_facts*, the facts of the draft replace what was derived from the first alone: that is archived,
        but for what was found again, and what is trusted more than the caller.
        """
        store, namespace = self.pipeline.entries.lifecycle(kind), caller.namespace
        partition, archive = store_namespace(namespace, CONVERSATION), store_namespace(namespace, ARCHIVE)
        first, *others = before
        recorded_at, begins = draft.memory.recorded_at or self.pipeline.clock(), counts_since(draft.memory)
        operation = draft.memory.operation
        with store.transaction(lock=caller.namespace):
            stale: list[Entry] = []
            if retires_facts:
                stale, draft = self._retire_facts(first.id, draft, caller)
            (draft,) = self.pipeline.without_stale_vectors(with_operation([draft], operation))
            written = [stored.entry() for stored in drafts_to_store([draft])]
            change = replacement_change(first, to_metadata(draft.memory))
            changes = [
                change,
                *(MemoryChange(entry.id, entry.revision, gone=True) for entry in (*others, *stale)),
                *(MemoryChange(entry.id) for entry in written[1:]),
            ]
            replaced = self._unchanged(before, partition)
            expect = {**{entry.id: 0 for entry in written}, first.id: first.revision}
            store.upsert(written, namespace=partition, expect=expect)
            retired = [retired_entry(entry, recorded_at, counts_to=begins) for entry in (*replaced, *stale)]
            store.upsert(retired, namespace=archive)
            if others or stale:
                store.delete([entry.id for entry in (*others, *stale)], namespace=partition)
            self.pipeline.entries.hide_versions(first.id, change.new, namespace)
            self.pipeline.log.record(namespace, kind, draft.memory.actor, changes, id=operation)
        return replace(draft.report(), retired=tuple(entry.id for entry in stale))

    def _unchanged(self, seen: Sequence[Entry], partition: str) -> list[Entry]:
        """Return entries that were *seen* as they are now: embedded anew perhaps; another revision raises."""
        stored = self.pipeline.entries.store.get([entry.id for entry in seen], namespace=partition)
        current = {entry.id: entry for entry in stored if entry is not None}
        for entry in seen:
            revision = current[entry.id].revision if entry.id in current else 0
            if revision != entry.revision:
                raise RevisionConflict(entry.id, partition, entry.revision, revision)
        return [current[entry.id] for entry in seen]

    def _retire_facts(self, id: str, draft: Draft, caller: Caller) -> tuple[list[Entry], Draft]:
        """Return what was derived from the old words of *id* alone, and *draft* with the facts that are new."""
        store = self.pipeline.entries.store
        derived = {entry.id: from_entry(entry) for entry in only_derived_from(store, id, caller.namespace)}
        spared = {other for other, memory in derived.items() if not caller.may_change(memory)}
        facts = []
        for fact in draft.facts:
            statement = None if fact.settled is not None else _statement(fact.memory)
            same = next((memory.id for memory in derived.values() if _statement(memory) == statement), None)
            if same is not None:
                spared.add(same)
                fact = fact.settle(Report(Outcome.DUPLICATE, same, KNOWN, of=same))
            facts.append(fact)
        stale = only_derived_from(store, id, caller.namespace, spared) if derived else []
        return stale, replace(draft, facts=tuple(facts))


def _line_fields(old: Memory, text: str, given: str | None) -> dict[str, Any]:
    """Return the line that says what *old* is about once it has *text*, with its author.

    Unless one is *given*, that of a model goes with the words that it was made from; a caller's stays.
    """
    if given is not None:
        return {"about": given, "about_by": "caller"}
    stays = old.about_by == "caller" or text == old.text
    return {"about": old.about, "about_by": old.about_by} if stays else {"about": "", "about_by": ""}


def _statement(memory: Memory) -> tuple[object, ...]:
    return (memory.text.strip(), memory.kind, memory.speaker, memory.derived_from)


def _comparable_fields(memory: Memory) -> tuple[object, ...]:
    metadata = {name: value for name, value in memory.metadata.items() if name != NEAR_DUPLICATE_KEY}
    line = (memory.about, memory.about_by)
    return (memory.text, memory.kind, memory.tags, memory.valid_from, memory.valid_to, memory.sensitive, metadata, line)


def merged_memory(memories: Sequence[Memory], text: str) -> Memory:
    """Return what *memories* are as one: place, speaker and time of the first, and of the rest what is safe.

    Tags of all; pinned or sensitive if one is; the greatest importance, the earliest expiry, the least trust; valid
    from the first beginning to the last end. Disabled ones and different scopes raise: their words would be shown
    to somebody who was not to see them.
    """
    first, *others = memories
    for memory in memories:
        if memory.disabled:
            raise ArgumentError("ids", memory.id, "is disabled; enable it before it is merged")
        if dict(memory.scopes) != dict(first.scopes):
            raise ArgumentError("ids", memory.id, f"has other scopes than {first.id}; only equal ones are merged")
    starts = [memory.valid_from for memory in memories if memory.valid_from is not None]
    ends = [memory.valid_to for memory in memories if memory.valid_to is not None]
    parents = [archived_id(first.id, first.revision), *(memory.id for memory in others)]
    return replace(
        first,
        text=text,
        tags=tuple(dict.fromkeys(tag for memory in memories for tag in memory.tags)),
        pinned=any(memory.pinned for memory in memories),
        sensitive=any(memory.sensitive for memory in memories),
        importance=max((memory.importance for memory in memories if memory.importance is not None), default=None),
        trust=Trust.least(memory.trust for memory in memories),
        valid_from=min(starts) if len(starts) == len(memories) else None,
        valid_to=max(ends) if len(ends) == len(memories) else None,
        expires_at=min((memory.expires_at for memory in memories if memory.expires_at is not None), default=None),
        counts_from=None,
        derived_from=tuple(dict.fromkeys((*first.derived_from, *parents))),
        replaces=tuple(dict.fromkeys(id for memory in memories for id in memory.replaces)),
    )
