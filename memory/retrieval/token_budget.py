"""Packing of ranked candidates into at most k hits within a token budget, without duplicates.

Dedup folds a candidate into a better one that says the same: versions of one memory, equal words of one speaker, long
texts that hardly differ. Short texts that differ in one word may state the opposite, so only equal ones are duplicates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from memory.codec import from_entry
from memory.models import Memory
from memory.partitions import ARCHIVE, DOCUMENTS, parse_store_namespace
from memory.results import Hit, Omitted
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
    """Return the best *k* of *ranked* in order, and those before the last of them that were omitted.

    A duplicate is folded into the better memory. A memory that does not fit into the budget is omitted; a shorter one
    after it may still fit. *fetch* reads the entries of candidates, page by page.
    """
    hits = (_make_hit(candidate, memory, explain=explain) for candidate, memory in _fetch_memories(ranked, k, fetch))
    return pack_hits(hits, k=k, token_budget=token_budget, counter=counter)


def pack_hits(
    hits: Iterable[Hit], *, k: int, token_budget: int | None = None, counter: CountTokens | None = None
) -> tuple[tuple[Hit, ...], tuple[Omitted, ...]]:
    """Pack *hits*, given best first, as ``pack_candidates`` does."""
    packed: list[Hit] = []
    omitted: list[Omitted] = []
    deduplicator = Deduplicator()
    remaining = token_budget
    for hit in hits if k else ():
        duplicate_of = deduplicator.duplicate_of(hit)
        if duplicate_of is not None:
            omitted.append(Omitted(hit.memory.id, f"says the same as {duplicate_of}", duplicate_of))
            continue
        if remaining is not None and counter is not None:
            cost = counter(hit.memory.text)
            if cost > remaining:
                omitted.append(Omitted(hit.memory.id, OVER_BUDGET))
                continue
            remaining -= cost
        deduplicator.add(hit)
        packed.append(hit)
        if len(packed) == k:
            break
    return tuple(packed), tuple(omitted)


def _fetch_memories(
    ranked: Sequence[RankedCandidate], k: int, fetch: Callable[[Sequence[RankedCandidate]], list[Entry | None]]
) -> Iterator[tuple[RankedCandidate, Memory]]:
    size = k
    start = 0
    while start < len(ranked) and size:
        page = ranked[start : start + size]
        for candidate, entry in zip(page, fetch(page), strict=True):
            if entry is not None:
                yield candidate, from_entry(entry)
        start, size = start + size, size * _PAGE_GROWTH


def _make_hit(candidate: RankedCandidate, memory: Memory, *, explain: bool) -> Hit:
    namespace, partition, _ = parse_store_namespace(candidate.source.namespace)
    parts = candidate.parts() if explain else {}
    return Hit(memory, candidate.score, parts, namespace, partition, outdated_by=candidate.outdated_by())


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
        self._long_texts: dict[tuple[str, ...], list[_LongText]] = {}
        self._last_read: tuple[Hit, _HitWords] | None = None

    def duplicate_of(self, hit: Hit) -> str | None:
        """Return the id of the packed hit that *hit* repeats, None for none."""
        content = self._read(hit)
        id = next((self._id_of_mark[mark] for mark in content.marks if mark in self._id_of_mark), None)
        if id is not None or len(content.words) < _MIN_LONG_WORDS:
            return id
        others = self._long_texts.get(content.voice, ())
        text = _LongText(hit.memory.id, content.words) if others else None
        return next((other.id for other in others if text is not None and text.nearly_equals(other)), None)

    def add(self, hit: Hit) -> None:
        """Add a hit that was packed."""
        content = self._read(hit)
        self._id_of_mark.update((mark, hit.memory.id) for mark in content.marks)
        if len(content.words) >= _MIN_LONG_WORDS:
            self._long_texts.setdefault(content.voice, []).append(_LongText(hit.memory.id, content.words))

    def _read(self, hit: Hit) -> _HitWords:
        """Return the words of *hit*; read only once for ``duplicate_of`` and ``add`` of the same hit."""
        if self._last_read is None or self._last_read[0] is not hit:
            self._last_read = hit, _HitWords(hit)
        return self._last_read[1]


class _HitWords:
    """The words of a hit, its *voice* (namespace, speaker, document), and the *marks* that its duplicates share."""

    def __init__(self, hit: Hit) -> None:
        memory = hit.memory
        self.words = _WORD.findall(memory.text.casefold())
        document = memory.source.document if memory.source is not None else None
        # The same words of two people, or in two documents, are two things.
        self.voice = hit.namespace, memory.speaker or memory.role or "", document or ""
        id = memory.id.rpartition("@")[0] if hit.partition == ARCHIVE else memory.id
        normalized_text = " ".join(self.words) or " ".join(memory.text.split())
        self.marks = (
            ("id", hit.namespace, DOCUMENTS if hit.partition == DOCUMENTS else "", id),
            ("words", *self.voice, normalized_text),
        )


class _LongText:
    """A long text as its pairs of neighbouring words and its words with digits."""

    def __init__(self, id: str, words: list[str]) -> None:
        self.id = id
        self._numbers = frozenset(word for word in words if _DIGIT.search(word))
        self._pairs = frozenset(pairwise(words))

    def nearly_equals(self, other: _LongText) -> bool:
        """Return whether both texts have the same numbers and nearly the same pairs of words."""
        shared = len(self._pairs & other._pairs)
        union = len(self._pairs) + len(other._pairs) - shared
        return self._numbers == other._numbers and shared >= _MIN_OVERLAP * union
