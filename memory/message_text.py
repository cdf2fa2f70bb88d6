"""Text that stands for the images, documents, tool calls and tool results of a message. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import pydantic_core

from memory.messages import RECALLED, Block, DocumentBlock, ImageBlock, Message, ToolCallBlock, ToolResultBlock

_MARK_BYTES = 4


def captions(message: Message) -> str:
    """Return captions and names of the images of *message*, in order; empty where they have none."""
    found = (_described(block) for block in message.blocks if isinstance(block, ImageBlock))
    return "; ".join(one for one in found if one)


def stand_in(message: Message) -> str:
    """Return words that stand for the images and documents of *message*, such as ``(image: a cat (miso.png), 5f0c…)``.

    Empty where it has none. Each carries a mark made of its bytes: the words for one image are not those for another,
    so that forgetting one does not take the other, and the same image sent twice is known to be the same.
    """
    return media_words(message.blocks)


def media_words(blocks: Sequence[Block]) -> str:
    """Return words for the images and documents among *blocks*, as ``stand_in``."""
    media = [block for block in blocks if isinstance(block, (ImageBlock, DocumentBlock))]
    return " ".join(
        f"({block.type}: {', '.join(filter(None, (_described(block), _mark(block.data))))})" for block in media
    )


def beginning(message: Message, limit: int = 80) -> str:
    """Return the first words of *message*, at most *limit* characters on one line; captions where it has no words."""
    words = " ".join((message.text.strip() or captions(message) or stand_in(message)).split())
    return words if len(words) <= limit else words[: limit - 1].rstrip() + "…"


def _described(block: ImageBlock | DocumentBlock) -> str:
    caption = " ".join(block.caption.split()) if isinstance(block, ImageBlock) else ""
    name = " ".join(block.name.split())
    return f"{caption} ({name})" if caption and name else caption or name


def _mark(data: bytes) -> str:
    return blake2b(data, digest_size=_MARK_BYTES).hexdigest()


def answered_words(message: Message, calls: Sequence[ToolCallBlock] = ()) -> str:
    """Return the results of a tool *message*, each below what was asked for it, where that is among *calls*.

    Empty where all of it is remembered already.
    """
    asked = {call.id: call for call in calls}
    again = message.metadata.get(RECALLED)
    left_out = again if isinstance(again, (list, tuple)) else ()
    told = [
        _told(result, asked.get(result.call_id)) for result in message.tool_results if result.call_id not in left_out
    ]
    return "\n\n".join(told)


def call_words(call: ToolCallBlock) -> str:
    """Return what *call* asks, such as ``weather (city: Paris, days: 2)``."""
    given = call.invalid if call.invalid is not None else _fields(call.arguments)
    return f"{call.name} ({given})" if given else call.name


def _told(result: ToolResultBlock, call: ToolCallBlock | None) -> str:
    asked = result.name if call is None else call_words(call)
    words = [asked + " (failed)" * result.is_error, result.text.strip(), media_words(result.content)]
    return "\n".join(one for one in words if one)


def _fields(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {_value(value)}" for name, value in arguments.items())


def _value(value: Any) -> str:
    return value if isinstance(value, str) else pydantic_core.to_json(value).decode()
