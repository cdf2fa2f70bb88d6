"""Policy check of an import: the write policies judge its items before they are written, since they may be slow.

The messages of a turn are judged together, each beside the stored memories and what of the file came before it. A
memory that is here in the same words is not judged again. Facts are not made where the file is the memory's own, or
brings the facts of an item, or of what was remembered with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from tellback.memory.codec import embedding_text, from_entry, to_entry
from tellback.memory.export_import.codec import memory_from_item, vector_from_item, without_version_fields
from tellback.memory.export_import.import_job import ImportJob, comparable_content
from tellback.memory.export_import.reader import ExportLine, turn_key
from tellback.memory.export_import.report import ExportItem
from tellback.memory.models import Memory
from tellback.memory.results import Outcome
from tellback.memory.timestamps import Clock
from tellback.memory.write.draft import Draft, drafts_to_store
from tellback.memory.write.embedding_service import NOT_YET_EMBEDDED, EmbeddedText, EmbeddingService
from tellback.memory.write.policy_runner import PolicyRules, apply_policies, apply_policies_apart
from tellback.memory.write.similar_memories import SimilarMemoryLookup
from tellback.vectorstore import VectorStore, open_store


@dataclass(slots=True)
class ImportPolicyCheck:
    """Judges the items of one import, batch by batch."""

    job: ImportJob
    embedding: EmbeddingService
    rules: PolicyRules
    clock: Clock
    _unwritten: VectorStore | None = None
    """The memories of earlier batches that are not in the store: nothing is written yet, or nothing will be."""
    _facts: int = 0

    async def judge(self, batch: Sequence[ExportLine]) -> dict[int, Draft]:
        """Return by line the drafts of *batch* as the policies leave them; without those that stay as they are."""
        if not self.rules.policies:
            return {}
        versions_and_passages, turns = await asyncio.to_thread(self._drafts, batch)
        judged = await apply_policies_apart(versions_and_passages, replace(self.rules, making=False))
        if self.rules.looking:
            judged += await self._judge_in_order(batch, turns)
        else:
            for making in (True, False):
                same = [draft for turn in turns if self._makes_facts(turn) is making for draft in turn]
                judged += await apply_policies_apart(same, replace(self.rules, making=making))
        return {draft.origin: draft for draft in judged if not _is_unchanged(draft)}

    def _drafts(self, batch: Sequence[ExportLine]) -> tuple[list[Draft], list[list[Draft]]]:
        """Return drafts of versions and passages, and those of memories by turn; the origin of a draft is its line.

        Items that are here already in the same words are left out.
        """
        job = self.job
        partitions: dict[str, list[tuple[ExportLine, Memory]]] = {}
        for line in batch:
            memory = job.received(memory_from_item(line.fields))
            partitions.setdefault(job.partition(line.fields.get("collection")), []).append((line, memory))
        apart: list[Draft] = []
        memories: list[Draft] = []
        for partition, items in partitions.items():
            existing = job.existing(partition, [memory.id for _, memory in items])
            for line, memory in items:
                if (entry := existing.get(memory.id)) is not None:
                    same = comparable_content(from_entry(entry)) == comparable_content(memory)
                    if same or line.kind == ExportItem.VERSION:
                        continue
                draft = Draft.new(without_version_fields(memory), origin=line.number)
                (memories if line.kind == ExportItem.MEMORY else apart).append(draft)
        groups = groupby(memories, key=lambda draft: turn_key(draft.memory) or draft.origin)
        turns = [list(drafts) for _, drafts in groups]
        return apart, [[replace(draft, turn=turn[0].turn) for draft in turn] for turn in turns]

    async def _judge_in_order(self, batch: Sequence[ExportLine], turns: Sequence[Sequence[Draft]]) -> list[Draft]:
        """Judge turns one after another, each beside the stored memories and what of the file came before it.

        Near duplicates that are linked in the file were compared with their own file when they were written.
        """
        job, silent = self.job, replace(self.rules, making=False)
        replaced = frozenset(job.renamed.values())
        lookup = SimilarMemoryLookup(
            job.namespace,
            job.entries.store,
            self.embedding,
            self.clock,
            hidden=replaced,
            beside=self._unwritten,
        )
        file_vectors = self._file_vectors(batch)
        lookup.ready.update(file_vectors)
        linked_lookup = replace(lookup, hidden=replaced | job.checked.owners) if job.checked.linked else lookup
        await lookup.prepare([draft.memory for turn in turns for draft in turn])
        judged: list[Draft] = []
        kept: list[Memory] = []
        for turn in turns:
            is_linked = not job.checked.linked.isdisjoint(draft.memory.id for draft in turn)
            rules = self.rules if self._makes_facts(turn) else silent
            judged += await apply_policies(turn, rules, linked_lookup if is_linked else lookup)
            for draft in drafts_to_store(judged[-len(turn) :]):
                self._facts += 1
                kept.append(replace(draft.memory, id=draft.memory.id or f"made {self._facts}"))
                lookup.add(kept[-1])
        await lookup.forget_unused([] if job.dry_run else [embedding_text(memory) for memory in kept])
        if job.dry_run:
            await asyncio.to_thread(self._add_unwritten, kept, lookup.ready)
            return judged
        compared = {text: embedded for text, embedded in lookup.ready.items() if text not in file_vectors}
        return [
            replace(draft, embedded=compared[draft.text]) if draft.settled is None and draft.text in compared else draft
            for draft in judged
        ]

    def _add_unwritten(self, memories: Sequence[Memory], results: Mapping[str, EmbeddedText]) -> None:
        """Let the following batches see *memories*, which are not in the store while they are judged."""
        job = self.job
        if self._unwritten is None:
            space = job.entries.store.space or (job.checked.manifest.space if job.vectors else None)
            self._unwritten = open_store("numpy:", space=space)
        space = self._unwritten.space
        entries = []
        for memory in memories:
            embedded = results.get(embedding_text(memory), NOT_YET_EMBEDDED)
            entries.append(to_entry(memory, vector=embedded.vector if embedded.space == space else None))
        self._unwritten.upsert(entries, namespace=job.partition(None))

    def _file_vectors(self, batch: Sequence[ExportLine]) -> dict[str, EmbeddedText]:
        """Return the vectors that the file brings, by the texts they were made from."""
        space = self.job.checked.manifest.space
        if not self.job.vectors or space is None:
            return {}
        vectors = ((memory_from_item(line.fields), vector_from_item(line.fields, space)) for line in batch)
        return {
            embedding_text(memory): EmbeddedText(vector, space=space)
            for memory, vector in vectors
            if vector is not None
        }

    def _makes_facts(self, turn: Sequence[Draft]) -> bool:
        """Return whether facts are made of a turn: not of the memory's own export, nor where the file brings them."""
        sources = self.job.checked.sources
        return self.job.ceiling is not None and not any(
            draft.memory.id in sources or draft.memory.operation in sources for draft in turn
        )


def _is_unchanged(draft: Draft) -> bool:
    """Return whether the policies left *draft* as it came, so that it is written as without policies."""
    as_it_came = draft.settled is None and draft.memory == draft.given and draft.outcome == Outcome.STORED
    return as_it_came and not (draft.reasons or draft.facts or draft.embedded.vector is not None)
