r"""Documents and their passages as values: what a loader returns and ingest cuts, and the pieces that retrieval finds.

>>> document = Document(source="notes/a.md", title="A", text="# A\n\nHello.", media_type="text/markdown")
>>> document.page_at(0) is None
True
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal

from tellback.memory.documents.loaders.base import LoadedDocument
from tellback.memory.errors import ArgumentError
from tellback.memory.models import Memory
from tellback.memory.results import Hit, Omitted, RecallResult

_LINE_END = re.compile("\n")
PAGE_BREAKS = "page_breaks"
"""Metadata of a chunk that runs over pages: [offset in the chunk, number of the page that begins there], …"""
LINE = "line"
"""Metadata of a chunk: the line of the file where it begins, from 1."""
ANCHOR = "anchor"
"""Metadata of a chunk: the place in the file, nearest before it, that a link can name (``page.html#ANCHOR``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document(LoadedDocument):
    """Document as it was read, whole.

    *source* is its stable name: the path below the ingested folder with forward slashes, or a URI. *text* is
    all that was read, and every offset anywhere counts its characters; what lies before *body* (front matter)
    is not cut into chunks. *pages* are (start, end) of each page in order. *notes* say what was assumed in reading.
    """

    source: str
    media_type: str
    _line_ends: tuple[int, ...] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        ends = tuple(match.start() for match in _LINE_END.finditer(self.text)) if self.lines else ()
        object.__setattr__(self, "_line_ends", ends)
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

    def line_at(self, offset: int) -> int | None:
        """Return the line of the file (from 1) that holds *offset*; None where lines are not known."""
        index = bisect_right(self.lines, offset, key=lambda place: place[0]) - 1
        if index < 0:
            return None
        begin, line = self.lines[index]
        counted = line + bisect_right(self._line_ends, offset - 1) - bisect_right(self._line_ends, begin - 1)
        following = self.lines[index + 1][1] if index + 1 < len(self.lines) else 0
        return min(counted, following) if following > line else counted

    def anchor_at(self, offset: int) -> str:
        """Return the name of the last place up to *offset* that a link can name; "" for none."""
        index = bisect_right(self.anchors, offset, key=lambda place: place[0]) - 1
        return self.anchors[index][1] if index >= 0 else ""

    def page_breaks(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """Return (offset, page) for every page that begins inside the span after its first character."""
        return tuple((first, number) for number, (first, _) in enumerate(self.pages, start=1) if start < first < end)


def content_hash(data: bytes, reader: str) -> str:
    """Return the name of *data* as read by *reader* (its name and version): equal means nothing to do."""
    digest = blake2b(reader.encode() + b"\0", digest_size=20, person=b"document")
    digest.update(data)
    return digest.hexdigest()


def chunk_ids(key: bytes, collection: str, source: str, texts: Iterable[str]) -> list[str]:
    """Return an id for each of a document's chunks, in order; *collection* is its store namespace.

    The *key* is the secret of the memory's file, so an id reveals nothing. A chunk is identified by its collection,
    document, words and how often these occurred before, not by its position. So a chunk that moves keeps its id and its
    vector, and one that was forgotten is recognised when its document is read again.
    """
    times: Counter[str] = Counter()
    ids = []
    for text in texts:
        digest = _keyed_hash(key, b"chunk", (collection, source, text, str(times[text])), size=10)
        times[text] += 1
        ids.append("c" + base64.b32encode(digest).decode("ascii").lower())
    return ids


def document_mark(key: bytes, kind: str, *parts: str) -> str:
    """Return a keyed hash of *parts*, equal for equal parts of one *kind*."""
    return _keyed_hash(key, kind.encode(), parts, size=20).hex()


def _keyed_hash(key: bytes, kind: bytes, parts: Iterable[str], *, size: int) -> bytes:
    digest = blake2b(key=key[:64], digest_size=size, person=kind[:16])
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.digest()


@dataclass(frozen=True, slots=True)
class Passage:
    """Piece of a document that was found.

    ``text`` is the document's text from *start* to *end*; *line* (from 1) and *anchor* are where it begins in the
    file, where that is known. *before* and *after* are the text next to it, when neighbours were asked for.
    """

    id: str
    text: str
    document: str
    title: str = ""
    page: int | None = None
    heading: tuple[str, ...] = ()
    start: int = 0
    end: int = 0
    score: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)
    page_breaks: tuple[tuple[int, int], ...] = ()
    line: int | None = None
    anchor: str = ""
    before: str = ""
    after: str = ""

    def page_at(self, offset: int) -> int | None:
        """Return the page that holds the *offset* of ``text``."""
        breaks_before = bisect_right(self.page_breaks, offset, key=lambda pair: pair[0])
        return self.page_breaks[breaks_before - 1][1] if breaks_before else self.page


@dataclass(frozen=True, slots=True)
class Passages(Sequence[Passage]):
    """Result of a retrieval: passages, best first; the other fields are as in ``RecallResult``."""

    passages: tuple[Passage, ...]
    confidence: float = 0.0
    abstain: Literal["nothing", "other"] | None = None
    left_out: tuple[Omitted, ...] = ()
    notes: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()
    near: bool = True

    def __getitem__(self, index: Any) -> Any:
        return self.passages[index]

    def __len__(self) -> int:
        return len(self.passages)


def passages_of(hits: RecallResult | Sequence[Hit]) -> tuple[Passage, ...]:
    """Return the passages among *hits*, in their order; what comes from no document is passed over."""
    passages = (passage_of(hit.memory, score=hit.score, parts=hit.parts) for hit in hits)
    return tuple(passage for passage in passages if passage is not None)


def passage_of(memory: Memory, *, score: float = 0.0, parts: Mapping[str, float] | None = None) -> Passage | None:
    """Return *memory* as the passage it is; None if it comes from no document."""
    source = memory.source
    if source is None or source.document is None:
        return None
    breaks: Any = memory.metadata.get(PAGE_BREAKS, ())
    line, anchor = memory.metadata.get(LINE), memory.metadata.get(ANCHOR)
    start = source.start or 0
    return Passage(
        id=memory.id,
        text=memory.text,
        document=source.document,
        title=source.title or "",
        page=source.page,
        heading=source.heading,
        start=start,
        end=source.end if source.end is not None else start + len(memory.text),
        score=score,
        parts=parts or {},
        page_breaks=tuple((offset, page) for offset, page in breaks),
        line=line if isinstance(line, int) else None,
        anchor=anchor if isinstance(anchor, str) else "",
    )
