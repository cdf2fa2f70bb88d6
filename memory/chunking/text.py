"""Cuts plain text at paragraphs, then sentences, then words; knows no headings."""

from __future__ import annotations

from semantic_text_splitter import TextSplitter

from memory.chunking.measure import DEFAULT_SIZE, Measure
from memory.chunking.protocol import Chunk
from memory.chunking.spans import overlapped, splitter
from memory.tokens import TokenCounter


class TextChunker:
    """Pieces of at most *size* characters, or tokens where a *counter* is given, *overlap* included.

    Overlap is 0 unless asked for: neighbours of a passage can be had when it is found, and a sentence kept
    twice would count twice.
    """

    def __init__(self, size: int = DEFAULT_SIZE, *, overlap: int = 0, counter: TokenCounter | None = None) -> None:
        self._measure = Measure(size, overlap, counter)
        self._cut = splitter(TextSplitter, self._measure)

    @property
    def fingerprint(self) -> str:
        """The way of cutting and its settings."""
        return f"text-1/{self._measure.name}"

    def chunk(self, text: str) -> list[Chunk]:
        """As the protocol says."""
        spans = self._cut(text, 0, len(text), self._measure.size - self._measure.overlap)
        return [Chunk(text[start:end], start, end) for start, end in overlapped(text, spans, self._measure)]

    def __repr__(self) -> str:
        return f"TextChunker({self.fingerprint!r})"
