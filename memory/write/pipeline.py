"""Write pipeline: items are checked, judged by the policies, embedded and stored, one at a time or in batches.

Added items, turns, corrections and imports go through it alike; what differs is said in its ``PolicyRules``. One at a
time or in batches, the result is the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Any

from memory.codec import entry_text
from memory.errors import ArgumentError, DuplicateKey
from memory.models import Memory
from memory.results import Outcome, Report
from memory.validation import checked_memory
from memory.write.access_control import SENSITIVE_REASON, may_embed
from memory.write.commit import Draft, known_reports, make_draft, store_drafts
from memory.write.context import WriteContext
from memory.write.embedding_service import EmbeddingResult
from memory.write.in_flight import tracked_write
from memory.write.policy_runner import PolicyResult, PolicyRules, apply_policies_to_turn, apply_policies_to_turns
from memory.write.provenance import authorize_memories, referenced_ids
from memory.write.similar_memories import SimilarMemoryLookup
from vectorstore import VectorStore


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """What becomes of memories that came together: for each its draft or its line, and what is *made* of them.

    What is made comes with the places of those it was made from.
    """

    own: list[Draft | Report]
    made: list[tuple[Draft | Report, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class WritePipeline:
    """The road into one *namespace*; *stored* is what the policies see of it, None where none of them looks."""

    context: WriteContext
    namespace: str
    rules: PolicyRules
    stored: SimilarMemoryLookup | None = None

    @classmethod
    def into(
        cls,
        context: WriteContext,
        namespace: str,
        *,
        rules: PolicyRules | None = None,
        hidden: Container[str] = frozenset(),
        beside: VectorStore | None = None,
        own: bool = True,
    ) -> WritePipeline:
        """Return the road for one batch; the rest as ``SimilarMemoryLookup``."""
        rules = context.rules if rules is None else rules
        stored = (
            SimilarMemoryLookup(context, namespace, hidden=hidden, beside=beside, own=own) if rules.looking else None
        )
        return cls(context, namespace, rules, stored)

    @property
    def ready(self) -> Mapping[str, EmbeddingResult]:
        """Answers for texts that were embedded on the way."""
        return MappingProxyType({}) if self.stored is None else self.stored.ready

    def unused(self, stored: Iterable[str]) -> list[str]:
        """Return the texts that were embedded on the way and are not *stored*."""
        tried = () if self.stored is None else self.stored.tried
        kept = set(stored) if tried else frozenset()
        return [text for text in tried if text not in kept]

    async def let_go(self, stored: Iterable[str]) -> None:
        """Let the embedder's cache forget what was embedded on the way and is not *stored*: nobody could later."""
        if unused := self.unused(stored):
            await asyncio.to_thread(self.context.embedding.forget, unused)

    async def judged(self, memories: Sequence[Memory]) -> tuple[list[PolicyResult], list[PolicyResult]]:
        """Return what the policies make of *memories*, which came together, and what they make beside them."""
        return await apply_policies_to_turn(memories, self.rules, self.stored)

    async def together(self, memories: Sequence[Memory]) -> PipelineResult:
        """Take *memories*, which came together."""
        judged, made = await self.judged(memories)
        return (await self._drafts([(judged, made)]))[0]

    async def apart(self, turns: Sequence[Sequence[Memory]]) -> list[PipelineResult]:
        """Take *turns*, none of which is seen beside another or beside what is stored; a few at once."""
        return await self._drafts(await apply_policies_to_turns(turns, self.rules))

    async def _drafts(
        self, judged: Sequence[tuple[Sequence[PolicyResult], Sequence[PolicyResult]]]
    ) -> list[PipelineResult]:
        keyed = any(one.memory is not None and one.memory.key is not None for own, _ in judged for one in own)
        if keyed:  # which id a key has is looked up
            return await asyncio.to_thread(lambda: [self._taken(*one) for one in judged])
        return [self._taken(*one) for one in judged]

    def _taken(self, judged: Sequence[PolicyResult], made: Sequence[PolicyResult]) -> PipelineResult:
        own = [self._drafted(one, one.memory) for one in judged]
        facts = []
        for one in made:
            ids = (source.memory.id for source in (own[place] for place in one.places) if isinstance(source, Draft))
            memory = one.memory
            if memory is not None:
                memory = replace(memory, derived_from=tuple(dict.fromkeys((*memory.derived_from, *ids))))
            facts.append((self._drafted(one, memory), one.places))
        return PipelineResult(own, facts)

    def _drafted(self, judged: PolicyResult, memory: Memory | None) -> Draft | Report:
        if memory is None:
            return Report(judged.outcome, judged.of or "", judged.reason, of=judged.of)
        made = make_draft(self.context, memory, self.namespace)
        if judged.outcome is Outcome.STORED and not judged.reason and judged.of is None:
            return made
        return replace(made, outcome=judged.outcome, reason=judged.reason, spans=judged.spans, of=judged.of)


