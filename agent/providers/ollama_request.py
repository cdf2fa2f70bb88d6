"""A request in the words of Ollama's own chat. Pure; sending it is ``ollama``.

What the format has no place for is said in words (an error's flag, a text document) or raises.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any

from agent.errors import Unsupported
from agent.providers.protocol import Request, ToolSpec
from agent.providers.settings import ModelSettings, sampling
from memory import Block, DocumentBlock, ImageBlock, Message, TextBlock, ThinkingBlock, ToolResultBlock


def payload(request: Request, model: str) -> dict[str, Any]:
    """Return the body of the request."""
    body: dict[str, Any] = {"model": model, "messages": list(_messages(request)), "stream": True}
    if request.tools and request.tool_choice != "none":
        body["tools"] = [_tool(spec) for spec in request.tools]
    return {**body, **_settings(request.settings), **request.settings.extra}


def _settings(settings: ModelSettings) -> dict[str, Any]:
    options = sampling(settings, max_tokens="num_predict")
    given: dict[str, Any] = {"options": options} if options else {}
    if settings.response_schema is not None:
        given["format"] = dict(settings.response_schema)
    if settings.effort is not None:
        given["think"] = settings.effort
    elif settings.thinking is not None:
        given["think"] = settings.thinking == "adaptive"
    return given


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": dict(spec.parameters)}
    return {"type": "function", "function": function}


def _messages(request: Request) -> Iterable[dict[str, Any]]:
    if system := request.system_words:
        yield {"role": "system", "content": system}
    for message in request.conversation:
        if message.role == "tool":
            for result in message.tool_results:
                yield _result(result)
        elif message.role == "assistant":
            yield _assistant(message)
        else:
            yield {"role": message.role, "content": _text(message.blocks), **_images(message.blocks)}


def _assistant(message: Message) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": message.text}
    thoughts = "".join(block.text for block in message.blocks if isinstance(block, ThinkingBlock))
    if thoughts and message.tool_calls:
        said["thinking"] = thoughts
    if message.tool_calls:
        said["tool_calls"] = [
            {"function": {"name": call.name, "arguments": call.arguments}} for call in message.tool_calls
        ]
    return said


def _result(result: ToolResultBlock) -> dict[str, Any]:
    content = f"Error: {result.text}" if result.is_error else result.text
    return {"role": "tool", "content": content, "tool_name": result.name, **_images(result.content)}


def _text(blocks: Sequence[Block]) -> str:
    return "\n\n".join(part for block in blocks if (part := _said(block)))


def _said(block: Block) -> str:
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, DocumentBlock):
        if block.media_type != "text/plain":
            raise Unsupported("OllamaProvider", "input", f"a document of type {block.media_type}")
        text = block.data.decode("utf-8", "replace")
        return f"{block.name}:\n{text}" if block.name else text
    return ""


def _images(blocks: Sequence[Block]) -> dict[str, Any]:
    images = [base64.b64encode(block.data).decode() for block in blocks if isinstance(block, ImageBlock)]
    return {"images": images} if images else {}
