"""Cuts Markdown: never across a heading, never a heading without what it stands above."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from semantic_text_splitter import MarkdownSplitter

from memory.chunking.headings import Heading, headings, path_at
from memory.chunking.measure import DEFAULT_SIZE, Measure
from memory.chunking.protocol import Chunk
from memory.chunking.spans import Span, has_words, overlapped, splitter
from memory.tokens import TokenCounter


@dataclass(frozen=True, slots=True)
class _Section:
    """Headings from *start* to *body*, and what stands below them up to *end*."""

    start: int
    body: int
    end: int


class MarkdownChunker:
    """Pieces of at most *size* characters, or tokens where a *counter* is given, *overlap* included.

    A piece lies within one section, so that its heading path holds for all of it. Headings with nothing
    below them go with the next section's first piece, at the very end with the last one's. Lists, tables,
    quotes and code stay whole where they fit. Overlap is 0 unless asked for, as for ``TextChunker``.
    """

    def __init__(self, size: int = DEFAULT_SIZE, *, overlap: int = 0, counter: TokenCounter | None = None) -> None:
        self._measure = Measure(size, overlap, counter)
        self._cut = splitter(MarkdownSplitter, self._measure)

    @property
    def fingerprint(self) -> str:
        """The way of cutting and its settings."""
        return f"markdown-1/{self._measure.name}"

    def chunk(self, text: str) -> list[Chunk]:
        """As the protocol says."""
        found = headings(text)
        chunks = []
        for section in _sections(text, found):
            for start, end in self._spans(text, section):
                chunks.append(Chunk(text[start:end], start, end, path_at(found, text, start, end)))
        return chunks

    def _spans(self, text: str, section: _Section) -> list[Span]:
        start, end = section.start, section.end
        whole = text[start:end].strip()
        if whole and self._measure.length(whole) <= self._measure.size:
            at = text.index(whole, start)
            return [(at, at + len(whole))]
        spans = self._under_headings(text, section) or self._cut(text, start, end, self._room(0))
        return overlapped(text, spans, self._measure)

    def _under_headings(self, text: str, section: _Section) -> list[Span]:
        """Cut the body so that the headings fit before its first piece; nothing if they leave no room."""
        reserved = self._measure.length(text[section.start : section.body])
        room = self._room(reserved)
        while section.body < section.end and room * 2 > self._measure.size:
            first, *others = self._cut(text, section.body, section.end, room)
            joined = section.start, first[1]
            if self._measure.length(text[slice(*joined)]) <= self._measure.size:
                return [joined, *others]
            room -= max(self._measure.size // 16, 1)  # tokens of two texts do not add up exactly
        return []

    def _room(self, reserved: int) -> int:
        return self._measure.size - max(reserved, self._measure.overlap)

    def __repr__(self) -> str:
        return f"MarkdownChunker({self.fingerprint!r})"


def _sections(text: str, found: Sequence[Heading]) -> Iterator[_Section]:
    """Cut *text* at its headings; headings with nothing below them join the section that follows."""
    bounds = [heading.start for heading in found] + [len(text)]
    bodies = [(0, 0, bounds[0])]
    bodies += [(heading.start, heading.end, end) for heading, end in zip(found, bounds[1:], strict=True)]
    pending: int | None = None
    previous: _Section | None = None
    for start, body, end in bodies:
        start = start if pending is None else pending
        start += len(text[start:body]) - len(text[start:body].lstrip())
        if not has_words(text, body, end):
            pending = start if found else None
            continue
        if previous is not None:
            yield previous
        previous, pending = _Section(start, body, end), None
    if previous is not None:
        yield previous if pending is None else _Section(previous.start, previous.body, len(text))
    elif text.strip():
        yield _Section(0, len(text), len(text))
