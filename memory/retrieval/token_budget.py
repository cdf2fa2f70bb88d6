"""Packing of ranked candidates into at most k hits, deduplicated and within a token budget, with what was omitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from memory.codec import from_entry
from memory.models import Memory
from memory.partitions import parse_store_namespace
from memory.results import Hit, Omitted
from memory.retrieval.dedup import Deduplicator
from memory.retrieval.scoring.scores import RankedCandidate
from vectorstore import Entry

OVER_BUDGET = "over the token budget"
_PAGE_GROWTH = 2

CountTokens = Callable[[str], int]


def pack_candidates(
    ranked: Sequence[RankedCandidate],
    *,
    k: int,
    fetch: Callable[[Sequence[RankedCandidate]], list[Entry | None]],
    token_budget: int | None = None,
    counter: CountTokens | None = None,
    explain: bool = False,
) -> tuple[tuple[Hit, ...], tuple[Omitted, ...]]:
    """Return the best *k* of *ranked* in order, and those that stood among them and were left out.

    A memory that says the same as a better one is folded into it (``folding``). One that does not fit the budget is
    passed over; a smaller one after it may still fit.
    """
    hits = (_make_hit(one, memory, explain=explain) for one, memory in _fetch_memories(ranked, k, fetch))
    return pack_hits(hits, k=k, token_budget=token_budget, counter=counter)


def pack_hits(
    hits: Iterable[Hit], *, k: int, token_budget: int | None = None, counter: CountTokens | None = None
) -> tuple[tuple[Hit, ...], tuple[Omitted, ...]]:
    """As ``pack_candidates``, of *hits* that come best first."""
    kept: list[Hit] = []
    left_out: list[Omitted] = []
    folding = Deduplicator()
    room = token_budget
    for hit in hits if k else ():
        twin = folding.twin(hit)
        if twin is not None:
            left_out.append(Omitted(hit.memory.id, f"says the same as {twin}", twin))
            continue
        if room is not None and counter is not None:
            cost = counter(hit.memory.text)
            if cost > room:
                left_out.append(Omitted(hit.memory.id, OVER_BUDGET))
                continue
            room -= cost
        folding.keep(hit)
        kept.append(hit)
        if len(kept) == k:
            break
    return tuple(kept), tuple(left_out)


def _fetch_memories(
    ranked: Sequence[RankedCandidate], k: int, fetch: Callable[[Sequence[RankedCandidate]], list[Entry | None]]
) -> Iterator[tuple[RankedCandidate, Memory]]:
    size = k
    start = 0
    while start < len(ranked) and size:
        page = ranked[start : start + size]
        for one, entry in zip(page, fetch(page), strict=True):
            if entry is not None:
                yield one, from_entry(entry)
        start, size = start + size, size * _PAGE_GROWTH


def _make_hit(one: RankedCandidate, memory: Memory, *, explain: bool) -> Hit:
    user, lane, _ = parse_store_namespace(one.source.namespace)
    return Hit(memory, one.score, one.parts() if explain else {}, user, lane, outdated_by=one.outdated_by())
