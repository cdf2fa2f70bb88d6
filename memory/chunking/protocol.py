"""What a chunker is: it cuts a text into pieces small enough to find and quote, and says where they were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol, runtime_checkable

from memory.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a text: ``text == document[start:end]``, in characters.

    *heading* is the path of headings above its first words; *page* counts from 1, None where there are none.
    """

    text: str
    start: int
    end: int
    heading: tuple[str, ...] = ()
    page: int | None = None


@runtime_checkable
class Chunker(Protocol):
    """Cuts texts. Pure: the same text gives the same chunks, from any thread.

    - Chunks come in the order of the text; ``text[chunk.start:chunk.end] == chunk.text`` for each.
    - No chunk is larger than the chunker's size, overlap included; none is empty, blank or overlap alone.
    - Every character that is not white space is in a chunk. A blank text gives no chunks.
    """

    @property
    def fingerprint(self) -> str:
        """Names the way of cutting and its settings; equal fingerprints cut equally."""
        ...

    def chunk(self, text: str) -> list[Chunk]:
        """Return the chunks of *text*."""
        ...


def with_pages(chunks: Sequence[Chunk], pages: Sequence[tuple[int, int]]) -> list[Chunk]:
    """Return *chunks* with the number of the page on which each begins; *pages* are (start, end) in order."""
    if any(start > end for start, end in pages) or any(a[1] > b[0] for a, b in pairwise(pages)):
        raise ArgumentError("pages", pages, "(start, end) of each page in order, not overlapping, is needed")
    numbered: list[Chunk] = []
    number = 0
    for chunk in sorted(chunks, key=lambda chunk: chunk.start):
        while number < len(pages) and pages[number][1] <= chunk.start:
            number += 1
        inside = number < len(pages) and pages[number][0] < chunk.end
        numbered.append(replace(chunk, page=number + 1 if inside else None))
    return numbered
