"""Which memories say the same: versions of one, the same words of one speaker, long texts that hardly differ.

Short texts that differ in one word may say the opposite, so they are never folded.
"""

from __future__ import annotations

import re
from itertools import pairwise

from memory.lanes import ARCHIVE, DOCUMENTS
from memory.records import Hit, Memory

_WORD = re.compile(r"\w+")
_LONG = 40
"""Words from which on two texts may differ a little and still say the same."""
_ALIKE = 0.9
"""Share of neighbouring pairs of words that both have, of all that either has."""


class Folding:
    """Those that were kept so far, and what of them another one would repeat."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, ...], str] = {}
        self._long: dict[tuple[str, ...], list[tuple[str, frozenset[str], frozenset[tuple[str, str]]]]] = {}

    def twin(self, hit: Hit) -> str | None:
        """Return the id of the kept one that *hit* repeats; None for none."""
        same = next((self._seen[mark] for mark in _marks(hit) if mark in self._seen), None)
        if same is not None:
            return same
        words = _words(hit.memory)
        if len(words) < _LONG:
            return None
        numbers, pairs = _numbers(words), _pairs(words)
        for id, their_numbers, their_pairs in self._long.get(_voice(hit), ()):
            if numbers == their_numbers and len(pairs & their_pairs) >= _ALIKE * len(pairs | their_pairs):
                return id
        return None

    def keep(self, hit: Hit) -> None:
        """Add one that is handed out."""
        self._seen.update((mark, hit.memory.id) for mark in _marks(hit))
        words = _words(hit.memory)
        if len(words) >= _LONG:
            self._long.setdefault(_voice(hit), []).append((hit.memory.id, _numbers(words), _pairs(words)))


def _marks(hit: Hit) -> tuple[tuple[str, ...], ...]:
    name = hit.memory.id.rpartition("@")[0] if hit.lane == ARCHIVE else hit.memory.id
    said = " ".join(_words(hit.memory)) or " ".join(hit.memory.text.split())
    return (
        ("id", hit.namespace, DOCUMENTS if hit.lane == DOCUMENTS else "", name),
        ("words", *_voice(hit), said),
    )


def _voice(hit: Hit) -> tuple[str, str, str]:
    """Whose words they are: the same ones of two people, or in two documents, are two things."""
    document = hit.memory.source.document if hit.memory.source is not None else None
    return hit.namespace, hit.memory.speaker or hit.memory.role or "", document or ""


def _words(memory: Memory) -> list[str]:
    return _WORD.findall(memory.text.casefold())


def _numbers(words: list[str]) -> frozenset[str]:
    return frozenset(word for word in words if any(character.isdigit() for character in word))


def _pairs(words: list[str]) -> frozenset[tuple[str, str]]:
    return frozenset(pairwise(words))
