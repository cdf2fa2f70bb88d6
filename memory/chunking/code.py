"""The chunker of source code: by definitions and blocks, found by their indentation, in any language.

It is no parser: a line that begins a block is one that is not indented more than the lines around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from semantic_text_splitter import TextSplitter

from tellback.memory.chunking.protocol import Chunk
from tellback.memory.chunking.sentences import TextSpan, line_spans, strip_span
from tellback.memory.chunking.text import SplitterChunker, add_overlap, has_words

_TAB = 8
_CLOSES = re.compile(r"[ \t]*(?:[)\]}]|end\b|else\b|elif\b|elsif\b|except\b|catch\b|finally\b)")
_LEADS = re.compile(r"[ \t]*(?:@|#|//|/\*|\*|--|;)")
"""Lines that belong to the block after them: decorators and comments."""


class CodeChunker(SplitterChunker):
    """Chunks of source code: whole definitions where they fit into *size*, several small ones together.

    A longer one is cut between the blocks inside it, then at lines; decorators and comments stay with what they stand
    above. Sizes and overlap are as for ``TextChunker``.
    """

    _splitter = TextSplitter
    _version = "code-1"

    def chunk(self, text: str) -> list[Chunk]:
        """As the protocol says."""
        lines = [_Line(text, start, end) for start, end in line_spans(text, 0, len(text))]
        spans = self._without_scraps(text, list(self._blocks(text, lines)))
        return [Chunk(text[start:end], start, end) for start, end in add_overlap(text, spans, self._measure)]

    def _blocks(self, text: str, lines: Sequence[_Line]) -> Iterator[TextSpan]:
        """Yield spans of *lines*: together if they fit, else cut where a block of the least indentation begins."""
        if not lines:
            return
        start, end = strip_span(text, lines[0].start, lines[-1].end)
        if start >= end:
            return
        start = max(text.rfind("\n", 0, start) + 1, lines[0].start)  # with the indentation of its first line
        room = self._measure.size - self._measure.overlap
        if self._measure.length(text[start:end]) <= room:
            yield start, end
            return
        groups = _groups(lines)
        if len(groups) == 1:
            yield from self._cut(text, start, end, room)
            return
        pending: list[_Line] = []
        for group in groups:
            joined = [*pending, *group]
            if pending and self._measure.length(text[joined[0].start : joined[-1].end].rstrip()) > room:
                yield from self._blocks(text, pending)
                pending = []
            pending += group
        yield from self._blocks(text, pending)

    def _without_scraps(self, text: str, spans: Sequence[TextSpan]) -> list[TextSpan]:
        """Return *spans* where one that says nothing, such as a closing bracket, stands with the one before it."""
        room = self._measure.size - self._measure.overlap
        kept: list[TextSpan] = []
        for start, end in spans:
            if kept and not has_words(text, start, end) and self._measure.length(text[kept[-1][0] : end]) <= room:
                kept[-1] = kept[-1][0], end
            else:
                kept.append((start, end))
        return kept


class _Line:
    """Line from *start* to *end* of a text, its break included, with its *indent*; None for a blank one."""

    __slots__ = ("end", "indent", "leads", "opens", "start")

    def __init__(self, text: str, start: int, end: int) -> None:
        words = text[start:end].rstrip()
        self.start, self.end = start, end
        expanded = words.expandtabs(_TAB)
        self.indent = len(expanded) - len(expanded.lstrip()) if words else None
        self.opens = bool(words) and _CLOSES.match(words) is None
        self.leads = _LEADS.match(words) is not None


def _groups(lines: Sequence[_Line]) -> list[list[_Line]]:
    """Cut *lines* before each that begins a block of the least indentation among those behind the first line."""
    levels = sorted({line.indent for line in lines[1:] if line.indent is not None and line.opens})
    for level in levels:
        groups: list[list[_Line]] = [[]]
        for line in lines:
            led = bool(groups[-1]) and groups[-1][-1].leads and groups[-1][-1].indent == level
            if groups[-1] and line.indent == level and line.opens and not led:
                groups.append([])
            groups[-1].append(line)
        if len(groups) > 1:
            return groups
    return [list(lines)]
