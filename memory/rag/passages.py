"""Passages: pieces of documents that were found, each with its place. Values, no search."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, overload

from memory.rag.documents import PAGE_BREAKS
from memory.records import Found, Hit, LeftOut, Memory


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document that was found.

    ``text`` is the document's text from *start* to *end*; *before* and *after* are what stands next to it,
    when that was asked for.
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
    before: str = ""
    after: str = ""

    def page_at(self, offset: int) -> int | None:
        """Return the page that holds the *offset* of ``text``."""
        passed = bisect_right(self.page_breaks, offset, key=lambda pair: pair[0])
        return self.page_breaks[passed - 1][1] if passed else self.page


@dataclass(frozen=True, slots=True)
class Passages(Sequence[Passage]):
    """What a retrieval gives: passages, best first; the rest means what it means in ``Found``."""

    passages: tuple[Passage, ...]
    confidence: float = 0.0
    abstain: Literal["nothing", "other"] | None = None
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()

    @overload
    def __getitem__(self, index: int) -> Passage: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Passage, ...]: ...

    def __getitem__(self, index: int | slice) -> Passage | tuple[Passage, ...]:
        return self.passages[index]

    def __len__(self) -> int:
        return len(self.passages)

    def __iter__(self) -> Iterator[Passage]:
        return iter(self.passages)


def passages_of(hits: Found | Sequence[Hit]) -> tuple[Passage, ...]:
    """Return the passages among *hits*, in their order; what comes from no document is passed over."""
    found = (passage_of(hit.memory, score=hit.score, parts=hit.parts) for hit in hits)
    return tuple(passage for passage in found if passage is not None)


def passage_of(memory: Memory, *, score: float = 0.0, parts: Mapping[str, float] | None = None) -> Passage | None:
    """Return *memory* as the passage it is; None if it comes from no document."""
    source = memory.source
    if source is None or source.document is None:
        return None
    breaks: Any = memory.metadata.get(PAGE_BREAKS, ())
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
    )
