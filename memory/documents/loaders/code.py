"""The loader of source code: the text as it is, its definitions as sections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tellback.memory.documents.loaders.base import OWN_LINES, LeftOut, LoadedDocument
from tellback.memory.documents.loaders.text import decode_text

_DEFINITION: Final = re.compile(
    r"""(?mx)^(?P<indent>[ \t]*)
    (?:(?:export|default|declare|pub(?:\([^)\n]*\))?|public|private|protected|internal|static|final|abstract|async
        |unsafe|extern(?:[ ]"[^"\n]*")?|sealed|virtual|override|inline|open|data|const|local|partial|case|create|or
        |replace)[ \t]+){0,6}
    (?P<kind>def|class|interface|trait|struct|enum|impl|fn|func|fun|function|module|namespace|object|record|protocol
        |defmodule|defp?|sub|proc|procedure|table|view|message|service|type)\b[ \t*]*
    (?:\([^)\n]{0,80}\)[ \t]*|<[^>\n]{0,80}>[ \t]*|if[ ]not[ ]exists[ ])?
    (?P<name>[A-Za-z_$][\w$:.?!]*)""",
    re.IGNORECASE,
)
_ATTACHED: Final = re.compile(r"[ \t]*(?:@|#\[|//|/\*|\*|\#(?!!)|--)")
_TAB: Final = 4
_MINIFIED_LINE: Final = 500


def read_code(data: bytes, source: str) -> LoadedDocument:
    """Return source code, its classes and functions as the heading path of their lines; minified code is left out."""
    text, notes = decode_text(data, source)
    if is_minified(text):
        raise LeftOut(source, "minified code")
    return LoadedDocument(text=text, outline=tuple(find_definitions(text)), lines=OWN_LINES, notes=notes)


def is_minified(text: str) -> bool:
    """Return whether the lines of *text* are so long on average that no person wrote them."""
    return len(text) > 5 * _MINIFIED_LINE and len(text) > _MINIFIED_LINE * (text.count("\n") + 1)


def find_definitions(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the start of each class, function and the like with its path; comments right above belong to it."""
    above: list[tuple[int, str]] = []
    previous = 0
    for match in _DEFINITION.finditer(text):
        indent = len(match["indent"].expandtabs(_TAB))
        above = [(other, name) for other, name in above if other < indent]
        if indent and not above:
            continue  # inside of something that is no definition
        above.append((indent, match["name"].rstrip(":.?!")))
        start = _with_attached(text, match.start(), previous)
        previous = match.end()
        yield start, tuple(name for _, name in above)


def _with_attached(text: str, start: int, earliest: int) -> int:
    """Return the start of the comments and decorators that stand right above the line at *start*."""
    while start > earliest:
        line = text.rfind("\n", earliest, start - 1) + 1
        if line <= earliest or not _ATTACHED.match(text, line, start):
            break
        start = line
    return start
