"""The loader of reStructuredText: headings, code and plain words as Markdown, line by line.

It is no parser of docutils: what marks structure is rewritten in place, so that every line keeps its number.
"""

from __future__ import annotations

import re
from typing import Final

from tellback.memory.documents.loaders.base import OWN_LINES, LoadedDocument
from tellback.memory.documents.loaders.markdown import first_heading
from tellback.memory.documents.loaders.text import decode_text

_ADORNMENT: Final = re.compile(r"([!-/:-@[-`{-~])\1{2,}[ \t]*$")
_CODE: Final = re.compile(
    r"(?P<indent>[ \t]*)\.\. (?:code-block|code|sourcecode|highlight|parsed-literal|doctest|testcode)::[ \t]*"
    r"(?P<language>[\w+-]*)"
)
_DIRECTIVE: Final = re.compile(r"(?P<indent>[ \t]*)\.\. (?:(?P<name>[\w:.+-]+)::[ \t]*(?P<argument>.*)|.*)$")
_TITLED: Final = frozenset(
    {"note", "warning", "tip", "important", "caution", "danger", "hint", "attention", "seealso"}
    | {"versionadded", "versionchanged", "deprecated"}
)
_OBJECTS: Final = re.compile(
    r"(?:\w+:)?(?:function|method|class|attribute|data|exception|staticmethod|classmethod|option|c?member|macro|type"
    r"|decorator|describe|envvar|program|cmdoption)"
)
_FIELD: Final = re.compile(r"[ \t]+:[\w -]+:(?:[ \t]|$)")
_ROLE: Final = re.compile(r":[\w:.+-]+:`~?!?([^`<]+?)(?:[ \t]*<[^`>]*>)?`")
_LITERAL: Final = re.compile(r"``(.+?)``")
_LINK: Final = re.compile(r"`([^`<]+?)[ \t]*<[^`>]*>`__?")
_REFERENCE: Final = re.compile(r"(?<![`\w])`([^`\n]+?)`_{0,2}(?!\w)|(?<!\w)(\|)(\w[^|\n]*)\|_?")


def read_rst(data: bytes, source: str) -> LoadedDocument:
    """Return the text as Markdown with the same lines, without comments and directives without words."""
    text, notes = decode_text(data, source)
    converted = to_markdown(text)
    return LoadedDocument(text=converted, title=first_heading(converted), lines=OWN_LINES, notes=notes)


def to_markdown(text: str) -> str:
    """Return reStructuredText as Markdown with as many lines."""
    lines = [line.rstrip() for line in text.split("\n")]
    written = list(lines)
    levels: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        if end := _heading(lines, number, levels, written):
            number = end
        elif match := _CODE.match(line):
            number = _literal(lines, written, number, len(match["indent"]), match["language"], keep_line=False)
        elif match := _DIRECTIVE.match(line):
            number = _directive(lines, written, number, match)
        elif line.endswith("::") and number + 1 < len(lines):
            written[number] = _inline(line[:-2].rstrip() + ":" if line.strip() != "::" else "")
            indent = len(line) - len(line.lstrip())
            number = _literal(lines, written, number, indent, "", keep_line=True)
        else:
            written[number] = _inline(line)
            number += 1
    return "\n".join(written)


def _heading(lines: list[str], number: int, levels: list[str], written: list[str]) -> int:
    """Write the heading that begins at line *number*; return the line after it, 0 if there is none."""
    match = _ADORNMENT.match(lines[number])
    below = lines[number + 1] if number + 1 < len(lines) else ""
    if match is not None and below.strip() and number + 2 < len(lines) and lines[number + 2] == lines[number]:
        kind, title, places = match[1] * 2, below.strip(), [number, number + 1, number + 2]
    elif match is None and lines[number].strip() and not lines[number].startswith((" ", "\t")):
        under = _ADORNMENT.match(below)
        if under is None or len(below) < min(len(lines[number]), 4):
            return 0
        kind, title, places = under[1], lines[number], [number, number + 1]
    else:
        return 0
    if kind not in levels:
        levels.append(kind)
    for place in places:
        written[place] = ""
    written[places[-2]] = "#" * min(levels.index(kind) + 1, 6) + " " + _inline(title)
    return places[-1] + 1


def _block_end(lines: list[str], number: int, indent: int) -> int:
    """Return the line after the block that is indented deeper than *indent* below line *number*."""
    end = number + 1
    for place in range(number + 1, len(lines)):
        if lines[place].strip():
            if len(lines[place]) - len(lines[place].lstrip()) <= indent:
                break
            end = place + 1
    return end


def _literal(lines: list[str], written: list[str], number: int, indent: int, language: str, *, keep_line: bool) -> int:
    """Write the indented block below line *number* as a code block, in the empty lines around it."""
    end = _block_end(lines, number, indent)
    first = number + 1
    while first < end and _FIELD.match(lines[first]):
        written[first] = ""
        first += 1
    while first < end and not lines[first].strip():
        first += 1
    if first >= end:
        written[number] = written[number] if keep_line else ""
        return max(end, number + 1)
    opening = first - 1
    if end < len(lines) and lines[end].strip():  # no empty line to end the code block in
        return end
    margin = min(len(line) - len(line.lstrip()) for line in lines[first:end] if line.strip())
    for place in range(first, end):
        written[place] = lines[place][margin:]
    if not keep_line:
        written[number] = ""
    if opening == number and keep_line:  # no empty line to put the fence into
        return end
    written[opening] = f"```{language}"
    if end < len(lines):
        written[end] = "```"
        return end + 1
    written[end - 1] += "\n```"
    return end


def _directive(lines: list[str], written: list[str], number: int, match: re.Match[str]) -> int:
    """Write a directive as its words; a comment, a target or a substitution as nothing."""
    indent = len(match["indent"])
    name, argument = match["name"] or "", (match["argument"] or "").strip()
    end = _block_end(lines, number, indent)
    if not name or name in ("toctree", "index", "image", "figure", "include", "raw", "contents", "only", "module"):
        keeps_body = name in ("figure", "only")
        for place in range(number, number + 1 if keeps_body else end):
            written[place] = ""
        return number + 1 if keeps_body else end
    if name in _TITLED:
        written[number] = _inline(f"{name.capitalize()}: {argument}".rstrip())
    elif _OBJECTS.fullmatch(name):
        written[number] = f"`{argument}`"
    else:
        written[number] = _inline(argument)
    number += 1
    while number < end and _FIELD.match(lines[number]):
        written[number] = ""
        number += 1
    return number


def _inline(line: str) -> str:
    """Return *line* without the marks of roles, links and references; what is literal stays between marks."""
    line = _ROLE.sub(lambda match: f"`{match[1].strip()}`", line)
    line = _LITERAL.sub(r"`\1`", line)
    return _REFERENCE.sub(_plain_reference, _LINK.sub(r"\1", line))


def _plain_reference(match: re.Match[str]) -> str:
    if match[2]:
        return match[3]
    return match[1] if match[0].endswith("_") else match[0]
