"""Remembering: check, judge, recognise, embed, store; one at a time or in batches, with the same result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from memory.codec import to_entry
from memory.errors import ArgumentError, DuplicateKey
from memory.records import Memory, Outcome, Report
from memory.write.checking import checked
from memory.write.context import WriteContext
from memory.write.deriving import entitled, named_by
from memory.write.road import Road, Taken, embedded
from memory.write.under_way import counted
from memory.write.writer import Draft, known, put

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
    road = Road.into(context, namespace)
    if road.stored is not None or await asyncio.to_thread(_linked, context, memories, namespace):
        units = await _one_after_another(road, memories)
    else:
        allowed = await asyncio.to_thread(entitled, context, memories, namespace)
        taken = iter(await road.each([one for one in allowed if isinstance(one, Memory)]))
        units = [_unit(next(taken)) if isinstance(one, Memory) else _Unit(line=one) for one in allowed]
    await _store(road, units)
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


def _linked(context: WriteContext, memories: Sequence[Memory], namespace: str) -> bool:
    """Whether one of *memories* was made from, or supersedes, another of them."""
    asked = {id for one in memories for id in named_by(one)}
    if not asked:
        return False
    named = {one.id for one in memories if one.id}
    keyed = {context.id_of_key(namespace, one.key) for one in memories if one.key is not None}
    return not asked.isdisjoint(named | keyed)


async def _one_after_another(road: Road, memories: Sequence[Memory]) -> list[_Unit]:
    """Judge each item beside what is stored and what of the batch comes before it, as if it came alone."""
    context, namespace, stored = road.context, road.namespace, road.stored
    if stored is not None:
        await stored.prepare(memories)
    units: list[_Unit] = []
    added: dict[str, Memory] = {}
    for memory in memories:
        (one,) = (
            await asyncio.to_thread(entitled, context, [memory], namespace, added)
            if named_by(memory)
            else entitled(context, [memory], namespace)
        )
        if not isinstance(one, Memory):
            units.append(_Unit(line=one))
            continue
        unit = _unit(await road.together([one]))
        units.append(unit)
        if unit.draft is not None and (
            unit.draft.memory.id in added or await _is_known(context, unit.draft, namespace)
        ):
            continue  # it will not be written, nor what was made of it
        for draft in (unit.draft, *unit.made):
            if isinstance(draft, Draft):
                added[draft.memory.id] = draft.memory
                if stored is not None:
                    stored.add(draft.memory)
    return units


async def _is_known(context: WriteContext, one: Draft, namespace: str) -> bool:
    if not one.named and one.memory.key is None:
        return False
    return bool(await asyncio.to_thread(known, context, [one], namespace))


def _unit(taken: Taken) -> _Unit:
    (main,), made = taken.own, tuple(one for one, _ in taken.made)
    return _Unit(line=main, made=made) if isinstance(main, Report) else _Unit(draft=main, made=made)


async def _store(road: Road, units: Sequence[_Unit]) -> None:
    context, namespace = road.context, road.namespace
    asked = [unit for unit in units if unit.draft is not None]
    mains = [unit.draft for unit in asked if unit.draft is not None]
    if any(one.named or one.memory.key is not None for one in mains):
        # what is known already is not embedded again; put() looks once more, inside its transaction
        for place, line in (await asyncio.to_thread(known, context, mains, namespace)).items():
            asked[place].settle(line)
    every = [one for unit in units for one in (unit.draft, *unit.made) if isinstance(one, Draft)]
    if every:
        lines = iter(await asyncio.to_thread(put, context, await embedded(context, every, road.ready), namespace))
    await road.let_go(to_entry(one.memory).text for one in every)
    for unit in units:
        if unit.draft is not None:
            unit.line = next(lines)
        made = [next(lines) if isinstance(one, Draft) else one for one in unit.made]
        if made and isinstance(unit.line, Report):
            unit.line = replace(unit.line, made=tuple(one for one in made if isinstance(one, Report)))
