"""Remembering: check, judge, recognise, embed, store; one at a time or in batches, with the same result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice

from memory.codec import to_entry
from memory.errors import ArgumentError, DuplicateKey
from memory.records import Memory, Outcome, Report
from memory.write.checking import checked
from memory.write.context import WriteContext
from memory.write.policies import judge
from memory.write.under_way import counted
from memory.write.writer import Draft, draft, known, put

BATCH = 256


@counted
async def remember_batch(
    context: WriteContext, items: Sequence[object], namespace: str, names: Sequence[str]
) -> list[Report | DuplicateKey]:
    """Keep *items* in one transaction; *names* say what each is called in an error."""
    memories = [checked(item, zone=context.zone, argument=name) for item, name in zip(items, names, strict=True)]
    lines: list[Report | DuplicateKey | None] = [None] * len(memories)
    drafts: dict[int, Draft] = {}
    for place, memory in enumerate(memories):
        judged = judge(memory, context.policies)
        if judged.memory is None:
            lines[place] = Report(judged.outcome, "", judged.reason)
        else:
            made = draft(context, judged.memory, namespace)
            drafts[place] = replace(made, outcome=judged.outcome, reason=judged.reason)
    await _store(context, drafts, lines, namespace)
    return [line for line in lines if line is not None]


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


async def embedded(context: WriteContext, drafts: Sequence[Draft]) -> list[Draft]:
    """Return *drafts* with their vectors, or with the reason why there are none."""
    made = await context.embedding.vectors([to_entry(one.memory).text for one in drafts])
    return [
        replace(one, vector=vector, no_vector=reason, deferred=made.waits(place), space=made.space)
        for place, (one, vector, reason) in enumerate(zip(drafts, made.vectors, made.reasons, strict=True))
    ]


async def _store(
    context: WriteContext,
    drafts: dict[int, Draft],
    lines: list[Report | DuplicateKey | None],
    namespace: str,
) -> None:
    if any(one.named or one.memory.key is not None for one in drafts.values()):
        # what is known already is not embedded again; put() looks once more, inside its transaction
        places = list(drafts)
        settled = await asyncio.to_thread(known, context, list(drafts.values()), namespace)
        for index, line in settled.items():
            lines[places[index]] = line
            del drafts[places[index]]
    if not drafts:
        return
    ready = await embedded(context, list(drafts.values()))
    stored = await asyncio.to_thread(put, context, ready, namespace)
    for place, line in zip(drafts, stored, strict=True):
        lines[place] = line
