"""What words a message holds: every text that somebody wrote, and those that stand in several of its blocks."""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator

from memory.messages import (
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from memory.storage.serialise import texts_in


def words_of(message: Message) -> Iterator[str]:
    """Yield every text of *message* that somebody wrote: blocks, arguments, metadata; not who or when.

    What was said in several blocks, thought in several, or answered in several results is one text, too: with a blank
    between them, and without one, since a provider may end a block anywhere.
    """
    yield from texts_in(message.metadata)
    said, thought, answered = [], [], []
    for block in message.blocks:
        if isinstance(block, TextBlock):
            said.append(block.text)
        elif isinstance(block, ThinkingBlock):
            thought.append(block.text)
        elif isinstance(block, ImageBlock):
            yield from _of_image(block)
        elif isinstance(block, DocumentBlock):
            yield from _of_document(block)
        elif isinstance(block, ToolCallBlock):
            yield from texts_in(block.arguments)
            yield block.invalid or ""
        else:
            answered += [part.text for part in block.content if isinstance(part, TextBlock)]
            yield from _shown(block)
    for texts in (said, thought, answered):
        yield from dict.fromkeys((" ".join(texts), "".join(texts)))


def _of_image(block: ImageBlock) -> tuple[str, str]:
    return block.name, block.caption


def _of_document(block: DocumentBlock) -> Iterator[str]:
    yield block.name
    if block.media_type == "text/plain":
        wide = block.data.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
        yield block.data.decode("utf-16" if wide else "utf-8", errors="replace")


def _shown(block: ToolResultBlock) -> Iterator[str]:
    for part in block.content:
        if isinstance(part, ImageBlock):
            yield from _of_image(part)
