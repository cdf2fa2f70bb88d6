"""The headings of a Markdown text and where they stand. Reads headings only; it is no Markdown parser."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LONGEST_TITLE = 200

_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)$")
_OTHER_BLOCK = re.compile(r"[ \t]*$|    |\t| {0,3}(?:[>|#]|[-*+][ \t]|\d+[.)][ \t]|[-*_=]+[ \t]*$)")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(?=\S+[ \t]*:)(?:.*\n)*?(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading from *start* to *end* (its line break included) and the path of titles down to it."""

    start: int
    end: int
    path: tuple[str, ...]


def headings(text: str) -> list[Heading]:
    """Return the headings of *text* in order: ``#`` lines and underlined lines, outside of fenced code."""
    found: list[Heading] = []
    above: list[tuple[int, str]] = []
    for start, end, level, title in _raw_headings(text):
        above = [(other, name) for other, name in above if other < level]
        above.append((level, _shown(title)))
        found.append(Heading(start, end, tuple(name for _, name in above if name)))
    return found


def path_at(found: Sequence[Heading], text: str, start: int, end: int) -> tuple[str, ...]:
    """Return the path above the first words of ``text[start:end]`` that are not a heading themselves."""
    index = bisect_right(found, start, key=lambda heading: heading.start) - 1
    position = start if index < 0 else max(start, found[index].end)
    while index + 1 < len(found) and found[index + 1].start < end:
        if text[position : found[index + 1].start].strip():
            break
        index += 1
        position = found[index].end
    return found[index].path if index >= 0 else ()


def _raw_headings(text: str) -> Iterator[tuple[int, int, int, str]]:
    front = _FRONT_MATTER.match(text)
    fence = ""
    paragraph: list[tuple[int, str]] = []  # the lines so far of a paragraph that an underline could turn
    for start, end, line in _lines(text, front.end() if front is not None else 0):
        marker = _FENCE.match(line)
        if fence:
            if marker is not None and marker[1].startswith(fence) and not marker[2].strip():
                fence = ""
        elif marker is not None and not (marker[1][0] == "`" and "`" in marker[2]):
            fence, paragraph = marker[1], []
        elif (atx := _ATX.match(line)) is not None:
            yield start, end, len(atx[1]), _without_closing(atx[2] or "")
            paragraph = []
        elif len(paragraph) == 1 and (underline := _UNDERLINE.match(line)) is not None:
            yield paragraph[0][0], end, 1 if underline[1][0] == "=" else 2, paragraph[0][1]
            paragraph = []
        elif _OTHER_BLOCK.match(line) is not None:
            paragraph = []
        else:
            paragraph = [*paragraph[:1], (start, line)]


def _lines(text: str, position: int) -> Iterator[tuple[int, int, str]]:
    while position < len(text):
        end = text.find("\n", position) + 1 or len(text)
        yield position, end, text[position:end].rstrip("\r\n")
        position = end


def _without_closing(title: str) -> str:
    """Return the title of a ``## title ##`` line without the closing marks."""
    title = title.rstrip()
    opened = title.rstrip("#")
    return opened if not opened or opened[-1] in " \t" else title


def _shown(title: str) -> str:
    """Return *title* as a citation shows it: one bounded line without the marks of links, code and bold."""
    plain = _LINK.sub(r"\1", title.strip()[:LONGEST_TITLE])
    return " ".join(plain.replace("`", "").replace("**", "").split())