async def embed_drafts(
    context: WriteContext, drafts: Sequence[Draft], ready: Mapping[str, EmbeddingResult] = MappingProxyType({})
) -> list[Draft]:
    """Return *drafts* with their vectors, or with the reason why there are none.

    What is sensitive is not given to a remote embedder. *ready* are answers, of a text each, that were had before.
    """
    texts = [entry_text(one.memory) for one in drafts]
    may = [may_embed(one.memory, context.embedding.embedder) for one in drafts]
    asked = [place for place, text in enumerate(texts) if may[place] and text not in ready]
    made = await context.embedding.vectors([texts[place] for place in asked])
    made = made.among(len(drafts), asked, SENSITIVE_REASON)
    return [
        _with_vector(one, ready[text], 0) if may[place] and text in ready else _with_vector(one, made, place)
        for place, (one, text) in enumerate(zip(drafts, texts, strict=True))
    ]


def _with_vector(draft: Draft, made: EmbeddingResult, place: int) -> Draft:
    reason = made.reasons[place]
    return replace(
        draft,
        vector=made.vectors[place],
        no_vector=reason,
        deferred=reason if reason == SENSITIVE_REASON else made.waits(place),
        truncated=made.truncated.get(place),
        space=made.space,
    )


WRITE_BATCH = 256


@dataclass(slots=True)
class _BatchItem:
    """One item on its way: its *draft* or its *line*, and the drafts of what was made of it."""

    draft: Draft | None = None
    line: Report | DuplicateKey | None = None
    made: tuple[Draft | Report, ...] = ()

    def settle(self, line: Report | DuplicateKey) -> None:
        """It is not to be written; nor is, again, what was made of it."""
        self.draft, self.line, self.made = None, line, ()


@dataclass(frozen=True, slots=True)
class _PreparedBatch:
    """A batch that only has to be stored: its *units*, and the *drafts* among them with their vectors, in order.

    *unused* are texts that were embedded for looking and are not stored.
    """

    units: Sequence[_BatchItem]
    drafts: Sequence[Draft]
    unused: Sequence[str] = ()


class _BackgroundStore:
    """The batch that is being stored while the next one is made ready; *tell* gets its lines."""

    def __init__(self, tell: Callable[[Sequence[Report | DuplicateKey]], None]) -> None:
        self._tell = tell
        self._task: asyncio.Task[list[Report | DuplicateKey]] | None = None

    def start(self, work: Coroutine[Any, Any, list[Report | DuplicateKey]], begun: ExitStack) -> None:
        """Begin *work*; *begun* is closed at its end."""
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(lambda _: begun.close())

    async def finish(self) -> None:
        """Wait for its end and tell; where nothing is being stored, nothing."""
        task, self._task = self._task, None
        if task is not None:
            self._tell(await task)

    def leave(self) -> None:
        """Nobody waits any more; what its thread has begun goes on."""
        if self._task is not None:
            self._task.cancel()


@tracked_write
async def remember_batch(
    context: WriteContext, items: Sequence[object], namespace: str, names: Sequence[str]
) -> list[Report | DuplicateKey]:
    """Keep *items* in one transaction; *names* say what each is called in an error."""
    return await _store_batch(
        context, await _prepare_batch(context, _checked_memories(context, items, names), namespace), namespace
    )


async def remember_stream(
    context: WriteContext,
    items: Iterable[str | Memory],
    namespace: str,
    on_progress: Callable[[int], None] | None,
) -> list[Report]:
    """Keep *items* batch by batch, in bounded memory; a key used with another text is a line of its own.

    Of a list, the next batch is checked and embedded while one is stored, unless what becomes of it depends on what is
    there. Another iterable is not read ahead of what is written.
    """
    if isinstance(items, (str, bytes, Memory)) or not isinstance(items, Iterable):
        raise ArgumentError("items", items, "a list (or another iterable) of texts or memories is needed")
    reports: list[Report] = []

    def tell(lines: Sequence[Report | DuplicateKey]) -> None:
        for line in lines:
            reports.append(line if isinstance(line, Report) else Report(Outcome.REJECTED, line.id, str(line)))
        if on_progress is not None:
            on_progress(len(reports))

    ahead = isinstance(items, Sequence) and not context.rules.policies
    stream, taken, storing = iter(items), 0, _BackgroundStore(tell)
    try:
        while batch := list(islice(stream, WRITE_BATCH)):
            names = [f"items[{taken + i}]" for i in range(len(batch))]
            taken += len(batch)
            with ExitStack() as begun:
                begun.enter_context(context.under_way.write())
                memories = _checked_memories(context, batch, names)
                if any(referenced_ids(one) for one in memories):
                    await storing.finish()
                ready = await _prepare_batch(context, memories, namespace)
                await storing.finish()
                storing.start(_store_batch(context, ready, namespace), begun.pop_all())
            if not ahead:
                await storing.finish()
        await storing.finish()
    except Exception:  # of what comes after it: what is being stored is stored all the same
        await storing.finish()
        raise
    finally:
        storing.leave()
    return reports


