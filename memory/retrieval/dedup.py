"""Dedup of hits: versions of one memory, equal words of one speaker, long texts that hardly differ.

Short texts that differ in one word may state the opposite, so only equal ones are duplicates.
"""

from __future__ import annotations

import re
from itertools import pairwise

from memory.partitions import ARCHIVE, DOCUMENTS
from memory.results import Hit

_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")
_MIN_LONG_WORDS = 40
"""Words from which on two texts may differ a little and still say the same."""
_MIN_OVERLAP = 0.9
"""Share of neighbouring pairs of words that both have, of all that either has."""


class Deduplicator:
    """Those that were kept so far, and what of them another one would repeat."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, ...], str] = {}
        self._long: dict[tuple[str, ...], list[_LongText]] = {}
        self._said: tuple[Hit, _HitWords] | None = None

    def twin(self, hit: Hit) -> str | None:
        """Return the id of the kept one that *hit* repeats; None for none."""
        said = self._read(hit)
        same = next((self._seen[mark] for mark in said.marks if mark in self._seen), None)
        if same is not None or len(said.words) < _MIN_LONG_WORDS:
            return same
        others = self._long.get(said.voice, ())
        long = _LongText(hit.memory.id, said.words) if others else None
        return next((other.id for other in others if long is not None and long.says(other)), None)

    def keep(self, hit: Hit) -> None:
        """Add one that is handed out."""
        said = self._read(hit)
        self._seen.update((mark, hit.memory.id) for mark in said.marks)
        if len(said.words) >= _MIN_LONG_WORDS:
            self._long.setdefault(said.voice, []).append(_LongText(hit.memory.id, said.words))

    def _read(self, hit: Hit) -> _HitWords:
        """Return what *hit* says; asked twice in a row, it is read once."""
        if self._said is None or self._said[0] is not hit:
            self._said = hit, _HitWords(hit)
        return self._said[1]


class _HitWords:
    """The words of a hit, whose they are, and what is the same for those that repeat it."""

    def __init__(self, hit: Hit) -> None:
        memory = hit.memory
        self.words = _WORD.findall(memory.text.casefold())
        document = memory.source.document if memory.source is not None else None
        # The same words of two people, or in two documents, are two things.
        self.voice = hit.namespace, memory.speaker or memory.role or "", document or ""
        name = memory.id.rpartition("@")[0] if hit.lane == ARCHIVE else memory.id
        same = " ".join(self.words) or " ".join(memory.text.split())
        self.marks = (
            ("id", hit.namespace, DOCUMENTS if hit.lane == DOCUMENTS else "", name),
            ("words", *self.voice, same),
        )


class _LongText:
    """A text of many words, to be compared with others by its pairs of words and its numbers."""

    def __init__(self, id: str, words: list[str]) -> None:
        self.id = id
        self._numbers = frozenset(word for word in words if _DIGIT.search(word))
        self._pairs = frozenset(pairwise(words))

    def says(self, other: _LongText) -> bool:
        """Whether both say the same."""
        both = len(self._pairs & other._pairs)
        return self._numbers == other._numbers and both >= _MIN_OVERLAP * (len(self._pairs) + len(other._pairs) - both)
