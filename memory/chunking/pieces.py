"""Chunkers by sentence, by a fixed length and by nothing at all, and a chunker made of any function."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import TypeAlias

from semantic_text_splitter import TextSplitter

from tellback.memory.chunking.protocol import Chunk
from tellback.memory.chunking.sentences import TextSpan, split_sentences, strip_span
from tellback.memory.chunking.size import DEFAULT_SIZE, ChunkSize
from tellback.memory.chunking.text import SplitterChunker, add_overlap
from tellback.memory.errors import ArgumentError
from tellback.memory.tokens.counter import TokenCounter

ChunkFunction: TypeAlias = Callable[[str], Iterable[str]]
"""Function that returns the pieces of a text, in their order."""

_JOINERS = "\u200c\u200d"


class SentenceChunker(SplitterChunker):
    """A chunk for every *sentences* sentences, where *size* leaves room for them; a longer sentence is cut at words.

    For texts whose sentences stand for themselves: minutes, laws, lists of facts. Paragraphs are kept apart only as
    sentences are. Sizes and overlap are as for ``TextChunker``.
    """

    _splitter = TextSplitter
    _version = "sentence-1"

    def __init__(
        self, size: int = DEFAULT_SIZE, *, sentences: int = 1, overlap: int = 0, counter: TokenCounter | None = None
    ) -> None:
        super().__init__(size, overlap=overlap, counter=counter)
        if type(sentences) is not int or sentences < 1:
            raise ArgumentError("sentences", sentences, "a whole number of at least 1 is needed")
        self._sentences = sentences

    @property
    def fingerprint(self) -> str:
        """The way of cutting and its settings."""
        return f"{super().fingerprint}/{self._sentences}"

    def chunk(self, text: str) -> list[Chunk]:
        """As the protocol says."""
        room = self._measure.size - self._measure.overlap
        spans: list[TextSpan] = []
        count = 0
        for start, end in split_sentences(text):
            if self._measure.length(text[start:end]) > room:
                spans += self._cut(text, start, end, room)
                count = self._sentences
            elif spans and count < self._sentences and self._measure.length(text[spans[-1][0] : end]) <= room:
                spans[-1] = spans[-1][0], end
                count += 1
            else:
                spans.append((start, end))
                count = 1
        return [Chunk(text[start:end], start, end) for start, end in add_overlap(text, spans, self._measure)]


class FixedChunker:
    """Windows of *size* characters, or tokens where a *counter* is given, each *overlap* of them after the one before.

    Nothing but the length counts: words and sentences are cut. Blanks at the ends of a window are left out, and no
    combined character is cut. For comparisons, and for texts without any borders.
    """

    def __init__(self, size: int = DEFAULT_SIZE, *, overlap: int = 0, counter: TokenCounter | None = None) -> None:
        self._measure = ChunkSize(size, overlap, counter)

    @property
    def fingerprint(self) -> str:
        """The way of cutting and its settings."""
        return f"fixed-1/{self._measure.name}"

    def chunk(self, text: str) -> list[Chunk]:
        """As the protocol says."""
        chunks: list[Chunk] = []
        start = reached = 0
        while reached < len(text):
            end = self._longest(text, start, self._measure.size)
            left, right = strip_span(text, start, end)
            if left < right and right > reached and text[max(left, reached) : right].strip():
                chunks.append(Chunk(text[left:right], left, right))
            reached = max(reached, end)
            start = max(start + 1, self._earliest(text, start, end)) if self._measure.overlap else end
        return chunks

    def _longest(self, text: str, start: int, amount: int) -> int:
        """Return the end of the longest piece from *start* that measures at most *amount*, one character at least."""
        ends = range(start + 2, min(len(text), start + self._measure.characters(amount)) + 1)
        low = start + 1 + bisect_right(ends, amount, key=lambda end: self._measure.length(text[start:end]))
        whole = low
        while whole > start + 1 and whole < len(text) and _continues(text, whole):
            whole -= 1
        return low if whole == start + 1 else whole

    def _earliest(self, text: str, start: int, end: int) -> int:
        """Return where the piece begins that ends at *end* and measures at most the overlap."""
        begins = range(max(start, end - self._measure.characters(self._measure.overlap)), end)
        low = begins.start + bisect_left(
            begins, -self._measure.overlap, key=lambda begin: -self._measure.length(text[begin:end])
        )
        while low < end and _continues(text, low):
            low += 1
        return low

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.fingerprint!r})"


class WholeChunker:
    """No cutting: each text is one chunk, however long it is. For texts that were cut elsewhere."""

    fingerprint = "whole-1"

    def chunk(self, text: str) -> list[Chunk]:
        """As the protocol says; there is no size."""
        start, end = strip_span(text, 0, len(text))
        return [Chunk(text[start:end], start, end)] if start < end else []

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


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
        self._name = name or getattr(function, "__qualname__", type(function).__qualname__)

    @property
    def fingerprint(self) -> str:
        """The name of the function."""
        return f"function-1/{self._name}"

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


def _continues(text: str, index: int) -> bool:
    """Return whether the character at *index* belongs to the one before it."""
    character = text[index]
    return (
        unicodedata.combining(character) != 0
        or character in _JOINERS
        or unicodedata.category(character) in ("Mn", "Me", "Mc")
        or text[index - 1] == "\u200d"
        or text[index - 1 : index + 1] == "\r\n"
    )
