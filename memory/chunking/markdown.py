"""The chunker of Markdown: never across a heading, never a heading without the text below it.

Only headings are read; it is no Markdown parser.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from semantic_text_splitter import MarkdownSplitter

from tellback.memory.chunking.protocol import Chunk
from tellback.memory.chunking.sentences import TextSpan, line_spans, split_sentences, strip_span
from tellback.memory.chunking.text import SplitterChunker, add_overlap, has_words

MAX_TITLE_LENGTH = 200

_ATX_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)$")
_OTHER_BLOCK = re.compile(r"[ \t]*$|    |\t| {0,3}(?:[>|#]|[-*+][ \t]|\d+[.)][ \t]|[-*_=]+[ \t]*$)")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_FENCE_LINE = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*", re.MULTILINE)
_COLON = re.compile(r"[:\uff1a][*_]*\Z")
_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(?=\S+[ \t]*:)(?:.*\n)*?(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)")


@dataclass(frozen=True, slots=True)
class Heading:
    """Heading from *start* to *end* (its line break included) and the path of titles down to it."""

    start: int
    end: int
    path: tuple[str, ...]


def find_headings(text: str) -> list[Heading]:
    """Return the headings of *text* in order: ``#`` lines and underlined lines, outside of fenced code."""
    found: list[Heading] = []
    above: list[tuple[int, str]] = []
    for start, end, level, title in raw_headings(text):
        above = [(other, name) for other, name in above if other < level]
        above.append((level, _plain_title(title)))
        found.append(Heading(start, end, tuple(name for _, name in above if name)))
    return found


def heading_path(found: Sequence[Heading], text: str, start: int, end: int) -> tuple[str, ...]:
    """Return the path above the first words of ``text[start:end]`` that are not a heading themselves."""
    index = bisect_right(found, start, key=lambda heading: heading.start) - 1
    position = start if index < 0 else max(start, found[index].end)
    while index + 1 < len(found) and found[index + 1].start < end:
        if text[position : found[index + 1].start].strip():
            break
        index += 1
        position = found[index].end
    return found[index].path if index >= 0 else ()


def raw_headings(text: str) -> Iterator[tuple[int, int, int, str]]:
    """Yield start, end, level and title of each heading, the title with its inner marks."""
    front = _FRONT_MATTER.match(text)
    fence = ""
    paragraph: list[tuple[int, str]] = []  # the lines so far of a paragraph that an underline could turn
    for start, end in line_spans(text, front.end() if front is not None else 0, len(text)):
        line = text[start:end].rstrip("\r\n")
        marker = _FENCE.match(line)
        if fence:
            if marker is not None and marker[1].startswith(fence) and not marker[2].strip():
                fence = ""
        elif marker is not None and not (marker[1][0] == "`" and "`" in marker[2]):
            fence, paragraph = marker[1], []
        elif (atx := _ATX_HEADING.match(line)) is not None:
            yield start, end, len(atx[1]), _strip_closing_marks(atx[2] or "")
            paragraph = []
        elif len(paragraph) == 1 and (underline := _UNDERLINE.match(line)) is not None:
            yield paragraph[0][0], end, 1 if underline[1][0] == "=" else 2, paragraph[0][1]
            paragraph = []
        elif _OTHER_BLOCK.match(line) is not None:
            paragraph = []
        else:
            paragraph = [*paragraph[:1], (start, line)]


def _strip_closing_marks(title: str) -> str:
    """Return the title of a ``## title ##`` line without the closing marks."""
    title = title.rstrip()
    opened = title.rstrip("#")
    return opened if not opened or opened[-1] in " \t" else title


def _plain_title(title: str) -> str:
    """Return *title* as a citation shows it: one bounded line without the marks of links, code and bold."""
    plain = _LINK.sub(r"\1", title.strip()[:MAX_TITLE_LENGTH])
    return " ".join(plain.replace("`", "").replace("**", "").split())


@dataclass(frozen=True, slots=True)
class _Section:
    """Headings from *start* to *body*, and what stands below them up to *end*."""

    start: int
    body: int
    end: int