def _checked_memories(context: WriteContext, items: Sequence[object], names: Sequence[str]) -> list[Memory]:
    return [checked_memory(item, zone=context.zone, argument=name) for item, name in zip(items, names, strict=True)]


async def _prepare_batch(context: WriteContext, memories: Sequence[Memory], namespace: str) -> _PreparedBatch:
    """Judge, name and embed *memories*; nothing is written yet."""
    road, named = (
        WritePipeline.into(context, namespace),
        any(referenced_ids(one) for one in memories),
    )  # then the store is read
    if road.stored is not None or (named and await asyncio.to_thread(_are_linked, context, memories, namespace)):
        units = await _judge_in_order(road, memories)
    else:
        if named:
            allowed = await asyncio.to_thread(authorize_memories, context, memories, namespace)
        else:
            allowed = authorize_memories(context, memories, namespace)
        taken = iter(await road.apart([[one] for one in allowed if isinstance(one, Memory)]))
        units = [_batch_item(next(taken)) if isinstance(one, Memory) else _BatchItem(line=one) for one in allowed]
    asked = [unit for unit in units if unit.draft is not None]
    mains = [unit.draft for unit in asked if unit.draft is not None]
    if any(one.named or one.memory.key is not None for one in mains):
        # what is known already is not embedded again; put() looks once more, inside its transaction
        for place, line in (await asyncio.to_thread(known_reports, context, mains, namespace)).items():
            asked[place].settle(line)
    every = [one for unit in units for one in (unit.draft, *unit.made) if isinstance(one, Draft)]
    unused = road.unused(entry_text(one.memory) for one in every)
    return _PreparedBatch(units, await embed_drafts(context, every, road.ready), unused)


async def _store_batch(context: WriteContext, ready: _PreparedBatch, namespace: str) -> list[Report | DuplicateKey]:
    """Write a batch; return the line of each item."""
    lines = iter(await asyncio.to_thread(store_drafts, context, ready.drafts, namespace) if ready.drafts else ())
    if ready.unused:  # nobody could forget it by what is stored
        await asyncio.to_thread(context.embedding.forget, ready.unused)
    for unit in ready.units:
        if unit.draft is not None:
            unit.line = next(lines)
        made = [next(lines) if isinstance(one, Draft) else one for one in unit.made]
        if made and isinstance(unit.line, Report):
            unit.line = replace(unit.line, made=tuple(one for one in made if isinstance(one, Report)))
    return [unit.line for unit in ready.units if unit.line is not None]


def _are_linked(context: WriteContext, memories: Sequence[Memory], namespace: str) -> bool:
    """Whether one of *memories* was made from, or supersedes, another of them."""
    asked = {id for one in memories for id in referenced_ids(one)}
    if not asked:
        return False
    named = {one.id for one in memories if one.id}
    keyed = {context.id_of_key(namespace, one.key) for one in memories if one.key is not None}
    return not asked.isdisjoint(named | keyed)


async def _judge_in_order(road: WritePipeline, memories: Sequence[Memory]) -> list[_BatchItem]:
    """Judge each item beside what is stored and what of the batch comes before it, as if it came alone."""
    context, namespace, stored = road.context, road.namespace, road.stored
    if stored is not None:
        await stored.prepare(memories)
    units: list[_BatchItem] = []
    added: dict[str, Memory] = {}
    for memory in memories:
        (one,) = (
            await asyncio.to_thread(authorize_memories, context, [memory], namespace, added)
            if referenced_ids(memory)
            else authorize_memories(context, [memory], namespace)
        )
        if not isinstance(one, Memory):
            units.append(_BatchItem(line=one))
            continue
        unit = _batch_item(await road.together([one]))
        units.append(unit)
        if unit.draft is not None and (
            unit.draft.memory.id in added or await _is_known(context, unit.draft, namespace)
        ):
            continue  # it will not be written, nor what was made of it
        for item in (unit.draft, *unit.made):
            if isinstance(item, Draft):
                added[item.memory.id] = item.memory
                if stored is not None:
                    stored.add(item.memory)
    return units


async def _is_known(context: WriteContext, one: Draft, namespace: str) -> bool:
    if not one.named and one.memory.key is None:
        return False
    return bool(await asyncio.to_thread(known_reports, context, [one], namespace))


def _batch_item(taken: PipelineResult) -> _BatchItem:
    (main,), made = taken.own, tuple(one for one, _ in taken.made)
    return _BatchItem(line=main, made=made) if isinstance(main, Report) else _BatchItem(draft=main, made=made)
