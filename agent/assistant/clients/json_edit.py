"""Edits of a JSON text that keep the rest as it is: order, spacing and comments. Pure.

JSON with comments and trailing commas is read, as VS Code and Zed write it.

>>> set_member('{"a": 1} // mine', ("servers", "x"), 2)
'{"a": 1,\\n  "servers": {\\n    "x": 2\\n  }} // mine'
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]  # the decoder's own, which gives the end too
from typing import Any, Final

_SPACE: Final = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR: Final = re.compile(r"[^\s,\]}/]+")
_DEFAULT_INDENT: Final = "  "
_FIRST_INDENT: Final = re.compile(r"^([ \t]+)[\"}]", re.MULTILINE)
_MAX_DEPTH: Final = 100
NEW_ITEM: Final = "-"
"""Key that appends an item to an array."""


@dataclass(frozen=True, slots=True)
class _Member:
    """Member of an object or an array: its *key* (in an array its index), where it starts, and its value."""

    key: str
    start: int
    value: _Node


@dataclass(frozen=True, slots=True)
class _Node:
    """Value in a text, from *start* to *end*, with its *members* if it is an object or an array."""

    start: int
    end: int
    value: Any
    members: tuple[_Member, ...] = field(default=())

    def member(self, key: str) -> _Member | None:
        return next((member for member in reversed(self.members) if member.key == key), None)


def parse_json(text: str) -> Any:
    """Return the value of the JSON *text*, comments and trailing commas ignored; {} for a blank text.

    Invalid JSON raises ``ValueError`` with the line.
    """
    return _parse(text).value if has_value(text) else {}


def has_value(text: str) -> bool:
    """Return whether *text* has more than spaces and comments."""
    return _SPACE.sub("", text) != ""


def set_member(text: str, path: Sequence[str], value: Any) -> str:
    """Return *text* with *value* at *path*, a list of keys; missing objects on the way are created.

    The key of an item in an array is its index; ``NEW_ITEM`` appends to an array, which is created where it is missing.
    A value of another type on the way raises ``ValueError``.
    """
    if not has_value(text):
        text += "{}\n"
    node = _parse(text)
    for depth, key in enumerate(path):
        if not isinstance(node.value, list if key == NEW_ITEM else dict):
            kind = "array" if key == NEW_ITEM else "object"
            raise ValueError(f"{'.'.join(path[:depth]) or 'the file'} is no {kind}")
        member = node.member(key)
        if member is None:
            for outer in reversed(path[depth + 1 :]):
                value = [value] if outer == NEW_ITEM else {outer: value}
            return _with_new_member(text, node, key, value)
        node = member.value
    if node.value == value:
        return text
    return text[: node.start] + _dumped(text, value, _indent_at(text, node.start)) + text[node.end :]


def remove_member(text: str, path: Sequence[str], *, kept: Any = None) -> str:
    """Return *text* without the member at *path*, and without the objects and arrays that become empty.

    Those that the value *kept* has, too, stay empty.
    """
    node = _parse(text) if has_value(text) else None
    for key in path[:-1]:
        member = None if node is None else node.member(key)
        node = None if member is None else member.value
    removed = None if node is None else node.member(path[-1])
    if node is None or removed is None:
        return text
    if len(node.members) == 1 and len(path) > 1 and not _holds(kept, path[:-1]):
        return remove_member(text, path[:-1], kept=kept)
    place = node.members.index(removed)
    if place + 1 < len(node.members):
        start, end = removed.start, node.members[place + 1].start
    else:
        start = node.members[place - 1].value.end if place else node.start + 1
        end = removed.value.end if place or text[removed.value.end : node.end - 1].strip(" \t\r\n,") else node.end - 1
    return text[:start] + text[end:]


def _holds(value: Any, path: Sequence[str]) -> bool:
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True


def _with_new_member(text: str, node: _Node, key: str, value: Any) -> str:
    outer = _indent_at(text, node.start)
    if node.members:
        last = node.members[-1]
        own_line = "\n" in text[node.start : last.start]
        indent = _indent_at(text, last.start) if own_line else outer + _indent_unit(text)
        place, comma = last.value.end, ","
        closing = ""
    else:
        indent, place, comma, closing = outer + _indent_unit(text), node.start + 1, "", f"\n{outer}"
        if text[place : node.end - 1].strip():  # a comment stays
            closing = ""
    name = "" if key == NEW_ITEM else f"{json.dumps(key, ensure_ascii=False)}: "
    if node.members and key == NEW_ITEM and not own_line:
        written = f", {json.dumps(value, ensure_ascii=False)}"
    else:
        written = f"{comma}\n{indent}{name}{_dumped(text, value, indent)}{closing}"
    rest = text[place:]
    if not node.members and not text[place : node.end - 1].strip():
        rest = text[node.end - 1 :]
    return text[:place] + written + rest


def _indent_at(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip())]


def _indent_unit(text: str) -> str:
    """Return the indent of the outermost object's members."""
    match = _FIRST_INDENT.search(text)
    return match[1] if match else _DEFAULT_INDENT


