"""Markdown: the text as it stands, its front matter as fields, its title. Renders nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memory.rag.loaders.decoding import decode
from memory.rag.loaders.front_matter import front_matter
from memory.rag.loaders.protocol import Loaded

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(?=\S)")
_NO_HEADING = ("#", ">", "-", "*", "+", "|", "    ", "\t")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*\Z")
_OWN = ("title", "tags")


class MarkdownLoader:
    """Loads ``.md`` and ``.markdown``."""

    name = "markdown/1"
    media_type = "text/markdown"

    def load(self, data: bytes, source: str) -> Loaded:
        """Return the file's text; ``body`` is where its front matter ends."""
        text, notes = decode(data, source)
        head = front_matter(text)
        given = head.fields.get("title")
        return Loaded(
            text=text,
            title=given if isinstance(given, str) else first_heading(text[head.end :]),
            body=head.end,
            tags=_tags(head.fields),
            metadata={key: value for key, value in head.fields.items() if key not in _OWN},
            notes=notes + head.notes,
        )


def first_heading(text: str) -> str:
    """Return the words of the first heading that is not inside a code fence; "" when there is none."""
    fence = previous = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence):
                fence = ""
        elif mark:
            fence = mark[1]
        elif (heading := _HEADING.match(line)) is not None:
            return _closed(line[heading.end() :])
        elif previous.strip() and not previous.startswith(_NO_HEADING) and _UNDERLINE.match(line):
            return previous.strip()
        previous = "" if fence or mark else line
    return ""


def _closed(words: str) -> str:
    """Return a heading's words without the closing ``##`` that Markdown allows."""
    words = words.rstrip()
    bare = words.rstrip("#")
    return bare.rstrip() if bare != words and bare.endswith((" ", "\t")) else words


def _tags(fields: Mapping[str, Any]) -> tuple[str, ...]:
    tags = fields.get("tags", ())
    if isinstance(tags, str):
        tags = tags.split(",")
    named = (tag.strip() for tag in tags if isinstance(tag, str)) if isinstance(tags, list | tuple) else ()
    return tuple(dict.fromkeys(tag for tag in named if tag))
