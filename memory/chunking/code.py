"""The chunker of source code: by definitions and blocks, found by their indentation, in any language.

It is no parser: a line that begins a block is one that is not indented more than the lines around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from semantic_text_splitter import TextSplitter

from memory.chunking.protocol import Chunk
from memory.chunking.sentences import TextSpan, strip_span
from memory.chunking.text import SplitterChunker, add_overlap, has_words

_TAB = 8
_MODIFIERS = (
    "abstract|async|const|constexpr|default|export|extern|final|inline|internal|open|override|private|protected|pub|"
    "public|sealed|static|unsafe|virtual"
)
_DEFINITION = re.compile(
    rf"[ \t]*(?:(?:{_MODIFIERS})(?:\([^)]*\))?[ \t]+)*"
    r"(?:class|def|defmodule|defp|enum|fn|func|fun|function|impl|interface|message|mod|module|namespace|object|"
    r"package|proc|protocol|record|service|struct|sub|trait|type|union)[ \t]+(?:\([^)]*\)[ \t]*)?"
    r"(?P<name>[A-Za-z_$](?:[\w$.]|::)*)"
)
_CLOSES = re.compile(r"[ \t]*(?:[)\]}]|end\b|else\b|elif\b|elsif\b|except\b|catch\b|finally\b)")
_LEADS = re.compile(r"[ \t]*(?:@|#|//|/\*|\*|--|;)")
"""Lines that belong to the block after them: decorators and comments."""


class CodeChunker(SplitterChunker):
    """Chunks of source code: whole definitions where they fit into *size*, several small ones together.

    A longer one is cut between the blocks inside it, then at lines. The heading of a chunk is the path of the
    definitions around its first line, such as ``("Store", "search")``. Sizes and overlap are as for ``TextChunker``.
    """

    _splitter = TextSplitter
    _version = "code-1"

    def chunk(self, text: str) -> list[Chunk]:
        """As the protocol says."""
        lines = [_Line(text, start, end) for start, end in _line_spans(text)]
        spans = self._without_scraps(text, list(self._blocks(text, lines)))
        paths = _definition_paths(lines)
        chunks = []
        for (start, end), (inner, _) in zip(add_overlap(text, spans, self._measure), spans, strict=True):
            chunks.append(Chunk(text[start:end], start, end, _path_at(paths, inner)))
        return chunks

    def _blocks(self, text: str, lines: Sequence[_Line]) -> Iterator[TextSpan]:
        """Yield spans of *lines*: together if they fit, else cut where a block of the least indentation begins."""
        if not lines:
            return
        start, end = strip_span(text, lines[0].start, lines[-1].end)
        if start >= end:
            return
        start = text.rfind("\n", 0, start) + 1 if not text[text.rfind("\n", 0, start) + 1 : start].strip() else start
        start = max(start, lines[0].start)
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

    __slots__ = ("end", "indent", "leads", "name", "opens", "start")

    def __init__(self, text: str, start: int, end: int) -> None:
        words = text[start:end].rstrip()
        self.start, self.end = start, end
        expanded = words.expandtabs(_TAB)
        self.indent = len(expanded) - len(expanded.lstrip()) if words else None
        definition = _DEFINITION.match(words)
        self.name = definition["name"] if definition is not None else ""
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


def _definition_paths(lines: Sequence[_Line]) -> list[tuple[int, tuple[str, ...]]]:
    """Return (offset, path of the definitions around it) for each line that changes the path, in order."""
    paths: list[tuple[int, tuple[str, ...]]] = []
    open_definitions: list[tuple[int, str]] = []
    for line in lines:
        if line.indent is None or not line.opens:
            continue
        before = len(open_definitions)
        while open_definitions and open_definitions[-1][0] >= line.indent:
            open_definitions.pop()
        if line.name:
            open_definitions.append((line.indent, line.name))
        if line.name or len(open_definitions) != before:
            paths.append((line.start, tuple(name for _, name in open_definitions)))
    return paths


def _path_at(paths: Sequence[tuple[int, tuple[str, ...]]], start: int) -> tuple[str, ...]:
    path: tuple[str, ...] = ()
    for offset, found in paths:
        if offset > start:
            break
        path = found
    return path


def _line_spans(text: str) -> Iterator[TextSpan]:
    position = 0
    while position < len(text):
        end = text.find("\n", position) + 1 or len(text)
        yield position, end
        position = end