def _dumped(text: str, value: Any, indent: str) -> str:
    written = json.dumps(value, indent=_indent_unit(text), ensure_ascii=False)
    return written.replace("\n", f"\n{indent}")


def _parse(text: str) -> _Node:
    try:
        node = _parse_value(text, _skip(text, 1 if text.startswith("\ufeff") else 0), 0)
    except IndexError:
        raise ValueError("it ends in the middle of a value") from None
    rest = _skip(text, node.end)
    if rest != len(text):
        raise _error(text, rest)
    return node


def _parse_value(text: str, start: int, depth: int) -> _Node:
    if depth > _MAX_DEPTH:
        raise ValueError(f"it is nested deeper than {_MAX_DEPTH} levels")
    if text[start] == "{":
        return _parse_object(text, start, depth)
    if text[start] == "[":
        return _parse_array(text, start, depth)
    if text[start] == '"':
        string, end = scanstring(text, start + 1)
        return _Node(start, end, string)
    match = _SCALAR.match(text, start)
    try:
        return _Node(start, match.end(), json.loads(match.group())) if match else _fail(text, start)
    except ValueError:
        raise _error(text, start) from None


def _parse_object(text: str, start: int, depth: int) -> _Node:
    members: list[_Member] = []
    position = _skip(text, start + 1)
    while text[position] != "}":
        if text[position] != '"':
            raise _error(text, position)
        key, end = scanstring(text, position + 1)
        colon = _skip(text, end)
        if text[colon] != ":":
            raise _error(text, colon)
        value = _parse_value(text, _skip(text, colon + 1), depth + 1)
        members.append(_Member(key, position, value))
        position = _next_item(text, value.end, "}")
    values = {member.key: member.value.value for member in members}
    return _Node(start, position + 1, values, tuple(members))


def _parse_array(text: str, start: int, depth: int) -> _Node:
    items: list[_Member] = []
    position = _skip(text, start + 1)
    while text[position] != "]":
        item = _parse_value(text, position, depth + 1)
        items.append(_Member(str(len(items)), position, item))
        position = _next_item(text, item.end, "]")
    return _Node(start, position + 1, [item.value.value for item in items], tuple(items))


def _next_item(text: str, end: int, closing: str) -> int:
    """Return where the next item starts, or the *closing* bracket stands."""
    position = _skip(text, end)
    if text[position] == ",":
        return _skip(text, position + 1)
    if text[position] != closing:
        raise _error(text, position)
    return position


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _fail(text: str, position: int) -> _Node:
    raise _error(text, position)


def _error(text: str, position: int) -> ValueError:
    return ValueError(f"line {text.count(chr(10), 0, position) + 1} is not JSON")
