"""What a message without words is about, in words: its images and documents by caption, name and a mark. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from memory.messages import Block, DocumentBlock, ImageBlock, Message

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
