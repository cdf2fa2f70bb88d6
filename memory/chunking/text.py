"""The chunker of plain text: spans at paragraphs, then sentences, then words; overlap and scraps of spans.

Headings mean nothing to it. The Markdown chunker cuts its sections with the same spans.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import ClassVar

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from tellback.memory.chunking.protocol import Chunk
from tellback.memory.chunking.sentences import TextSpan
from tellback.memory.chunking.size import DEFAULT_SIZE, ChunkSize
from tellback.memory.tokens.counter import TokenCounter

SCRAP_DIVISOR = 8
"""A piece smaller than this part of what a chunk holds is a scrap."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=\S)|(?<=[\u3002\uff01\uff1f])(?=\S)|\n\s*\n(?=\S)")
_WORD = re.compile(r"(?<=\s)\S")
_WORD_CHARACTER = re.compile(r"[^\W_]")
_BORDERS = ("\n\n", "\n", ". ", " ")
_MAX_BLOCK = 50_000


def add_overlap(text: str, spans: Sequence[TextSpan], measure: ChunkSize) -> list[TextSpan]:
    """Begin each span but the first a little earlier: at a sentence, else a word, of the one before it.

    The overlap and the whole stay within their sizes; where nothing fits, there is no overlap.
    """
    if measure.overlap == 0:
        return list(spans)
    extended = list(spans[:1])
    for (before, _), (start, end) in pairwise(spans):
        earliest = max(before, start - measure.characters(measure.overlap))
        extended.append((_overlap_start(text, earliest, start, end, measure), end))
    return extended


def has_words(text: str, start: int, end: int) -> bool:
    """Return whether ``text[start:end]`` says anything: rules and bare punctuation do not."""
    return _WORD_CHARACTER.search(text, start, end) is not None


def _split_blocks(text: str, start: int, end: int, capacity: int) -> Iterator[TextSpan]:
    """Cut a long stretch at its coarsest border: the splitter takes time with the square of a paragraph."""
    longest = max(_MAX_BLOCK, 20 * capacity)
    while end - start > longest:
        latest = start + longest
        earliest = latest - longest // 4
        found = (text.rfind(border, earliest, latest) + len(border) for border in _BORDERS)
        border = next((place for place in found if place > earliest), latest)
        yield start, border
        start = border
    yield start, end


def _overlap_start(text: str, earliest: int, start: int, end: int, measure: ChunkSize) -> int:
    """Return the first sentence, else the first word, from *earliest* on where the span may begin."""
    region = text[earliest:start]
    for pattern in (_SENTENCE, _WORD):
        begins = [earliest + match.end() - (pattern is _WORD) for match in pattern.finditer(region)]
        for begin in begins:
            fits = measure.length(text[begin:start].rstrip()) <= measure.overlap
            if fits and measure.length(text[begin:end]) <= measure.size:
                return begin
    return start


class SplitterChunker:
    """Base of the chunkers that cut with a class of semantic-text-splitter."""

    _splitter: ClassVar[type[MarkdownSplitter] | type[TextSplitter]]
    _version: ClassVar[str]

    def __init__(self, size: int = DEFAULT_SIZE, *, overlap: int = 0, counter: TokenCounter | None = None) -> None:
        self._measure = ChunkSize(size, overlap, counter)

    @property
    def fingerprint(self) -> str:
        """The way of cutting and its settings."""
        return f"{self._version}/{self._measure.name}"

    def _cut(self, text: str, start: int, end: int, capacity: int) -> list[TextSpan]:
        """Return spans of ``text[start:end]``, none larger than *capacity*, none blank."""
        spans: list[TextSpan] = []
        for block in _split_blocks(text, start, end, self._measure.characters(capacity)):
            spans += self._split(text, *block, capacity)
        return self._merge_scraps(text, spans, capacity)

    def _split(self, text: str, start: int, end: int, capacity: int) -> list[TextSpan]:
        """Return what the splitter makes of ``text[start:end]``; its offsets count characters."""
        counter = self._measure.counter
        splitter = (
            self._splitter(capacity) if counter is None else self._splitter.from_callback(counter.count, capacity)
        )
        found = splitter.chunk_indices(text[start:end])
        return [(start + offset, start + offset + len(piece)) for offset, piece in found if piece.strip()]

    def _merge_scraps(self, text: str, spans: Sequence[TextSpan], capacity: int) -> list[TextSpan]:
        """Join spans that say next to nothing to the one before; where that is full, share its text out anew."""
        kept: list[TextSpan] = []
        for start, end in spans:
            if not kept or not (
                self._is_scrap(text, start, end, capacity) or self._is_scrap(text, *kept[-1], capacity)
            ):
                kept.append((start, end))
                continue
            before = kept.pop()
            both = self._measure.length(text[before[0] : end])
            if both <= capacity:
                kept.append((before[0], end))
                continue
            shared = self._split(text, before[0], end, min(both * 5 // 8 + 1, capacity))
            kept += [before, (start, end)] if any(self._is_scrap(text, *span, capacity) for span in shared) else shared
        return kept

    def _is_scrap(self, text: str, start: int, end: int, capacity: int) -> bool:
        """Return whether the span says next to nothing for a chunk of *capacity*."""
        small = self._measure.length(text[start:end]) * SCRAP_DIVISOR < capacity
        return small or not has_words(text, start, end)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.fingerprint!r})"


class TextChunker(SplitterChunker):
    """Pieces of at most *size* characters, or tokens where a *counter* is given, *overlap* included.

    Overlap is 0 unless asked for: neighbours of a passage can be had when it is found, and a sentence kept
    twice would count twice.
    """

    _splitter = TextSplitter
    _version = "text-1"

    def chunk(self, text: str) -> list[Chunk]:
        """As the protocol says."""
        spans = self._cut(text, 0, len(text), self._measure.size - self._measure.overlap)
        return [Chunk(text[start:end], start, end) for start, end in add_overlap(text, spans, self._measure)]
