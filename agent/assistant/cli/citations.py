"""Citations on a terminal: a path that opens from here, a link to it, and ``tellback show``, which prints the place."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer

from tellback.agent.assistant.cli.command_context import opened_memory, run
from tellback.agent.assistant.cli.listing import keep_listing, listed_id, listing_number
from tellback.agent.assistant.cli.memories import show as show_memory
from tellback.agent.assistant.cli.options import CollectionOption, JsonOption
from tellback.agent.assistant.cli.output import (
    escape_controls,
    has_styles,
    is_terminal,
    one_line,
    print_json,
    print_line,
    print_text,
)
from tellback.agent.assistant.cli.short_ids import resolve_id

if TYPE_CHECKING:
    from tellback.agent.assistant.config import AssistantSettings
    from tellback.agent.assistant.wiring import OpenedMemory
    from tellback.agent.context_items import AnswerCitation
    from tellback.memory import KnowledgeBase, Passage

_NUMBER: Final = re.compile(r"\[(\d{1,3})\]")
_PLACE: Final = re.compile(r"(?P<path>.+?)(?::(?P<line>\d+))?(?:#page=(?P<page>\d+))?")
_LISTED: Final = re.compile(r"(?P<id>.+):(?P<start>\d+)-(?P<end>\d+)")
_MOST_UP: Final = 3
"""Most folders up in a relative path; beyond that the absolute path is easier to read."""


def citation_lines(
    settings: AssistantSettings, citations: Sequence[AnswerCitation], locations: Sequence[str | None]
) -> list[str]:
    """Return a line for each of *citations*, safe to print; on a terminal it links to its place in *locations*.

    Their numbers are kept for ``tellback show``.
    """
    lines = []
    for item, location in zip(citations, locations, strict=True):
        if location is None:
            lines.append(f"[{item.number}] {one_line(item.where)}")
        else:
            words = one_line(path_from_here(location) + item.place)
            lines.append(f"[{item.number}] {_link(words, _uri(location, item.page, item.anchor))}")
    marked = {item.number: f"{item.id}:{item.span[0]}-{item.span[1]}" for item in citations}
    if marked:
        keep_listing("citations", settings, [marked.get(number, "") for number in range(1, max(marked) + 1)])
    return lines


def path_from_here(location: str) -> str:
    """Return the path *location* relative to the working folder, if it is no further away than three folders up."""
    if "://" in location:
        return location
    try:
        relative = os.path.relpath(location)
    except ValueError:  # on another drive
        return location
    return location if relative.count("..") > _MOST_UP else relative


@dataclass(frozen=True, slots=True)
class _Shown:
    """*Passage* of the document at *location*, with its neighbours; *start* and *end* are the quote's offsets in it."""

    passage: Passage
    location: str
    start: int
    end: int


