"""Text that stands for the images, documents, tool calls and tool results of a message. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import pydantic_core

from memory.messages import RECALLED, Block, DocumentBlock, ImageBlock, Message, ToolCallBlock, ToolResultBlock

_MARK_BYTES = 4


def image_captions(message: Message) -> str:
    """Return captions and names of the images of *message*, in order; empty where they have none."""
    found = (_media_label(block) for block in message.blocks if isinstance(block, ImageBlock))
    return "; ".join(one for one in found if one)


def media_text(message: Message) -> str:
    """Return words that stand for the images and documents of *message*, such as ``(image: a cat (miso.png), 5f0c…)``.

    Empty where it has none. Each carries a mark made of its bytes: the words for one image are not those for another,
    so that forgetting one does not take the other, and the same image sent twice is known to be the same.
    """
    return media_text_of(message.blocks)


def media_text_of(blocks: Sequence[Block]) -> str:
    """Return words for the images and documents among *blocks*, as ``media_text``."""
    media = [block for block in blocks if isinstance(block, (ImageBlock, DocumentBlock))]
    return " ".join(
        f"({block.type}: {', '.join(filter(None, (_media_label(block), _content_mark(block.data))))})"
        for block in media
    )


def message_excerpt(message: Message, limit: int = 80) -> str:
    """Return the first words of *message*, at most *limit* characters on one line; captions where it has no words."""
    words = " ".join((message.text.strip() or image_captions(message) or media_text(message)).split())
    return words if len(words) <= limit else words[: limit - 1].rstrip() + "…"


def _media_label(block: ImageBlock | DocumentBlock) -> str:
    caption = " ".join(block.caption.split()) if isinstance(block, ImageBlock) else ""
    name = " ".join(block.name.split())
    return f"{caption} ({name})" if caption and name else caption or name


def _content_mark(data: bytes) -> str:
    return blake2b(data, digest_size=_MARK_BYTES).hexdigest()


def tool_results_text(message: Message, calls: Sequence[ToolCallBlock] = ()) -> str:
    """Return the results of a tool *message*, each below what was asked for it, where that is among *calls*.

    Empty where all of it is remembered already.
    """
    asked = {call.id: call for call in calls}
    again = message.metadata.get(RECALLED)
    left_out = again if isinstance(again, (list, tuple)) else ()
    told = [
        _tool_result_text(result, asked.get(result.call_id))
        for result in message.tool_results
        if result.call_id not in left_out
    ]
    return "\n\n".join(told)


def tool_call_text(call: ToolCallBlock) -> str:
    """Return what *call* asks, such as ``weather (city: Paris, days: 2)``."""
    given = call.invalid if call.invalid is not None else _arguments_text(call.arguments)
    return f"{call.name} ({given})" if given else call.name


def _tool_result_text(result: ToolResultBlock, call: ToolCallBlock | None) -> str:
    asked = result.name if call is None else tool_call_text(call)
    words = [asked + " (failed)" * result.is_error, result.text.strip(), media_text_of(result.content)]
    return "\n".join(one for one in words if one)


def _arguments_text(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {_value_text(value)}" for name, value in arguments.items())


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else pydantic_core.to_json(value).decode()
