"""Neighbour expansion of hits: turns of the session or passages of the document, within the rest of the token budget.

Each memory is returned once. The best hit is served first, its nearest neighbours before those farther away. A
neighbour that does not fit is reported, and nothing beyond it on its side is returned, so that there are no gaps.

An exchange is a run of turns of one speaker with the run that it answers, or with the run that answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from memory.codec import from_entry
from memory.models import Memory
from memory.partitions import DOCUMENTS, parse_store_namespace
from memory.results import Hit, Omitted, RecallResult
from memory.retrieval.index.record import TextFeature
from memory.retrieval.index.retrieval_index import RetrievalIndex
from memory.retrieval.index.turn_links import NO_ROW
from memory.retrieval.index.validity import combine_filters
from memory.retrieval.namespace_search import NamespaceSearcher, SearchTarget, requested_filters
from memory.retrieval.query import NeighbourExpansion, Query
from memory.retrieval.token_budget import OVER_BUDGET
from vectorstore import Filter, View

MAX_EXCHANGE_TURNS = 12
"""Turns of an exchange on either side of a hit; a longer run of one speaker is a speech."""


@dataclass(frozen=True, slots=True)
class NeighbourTurns:
    """The rows before a row and those after it, each in the order in which they were said."""

    before: tuple[int, ...]
    after: tuple[int, ...]


def neighbour_turns(
    index: RetrievalIndex, row: int, around: NeighbourExpansion, shown: Callable[[int], bool]
) -> NeighbourTurns:
    """Return the rows around *row*: *around* of each side, or its exchange; those not *shown* are passed over."""
    if isinstance(around, int):
        return NeighbourTurns(
            tuple(reversed(_follow_links(index.order.before.rows, row, around, shown))),
            tuple(_follow_links(index.order.after.rows, row, around, shown)),
        )
    before = _follow_links(index.order.before.rows, row, MAX_EXCHANGE_TURNS, shown)
    after = _follow_links(index.order.after.rows, row, MAX_EXCHANGE_TURNS, shown)
    own_before, own_after = _run_length(index, row, before), _run_length(index, row, after)
    if _opens_exchange(index, row, before[:own_before]):
        other = _other_run_length(index, after[own_after:])
        return NeighbourTurns(tuple(reversed(before[:own_before])), tuple(after[: own_after + other]))
    other = _other_run_length(index, before[own_before:])
    return NeighbourTurns(tuple(reversed(before[: own_before + other])), tuple(after[:own_after]))


def _opens_exchange(index: RetrievalIndex, row: int, run_before: list[int]) -> bool:
    """Whether *row* begins an exchange rather than ends one: it asks, goes on after a question of its own run, or
    neither answers nor is the assistant's.
    """
    cues = index.cues.rows
    if cues[row] & int(TextFeature.ENDS_ASKING) or any(cues[one] & int(TextFeature.ASKS) for one in run_before):
        return True
    return bool(index.order.answers.rows[row] == NO_ROW and not index.assistant.rows[row])


def _run_length(index: RetrievalIndex, row: int, following: list[int]) -> int:
    """Return how many of *following* go on in the voice of *row*."""
    speakers = index.speaker.rows
    return next((at for at, one in enumerate(following) if speakers[one] != speakers[row]), len(following))


def _other_run_length(index: RetrievalIndex, following: list[int]) -> int:
    return 1 + _run_length(index, following[0], following[1:]) if following else 0


def _follow_links(links: NDArray[np.int32], row: int, count: int, shown: Callable[[int], bool]) -> list[int]:
    """Return the next *count* rows along *links*, the nearest first."""
    found: list[int] = []
    at = int(links[row])
    while at != NO_ROW and len(found) < count:
        if shown(at):
            found.append(at)
        at = int(links[at])
    return found


T = TypeVar("T")
Side: TypeAlias = Literal["before", "after"]
NO_NEIGHBOURS_NOTE = "the turns around a hit are not known: this store has data and no lifecycle"
NO_EXCHANGE_NOTE = "a passage has no exchange around it: around=1 gives the passages beside it"


def expand_context(
    reader: NamespaceSearcher, view: View, places: Sequence[SearchTarget], query: Query, found: RecallResult
) -> RecallResult:
    """Return *found* with what stands around each hit as ``query.around`` asks: turns of its session, or passages of
    its document, by their place in it.

    A turn or passage that is a hit itself, or stands at a better hit already, is not repeated. What does not stand at
    the time asked for, or does not pass the filters asked for, is passed over.
    """
    taken = {(hit.namespace, hit.lane, hit.memory.id) for hit in found}
    room = _remaining_budget(query, found)
    hits: list[Hit] = []
    left_out = list(found.left_out)
    for hit in found:
        before: list[Memory] = []
        after: list[Memory] = []
        full: set[str] = set()
        for side, memory in _hit_neighbours(reader, view, places, query, hit):
            name = (hit.namespace, hit.lane, memory.id)
            if name in taken:
                continue
            taken.add(name)
            cost = 0 if room is None or query.counter is None else query.counter(memory.text)
            if side in full or (room is not None and cost > room):
                full.add(side)
                left_out.append(Omitted(memory.id, f"{OVER_BUDGET}, beside {hit.memory.id}"))
                continue
            room = None if room is None else room - cost
            (before if side == "before" else after).append(memory)
        hits.append(replace(hit, before=tuple(reversed(before)), after=tuple(after)))
    lost = query.around == "exchange" and any(hit.lane == DOCUMENTS for hit in found)
    notes = (NO_EXCHANGE_NOTE,) if lost else ()
    return replace(found, hits=tuple(hits), left_out=tuple(left_out), notes=(*found.notes, *notes))


def _hit_neighbours(
    reader: NamespaceSearcher, view: View, places: Sequence[SearchTarget], query: Query, hit: Hit
) -> Iterator[tuple[Side, Memory]]:
    """Yield (side, memory) of what stands around *hit*, the nearest first."""
    place = next((one for one in places if _is_target_of(view, one, hit)), None)
    if place is None:
        return
    if place.lane == DOCUMENTS:
        yield from _neighbour_passages(reader, view, place, query, hit)
        return
    passing = reader.passing(view, place, query)
    with reader.reading(view, place, query) as reading:
        index, standing = reading.index, reading.standing

        def shown(row: int) -> bool:
            hidden = bool(standing.hidden(index, np.array([row]))[0])
            return not hidden and (passing is None or bool(passing([index.ids[row]])[0]))

        row = index.row(hit.memory.id)
        turns = neighbour_turns(index, row, query.around, shown) if row >= 0 else NeighbourTurns((), ())
        named = [(side, index.ids[row]) for side, row in _nearest_first(turns.before, turns.after)]
    entries = view.get([id for _, id in named], namespace=place.name)
    for (side, _), entry in zip(named, entries, strict=True):
        if entry is not None:
            yield side, from_entry(entry)


def _neighbour_passages(
    reader: NamespaceSearcher, view: View, place: SearchTarget, query: Query, hit: Hit
) -> Iterator[tuple[Side, Memory]]:
    """Yield (side, memory) of the passages around *hit* in its document, the nearest first."""
    source = hit.memory.source
    if source is None or source.document is None or not isinstance(query.around, int):
        return
    of_document: Filter = {"document": source.document}
    with reader.reading(view, place, query) as reading:
        ids = [id for id in reading.index.ids if id]
        where = combine_filters([*reading.standing.conditions(reading.index), *requested_filters(query), of_document])
    there = view.passing(ids, where=where, namespace=place.name)
    entries = view.get([id for id, is_there in zip(ids, there, strict=True) if is_there], namespace=place.name)
    passages = sorted((from_entry(entry) for entry in entries if entry is not None), key=_passage_order)
    at = next((at for at, one in enumerate(passages) if one.id == hit.memory.id), None)
    if at is not None:
        count = query.around
        yield from _nearest_first(passages[max(0, at - count) : at], passages[at + 1 : at + 1 + count])


def _is_target_of(view: View, place: SearchTarget, hit: Hit) -> bool:
    """Whether *hit* is of *place*: of one of several collections, the one that has it."""
    if parse_store_namespace(place.name)[:2] != (hit.namespace, hit.lane):
        return False
    return place.lane != DOCUMENTS or view.get([hit.memory.id], namespace=place.name)[0] is not None


def _nearest_first(before: Sequence[T], after: Sequence[T]) -> list[tuple[Side, T]]:
    """Return what stands *before* and *after*, each in order, the nearest first, each with its side."""
    sides: list[tuple[int, Side, T]] = [(at, "before", one) for at, one in enumerate(reversed(before))]
    sides += [(at, "after", one) for at, one in enumerate(after)]
    return [(side, one) for _, side, one in sorted(sides, key=lambda one: one[0])]


def _passage_order(passage: Memory) -> tuple[int, str]:
    source = passage.source
    return (source.start or 0 if source is not None else 0, passage.id)


def _remaining_budget(query: Query, found: RecallResult) -> int | None:
    if query.token_budget is None or query.counter is None:
        return None
    return query.token_budget - sum(query.counter(hit.memory.text) for hit in found)
