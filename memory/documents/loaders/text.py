"""The loader of plain text, logs and source code, and the detection of a text's encoding.

An encoding is guessed only where a note tells so, and binary files are refused.
"""

from __future__ import annotations

import codecs
import re

from tellback.memory.documents.loaders.base import OWN_LINES, LoadedDocument
from tellback.memory.errors import LoadError

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = re.compile("[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f\x80-\x9f]")
_FOREIGN_SHARE = 0.25
"""Western text is mostly ASCII; where more bytes than this are not, it is some other encoding."""
_CONTROL_SHARE = 0.01
"""Text has at most this share of control characters; tabs, line ends, form feeds and terminal colours are
none."""


def decode_text(data: bytes, source: str) -> tuple[str, tuple[str, ...]]:
    """Return the text of *data* with newlines as line ends, and notes on what was assumed.

    A byte order mark decides; else it must be UTF-8; else Windows-1252 if every byte has a meaning there,
    none is a control character and most are ASCII. Anything else, and anything with NUL in it, raises
    ``LoadError``.
    """
    text, notes = _decode_unicode(data, source)
    if "\0" in text:
        raise LoadError(source, "a binary file, not text (it has NUL bytes; UTF-16 needs a byte order mark)")
    if len(_CONTROLS.findall(text)) > _CONTROL_SHARE * len(text):
        raise LoadError(source, "a binary file, not text (control characters)")
    return text.replace("\r\n", "\n").replace("\r", "\n"), notes


def _decode_unicode(data: bytes, source: str) -> tuple[str, tuple[str, ...]]:
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding), ()
            except UnicodeDecodeError as error:
                raise LoadError(source, f"begins as {encoding.upper()} and is not: {error.reason}") from error
    try:
        return data.decode("utf-8"), ()
    except UnicodeDecodeError as error:
        if b"\0" in data:
            raise LoadError(source, "a binary file, not text (it has NUL bytes)") from error
        text = data.decode("cp1252", "replace")
        foreign = sum(byte >= 0x80 for byte in data)
        if "\ufffd" in text or foreign > _FOREIGN_SHARE * len(data) or _CONTROLS.search(text):
            raise LoadError(source, f"not UTF-8 text (byte {error.start}); convert it to UTF-8") from error
        return text, ("not UTF-8; read as Windows-1252",)


def read_text(data: bytes, source: str) -> LoadedDocument:
    """Return text that has no structure that we read; it has no title."""
    text, notes = decode_text(data, source)
    return LoadedDocument(text=text, lines=OWN_LINES, notes=notes)