def show(
    context: typer.Context,
    citation: Annotated[
        str, typer.Argument(metavar="CITATION", help="Number in the last answer, id of a passage, or FILE[:LINE].")
    ],
    around: Annotated[int, typer.Option(metavar="COUNT", min=0, max=50, help="Passages shown before and after.")] = 1,
    collection: CollectionOption = None,
    opens: Annotated[
        bool, typer.Option("--open", help="Open the file in its viewer, a PDF at its page in the browser.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Print the place that an answer cites.

    A passage is printed with the text around it, a memory with everything known about it.
    """
    with opened_memory(context) as opened:
        id, shown = _find(opened, citation.strip(), around, collection)
    if shown is None:
        show_memory(context, id=id, json=json)
        return
    passage = shown.passage
    line = None if passage.line is None else passage.line + passage.text.count("\n", 0, shown.start)
    if json:
        print_json(
            {
                "id": passage.id,
                "path": shown.location,
                "document": passage.document,
                "title": passage.title,
                "heading": passage.heading,
                "page": passage.page_at(shown.start),
                "line": line,
                "quote": passage.text[shown.start : shown.end],
                "before": passage.before,
                "text": passage.text,
                "after": passage.after,
            }
        )
    else:
        _print_place(shown, line)
    if opens:
        _open(shown)


def _find(opened: OpenedMemory, word: str, around: int, collection: str | None) -> tuple[str, _Shown | None]:
    """Return the id that *word* names, and its place; the place of a memory, which has no document, is None.

    *word* is a number in the last answer, an id, or a file with a line or a page.
    """
    bases = run(opened.document_bases(collection))
    number = _NUMBER.fullmatch(word)
    word = f"#{number[1]}" if number is not None else word
    start, end = 0, 0
    if listing_number(word) is not None:
        id, _ = listed_id("citations", opened.settings, word, changes=False)
        if match := _LISTED.fullmatch(id):
            id, start, end = match["id"], int(match["start"]), int(match["end"])
    elif places := [place for base in bases if (place := _by_path(base, word)) is not None]:
        id, start, end = places[0]
    else:
        id = resolve_id(opened, word)
    for base in bases:
        if (passage := run(base.passage(id, neighbours=around))) is not None:
            location = run(base.locate(passage.document)) or passage.document
            return id, _Shown(passage, location, start, end or len(passage.text))
    return id, None


def _by_path(knowledge: KnowledgeBase, word: str) -> tuple[str, int, int] | None:
    """Return the id of the passage at the place that *word* names as FILE[:LINE], and the line's span in it."""
    match = _PLACE.fullmatch(word)
    passages: list[Passage] = []
    if match is not None:
        path = str(Path(Path.cwd(), match["path"]).resolve())
        passages = run(knowledge.passages(match["path"], location=path))
    if match is None or not passages:
        return None
    if match["page"]:
        chosen = [passage for passage in passages if (passage.page or 0) <= int(match["page"])][-1:]
        return (chosen or passages[:1])[0].id, 0, 0
    if not match["line"]:
        return passages[0].id, 0, 0
    wanted = int(match["line"])
    passage = ([passage for passage in passages if (passage.line or 0) <= wanted] or passages)[-1]
    if passage.line is None:
        return passages[0].id, 0, 0
    lines = passage.text.split("\n")
    index = min(max(wanted - passage.line, 0), len(lines) - 1)
    start = sum(len(line) + 1 for line in lines[:index])
    return passage.id, start, start + len(lines[index])


def _print_place(shown: _Shown, line: int | None) -> None:
    """Print the place and the text; the quote is bold on a terminal, and marked at the margin anywhere."""
    passage = shown.passage
    if shown.location:
        place = f":{line}" if line is not None else ""
        section = f" § {' > '.join(passage.heading)}" if passage.heading else ""
        page = passage.page_at(shown.start)
        words = path_from_here(shown.location) + place + section + (f", p. {page}" if page is not None else "")
        print_line(_link(one_line(words), _uri(shown.location, page, passage.anchor)))
        print_text()
    text = passage.before + passage.text + passage.after
    begin, end = len(passage.before) + shown.start, len(passage.before) + shown.end
    whole = begin == len(passage.before) and end == begin + len(passage.text)
    offset = 0
    bold = has_styles(sys.stdout)
    for row in text.split("\n"):
        stop = offset + len(row)
        quoted = offset < end and begin < stop and bool(row.strip()) and not whole
        left, right = max(begin, offset) - offset, min(end, stop) - offset
        parts = (row[:left], row[left:right], row[right:]) if quoted else (row, "", "")
        before, marked, after = map(escape_controls, parts)
        margin = "> " if quoted else "  "
        print_line((margin + before + (typer.style(marked, bold=True) if bold and marked else marked) + after).rstrip())
        offset = stop + 1


def _open(shown: _Shown) -> None:
    """Open the document: at its page or anchor in the browser, another file in the system's viewer."""
    location, page, anchor = shown.location, shown.passage.page_at(shown.start), shown.passage.anchor
    if not location or ("://" not in location and not Path(location).exists()):
        raise typer.BadParameter(f"{location or 'a memory'} is not a file that can be opened", param_hint="--open")
    if "://" in location or page is not None or anchor:
        import webbrowser

        webbrowser.open(_uri(location, page, anchor))
    elif typer.launch(location) != 0:
        raise typer.BadParameter("no program that opens files was found", param_hint="--open")


def _uri(location: str, page: int | None, anchor: str) -> str:
    """Return the address of a place in a file: a PDF's page, an anchor of HTML."""
    base = location if "://" in location else Path(location).as_uri()
    if page is not None and "#" not in base:
        return f"{base}#page={page}"
    return f"{base}#{quote(anchor)}" if anchor and "#" not in base else base


def _link(text: str, uri: str) -> str:
    """Return *text* as a hyperlink (OSC 8) where the screen is a terminal."""
    return f"\x1b]8;;{uri}\x1b\\{text}\x1b]8;;\x1b\\" if is_terminal(sys.stdout) else text
