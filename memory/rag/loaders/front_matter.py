"""The head of a Markdown file: ``---`` with simple YAML, or ``+++`` with TOML. No YAML parser.

Understood of YAML: ``key: value``, lists in brackets or as ``- item`` lines, quotes, comments. All values
stay text. What is not understood is named, never guessed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any

_HEAD = re.compile(r"\A(?P<fence>---|\+\+\+)[ \t]*\n(?P<inside>.*?)(?<=\n)(?P=fence)[ \t]*(?:\n|\Z)", re.DOTALL)
_ITEM = re.compile(r"[ \t]*-[ \t]+(?P<value>.+)\Z")
_UNREAD = ("|", ">", "{", "&", "*", "!")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What stands in the head, where the body starts, and which lines were not understood."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    end: int = 0
    notes: tuple[str, ...] = ()


def front_matter(text: str) -> FrontMatter:
    """Return the head of *text*; a text without one gives no fields and the end 0."""
    head = _HEAD.match(text)
    if head is None:
        return FrontMatter()
    read = _toml if head["fence"] == "+++" else _yaml
    fields, notes = read(head["inside"])
    if not fields and head["inside"].strip():
        return FrontMatter()  # a rule and a rule, with prose between them
    return FrontMatter(fields, head.end(), notes)


def _toml(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    try:
        return {key: _plain(value) for key, value in tomllib.loads(text).items()}, ()
    except tomllib.TOMLDecodeError:
        return {}, ()


def _plain(value: Any) -> Any:
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and value - value != 0:  # infinities and NaN are not JSON
        return str(value)
    return value


def _yaml(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    fields: dict[str, Any] = {}
    unread = 0
    key: str | None = None  # of the list that the next lines may belong to
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        item, pair = _ITEM.match(line), _pair(line)
        if item and key is not None:
            fields[key] = [*(fields[key] or []), _scalar(item["value"])]
        elif pair is not None:
            key = None if pair[1] else pair[0]
            fields[pair[0]] = _value(pair[1])
        else:
            unread += 1
            key = None
    fields = {name: value for name, value in fields.items() if value not in ("", None, [])}
    return fields, ((f"front matter: {unread} lines not understood",) if unread else ())


def _pair(line: str) -> tuple[str, str] | None:
    """Return key and value of a line at the margin that has both in one line."""
    name, colon, value = line.partition(":")
    if not colon or not name.strip() or name[0] in " \t-[{'\"" or (value and value[0] not in " \t"):
        return None
    value = value.strip()
    return None if value.startswith(_UNREAD) else (name.strip(), value)


def _value(text: str) -> Any:
    if text.startswith("[") and text.endswith("]"):
        return [_scalar(part) for part in text[1:-1].split(",") if part.strip()]
    return _scalar(text)


def _scalar(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text.split(" #", 1)[0].rstrip()
