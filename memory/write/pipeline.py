"""Write pipeline: validate, authorize, run the policies, embed, commit, report.

Added items, turns, corrections, imports and recovered messages go through these steps. Each takes a list of drafts and
returns one of the same length and order; a draft that is settled passes through the later steps as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from types import MappingProxyType
from typing import Final

from tellback.memory.analysis.texts import analyze_texts, is_judged, with_utterance
from tellback.memory.codec import from_entry
from tellback.memory.entry_store import EntryStore
from tellback.memory.errors import DuplicateKey
from tellback.memory.models import Actor, Memory, MemoryChange
from tellback.memory.partitions import CONVERSATION, store_namespace
from tellback.memory.results import KNOWN, Outcome, Report
from tellback.memory.tables.idempotency_keys import IdempotencyKeys
from tellback.memory.tables.operation_log import OperationLog, least_trusted_actor
from tellback.memory.tables.tombstones import Tombstones
from tellback.memory.timestamps import Clock
from tellback.memory.validation import checked_actor, checked_memory
from tellback.memory.write.access_control import SENSITIVE_REASON, may_embed
from tellback.memory.write.attributes import Attributes
from tellback.memory.write.draft import Draft, change_unsettled, drafts_by_turn, drafts_to_store, with_operation
from tellback.memory.write.embedding_service import NOT_SENT, SPACE_SWITCHED, EmbeddingService
from tellback.memory.write.policy_runner import PolicyRules, apply_policies, apply_policies_apart
from tellback.memory.write.provenance import authorized_draft, referenced_ids
from tellback.memory.write.repetition import EchoGuard, RepetitionFolder, may_be_echo
from tellback.memory.write.replacements import Replacements
from tellback.memory.write.similar_memories import SimilarMemoryLookup
from tellback.vectorstore import RevisionConflict

MAX_ATTEMPTS: Final = 5
"""Attempts of a write that others come between."""
_NOTHING: Final[Mapping[str, Memory]] = MappingProxyType({})
_NOT_SENT: Final = replace(NOT_SENT, deferred=SENSITIVE_REASON)


@dataclass(frozen=True, slots=True)
class WritePipeline:
    """The steps of the write path, for any namespace. Steps that read or write the store block, or run it in a thread.

    *clock* gives aware times; naive ones of callers are taken in *zone*.
    """

    entries: EntryStore
    log: OperationLog
    keys: IdempotencyKeys
    tombstones: Tombstones
    embedding: EmbeddingService
    rules: PolicyRules
    clock: Clock
    ids: Callable[[], str]
    zone: tzinfo | None

    def lookup(
        self, namespace: str, *, hidden: Container[str] = frozenset(), embeds: bool = True
    ) -> SimilarMemoryLookup | None:
        """Return what the policies see of the stored memories, for one batch; None where none of them looks."""
        if not self.rules.looking:
            return None
        return SimilarMemoryLookup(
            namespace, self.entries.store, self.embedding, self.clock, hidden=hidden, embeds=embeds
        )

    def validate(self, items: Mapping[str, object], approved_by: Actor | None = None) -> list[Draft]:
        """Return a draft of each item (a text or a Memory) that came alone; a bad one raises under its name.

        *approved_by* is the actor that approved what they replace.
        """
        if approved_by is not None:
            checked_actor(approved_by, "approved_by")
        checked = (checked_memory(item, zone=self.zone, argument=name) for name, item in items.items())
        return [
            replace(Draft.new(memory, origin=place), in_place=bool(memory.replaces), approved_by=approved_by)
            for place, memory in enumerate(checked)
        ]

    def refuse_replacing(self, drafts: Sequence[Draft], namespace: str) -> list[Draft]:
        """Return *drafts*; those that are known, or may not replace what they name, are settled. In a thread."""
        known = self.settle_known(self._identified(drafts, namespace), namespace)
        checked = Replacements(self.entries, namespace, self.clock()).checked(known)
        return [new if new.settled is not None else old for old, new in zip(drafts, checked, strict=True)]

    async def authorize(
        self, drafts: Sequence[Draft], namespace: str, beside: Mapping[str, Memory] = _NOTHING
    ) -> list[Draft]:
        """Return *drafts* with the trust that each has; one that may not supersede what it names is settled.

        *beside* are memories that are about to be written.
        """
        named = {id for draft in drafts if draft.settled is None for id in referenced_ids(draft.memory)}
        found = await asyncio.to_thread(self.entries.find, sorted(named), namespace) if named else {}
        known = {**beside, **{id: from_entry(entry) for id, (_, entry) in found.items()}}
        return [draft if draft.settled is not None else authorized_draft(draft, known) for draft in drafts]

    async def run_policies(
        self,
        drafts: Sequence[Draft],
        namespace: str,
        lookup: SimilarMemoryLookup | None = None,
        rules: PolicyRules | None = None,
    ) -> list[Draft]:
        """Return *drafts* as the policies leave them, with their facts; what is to be stored has its id and time.

        Items of one turn are judged together, and without *lookup* none beside another turn's; with it, all of
        *drafts* are one turn.
        """
        rules = self.rules if rules is None else rules
        if lookup is None:
            judged = await apply_policies_apart(drafts, rules)
        else:
            judged = await apply_policies(drafts, rules, lookup)
        if any(draft.memory.key is not None for draft in drafts_to_store(judged)):  # which id a key has is looked up
            return await asyncio.to_thread(self._identified, judged, namespace)
        return self._identified(judged, namespace)

    async def decide_in_order(
        self, drafts: Sequence[Draft], namespace: str, lookup: SimilarMemoryLookup | None
    ) -> list[Draft]:
        """Authorize and judge turn after turn, each beside what is stored and what comes before it in *drafts*."""
        if lookup is not None:
            await lookup.prepare([draft.memory for draft in drafts if draft.settled is None])
        decided: list[Draft] = []
        added: dict[str, Memory] = {}
        names: set[str] = set()
        for turn in drafts_by_turn(drafts):
            authorized = await self.authorize(turn, namespace, added)
            for draft in await self.run_policies(authorized, namespace, lookup):
                decided.append(draft)
                name = draft.memory.id
                if draft.memory.key is not None:
                    name = await asyncio.to_thread(self._id_of_key, draft.memory, namespace)
                is_repeated = name in names or draft.memory.id in added
                if draft.settled is None and (is_repeated or await self._is_known(draft, namespace)):
                    continue  # it will not be written, nor what was made of it
                names.update({name} if draft.settled is None else ())
                memories = [stored.memory for stored in drafts_to_store([draft])]
                added.update((memory.id, memory) for memory in memories)
                if lookup is not None:
                    await lookup.warm(memories)  # those that a policy made of it
                    for memory in memories:
                        lookup.add(memory)
        return decided

    async def mark_echoes(self, drafts: Sequence[Draft], namespace: str, used: Sequence[str] = ()) -> list[Draft]:
        """Return *drafts*; an answer of a model that only repeats the memories *used*, or a note, is marked as such."""
        if not any(may_be_echo(draft) for draft in drafts):
            return list(drafts)
        return await asyncio.to_thread(EchoGuard(self.entries).mark, drafts, namespace, used)

    async def embed(self, drafts: Sequence[Draft], lookup: SimilarMemoryLookup | None = None) -> list[Draft]:
        """Return *drafts* with their vectors, or with the reason why there are none.

        What is sensitive is not given to a remote embedder. What *lookup* embedded is not embedded again, and what it
        embedded and is not to be stored is taken out of the embedder's cache.
        """
        embedder = self.embedding.embedder
        results = {} if lookup is None else dict(lookup.ready)
        waiting = list(drafts_to_store(drafts))
        texts = dict.fromkeys(draft.text for draft in waiting if may_embed(draft.memory, embedder))
        if missing := [text for text in texts if text not in results]:
            results |= dict(zip(missing, await self.embedding.vectors(missing), strict=True))
        if lookup is not None:
            await lookup.forget_unused(draft.text for draft in waiting)
        return change_unsettled(
            drafts,
            lambda draft: replace(
                draft, embedded=results[draft.text] if may_embed(draft.memory, embedder) else _NOT_SENT
            ),
        )

    def commit(self, drafts: Sequence[Draft], namespace: str) -> list[Draft]:
        """Store *drafts* in one transaction; what is there already, or was forgotten, is settled. In a thread."""
        if not any(drafts_to_store(drafts)):
            return list(drafts)
        attributes = Attributes(self.entries, self.log, self.embedding)
        for attempt in range(MAX_ATTEMPTS):
            try:
                with self.entries.transaction(namespace):
                    unknown = self.settle_known(drafts, namespace)
                    unknown = RepetitionFolder(attributes, self.keys, self.clock).fold(unknown, namespace)
                    keyed = [
                        draft.memory.id
                        for draft in drafts_to_store(unknown)
                        if draft.memory.key is not None and not draft.named
                    ]
                    if keyed:
                        self.tombstones.lift(store_namespace(namespace, CONVERSATION), keyed)
                    return self.write(unknown, namespace)
            except RevisionConflict:  # without a transaction, another writer may have used the same key meanwhile
                if attempt == MAX_ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def write(self, drafts: Sequence[Draft], namespace: str) -> list[Draft]:
        """Write new memories, end what they replace, and record one operation; in a transaction of the caller's."""
        operation, now = self.log.new_id(), self.clock()
        replacements = Replacements(self.entries, namespace, now, operation)
        fresh = replacements.checked(self.without_stale_vectors(drafts))
        memories = [draft.memory for draft in drafts_to_store(fresh)]
        if not memories:
            return fresh
        actor = least_trusted_actor(memory.actor for memory in memories)
        changes = [*(MemoryChange(memory.id) for memory in memories), *replacements.write()]
        self.log.record(namespace, "remember", actor, changes, id=operation)
        for draft in drafts_to_store(fresh):
            if draft.named and draft.memory.key is not None:
                self.keys.name_key(namespace, draft.memory.key, draft.memory.id)
        written = with_operation(fresh, operation)
        self.entries.add(
            [draft.entry() for draft in drafts_to_store(written)],
            store_namespace(namespace, CONVERSATION),
            expect={memory.id: 0 for memory in memories},
        )
        return written

    def without_stale_vectors(self, drafts: Sequence[Draft]) -> list[Draft]:
        """Return *drafts* without vectors of a space that was left meanwhile; in the transaction that stores them."""
        space = self.entries.follow_space()
        return change_unsettled(
            drafts,
            lambda draft: (
                draft
                if draft.embedded.vector is None or draft.embedded.space == space
                else replace(draft, embedded=replace(draft.embedded, vector=None, deferred=SPACE_SWITCHED))
            ),
        )

    def settle_known(self, drafts: Sequence[Draft], namespace: str) -> list[Draft]:
        """Return *drafts*; what the caller named and is there already, or was forgotten, is settled. In a thread."""
        partition = store_namespace(namespace, CONVERSATION)
        identified = [draft for draft in drafts_to_store(drafts) if _is_identified(draft)]
        if not identified:
            return list(drafts)
        keys = {draft.memory.key for draft in identified}
        names = {key: self.keys.id_of_key(namespace, key) for key in keys if key is not None}
        wanted = dict.fromkeys([*(draft.memory.id for draft in identified), *sorted(names.values())])
        stored = self.entries.store.get(list(wanted), namespace=partition)
        known = {entry.id: from_entry(entry) for entry in stored if entry is not None}
        forgotten = self.tombstones.which(partition, [draft.memory.id for draft in identified if draft.named])

        def settle(draft: Draft) -> Draft:
            if not _is_identified(draft):
                return draft
            memory = draft.memory
            name = memory.id if memory.key is None else names[memory.key]
            before = known.get(memory.id) or known.get(name)
            if before is None:
                if draft.named and memory.id in forgotten:
                    return draft.settle(Report(Outcome.REJECTED, memory.id, "forgotten"))
                known[memory.id] = known[name] = memory
                return draft
            if (before.text, before.caption) == (memory.text, memory.caption):
                return draft.settle(Report(Outcome.DUPLICATE, before.id, KNOWN, of=before.id))
            conflict = DuplicateKey(memory.key if memory.key is not None else memory.id, before.id)
            return draft.settle(Report(Outcome.REJECTED, before.id, str(conflict)), conflict)

        return change_unsettled(drafts, settle)

    async def _is_known(self, draft: Draft, namespace: str) -> bool:
        if not _is_identified(draft):
            return False
        (settled,) = await asyncio.to_thread(self.settle_known, [draft], namespace)
        return settled.settled is not None

    def _identified(self, drafts: Sequence[Draft], namespace: str) -> list[Draft]:
        """Return *drafts* with ids and times of recording; facts name the items that they were found in."""
        identified: list[Draft] = []
        analyze_texts([draft.memory.text for draft in drafts if is_judged(draft.memory.kind, draft.memory.role)])
        for turn in drafts_by_turn(drafts):  # many texts analysed at once: each finds its own known
            items = [self._with_id(draft, namespace) if draft.settled is None else draft for draft in turn]
            ids = {item.origin: item.memory.id for item in items if item.settled is None}
            for item in items:
                facts = tuple(self._identified_fact(fact, ids, namespace) for fact in item.facts)
                identified.append(replace(item, facts=facts) if facts else item)
        return identified

    def _identified_fact(self, fact: Draft, ids: Mapping[int, str], namespace: str) -> Draft:
        if fact.settled is not None:
            return fact
        sources = (ids[origin] for origin in fact.origins if origin in ids)
        derived_from = tuple(dict.fromkeys((*fact.memory.derived_from, *sources)))
        return self._with_id(replace(fact, memory=replace(fact.memory, derived_from=derived_from)), namespace)

    def _id_of_key(self, memory: Memory, namespace: str) -> str:
        """Return the id of the memory that the key of *memory* names; its own id without a key."""
        return memory.id if memory.key is None else self.keys.id_of_key(namespace, memory.key)

    def _with_id(self, draft: Draft, namespace: str) -> Draft:
        memory = draft.memory
        id = memory.id
        if not id and memory.key is not None:
            id = self.keys.id_of_key(namespace, memory.key)
        recorded_at = memory.recorded_at or self.clock()
        judged = with_utterance(memory)
        return replace(draft, memory=replace(judged, id=id or self.ids(), recorded_at=recorded_at))


def _is_identified(draft: Draft) -> bool:
    """Return whether the caller gave it an id or a key, so that it may be there already."""
    return draft.named or draft.memory.key is not None
