"""From ranked candidates to what is handed out: k hits, without repeats, inside a token budget; the rest
is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from memory.codec import from_entry
from memory.lanes import ARCHIVE, lane_of
from memory.recall.scored import Ranked
from memory.records import Hit, LeftOut, Memory
from vectorstore import Entry

OVER_BUDGET = "over the token budget"
_PAGE = 2


def pack(
    ranked: Sequence[Ranked],
    *,
    k: int,
    fetch: Callable[[Sequence[Ranked]], list[Entry | None]],
    token_budget: int | None = None,
    counter: Callable[[str], int] | None = None,
    explain: bool = False,
) -> tuple[tuple[Hit, ...], tuple[LeftOut, ...]]:
    """Return the best *k* of *ranked* in order, and those that stood among them and were left out.

    A memory with the same words from the same speaker as a better one is folded into it, and so is another
    version of the same memory. One that does not fit the budget is passed over; a smaller one after it may
    still fit.
    """
    hits: list[Hit] = []
    left_out: list[LeftOut] = []
    seen: dict[tuple[str, ...], str] = {}
    room = token_budget
    for one, memory in _fetched(ranked, k, fetch):
        twin = next((seen[mark] for mark in _marks(one, memory) if mark in seen), None)
        if twin is not None:
            left_out.append(LeftOut(memory.id, f"says the same as {twin}", twin))
            continue
        if room is not None and counter is not None:
            cost = counter(memory.text)
            if cost > room:
                left_out.append(LeftOut(memory.id, OVER_BUDGET))
                continue
            room -= cost
        seen.update((mark, memory.id) for mark in _marks(one, memory))
        hits.append(_hit(one, memory, explain=explain))
        if len(hits) == k:
            break
    return tuple(hits), tuple(left_out)


def _fetched(
    ranked: Sequence[Ranked], k: int, fetch: Callable[[Sequence[Ranked]], list[Entry | None]]
) -> Iterator[tuple[Ranked, Memory]]:
    size = k
    start = 0
    while start < len(ranked) and size:
        page = ranked[start : start + size]
        for one, entry in zip(page, fetch(page), strict=True):
            if entry is not None:
                yield one, from_entry(entry)
        start, size = start + size, size * _PAGE


def _marks(one: Ranked, memory: Memory) -> tuple[tuple[str, ...], ...]:
    user, lane, collection = lane_of(one.source.namespace)
    name = memory.id.rpartition("@")[0] if lane == ARCHIVE else memory.id
    document = memory.source.document if memory.source is not None else None
    words = " ".join(memory.text.split()).casefold()
    return (
        ("id", user, lane if collection is not None else "", collection or "", name),
        ("words", user, memory.speaker or memory.role or "", document or "", words),
    )


def _hit(one: Ranked, memory: Memory, *, explain: bool) -> Hit:
    user, lane, _ = lane_of(one.source.namespace)
    return Hit(memory, one.score, one.parts() if explain else {}, user, lane, outdated_by=one.outdated_by())
