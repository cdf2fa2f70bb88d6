"""Documents as text, for models that cannot read them as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from agent.providers.base import Request
from memory import DocumentBlock, LoadError, Message, TextBlock, ToolResultBlock, load_document


async def with_documents_as_text(request: Request) -> Request:
    """Return *request* with the text of each document in its place, those in results of tools too.

    A document without readable text is named with the reason, so that the model can tell. Raises ``MissingExtra`` where
    the package that reads it is not installed.
    """
    if not any(_holds_document(block) for message in request.messages for block in message.blocks):
        return request
    messages = await asyncio.to_thread(lambda: tuple(_message_in_words(message) for message in request.messages))
    return replace(request, messages=messages)


def _holds_document(block: Any) -> bool:
    content = block.content if isinstance(block, ToolResultBlock) else (block,)
    return any(isinstance(part, DocumentBlock) for part in content)


def _message_in_words(message: Message) -> Message:
    return message.model_copy(update={"blocks": _in_words(message.blocks)})


def _in_words(blocks: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(map(_block_in_words, blocks))


def _block_in_words(block: Any) -> Any:
    if isinstance(block, ToolResultBlock):
        return block.model_copy(update={"content": _in_words(block.content)})
    if isinstance(block, DocumentBlock):
        return TextBlock(text=_document_text(block.media_type, block.data, block.name))
    return block


@lru_cache(maxsize=4)  # a document of a conversation is sent again with each round and each turn
def _document_text(media_type: str, data: bytes, name: str) -> str:
    if media_type == "text/plain":
        text = data.decode("utf-8", "replace")
        return f"{name}:\n{text}" if name else text
    source = name or "document.pdf"
    try:
        return f"{source}:\n{load_document(data, source, media_type=media_type).text}"
    except LoadError as error:
        return f"({source} cannot be read as text: {error.reason})"
