"""Text that others wrote, made safe to print: what a terminal would obey or hide is spelled out. Prints nothing.

A memory may hold escape sequences that clear the screen, marks that turn the direction of writing round, or letters
that nobody sees. They stay in the memory as they were said; on a screen they are shown as ``\\x1b`` or ``\\u202e``.
"""

from __future__ import annotations

import re

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks, embeddings, overrides, isolates
    "\u200b\u2028\u2029\u2060-\u2064\ufeff\ufff9-\ufffb"  # breaks and joins without a shape
    "\ud800-\udfff\U000e0000-\U000e007f]"  # halves of characters, and tags
)


def visible(text: str) -> str:
    """Return *text* with what a terminal would obey or hide spelled out; lines and tabs stay."""
    return _OBEYED.sub(lambda found: _spelled(found[0]), text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Return *text* on one line, safe to print."""
    return " ".join(visible(text).split())


def safe_json(text: str) -> str:
    """Return the JSON *text* with the same characters as JSON escapes; its value stays the same."""
    return _OBEYED.sub(lambda found: _escaped(found[0]), text)


def _spelled(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place] << 8 | units[place + 1]:04x}" for place in range(0, len(units), 2))
