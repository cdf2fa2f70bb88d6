"""The loader of Markdown: the text as it is, with its title, tags, links and front matter. Nothing is rendered.

Front matter is ``---`` with simple YAML, or ``+++`` with TOML. Of YAML it understands ``key: value``, lists in brackets
or as ``- item`` lines, quotes and comments; all values stay text. What is not understood is counted in a note. Tags in
the text (``#garden/beds``) count beside those of the front matter, and ``[[links]]`` between notes are a field, as note
programs write them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any

from tellback.memory.chunking.markdown import raw_headings
from tellback.memory.documents.loaders.base import OWN_LINES, LoadedDocument
from tellback.memory.documents.loaders.text import decode_text

_FRONT_MATTER = re.compile(r"\A(?P<fence>---|\+\+\+)[ \t]*\n(?P<inside>.*?)(?<=\n)(?P=fence)[ \t]*(?:\n|\Z)", re.DOTALL)
_LIST_ITEM = re.compile(r"[ \t]*-[ \t]+(?P<value>.+)\Z")
_CODE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_INLINE_TAG = re.compile(r"(?<!\S)#(?!(?:[0-9a-fA-F]{3}){1,2}\b)(?=[\w/-]*[^\W\d_])([\w/-]+)")
_NOTE_LINK = re.compile(r"\[\[([^\[\]|#^\n]+)[^\[\]\n]*\]\]")
_MOST_NAMES = 200
"""Tags, and links, that a document has; of more, the first."""
_UNSUPPORTED_VALUES = ("|", ">", "{", "&", "*", "!")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """Front matter: its fields, the offset of the body, and notes on lines that were not understood."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    end: int = 0
    notes: tuple[str, ...] = ()


def parse_front_matter(text: str) -> FrontMatter:
    """Return the head of *text*; a text without one gives no fields and the end 0."""
    head = _FRONT_MATTER.match(text)
    if head is None:
        return FrontMatter()
    parse = _parse_toml if head["fence"] == "+++" else _parse_yaml
    fields, notes = parse(head["inside"])
    if not fields and head["inside"].strip():
        return FrontMatter()  # a rule and a rule, with prose between them
    return FrontMatter(fields, head.end(), notes)


def _parse_toml(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    try:
        return {key: _json_value(value) for key, value in tomllib.loads(text).items()}, ()
    except tomllib.TOMLDecodeError:
        return {}, ()


def _json_value(value: Any) -> Any:
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, dict):
        return {key: _json_value(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_json_value(inner) for inner in value]
    if isinstance(value, float) and value - value != 0:  # infinities and NaN are not JSON
        return str(value)
    return value


def _parse_yaml(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    fields: dict[str, Any] = {}
    unread = 0
    key: str | None = None  # of the list that the next lines may belong to
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        item, pair = _LIST_ITEM.match(line), _parse_pair(line)
        if item and key is not None:
            fields[key] = [*(fields[key] or []), _parse_scalar(item["value"])]
        elif pair is not None:
            key = None if pair[1] else pair[0]
            fields[pair[0]] = _parse_value(pair[1])
        else:
            unread += 1
            key = None
    fields = {name: value for name, value in fields.items() if value not in ("", None, [])}
    return fields, ((f"front matter: {unread} lines not understood",) if unread else ())


def _parse_pair(line: str) -> tuple[str, str] | None:
    """Return key and value of a line at the margin that has both in one line."""
    name, colon, value = line.partition(":")
    if not colon or not name.strip() or name[0] in " \t-[{'\"" or (value and value[0] not in " \t"):
        return None
    value = value.strip()
    return None if value.startswith(_UNSUPPORTED_VALUES) else (name.strip(), value)


def _parse_value(text: str) -> Any:
    if text.startswith("[") and text.endswith("]"):
        return [_parse_scalar(part) for part in text[1:-1].split(",") if part.strip()]
    return _parse_scalar(text)


def _parse_scalar(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text.split(" #", 1)[0].rstrip()


def read_markdown(data: bytes, source: str) -> LoadedDocument:
    """Return Markdown as it is; ``body`` is where its front matter ends."""
    text, notes = decode_text(data, source)
    head = parse_front_matter(text)
    title_field = head.fields.get("title")
    prose = _CODE.sub("", text[head.end :])
    links = _distinct(_NOTE_LINK.findall(prose))
    metadata = {key: value for key, value in head.fields.items() if key not in ("title", "tags")}
    return LoadedDocument(
        text=text,
        title=title_field if isinstance(title_field, str) else first_heading(text[head.end :]),
        body=head.end,
        lines=OWN_LINES,
        tags=_distinct([*_read_tags(head.fields), *_INLINE_TAG.findall(prose)]),
        metadata={"links": list(links), **metadata} if links else metadata,
        notes=notes + head.notes,
    )


def first_heading(text: str) -> str:
    """Return the words of the first heading that is not inside a code fence; "" when there is none."""
    return next((words for *_, title in raw_headings(text) if (words := title.strip())), "")


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    cleaned = (name.strip().lstrip("#").rstrip("/") for name in names)
    return tuple(dict.fromkeys(filter(None, cleaned)))[:_MOST_NAMES]


def _read_tags(fields: Mapping[str, Any]) -> list[str]:
    tags = fields.get("tags", ())
    if isinstance(tags, str):
        tags = tags.split(",")
    return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list | tuple) else []
