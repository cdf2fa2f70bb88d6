"""The size of chunks, in characters or in tokens of a counter."""

from __future__ import annotations

from tellback.memory.errors import ArgumentError
from tellback.memory.tokens.counter import TokenCounter

DEFAULT_SIZE = 1000
"""Characters, about 200 tokens: most paragraphs whole. A longer chunk dilutes a mean of token vectors and is
more than a quotation needs; a shorter one cuts paragraphs, and with them what their pronouns refer to."""

SMALLEST_TOKEN_SIZE = 16
"""Below this a single character can be larger than a chunk."""

_CHARACTERS_PER_TOKEN = 12


class ChunkSize:
    """Size and overlap of chunks, with their unit: characters, or tokens of *counter*."""

    def __init__(self, size: int, overlap: int, counter: TokenCounter | None) -> None:
        smallest = 1 if counter is None else SMALLEST_TOKEN_SIZE
        if type(size) is not int or size < smallest:
            raise ArgumentError("size", size, f"a whole number of at least {smallest} is needed")
        if type(overlap) is not int or not 0 <= overlap <= size // 2:
            raise ArgumentError("overlap", overlap, f"a whole number from 0 to half the size ({size // 2}) is needed")
        self.size = size
        self.overlap = overlap
        self.counter = counter

    @property
    def name(self) -> str:
        """Names size, overlap and unit."""
        return f"{self.size}/{self.overlap}/{self.counter.name if self.counter is not None else 'characters'}"

    def length(self, text: str) -> int:
        """Return how large *text* is."""
        return len(text) if self.counter is None else self.counter.count(text)

    def characters(self, amount: int) -> int:
        """Return how many characters *amount* can hold at the very most, for practical texts."""
        return amount if self.counter is None else amount * _CHARACTERS_PER_TOKEN
