"""Neighbour expansion of hits: turns of the session or passages of the document, within the rest of the token budget.

Each memory is returned once. The best hit is served first, its nearest neighbours before those farther away. A
neighbour that does not fit is reported, and nothing beyond it on its side is returned, so that there are no gaps.

An exchange is a run of turns of one speaker with the run that it answers, or with the run that answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tellback.memory.codec import from_entry
from tellback.memory.models import Memory
from tellback.memory.partitions import DOCUMENTS, parse_store_namespace
from tellback.memory.results import Hit, Omitted, RecallResult
from tellback.memory.retrieval.candidates import NamespaceSearcher, SearchTarget, caller_filters
from tellback.memory.retrieval.index.record import TextFeature
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.index.turn_links import NO_ROW
from tellback.memory.retrieval.index.validity import combine_filters
from tellback.memory.retrieval.query import EXCHANGE, NeighbourExpansion, Query
from tellback.memory.retrieval.token_budget import OVER_BUDGET
from tellback.vectorstore import Filter, View

MAX_EXCHANGE_TURNS = 12
"""Turns of an exchange on either side of a hit; a longer run of one speaker is a speech."""


def neighbour_turns(
    index: RetrievalIndex, row: int, neighbours: NeighbourExpansion, is_visible: Callable[[int], bool]
) -> tuple[list[int], list[int]]:
    """Return the visible rows before *row* and after it, the nearest first: so many of each, or its exchange."""
    count = neighbours if isinstance(neighbours, int) else MAX_EXCHANGE_TURNS
    before = _follow_links(index.links.before.rows, row, count, is_visible)
    after = _follow_links(index.links.after.rows, row, count, is_visible)
    if isinstance(neighbours, int):
        return before, after
    run_before, run_after = _run_length(index, row, before), _run_length(index, row, after)
    if _opens_exchange(index, row, before[:run_before]):
        return before[:run_before], after[: run_after + _leading_run_length(index, after[run_after:])]
    return before[: run_before + _leading_run_length(index, before[run_before:])], after[:run_after]


def _opens_exchange(index: RetrievalIndex, row: int, run_before: list[int]) -> bool:
    """Return whether *row* begins an exchange rather than ends it.

    It does if it ends with a question, continues its own run after a question, or neither answers nor is the
    assistant's.
    """
    features = index.columns["text_features"]
    if features[row] & TextFeature.ENDS_ASKING or any(features[other] & TextFeature.ASKS for other in run_before):
        return True
    return bool(index.links.answers.rows[row] == NO_ROW and not index.columns["assistant"][row])


def _run_length(index: RetrievalIndex, row: int, following: list[int]) -> int:
    """Return how many of *following*, the nearest first, have the speaker of *row* before another one comes."""
    speakers = index.columns["speaker"]
    return next((i for i, other in enumerate(following) if speakers[other] != speakers[row]), len(following))


def _leading_run_length(index: RetrievalIndex, rows: list[int]) -> int:
    return 1 + _run_length(index, rows[0], rows[1:]) if rows else 0


def _follow_links(links: NDArray[np.int32], row: int, count: int, is_visible: Callable[[int], bool]) -> list[int]:
    """Return the next *count* visible rows along *links*, the nearest first."""
    rows: list[int] = []
    linked = int(links[row])
    while linked != NO_ROW and len(rows) < count:
        if is_visible(linked):
            rows.append(linked)
        linked = int(links[linked])
    return rows


T = TypeVar("T")
Side: TypeAlias = Literal["before", "after"]
NO_NEIGHBOURS_NOTE = "the turns around a hit are not known: this store has data and no lifecycle"
NO_EXCHANGE_NOTE = "a passage has no exchange around it: neighbours=1 gives the passages beside it"


def expand_neighbours(
    searcher: NamespaceSearcher, view: View, targets: Sequence[SearchTarget], query: Query, found: RecallResult
) -> RecallResult:
    """Return *found* with the neighbours of each hit that ``query.neighbours`` asks for.

    A memory that is a hit itself, or a neighbour of a better hit, is not repeated. Memories that are hidden at the
    times of the query, or do not pass the caller's filters, are skipped.
    """
    returned = {(hit.namespace, hit.partition, hit.memory.id) for hit in found}
    count, remaining = query.counter, query.token_budget
    if count is not None and remaining is not None:
        remaining -= sum(count(hit.memory.text) for hit in found)
    hits: list[Hit] = []
    omitted = list(found.left_out)
    for hit in found:
        before: list[Memory] = []
        after: list[Memory] = []
        full: set[str] = set()
        for side, memory in _hit_neighbours(searcher, view, targets, query, hit):
            key = (hit.namespace, hit.partition, memory.id)
            if key in returned:
                continue
            returned.add(key)
            cost = 0 if remaining is None or count is None else count(memory.text)
            if side in full or (remaining is not None and cost > remaining):
                full.add(side)
                omitted.append(Omitted(memory.id, f"{OVER_BUDGET}, beside {hit.memory.id}"))
                continue
            remaining = None if remaining is None else remaining - cost
            (before if side == "before" else after).append(memory)
        hits.append(replace(hit, before=tuple(reversed(before)), after=tuple(after)))
    lacks_exchange = query.neighbours == EXCHANGE and any(hit.partition == DOCUMENTS for hit in found)
    notes = (NO_EXCHANGE_NOTE,) if lacks_exchange else ()
    return replace(found, hits=tuple(hits), left_out=tuple(omitted), notes=(*found.notes, *notes))


def _hit_neighbours(
    searcher: NamespaceSearcher, view: View, targets: Sequence[SearchTarget], query: Query, hit: Hit
) -> Iterator[tuple[Side, Memory]]:
    """Yield (side, memory) of the neighbours of *hit*, the nearest first."""
    target = next((target for target in targets if _is_target_of(view, target, hit)), None)
    if target is None:
        return
    if target.partition == DOCUMENTS:
        yield from _neighbour_passages(searcher, view, target, query, hit)
        return
    where = combine_filters(caller_filters(query))
    with searcher.analyze(view, target, query) as analyzed:
        index, validity = analyzed.index, analyzed.validity

        def is_visible(row: int) -> bool:
            hidden = bool(validity.hidden(index, np.array([row]))[0])
            return not hidden and bool(view.passing([index.ids[row]], where=where, namespace=target.name)[0])

        row = index.row(hit.memory.id)
        before, after = neighbour_turns(index, row, query.neighbours, is_visible) if row >= 0 else ([], [])
        neighbours = [(side, index.ids[row]) for side, row in _nearest_first(before, after)]
    entries = view.get([id for _, id in neighbours], namespace=target.name)
    for (side, _), entry in zip(neighbours, entries, strict=True):
        if entry is not None:
            yield side, from_entry(entry)


def _neighbour_passages(
    searcher: NamespaceSearcher, view: View, target: SearchTarget, query: Query, hit: Hit
) -> Iterator[tuple[Side, Memory]]:
    """Yield (side, memory) of the passages around *hit* in its document, the nearest first."""
    source = hit.memory.source
    if source is None or source.document is None or not isinstance(query.neighbours, int):
        return
    of_document: Filter = {"document": source.document}
    with searcher.analyze(view, target, query) as analyzed:
        ids = [id for id in analyzed.index.ids if id]
        conditions = [*analyzed.validity.conditions(analyzed.index), *caller_filters(query), of_document]
    passes = view.passing(ids, where=combine_filters(conditions), namespace=target.name)
    entries = view.get([id for id, passing in zip(ids, passes, strict=True) if passing], namespace=target.name)
    passages = sorted((from_entry(entry) for entry in entries if entry is not None), key=_passage_order)
    position = next((i for i, passage in enumerate(passages) if passage.id == hit.memory.id), None)
    if position is not None:
        count = query.neighbours
        before = passages[max(0, position - count) : position][::-1]
        yield from _nearest_first(before, passages[position + 1 : position + 1 + count])


def _is_target_of(view: View, target: SearchTarget, hit: Hit) -> bool:
    """Return whether *target* has *hit*; of the collections of one namespace, only one has it."""
    if parse_store_namespace(target.name)[:2] != (hit.namespace, hit.partition):
        return False
    return target.partition != DOCUMENTS or view.get([hit.memory.id], namespace=target.name)[0] is not None


def _nearest_first(before: Sequence[T], after: Sequence[T]) -> list[tuple[Side, T]]:
    """Return (side, item) of the items *before* and *after*, each given and returned nearest first."""
    ranked: list[tuple[int, Side, T]] = [(rank, "before", item) for rank, item in enumerate(before)]
    ranked += [(rank, "after", item) for rank, item in enumerate(after)]
    return [(side, item) for _, side, item in sorted(ranked, key=lambda neighbour: neighbour[0])]


def _passage_order(passage: Memory) -> tuple[int, str]:
    source = passage.source
    return (source.start or 0 if source is not None else 0, passage.id)
