"""Documents as text, for models that cannot read them as they are."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import lru_cache
from typing import Any

from tellback.agent.providers.base import Request
from tellback.memory import DocumentBlock, LoadError, Message, TextBlock, ToolResultBlock, load_document


async def with_documents_as_text(request: Request) -> tuple[Request, list[str]]:
    """Return *request* with the text of each document in its place, those in results of tools too, and notes on them.

    A document without readable text is named with the reason, so that the model can tell. Raises ``MissingExtra`` where
    the package that reads it is not installed.
    """
    if not any(_holds_document(block) for message in request.messages for block in message.blocks):
        return request, []
    notes: dict[str, None] = {}
    messages = await asyncio.to_thread(lambda: tuple(_message_in_words(message, notes) for message in request.messages))
    return replace(request, messages=messages), list(notes)


def _holds_document(block: Any) -> bool:
    content = block.content if isinstance(block, ToolResultBlock) else (block,)
    return any(isinstance(part, DocumentBlock) for part in content)


def _message_in_words(message: Message, notes: dict[str, None]) -> Message:
    return message.model_copy(update={"blocks": tuple(_block_in_words(block, notes) for block in message.blocks)})


def _block_in_words(block: Any, notes: dict[str, None]) -> Any:
    if isinstance(block, ToolResultBlock):
        return block.model_copy(update={"content": tuple(_block_in_words(part, notes) for part in block.content)})
    if isinstance(block, DocumentBlock):
        text, note = _document_text(block.media_type, block.data, block.name)
        notes |= {note: None} if note else {}
        return TextBlock(text=text)
    return block


@lru_cache(maxsize=4)  # a document of a conversation is sent again with each round and each turn
def _document_text(media_type: str, data: bytes, name: str) -> tuple[str, str]:
    """Return the words for a document, and a note for the developer where they are not the document itself."""
    if media_type == "text/plain":
        text = data.decode("utf-8", "replace")
        return (f"{name}:\n{text}" if name else text), ""
    source = name or "document.pdf"
    try:
        text = load_document(data, source, media_type=media_type).text
    except LoadError as error:
        problem = f"{source} cannot be read as text: {error.reason}"
        return f"({problem})", problem
    return f"{source}:\n{text}", f"{source} was sent as its text: this endpoint takes no documents"
