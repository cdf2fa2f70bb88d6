"""A document as a value: what a loader gives and ingest cuts into chunks. Reads no file and knows no store.

>>> document = Document(source="notes/a.md", title="A", text="# A\\n\\nHello.", media_type="text/markdown")
>>> document.page_at(0) is None
True
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memory.errors import ArgumentError

PAGE_BREAKS = "page_breaks"
"""Metadata of a chunk that runs over pages: [offset in the chunk, number of the page that begins there], …"""


@dataclass(frozen=True, slots=True)
class Document:
    """One document, whole.

    *source* is its stable name: the path below the ingested folder with forward slashes, or a URI. *text* is
    all that was read, and every offset anywhere counts its characters; what lies before *body* (front matter)
    is not cut into chunks. *pages* are (start, end) of each page in order. *content_hash* names the bytes it
    was read from and the reader's version. *notes* say what was assumed in reading.
    """

    source: str
    title: str
    text: str
    media_type: str
    body: int = 0
    pages: tuple[tuple[int, int], ...] = ()
    content_hash: str = ""
    modified: datetime | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.source:
            raise ArgumentError("source", self.source, "a document needs a name")
        if not 0 <= self.body <= len(self.text):
            raise ArgumentError("body", self.body, f"an offset in the text of {len(self.text)} characters is needed")
        end = 0
        for page in self.pages:
            if not end <= page[0] <= page[1] <= len(self.text):
                raise ArgumentError("pages", page, "spans in order, inside the text, are needed")
            end = page[1]

    def page_at(self, offset: int) -> int | None:
        """Return the number of the page (from 1) that holds *offset*; None when the document has no pages.

        An offset between two pages belongs to the earlier one.
        """
        if not self.pages:
            return None
        return max(1, bisect_right(self.pages, offset, key=lambda page: page[0]))

    def page_breaks(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """Return (offset, page) for every page that begins inside the span after its first character."""
        return tuple((first, number) for number, (first, _) in enumerate(self.pages, start=1) if start < first < end)


def content_hash(data: bytes, reader: str) -> str:
    """Return the name of *data* as read by *reader* (its name and version): equal means nothing to do."""
    digest = hashlib.blake2b(digest_size=20, person=b"document")
    digest.update(reader.encode())
    digest.update(b"\0")
    digest.update(data)
    return digest.hexdigest()
