"""The chunker protocol: chunks of a text with their offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Chunk:
    """Piece of a text: ``text == document[start:end]``, in characters.

    *heading* is the path of headings above its first words.
    """

    text: str
    start: int
    end: int
    heading: tuple[str, ...] = ()


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

    def chunk(self, text: str) -> list[Chunk]:
        """Return the chunks of *text*."""
