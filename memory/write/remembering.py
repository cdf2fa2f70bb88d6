"""Remembering: check, judge, recognise, embed, store; one at a time or in batches, with the same result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType

from memory.codec import to_entry
from memory.errors import ArgumentError, DuplicateKey
from memory.records import Memory, Outcome, Report
from memory.write.checking import checked
from memory.write.context import WriteContext
from memory.write.deriving import entitled, named_by
from memory.write.embedded import Embedded
from memory.write.ids import keyed_id
from memory.write.judging import Judged, judge, judge_each
from memory.write.looking import StoredMemories
from memory.write.sensitive import NOT_SENT, may_embed
from memory.write.under_way import counted
from memory.write.writer import Draft, draft, known, put

BATCH = 256


@dataclass(slots=True)
class _Unit:
    """One item on its way: its *draft* or its *line*, and the drafts of what was made of it."""

    draft: Draft | None = None
    line: Report | DuplicateKey | None = None
    made: tuple[Draft | Report, ...] = ()

    def settle(self, line: Report | DuplicateKey) -> None:
        """It is not to be written; nor is, again, what was made of it."""
        self.draft, self.line, self.made = None, line, ()


@counted
async def remember_batch(
    context: WriteContext, items: Sequence[object], namespace: str, names: Sequence[str]
) -> list[Report | DuplicateKey]:
    """Keep *items* in one transaction; *names* say what each is called in an error."""
    memories = [checked(item, zone=context.zone, argument=name) for item, name in zip(items, names, strict=True)]
    ready: dict[str, Embedded] = {}
    if context.rules.looking or _linked(context, memories, namespace):
        units = await _one_after_another(context, memories, namespace, StoredMemories(context, namespace, ready))
    else:
        allowed = await asyncio.to_thread(entitled, context, memories, namespace)
        judged = iter(await judge_each([one for one in allowed if isinstance(one, Memory)], context.rules))
        units = [
            _unit(context, *next(judged), namespace) if isinstance(one, Memory) else _Unit(line=one) for one in allowed
        ]
    await _store(context, units, namespace, ready)
    return [unit.line for unit in units if unit.line is not None]


async def remember_stream(
    context: WriteContext,
    items: Iterable[str | Memory],
    namespace: str,
    on_progress: Callable[[int], None] | None,
) -> list[Report]:
    """Keep *items* batch by batch, in bounded memory; a key used with another text is a line of its own."""
    if isinstance(items, (str, bytes, Memory)) or not isinstance(items, Iterable):
        raise ArgumentError("items", items, "a list (or another iterable) of texts or memories is needed")
    reports: list[Report] = []
    stream = iter(items)
    while batch := list(islice(stream, BATCH)):
        names = [f"items[{len(reports) + i}]" for i in range(len(batch))]
        for line in await remember_batch(context, batch, namespace, names):
            reports.append(line if isinstance(line, Report) else Report(Outcome.REJECTED, line.id, str(line)))
        if on_progress is not None:
            on_progress(len(reports))
    return reports


async def embedded(
    context: WriteContext, drafts: Sequence[Draft], ready: Mapping[str, Embedded] = MappingProxyType({})
) -> list[Draft]:
    """Return *drafts* with their vectors, or with the reason why there are none.

    What is sensitive is not given to a remote embedder. *ready* are answers, of a text each, that were had before.
    """
    texts = [to_entry(one.memory).text for one in drafts]
    may = [may_embed(one.memory, context.embedding.embedder) for one in drafts]
    asked = [place for place, text in enumerate(texts) if may[place] and text not in ready]
    made = await context.embedding.vectors([texts[place] for place in asked])
    made = made.among(len(drafts), asked, NOT_SENT)
    return [
        _with_vector(one, ready[text], 0) if may[place] and text in ready else _with_vector(one, made, place)
        for place, (one, text) in enumerate(zip(drafts, texts, strict=True))
    ]


def _with_vector(draft: Draft, made: Embedded, place: int) -> Draft:
    reason = made.reasons[place]
    return replace(
        draft,
        vector=made.vectors[place],
        no_vector=reason,
        deferred=reason if reason == NOT_SENT else made.waits(place),
        truncated=made.truncated.get(place),
        space=made.space,
    )


def _linked(context: WriteContext, memories: Sequence[Memory], namespace: str) -> bool:
    """Whether one of *memories* was made from, or supersedes, another of them."""
    asked = {id for one in memories for id in named_by(one)}
    if not asked:
        return False
    named = {one.id for one in memories if one.id}
    keyed = {keyed_id(context.tombstones.key, namespace, one.key) for one in memories if one.key is not None}
    return not asked.isdisjoint(named | keyed)


async def _one_after_another(
    context: WriteContext, memories: Sequence[Memory], namespace: str, stored: StoredMemories
) -> list[_Unit]:
    """Judge each item beside what is stored and what of the batch comes before it, as if it came alone."""
    if context.rules.looking:
        await stored.prepare(memories)
    units = []
    for memory in memories:
        (one,) = (
            await asyncio.to_thread(entitled, context, [memory], namespace, stored.added)
            if named_by(memory)
            else entitled(context, [memory], namespace)
        )
        if not isinstance(one, Memory):
            units.append(_Unit(line=one))
            continue
        unit = _unit(context, *await judge(one, context.rules, stored), namespace)
        units.append(unit)
        if unit.draft is not None and (
            unit.draft.memory.id in stored.added or await _is_known(context, unit.draft, namespace)
        ):
            continue  # it will not be written, nor what was made of it
        for added in (unit.draft, *unit.made):
            if isinstance(added, Draft):
                stored.add(added.memory)
    return units


async def _is_known(context: WriteContext, one: Draft, namespace: str) -> bool:
    if not one.named and one.memory.key is None:
        return False
    return bool(await asyncio.to_thread(known, context, [one], namespace))


def _unit(context: WriteContext, judged: Judged, made: Sequence[Judged], namespace: str) -> _Unit:
    main, facts = drafted(context, [judged], made, namespace)
    if isinstance(main[0], Report):
        return _Unit(line=main[0], made=tuple(one for one, _ in facts))
    return _Unit(draft=main[0], made=tuple(one for one, _ in facts))


def drafted(
    context: WriteContext, judged: Sequence[Judged], made: Sequence[Judged], namespace: str
) -> tuple[list[Draft | Report], list[tuple[Draft | Report, tuple[int, ...]]]]:
    """Return a draft or the line for each that was judged; and the drafts of what was made, with their sources."""
    own = [_drafted(context, one, one.memory, namespace) for one in judged]
    facts = []
    for one in made:
        ids = (source.memory.id for source in (own[place] for place in one.places) if isinstance(source, Draft))
        memory = one.memory
        if memory is not None:
            memory = replace(memory, id="", derived_from=tuple(dict.fromkeys((*memory.derived_from, *ids))))
        facts.append((_drafted(context, one, memory, namespace), one.places))
    return own, facts


def _drafted(context: WriteContext, judged: Judged, memory: Memory | None, namespace: str) -> Draft | Report:
    if memory is None:
        return Report(judged.outcome, judged.of or "", judged.reason, of=judged.of)
    made = draft(context, memory, namespace)
    return replace(made, outcome=judged.outcome, reason=judged.reason, spans=judged.spans, of=judged.of)


async def _store(context: WriteContext, units: Sequence[_Unit], namespace: str, ready: dict[str, Embedded]) -> None:
    asked = [unit for unit in units if unit.draft is not None]
    mains = [unit.draft for unit in asked if unit.draft is not None]
    if any(one.named or one.memory.key is not None for one in mains):
        # what is known already is not embedded again; put() looks once more, inside its transaction
        for place, line in (await asyncio.to_thread(known, context, mains, namespace)).items():
            asked[place].settle(line)
    every = [one for unit in units for one in (unit.draft, *unit.made) if isinstance(one, Draft)]
    if every:
        lines = iter(await asyncio.to_thread(put, context, await embedded(context, every, ready), namespace))
    for unit in units:
        if unit.draft is not None:
            unit.line = next(lines)
        made = [next(lines) if isinstance(one, Draft) else one for one in unit.made]
        if made and isinstance(unit.line, Report):
            unit.line = replace(unit.line, made=tuple(one for one in made if isinstance(one, Report)))
