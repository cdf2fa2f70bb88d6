"""Places in a JSON text, so that a value can be put in, changed or taken out while all else stays as it came."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]  # the decoder's own, which typeshed does not list
from typing import Any, Final

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a *value* in a text, from *start* to *end*; the name of a member begins at *name_start*."""

    start: int
    end: int
    value: Any
    name_start: int = 0


@dataclass(frozen=True, slots=True)
class Edit:
    """Replacement of the text from *start* to *end*."""

    start: int
    end: int
    text: str


def members(text: str, start: int = 0) -> dict[str, Place]:
    """Return the members of the object that begins at *start* of *text*, the last of each name.

    Where there is no such object, ``ValueError`` is raised.
    """
    found: dict[str, Place] = {}
    for name, place in _walk(text, start, "{}"):
        found.pop(name, None)
        found[name] = place
    return found


def elements(text: str, start: int) -> list[Place]:
    """Return the elements of the list that begins at *start* of *text*."""
    return [place for _, place in _walk(text, start, "[]")]


def with_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return *text* with *edits*, which do not overlap."""
    for edit in sorted(edits, key=lambda edit: -edit.start):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def insertion_of_member(text: str, end: int, name: str, value: Any) -> Edit:
    """Return the edit that adds a member to the object of *text* that ends at *end*."""
    brace = end - 1
    comma = "" if text[:brace].rstrip(" \t\n\r").endswith("{") else ","
    return Edit(brace, brace, f"{comma}{json.dumps(name)}:{json.dumps(value)}")


def removal_of_member(text: str, owner: int, name: str) -> Edit:
    """Return the edit that takes the member *name* out of the object of *text* that begins at *owner*."""
    own = members(text, owner)
    names = list(own)
    place, index = own[name], names.index(name)
    if index + 1 < len(names):
        return Edit(place.name_start, own[names[index + 1]].name_start, "")
    start = own[names[index - 1]].end if index else place.name_start
    return Edit(start, place.end, "")


def _walk(text: str, start: int, brackets: str) -> Iterator[tuple[str, Place]]:
    """Yield what stands between *brackets*, each with its name, which is "" in a list."""
    index = _skip(text, start)
    _expect(text, index, brackets[0])
    index = _skip(text, index + 1)
    while text[index : index + 1] != brackets[1]:
        name, begin = "", index
        if brackets == "{}":
            _expect(text, index, '"')
            name, end = scanstring(text, index + 1)
            begin = _skip(text, end)
            _expect(text, begin, ":")
            begin = _skip(text, begin + 1)
        value, end = _DECODER.raw_decode(text, begin)
        yield name, Place(begin, end, value, index)
        index = _skip(text, end)
        if text[index : index + 1] != brackets[1]:
            _expect(text, index, ",")
            index = _skip(text, index + 1)


def _expect(text: str, index: int, character: str) -> None:
    if text[index : index + 1] != character:
        raise ValueError(f"{character!r} is needed at {index}")


def _skip(text: str, index: int) -> int:
    match = _SPACE.match(text, index)
    assert match is not None
    return match.end()
