"""Policy check of an export's items, before they are written: the write policies may be slow, or remote.

Items go through the write pipeline: messages of a turn together, each beside what is here and what of the file
came before it. What is here already in the same words is not asked about. Facts are not asked for where the file is
the memory's own, or brings facts of an item, or of what was remembered with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final, TypeAlias

from memory.codec import entry_text, from_entry, to_entry
from memory.export_import.codec import memory_from_item, vector_from_item, without_version_fields
from memory.export_import.import_job import ImportJob, comparable_content
from memory.export_import.reader import turn_key
from memory.export_import.report import ExportItem
from memory.models import Memory
from memory.results import Outcome
from memory.write.embedding_service import EmbeddingResult
from memory.write.policy_runner import PolicyResult, PolicyRules, apply_policies_to_turn
from memory.write.similar_memories import SimilarMemoryLookup
from vectorstore import VectorStore, open_store

NumberedItem: TypeAlias = tuple[int, dict[str, Any]]
_CONCURRENCY: Final = 8


@dataclass(frozen=True, slots=True)
class ItemDecision:
    """What the policies make of a memory, and its vector if that was had on the way.

    What was *made* of it comes with the ids of all memories that it was made from.
    """

    judged: PolicyResult
    made: tuple[tuple[PolicyResult, tuple[str, ...]], ...] = ()
    embedded: EmbeddingResult | None = None


@dataclass(frozen=True, slots=True)
class _ReadMemory:
    """A memory on a line, before it is judged."""

    line: int
    memory: Memory
    kind: str

    @property
    def turn(self) -> Hashable:
        """What the messages of one turn have in common; of anything else its line."""
        return turn_key(self.memory) or self.line


@dataclass(slots=True)
class ExportPolicyCheck:
    """Asks the policies about one file, batch by batch."""

    course: ImportJob
    _scratch: VectorStore | None = None
    """What of the file came before and is not in the store: nothing is written yet, or nothing will be."""
    _made: int = 0

    async def of(self, batch: Sequence[NumberedItem]) -> dict[int, ItemDecision]:
        """Return what becomes of the memories of *batch*, by line; none for what passes as it is."""
        rules = self.course.context.rules
        if not rules.policies:
            return {}
        asked = await asyncio.to_thread(self._asked, batch)
        silent = replace(rules, making=False)
        past = [one for one in asked if one.kind != ExportItem.MEMORY]
        found = await self._apart([[one] for one in past], silent)
        items = [one for one in asked if one.kind == ExportItem.MEMORY]
        turns = [list(turn) for _, turn in groupby(items, key=lambda one: one.turn)]
        found |= await (self._beside(batch, turns, silent) if rules.looking else self._apart(turns))
        return {one.line: found[one.line] for one in asked if not _is_unchanged(found[one.line], one.memory)}

    def _asked(self, batch: Sequence[NumberedItem]) -> list[_ReadMemory]:
        """Return the memories of a batch, but those that are here already in the same words."""
        course = self.course
        read = [_ReadMemory(number, course.read(memory_from_item(given)), given["type"]) for number, given in batch]
        lanes = [course.lane(given.get("collection")) for _, given in batch]
        here: dict[tuple[str, str], Memory] = {}
        for lane in dict.fromkeys(lanes):
            ids = [one.memory.id for one, at in zip(read, lanes, strict=True) if at == lane]
            here.update({(lane, id): from_entry(entry) for id, entry in course.there(lane, ids).items()})
        asked = []
        for one, lane in zip(read, lanes, strict=True):
            before = here.get((lane, one.memory.id))
            if before is None or (
                one.kind != ExportItem.VERSION and comparable_content(before) != comparable_content(one.memory)
            ):
                asked.append(replace(one, memory=without_version_fields(one.memory)))
        return asked

    async def _apart(
        self, turns: Sequence[Sequence[_ReadMemory]], same: PolicyRules | None = None
    ) -> dict[int, ItemDecision]:
        """Judge turns that are not held against anything; a few at once."""
        free = asyncio.Semaphore(_CONCURRENCY)
        rules = self.course.context.rules

        async def one(turn: Sequence[_ReadMemory]) -> dict[int, ItemDecision]:
            chosen = same or replace(rules, making=self._to_make_of(turn))
            async with free:
                return _turn_decisions(turn, *await apply_policies_to_turn([one.memory for one in turn], chosen))

        found: dict[int, ItemDecision] = {}
        for those in await asyncio.gather(*map(one, turns)):
            found |= those
        return found

    async def _beside(
        self, batch: Sequence[NumberedItem], turns: Sequence[Sequence[_ReadMemory]], silent: PolicyRules
    ) -> dict[int, ItemDecision]:
        """Judge turns one after another, each beside what is here and what of the file comes before it.

        What is linked already was compared with its own file where that was written.
        """
        course, context = self.course, self.course.context
        hidden, later = frozenset(course.here.values()), course.dry_run or course.mode == "replace"
        stored = context.pipeline.lookup(
            course.namespace, hidden=hidden, beside=self._scratch, own=course.mode != "replace"
        )
        assert stored is not None
        brought = self._brought(batch)
        stored.ready.update(brought)
        linked = replace(stored, hidden=hidden | course.checked.owners) if course.checked.linked else stored
        await stored.prepare([one.memory for turn in turns for one in turn])
        found: dict[int, ItemDecision] = {}
        kept: list[Memory] = []
        for turn in turns:
            rules = context.rules if self._to_make_of(turn) else silent
            looked = stored if course.checked.linked.isdisjoint(one.memory.id for one in turn) else linked
            judged, made = await apply_policies_to_turn([one.memory for one in turn], rules, looked)
            found |= _turn_decisions(turn, judged, made)
            for one in (*judged, *made):
                if one.memory is not None:
                    self._made += 1
                    kept.append(replace(one.memory, id=one.memory.id or f"made {self._made}"))
                    stored.add(kept[-1])
        await stored.forget_unused([] if course.dry_run else [entry_text(one) for one in kept])
        if later:
            await asyncio.to_thread(self._note, kept, stored.ready)
            return found
        return {line: _with_ready_vector(one, stored, brought) for line, one in found.items()}

    def _note(self, kept: Sequence[Memory], ready: Mapping[str, EmbeddingResult]) -> None:
        """Put what will not be in the store where the following batches find it."""
        space = self.course.context.store.space or (self.course.checked.manifest.space if self.course.vectors else None)
        if self._scratch is None:
            self._scratch = open_store("numpy:", space=space)
        of = self._scratch.space
        made = [ready.get(entry_text(one)) for one in kept]
        rows = [None if one is None or of is None or one.space != of else one.vectors[0] for one in made]
        entries = [to_entry(one, vector=row) for one, row in zip(kept, rows, strict=True)]
        self._scratch.upsert(entries, namespace=self.course.lane(None))

    def _brought(self, batch: Sequence[NumberedItem]) -> dict[str, EmbeddingResult]:
        """Return the vectors that the file brings, by what they were made of."""
        space = self.course.checked.manifest.space
        if not self.course.vectors or space is None:
            return {}
        rows = ((memory_from_item(given), vector_from_item(given, space)) for _, given in batch)
        return {entry_text(one): EmbeddingResult((row,), (None,), space=space) for one, row in rows if row is not None}

    def _to_make_of(self, turn: Sequence[_ReadMemory]) -> bool:
        sources = self.course.checked.sources
        return self.course.ceiling is not None and not any(
            one.memory.id in sources or one.memory.operation in sources for one in turn
        )


def _with_ready_vector(
    one: ItemDecision, stored: SimilarMemoryLookup, brought: Mapping[str, EmbeddingResult]
) -> ItemDecision:
    text = None if one.judged.memory is None else entry_text(one.judged.memory)
    return one if text is None or text in brought else replace(one, embedded=stored.ready.get(text))


def _turn_decisions(
    turn: Sequence[_ReadMemory], judged: Sequence[PolicyResult], made: Sequence[PolicyResult]
) -> dict[int, ItemDecision]:
    """Return the decisions of a turn; what was made stands with the first that it was made from."""
    found = {}
    for place, (one, verdict) in enumerate(zip(turn, judged, strict=True)):
        own = [
            (fact, tuple(turn[source].memory.id for source in fact.places)) for fact in made if fact.places[0] == place
        ]
        found[one.line] = ItemDecision(verdict, tuple(own))
    return found


def _is_unchanged(one: ItemDecision, memory: Memory) -> bool:
    """Whether nothing has to be done with *memory* that would not be done without policies."""
    judged = one.judged
    as_it_was = judged.memory == memory and judged.outcome is Outcome.STORED and not judged.reason
    return as_it_was and not one.made and one.embedded is None
