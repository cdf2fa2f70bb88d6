"""Text that a person typed, separated from text that a client, a paste or this memory added to it. Pure.

Own words are trusted as the user's. A code fence, a quoted line and a long paste are somebody else's words in the
user's message, and are trusted as a document.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tellback.agent.context.control_markup import WRAPPER_TAGS

PASTE_CHARACTERS: Final = 1_500
"""Length from which a text without fences is taken for a paste: few people type 250 words in one go."""
PASTE_LINES: Final = 30
_TAGS = "|".join(map(re.escape, WRAPPER_TAGS))
_WRAPPED = re.compile(rf"<({_TAGS})\b[^<>]*>.*?(?:</\1\b[^<>]*>|\Z)", re.DOTALL | re.IGNORECASE)
_OPENING_TAG = re.compile(rf"\s*</?(?:{_TAGS})\b", re.IGNORECASE)
_ANY_TAG = re.compile(r"\s*<[a-zA-Z!/?]")
_COMMAND = re.compile(r"\s*(?:/[\w:.-]+(?:\s|$)|[!?](?=\S))")
_INTERRUPTION = "[Request interrupted by user"
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n?(.*?)(?:^[ \t]*\1[^\n]*$|\Z)", re.DOTALL | re.MULTILINE)
_QUOTED_LINE = re.compile(r"^[ \t]*>[^\n]*$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n\s*\n+")


@dataclass(frozen=True, slots=True)
class TypedText:
    """Text of a message: the user's *own* words and *pasted* ones; each may be empty."""

    own: str = ""
    pasted: str = ""


def typed_text(text: str) -> str:
    """Return the typed part of a prompt; "" for a command of the client, or the client's own words."""
    if _OPENING_TAG.match(text) or _COMMAND.match(text) or text.lstrip().startswith(_INTERRUPTION):
        return ""
    return _WRAPPED.sub("", text).strip()


def untagged_text(text: str) -> str:
    """Return the typed part of a transcript's entry; "" where a client wrote it in the user's role."""
    return "" if starts_with_tag(text) else typed_text(text)


def starts_with_tag(text: str) -> bool:
    """Return whether *text* starts with a tag of any name, the mark of a client's words in the user's role."""
    return _ANY_TAG.match(text) is not None


def split_pasted(text: str) -> TypedText:
    """Return *text* split into own words and pasted ones."""
    pasted = [match.group(2) for match in _FENCE.finditer(text)]
    own = _FENCE.sub("\n\n", text)
    pasted += [match.group().lstrip(" \t>") for match in _QUOTED_LINE.finditer(own)]
    own = _BLANK_LINES.sub("\n\n", _QUOTED_LINE.sub("", own)).strip()
    if len(own) > PASTE_CHARACTERS or own.count("\n") >= PASTE_LINES or starts_with_tag(own):
        pasted, own = [own, *pasted], ""
    return TypedText(own, "\n".join(part.strip("\n") for part in pasted if part.strip()).strip())
