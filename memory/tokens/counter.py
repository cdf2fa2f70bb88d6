"""Token counters, and the tokens of a message: its texts, tool calls, documents, and images by their size.

>>> EstimatingCounter().count("I moved to Lisbon.")
8

The size of an image is read from its header (PNG, GIF, JPEG, WebP): no pixel is read and no length is trusted.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from inspect import getattr_static
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast, runtime_checkable

from tellback.memory.errors import ArgumentError, TokenizerUnavailable
from tellback.memory.tokens.estimating_counter import EstimatingCounter
from tellback.memory.tokens.tiktoken_counter import ENCODING, TiktokenCounter

if TYPE_CHECKING:
    from tellback.memory.messages import Block, Message

_log = logging.getLogger(__name__)
# Start-of-frame markers of JPEG: all C0-CF but the tables C4 (Huffman), C8 (reserved) and CC (arithmetic).
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE_MARKERS = frozenset({0x01, *range(0xD0, 0xD8)})


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return (width, height), or None where the header is unknown, cut or says zero."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        size = _number(data, 16, 4, "big"), _number(data, 20, 4, "big")
    elif data[:6] in (b"GIF87a", b"GIF89a"):
        size = _number(data, 6, 2, "little"), _number(data, 8, 2, "little")
    elif data.startswith(b"\xff\xd8"):
        size = _jpeg_size(data)
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        size = _webp_size(data)
    else:
        return None
    return size if min(size) > 0 else None


def _jpeg_size(data: bytes) -> tuple[int, int]:
    position = 2
    while position + 4 <= len(data):
        if data[position] != 0xFF:
            return 0, 0
        marker = data[position + 1]
        if marker == 0xFF:  # fill byte
            position += 1
        elif marker in _BARE_MARKERS:
            position += 2
        elif marker in _JPEG_FRAMES:
            return _number(data, position + 7, 2, "big"), _number(data, position + 5, 2, "big")
        else:
            position += 2 + max(_number(data, position + 2, 2, "big"), 2)
    return 0, 0


def _webp_size(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X" and len(data) >= 30:
        return _number(data, 24, 3, "little") + 1, _number(data, 27, 3, "little") + 1
    if kind == b"VP8L" and data[20:21] == b"\x2f" and len(data) >= 25:
        bits = _number(data, 21, 4, "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        return _number(data, 26, 2, "little") & 0x3FFF, _number(data, 28, 2, "little") & 0x3FFF
    return 0, 0


def _number(data: bytes, start: int, length: int, order: Literal["big", "little"]) -> int:
    """Return the number of *length* bytes at *start*; 0 where the data is cut."""
    part = data[start : start + length]
    return int.from_bytes(part, order) if len(part) == length else 0


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

    @property
    def exact(self) -> bool:
        """True if the counts are those of a tokenizer."""

    def count(self, text: str) -> int:
        """Return the number of tokens of *text*; 0 for an empty one."""


def checked_counter(counter: object, argument: str = "counter") -> TokenCounter:
    """Return *counter* if it is a ``TokenCounter``, guarded by the estimate where it is not one of ours; its properties
    are not asked, since that may load tables."""
    whole = all(getattr_static(counter, name, None) is not None for name in ("name", "exact", "count"))
    if isinstance(counter, type) or not whole:
        expected = "a TokenCounter (name, exact, count(text)) is needed, such as EstimatingCounter()"
        raise ArgumentError(argument, counter, expected)
    ours = (EstimatingCounter, TiktokenCounter, FallbackCounter, GuardedCounter)
    return cast("TokenCounter", counter) if isinstance(counter, ours) else GuardedCounter(cast("TokenCounter", counter))


class GuardedCounter:
    """A program's own *counter*, with the estimate for texts that it fails at; the first failure is logged."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter, self._failed = counter, False

    @property
    def name(self) -> str:
        """Name of the program's counter."""
        return self._counter.name

    @property
    def exact(self) -> bool:
        """Return whether its counts are exact, and none has failed yet."""
        return self._counter.exact and not self._failed

    def count(self, text: str) -> int:
        """Return the number of tokens of *text*."""
        try:
            tokens = self._counter.count(text)
            if type(tokens) is int and tokens >= 0:
                return tokens
            problem = f"it returned {tokens!r}"
        except Exception as error:  # a stranger's code may raise anything; a count too many harms less than no answer
            problem = f"{type(error).__name__}: {error}"
        if not self._failed:
            _log.warning(
                "the token counter %s failed (%s); tokens are estimated", type(self._counter).__name__, problem
            )
        self._failed = True
        return EstimatingCounter().count(text)


