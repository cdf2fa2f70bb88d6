"""Chunker made of any function, such as one that cuts at sentences, pages or windows, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from tellback.memory.chunking.protocol import Chunk
from tellback.memory.errors import ArgumentError

ChunkFunction: TypeAlias = Callable[[str], Iterable[str]]
"""Function that returns the pieces of a text, in their order."""


class FunctionChunker:
    """Chunker of a *function* that returns the pieces of a text, in their order, each as it stands in the text.

    Pieces may share text with the one before. What the function leaves out is not found later; a piece that is not in
    the text raises ``ArgumentError``. Blank pieces, and those that say nothing new, are left out. *name* stands in the
    fingerprint: change it with the function, so that documents are cut anew.
    """

    def __init__(self, function: ChunkFunction, *, name: str = "") -> None:
        if not callable(function):
            raise ArgumentError("function", function, "a function of a text is needed")
        self._function = function
        self.fingerprint = f"function-1/{name or getattr(function, '__qualname__', type(function).__qualname__)}"

    def chunk(self, text: str) -> list[Chunk]:
        """As the protocol says, but for what the function leaves out and the size it keeps."""
        chunks: list[Chunk] = []
        begun = reached = 0
        for piece in self._function(text):
            if not isinstance(piece, str):
                raise ArgumentError("function", piece, "pieces of the text, as strings, are needed")
            words = piece.strip()
            if not words:
                continue
            # Behind the piece before, if it is there: the same words may stand in the text more than once.
            start = text.find(words, reached)
            start = text.find(words, begun) if start < 0 else start
            if start < 0:
                raise ArgumentError("function", words[:60], "pieces that stand in the text, in their order, are needed")
            if text[max(start, reached) : start + len(words)].strip():
                chunks.append(Chunk(words, start, start + len(words)))
                begun, reached = start + 1, start + len(words)
        return chunks

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.fingerprint!r})"