class MarkdownChunker(SplitterChunker):
    """Pieces of at most *size* characters, or tokens where a *counter* is given, *overlap* included.

    A piece lies within one section, so that its heading path holds for all of it. Headings with nothing
    below them go with the next section's first piece, at the very end with the last one's. Lists, tables,
    quotes and code stay whole where they fit. Overlap is 0 unless asked for, as for ``TextChunker``.
    """

    _splitter = MarkdownSplitter
    _version = "markdown-1"  # since then, leads stand with what they lead to: only documents that change are cut anew

    def chunk(self, text: str) -> list[Chunk]:
        """As the protocol says."""
        found = find_headings(text)
        spans = [span for section in _split_sections(text, found) for span in self._spans(text, section)]
        return [Chunk(text[start:end], start, end, heading_path(found, text, start, end)) for start, end in spans]

    def _spans(self, text: str, section: _Section) -> list[TextSpan]:
        start, end = section.start, section.end
        whole = text[start:end].strip()
        if whole and self._measure.length(whole) <= self._measure.size:
            position = text.index(whole, start)
            return [(position, position + len(whole))]
        spans = self._under_headings(text, section) or self._cut(text, start, end, self._capacity(0))
        return add_overlap(text, spans, self._measure)

    def _under_headings(self, text: str, section: _Section) -> list[TextSpan]:
        """Cut the body so that the headings fit before its first piece; nothing if they leave no room."""
        reserved = self._measure.length(text[section.start : section.body])
        room = self._capacity(reserved)
        while section.body < section.end and room * 2 > self._measure.size:
            first, *others = self._cut(text, section.body, section.end, room)
            joined = section.start, first[1]
            if self._measure.length(text[slice(*joined)]) <= self._measure.size:
                return [joined, *others]
            room -= max(self._measure.size // 16, 1)  # tokens of two texts do not add up exactly
        return []

    def _cut(self, text: str, start: int, end: int, capacity: int) -> list[TextSpan]:
        """Return spans as the base does, but a sentence that leads to code or a list begins the span of these."""
        left = super()._cut(text, start, end, capacity)[::-1]
        spans: list[TextSpan] = []
        counted, fences = start, 0
        while left:
            begin, stop = left.pop()
            fences += len(_FENCE_LINE.findall(text, counted, begin))
            counted = begin
            lead = _lead_start(text, begin, stop, is_code=fences % 2 == 1) if left else None
            if lead is None:
                spans.append((begin, stop))
                continue
            before, following = strip_span(text, begin, lead), left[-1][1]
            if before[0] >= before[1] or self._is_scrap(text, *before, capacity):
                before, lead = (begin, begin), begin
            fitting = self._fitting_lines(text, lead, following, capacity, least=stop)
            if not fitting:
                spans.append((begin, stop))
                continue
            spans += [before] * (lead > begin)
            left[-1:] = [span for span in ((fitting, following), (lead, fitting)) if text[slice(*span)].strip()]
        return spans

    def _fitting_lines(self, text: str, start: int, end: int, capacity: int, *, least: int) -> int:
        """Return where the last line ends that a span from *start* may have, more than *least*; 0 if there is none.

        What is left up to *end* is nothing or no scrap.
        """
        if self._measure.length(text[start:end]) <= capacity:
            return end
        fitting, position = 0, least + len(text[least:end]) - len(text[least:end].lstrip())
        while (position := text.find("\n", position, end) + 1) and not self._is_scrap(text, position, end, capacity):
            if self._measure.length(text[start:position].rstrip()) > capacity:
                break
            fitting = position
        return fitting

    def _capacity(self, reserved: int) -> int:
        return self._measure.size - max(reserved, self._measure.overlap)


def _lead_start(text: str, start: int, end: int, *, is_code: bool) -> int | None:
    """Return where the sentence begins at the end of the span that leads to what follows it; None without one.

    It ends with a colon, or stands above a block of code of which the span has the first line alone. *is_code* tells
    that the span begins within such a block.
    """
    fences = list(_FENCE_LINE.finditer(text, start, end))
    if (len(fences) + is_code) % 2 == 0:
        if not _COLON.search(text[start:end]):
            return None
    elif not fences or fences[-1].end() < end:
        return None
    else:
        end = fences[-1].start()
    above = text[start:end].rstrip()
    paragraph = above.rfind("\n\n") + 1
    return start + paragraph + split_sentences(above[paragraph:])[-1][0] if above else start


def _split_sections(text: str, found: Sequence[Heading]) -> Iterator[_Section]:
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