class FallbackCounter:
    """*exact_counter* where its tables can be had, else *estimate*; decided at the first count, once."""

    def __init__(self, exact_counter: TiktokenCounter, estimate: TokenCounter) -> None:
        self._exact_counter = exact_counter
        self._estimate = estimate

    @property
    def name(self) -> str:
        """The name of the counter in use; asking decides which."""
        return self._chosen.name

    @property
    def exact(self) -> bool:
        """True if counts are exact; asking decides which counter is used."""
        return self._chosen.exact

    def count(self, text: str) -> int:
        """As the protocol says; the first call loads the table, which takes half a second."""
        return self._chosen.count(text)

    @cached_property
    def _chosen(self) -> TokenCounter:
        try:
            self._exact_counter.load()
        except TokenizerUnavailable:
            return self._estimate
        return self._exact_counter


def default_counter(encoding: str = ENCODING) -> TokenCounter:
    """Return tiktoken's counter with the estimate behind it; ``exact`` tells which of them counts."""
    return FallbackCounter(TiktokenCounter(encoding), EstimatingCounter())


def counter_for_model(model: str | None, own: TokenCounter | None = None) -> TokenCounter:
    """Return the program's *own* counter, guarded, the default one of *model*'s encoding, or the estimate.

    Other tokenizers than OpenAI's count up to twice as many tokens as theirs, and a budget must not be exceeded.
    """
    if own is not None:
        return checked_counter(own)
    if model is not None:
        import tiktoken

        with suppress(KeyError):
            return default_counter(tiktoken.encoding_name_for_model(model.rpartition("/")[2]))
    return EstimatingCounter()


TextMeasure: TypeAlias = TokenCounter | Callable[[str], int]
"""A token counter, or a function that measures a text in a unit of its own."""


def measuring_function(measure: TextMeasure) -> Callable[[str], int]:
    """Return the function of *measure* that measures a text."""
    return measure if callable(measure) else measure.count


def measures_exactly(measure: TextMeasure) -> bool | None:
    """Return whether *measure* counts tokens exactly, None for a function, which does not say; may load a table."""
    return None if callable(measure) else measure.exact


def message_tokens(message: Message, counter: TokenCounter) -> int:
    """Return what *message* takes in a model's context: its text, tool calls and results, thinking, media."""
    from tellback.memory.messages import Message

    if not isinstance(message, Message):
        raise ArgumentError("message", message, "a Message is needed")
    if not hasattr(counter, "count"):
        raise ArgumentError("counter", counter, "a TokenCounter is needed, such as EstimatingCounter()")
    name = counter.count(message.name) if message.name else 0
    return MESSAGE_OVERHEAD + name + sum(_block_tokens(block, counter) for block in message.blocks)


def _block_tokens(block: Block, counter: TokenCounter) -> int:
    if block.type == "text":
        return counter.count(block.text)
    if block.type == "image":
        return image_tokens(block.data)
    if block.type == "document":
        if block.media_type == "text/plain":
            return counter.count(block.data.decode("utf-8", "replace"))
        return math.ceil(len(block.data) / DOCUMENT_BYTES_PER_TOKEN)
    if block.type == "thinking":
        return counter.count(block.text + (block.redacted or ""))
    if block.type == "opaque":
        return counter.count(json.dumps(block.data, ensure_ascii=False))
    if block.type == "tool_call":
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
