"""A request in the words of Anthropic's Messages. Pure; sending it is ``anthropic``.

Thinking blocks go back unchanged with their signatures, redacted ones too; results of one round of calls are one
user message; neighbours of one role are joined, as the format wants the roles to alternate.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from typing import Any

from agent.errors import ArgumentError
from agent.providers.protocol import Request, ToolSpec
from agent.providers.settings import ModelSettings
from memory import (
    Block,
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)

_CHOICES = {"none": "none", "required": "any"}
_EPHEMERAL = {"type": "ephemeral"}
LEAST_BUDGET = 1024


def payload(request: Request, model: str, *, max_tokens: int, cache: bool) -> dict[str, Any]:
    """Return the body of the request; *max_tokens*, which the format demands, is used where none is set.

    *cache* marks the last block, so that the next request is charged less for what it repeats.
    """
    body: dict[str, Any] = {"model": model, "messages": _messages(request), "stream": True}
    if system := request.system_words:
        body["system"] = system
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
        if request.tool_choice != "auto":
            body["tool_choice"] = {"type": _CHOICES[request.tool_choice]}
    if cache:
        body["cache_control"] = _EPHEMERAL
    return {**body, **_settings(request.settings, max_tokens), **request.settings.extra}


def _settings(settings: ModelSettings, max_tokens: int) -> dict[str, Any]:
    named: dict[str, Any] = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "top_k": settings.top_k,
        "stop_sequences": None if settings.stop is None else list(settings.stop),
        "max_tokens": max_tokens if settings.max_tokens is None else settings.max_tokens,
    }
    if isinstance(settings.thinking, int):
        if settings.thinking < LEAST_BUDGET:
            raise ArgumentError("thinking", settings.thinking, f"a budget of at least {LEAST_BUDGET} is needed")
        if settings.max_tokens is None:
            named["max_tokens"] = max_tokens + settings.thinking
        elif settings.thinking >= settings.max_tokens:
            expected = f"less than max_tokens, {settings.max_tokens}, is needed"
            raise ArgumentError("thinking", settings.thinking, expected)
        named["thinking"] = {"type": "enabled", "budget_tokens": settings.thinking}
    elif settings.thinking is not None:
        named["thinking"] = {"type": "disabled" if settings.thinking == "off" else "adaptive"}
    output: dict[str, Any] = {} if settings.effort is None else {"effort": settings.effort}
    if settings.response_schema is not None:
        output["format"] = {"type": "json_schema", "schema": dict(settings.response_schema)}
    named["output_config"] = output or None
    return {name: value for name, value in named.items() if value is not None}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "input_schema": dict(spec.parameters)}


def _messages(request: Request) -> list[dict[str, Any]]:
    joined: list[dict[str, Any]] = []
    for message in request.conversation:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = list(_blocks(message))
        if not blocks:
            continue
        if joined and joined[-1]["role"] == role:
            # Results must stand before all else in their message; they come first because they are said first.
            joined[-1]["content"] += blocks
        else:
            joined.append({"role": role, "content": blocks})
    return joined


def _blocks(message: Message) -> Iterable[dict[str, Any]]:
    for block in message.blocks:
        said = _block(block)
        if said is not None:
            yield said


def _block(block: Block) -> dict[str, Any] | None:
    if isinstance(block, TextBlock):
        # An empty text is refused by the server, and says nothing.
        return {"type": "text", "text": block.text} if block.text.strip() else None
    if isinstance(block, ImageBlock):
        return _image(block)
    if isinstance(block, DocumentBlock):
        return _document(block)
    if isinstance(block, ThinkingBlock):
        return _thinking(block)
    if isinstance(block, ToolCallBlock):
        return {"type": "tool_use", "id": _id(block.id), "name": block.name, "input": block.arguments}
    return _result(block)


def _thinking(block: ThinkingBlock) -> dict[str, Any] | None:
    if block.redacted is not None:
        return {"type": "redacted_thinking", "data": block.redacted}
    if block.signature is None:
        return None  # another provider's reasoning: nothing that this one could check
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}


def _result(block: ToolResultBlock) -> dict[str, Any]:
    said: dict[str, Any] = {"type": "tool_result", "tool_use_id": _id(block.call_id)}
    content = _result_content(block.content)
    if content:
        said["content"] = content
    if block.is_error:
        said["is_error"] = True
    return said


def _id(given: str) -> str:
    """Return the id of a call as the format takes it; another provider's may have other characters."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", given)


def _result_content(content: Sequence[TextBlock | ImageBlock]) -> list[dict[str, Any]]:
    return [said for block in content if (said := _block(block)) is not None]


def _image(block: ImageBlock) -> dict[str, Any]:
    return {"type": "image", "source": _source(block.media_type, block.data)}


def _document(block: DocumentBlock) -> dict[str, Any]:
    if block.media_type == "text/plain":
        text = block.data.decode("utf-8", "replace")
        source: dict[str, Any] = {"type": "text", "media_type": "text/plain", "data": text}
    else:
        source = _source(block.media_type, block.data)
    said: dict[str, Any] = {"type": "document", "source": source}
    return {**said, "title": block.name} if block.name else said


def _source(media_type: str, data: bytes) -> dict[str, Any]:
    return {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}
