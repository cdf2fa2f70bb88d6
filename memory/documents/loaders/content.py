"""Detection of a format by content: the first bytes of a file, and the members of a ZIP archive."""

from __future__ import annotations

import re
from typing import Final

_HEAD: Final = 4096
_MAGIC: Final = (
    (b"%PDF-", "pdf"),
    (b"\x1f\x8b", "gzip"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old office"),
    (b"{\\rtf", "rtf"),
)
_ZIP_MEMBERS: Final = (
    (b"word/", "docx"),
    (b"ppt/", "pptx"),
    (b"xl/", "xlsx"),
    (b"mimetypeapplication/epub+zip", "epub"),
    (b"mimetypeapplication/vnd.oasis.opendocument.text", "odt"),
)
_HTML: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*(?:<!doctype\s+html|<html[\s>])",
    re.IGNORECASE | re.DOTALL,
)
_MBOX: Final = re.compile(rb"From \S+ [^\n]*\d{4}[^\n]*\n[\w-]+:")
_MAIL: Final = re.compile(
    rb"(?=(?:[!-9;-~]+:[^\n]*\n(?:[ \t][^\n]*\n)*)*?(?:From|Received|Return-Path):)"
    rb"(?:Return-Path|Delivered-To|Received|From|Message-ID|MIME-Version|X-[\w-]+|Date):[^\n]*\n",
    re.IGNORECASE,
)
_BYTE_ORDER_MARKS: Final = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\0\0\xfe\xff")


def known_content(data: bytes) -> str:
    """Return the name of the format that the bytes plainly have, "gzip" and "old office" among them; "" for none.

    Text without marks of its own (Markdown, code, data) has none.
    """
    head = data[:_HEAD]
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    if head.startswith(b"PK\x03\x04"):
        directory = data[-65536:]  # names of the members stand in the directory at the end
        return next((name for member, name in _ZIP_MEMBERS if member in head or member in directory), "zip")
    if _HTML.match(head):
        return "html"
    return "mbox" if _MBOX.match(head) else "mail" if _MAIL.match(head) else ""


def is_binary(data: bytes) -> bool:
    """Return whether *data* is certainly not text: its beginning has NUL bytes and no byte order mark."""
    head = data[:_HEAD]
    return b"\0" in head and not head.startswith(_BYTE_ORDER_MARKS)
