"""Packing of ranked candidates into at most k hits within a token budget, without duplicates.

Dedup folds a candidate into a better one that says the same: versions of one memory, equal words of one speaker, long
texts that hardly differ. Short texts that differ in one word may state the opposite, so only equal ones are duplicates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise

from tellback.memory.codec import from_entry
from tellback.memory.partitions import ARCHIVE, DOCUMENTS, parse_store_namespace
from tellback.memory.results import Hit, Omitted
from tellback.memory.retrieval.scoring.scores import RankedCandidate
from tellback.vectorstore import Entry

OVER_BUDGET = "over the token budget"
_PAGE_GROWTH = 2

CountTokens = Callable[[str], int]


def fetch_hits(
    ranked: Sequence[RankedCandidate],
    k: int,
    fetch: Callable[[Sequence[RankedCandidate]], list[Entry | None]],
    *,
    explain: bool = False,
) -> Iterator[Hit]:
    """Yield the hits of *ranked* that still exist, best first.

    *fetch* reads the entries of candidates, page by page: the first has *k* of them, each further one is larger.
    """
    size = k
    start = 0
    parsed: dict[str, tuple[str, str, str | None]] = {}
    while start < len(ranked) and size:
        page = ranked[start : start + size]
        for candidate, entry in zip(page, fetch(page), strict=True):
            if entry is not None:
                store_name = candidate.source.namespace
                if store_name not in parsed:
                    parsed[store_name] = parse_store_namespace(store_name)
                namespace, partition, _ = parsed[store_name]
                yield Hit(
                    from_entry(entry),
                    candidate.score,
                    candidate.parts() if explain else {},
                    namespace,
                    partition,
                    outdated_by=candidate.outdated_by(),
                    later_than=candidate.later_than(),
                    likely_change=candidate.is_likely_change(),
                )
        start, size = start + size, size * _PAGE_GROWTH


def pack_hits(
    hits: Iterable[Hit], *, k: int, token_budget: int | None = None, counter: CountTokens | None = None
) -> tuple[tuple[Hit, ...], tuple[Omitted, ...]]:
    """Return the best *k* of *hits* in order, given best first, and those before the last of them that were omitted.

    A duplicate is folded into the better memory. A memory that does not fit into the budget is omitted; a shorter one
    after it may still fit.
    """
    packed: list[Hit] = []
    omitted: list[Omitted] = []
    deduplicator = Deduplicator()
    remaining = token_budget
    for hit in hits if k else ():
        words = _HitWords(hit)
        duplicate_of = deduplicator.duplicate_of(words)
        if duplicate_of is not None:
            omitted.append(Omitted(hit.memory.id, f"says the same as {duplicate_of}", duplicate_of))
            continue
        if remaining is not None and counter is not None:
            cost = counter(hit.memory.text)
            if cost > remaining:
                omitted.append(Omitted(hit.memory.id, OVER_BUDGET))
                continue
            remaining -= cost
        deduplicator.add(words)
        packed.append(hit)
        if len(packed) == k:
            break
    return tuple(packed), tuple(omitted)


_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")
_MIN_LONG_WORDS = 40
"""Words of a long text: two texts of so many may differ a little and still say the same."""
_MIN_OVERLAP = 0.9
"""Share of neighbouring pairs of words that two long texts have in common, of all that either has."""


class Deduplicator:
    """The hits that were packed so far, and what makes another one their duplicate."""

    def __init__(self) -> None:
        self._id_of_mark: dict[tuple[str, ...], str] = {}
        self._long_texts: dict[tuple[str, ...], list[_HitWords]] = {}

    def duplicate_of(self, hit: _HitWords) -> str | None:
        """Return the id of the packed hit that *hit* repeats, None for none."""
        for mark in hit.marks:
            if mark in self._id_of_mark:
                return self._id_of_mark[mark]
        if not hit.is_long:
            return None
        return next((other.id for other in self._long_texts.get(hit.voice, ()) if hit.nearly_equals(other)), None)

    def add(self, hit: _HitWords) -> None:
        """Add a hit that was packed."""
        self._id_of_mark.update((mark, hit.id) for mark in hit.marks)
        if hit.is_long:
            self._long_texts.setdefault(hit.voice, []).append(hit)


class _HitWords:
    """The words of a hit, its *voice* (namespace, speaker, document), and the *marks* that its duplicates share."""

    def __init__(self, hit: Hit) -> None:
        memory = hit.memory
        words = _WORD.findall(memory.text.casefold())
        document = memory.source.document if memory.source is not None else None
        self.id = memory.id
        self.is_long = len(words) >= _MIN_LONG_WORDS
        # The same words of two people, or in two documents, are two things.
        self.voice = hit.namespace, memory.speaker or memory.role or "", document or ""
        id = memory.id.rpartition("@")[0] if hit.partition == ARCHIVE else memory.id
        self.marks = (
            ("id", hit.namespace, DOCUMENTS if hit.partition == DOCUMENTS else "", id),
            ("words", *self.voice, " ".join(words) or " ".join(memory.text.split())),
        )
        self._words = words

    @cached_property
    def _content(self) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
        """The words with digits, and the pairs of neighbouring words."""
        return frozenset(filter(_DIGIT.search, self._words)), frozenset(pairwise(self._words))

    def nearly_equals(self, other: _HitWords) -> bool:
        """Return whether both texts have the same numbers and nearly the same pairs of words."""
        (numbers, pairs), (other_numbers, other_pairs) = self._content, other._content
        shared = len(pairs & other_pairs)
        return numbers == other_numbers and shared >= _MIN_OVERLAP * (len(pairs) + len(other_pairs) - shared)
