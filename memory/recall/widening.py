"""Hits with the turns around them: each memory once, inside what the hits leave of the token budget.

The best hit is served first, its nearest turns before those farther away. What does not fit is named, and nothing
beyond it on its side is shown, so that there are no gaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from memory.codec import from_entry
from memory.lanes import DOCUMENTS, lane_of
from memory.recall.beside import Beside, beside
from memory.recall.packing import OVER_BUDGET
from memory.recall.places import Place
from memory.recall.query import Query
from memory.recall.reader import Reader
from memory.records import Found, Hit, LeftOut, Memory
from vectorstore import View

NO_TURNS = "the turns around a hit are not known: this store has data and no lifecycle"
OF_DOCUMENTS = "passages come without what stands around them: KnowledgeBase.retrieve(neighbours=...) gives that"


def widened(reader: Reader, view: View, places: Sequence[Place], query: Query, found: Found) -> Found:
    """Return *found* with the turns around each hit of a conversation that ``query.around`` asks for.

    A turn that is a hit itself, or stands at a better hit already, is not repeated. Turns that do not stand at the
    time asked for, or do not pass the filters asked for, are passed over.
    """
    taken = {(hit.namespace, hit.lane, hit.memory.id) for hit in found}
    room = _room(query, found)
    hits: list[Hit] = []
    left_out = list(found.left_out)
    for hit in found:
        before: list[Memory] = []
        after: list[Memory] = []
        full: set[str] = set()
        for side, memory in _near(reader, view, places, query, hit):
            name = (hit.namespace, hit.lane, memory.id)
            if name in taken:
                continue
            taken.add(name)
            cost = 0 if room is None or query.counter is None else query.counter(memory.text)
            if side in full or (room is not None and cost > room):
                full.add(side)
                left_out.append(LeftOut(memory.id, f"{OVER_BUDGET}, beside {hit.memory.id}"))
                continue
            room = None if room is None else room - cost
            (before if side == "before" else after).append(memory)
        hits.append(replace(hit, before=tuple(reversed(before)), after=tuple(after)))
    notes = (OF_DOCUMENTS,) if any(hit.lane == DOCUMENTS for hit in found) else ()
    return replace(found, hits=tuple(hits), left_out=tuple(left_out), notes=(*found.notes, *notes))


def _near(reader: Reader, view: View, places: Sequence[Place], query: Query, hit: Hit) -> Iterator[tuple[str, Memory]]:
    """Yield (side, memory) of the turns around *hit*, the nearest first."""
    place = next((one for one in places if lane_of(one.name)[:2] == (hit.namespace, hit.lane)), None)
    if place is None:
        return
    passing = reader.passing(view, place, query)
    with reader.reading(view, place, query) as reading:
        index, standing = reading.index, reading.standing

        def shown(row: int) -> bool:
            hidden = bool(standing.hidden(index, np.array([row]))[0])
            return not hidden and (passing is None or bool(passing([index.ids[row]])[0]))

        row = index.row(hit.memory.id)
        turns = beside(index, row, query.around, shown) if row >= 0 else Beside((), ())
        sides = [(at, "before", row) for at, row in enumerate(reversed(turns.before))]
        sides += [(at, "after", row) for at, row in enumerate(turns.after)]
        sides.sort(key=lambda one: one[0])
        named = [(side, index.ids[row]) for _, side, row in sides]
    entries = view.get([id for _, id in named], namespace=place.name)
    for (side, _), entry in zip(named, entries, strict=True):
        if entry is not None:
            yield side, from_entry(entry)


def _room(query: Query, found: Found) -> int | None:
    if query.token_budget is None or query.counter is None:
        return None
    return query.token_budget - sum(query.counter(hit.memory.text) for hit in found)
