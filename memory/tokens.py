"""How many tokens a text or a message takes, exactly or by an estimate that says it is one.

>>> EstimatingCounter().count("I moved to Lisbon.")
8
"""

from __future__ import annotations

import json
import math
from inspect import getattr_static
from typing import Protocol, cast, runtime_checkable

from memory.errors import ArgumentError, TokenizerUnavailable
from memory.estimating_counter import EstimatingCounter
from memory.image_size import image_size
from memory.messages import (
    Block,
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from memory.tiktoken_counter import TiktokenCounter

MESSAGE_OVERHEAD = 4
IMAGE_TILE = 64
TILE_TOKENS = 170
UNREADABLE_IMAGE_TOKENS = 2500
DOCUMENT_BYTES_PER_TOKEN = 1500


@runtime_checkable
class TokenCounter(Protocol):
    """Counts tokens. *exact* is False for an estimate; *name* tells how it counts. Any thread may call."""

    @property
    def name(self) -> str:
        """The encoding, or the rule of the estimate."""
        ...

    @property
    def exact(self) -> bool:
        """Whether the counts are those of a tokenizer."""
        ...

    def count(self, text: str) -> int:
        """Return the number of tokens of *text*; 0 for an empty one."""
        ...


def checked_counter(counter: object, argument: str = "counter") -> TokenCounter:
    """Return *counter* if it is a ``TokenCounter``; its properties are not asked, since that may load tables."""
    whole = all(getattr_static(counter, name, None) is not None for name in ("name", "exact", "count"))
    if isinstance(counter, type) or not whole:
        expected = "a TokenCounter (name, exact, count(text)) is needed, such as EstimatingCounter()"
        raise ArgumentError(argument, counter, expected)
    return cast("TokenCounter", counter)


class FallbackCounter:
    """*exact_counter* where its tables can be had, else *estimate*; decided at the first count, once."""

    def __init__(self, exact_counter: TiktokenCounter, estimate: TokenCounter) -> None:
        self._exact_counter = exact_counter
        self._estimate = estimate
        self._chosen: TokenCounter | None = None

    @property
    def name(self) -> str:
        """The name of the counter in use; asking decides which."""
        return self._choice().name

    @property
    def exact(self) -> bool:
        """Whether counts are exact; asking decides which counter is used."""
        return self._choice().exact

    def count(self, text: str) -> int:
        """As the protocol says; the first call may take as long as the tables do."""
        return self._choice().count(text)

    def _choice(self) -> TokenCounter:
        if self._chosen is None:
            try:
                self._exact_counter.load()
                self._chosen = self._exact_counter
            except TokenizerUnavailable:
                self._chosen = self._estimate
        return self._chosen


def default_counter(*, offline: bool = False) -> TokenCounter:
    """Return tiktoken's counter with the estimate behind it; ``exact`` tells which of them counts."""
    return FallbackCounter(TiktokenCounter(offline=offline), EstimatingCounter())


def message_tokens(message: Message, counter: TokenCounter) -> int:
    """Return what *message* takes in a model's context: its text, tool calls and results, thinking, media."""
    if not isinstance(message, Message):
        raise ArgumentError("message", message, "a Message is needed")
    if not hasattr(counter, "count"):
        raise ArgumentError("counter", counter, "a TokenCounter is needed, such as EstimatingCounter()")
    name = counter.count(message.name) if message.name else 0
    return MESSAGE_OVERHEAD + name + sum(_block_tokens(block, counter) for block in message.blocks)


def _block_tokens(block: Block, counter: TokenCounter) -> int:
    if isinstance(block, TextBlock):
        return counter.count(block.text)
    if isinstance(block, ImageBlock):
        return image_tokens(block.data)
    if isinstance(block, DocumentBlock):
        if block.media_type == "text/plain":
            return counter.count(block.data.decode("utf-8", "replace"))
        return math.ceil(len(block.data) / DOCUMENT_BYTES_PER_TOKEN)
    if isinstance(block, ThinkingBlock):
        return counter.count(block.text + (block.redacted or ""))
    if isinstance(block, ToolCallBlock):
        arguments = block.invalid if block.invalid is not None else json.dumps(block.arguments, ensure_ascii=False)
        return counter.count(block.name) + counter.count(arguments)
    return counter.count(block.name) + sum(_block_tokens(part, counter) for part in block.content)


def image_tokens(data: bytes) -> int:
    """Return the tokens of an image by its size; a fixed number where its header cannot be read."""
    size = image_size(data)
    if size is None:
        return UNREADABLE_IMAGE_TOKENS
    width, height = size
    return math.ceil(width / IMAGE_TILE) * math.ceil(height / IMAGE_TILE) * TILE_TOKENS
