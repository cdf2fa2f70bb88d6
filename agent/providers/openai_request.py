"""A request in the words of OpenAI's Chat Completions. Pure; sending it is ``openai_compatible``.

What the format has no place for is said in words (an error's flag, an image that a tool gave) or raises.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from agent.providers.protocol import Request, ToolSpec
from agent.providers.settings import ModelSettings, sampling
from memory import (
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)

_NAME = re.compile(r"[^\s<|\\/>]{1,64}")


def payload(request: Request, model: str, *, limit_field: str, reasoning_field: str | None) -> dict[str, Any]:
    """Return the body of the request; *limit_field* is what the server calls the limit of output tokens."""
    body: dict[str, Any] = {
        "model": model,
        "messages": _joined(_messages(request, reasoning_field)),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
        if request.tool_choice != "auto":
            body["tool_choice"] = request.tool_choice
    body.update(_settings(request.settings, limit_field))
    return body


def _settings(settings: ModelSettings, limit_field: str) -> dict[str, Any]:
    given = sampling(settings, max_tokens=limit_field, effort="reasoning_effort")
    if settings.thinking == "off":
        given["reasoning_effort"] = "none"
    if settings.response_schema is not None:
        schema = {"name": "answer", "schema": dict(settings.response_schema), "strict": True}
        given["response_format"] = {"type": "json_schema", "json_schema": schema}
    return {**given, **settings.extra}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": dict(spec.parameters)}
    return {"type": "function", "function": function}


def _messages(request: Request, reasoning_field: str | None) -> Iterable[dict[str, Any]]:
    if system := request.system_words:
        yield {"role": "system", "content": system}
    for message in request.conversation:
        if message.role == "tool":
            yield from _results(message.tool_results)
        elif message.role == "assistant":
            yield _assistant(message, reasoning_field)
        else:
            yield {"role": message.role, "content": _content(message.blocks), **_name(message)}


def _joined(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return *messages* with neighbours of the user joined, as pictures of a tool's result and a prompt may be."""
    joined: list[dict[str, Any]] = []
    for message in messages:
        if joined and message["role"] == joined[-1]["role"] == "user":
            joined[-1] = {**joined[-1], "content": [*_parts(joined[-1]["content"]), *_parts(message["content"])]}
        else:
            joined.append(message)
    return joined


def _parts(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [_text(content)] if isinstance(content, str) else content


def _name(message: Message) -> dict[str, str]:
    if message.role == "user" and message.name and _NAME.fullmatch(message.name):
        return {"name": message.name}
    return {}


def _assistant(message: Message, reasoning_field: str | None) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": message.text}
    if reasoning_field is not None:
        thoughts = [block.text for block in message.blocks if isinstance(block, ThinkingBlock)]
        if any(thoughts):
            said[reasoning_field] = "".join(thoughts)
    if message.tool_calls:
        said["content"] = message.text or None
        said["tool_calls"] = [_call(call) for call in message.tool_calls]
    return said


def _call(call: ToolCallBlock) -> dict[str, Any]:
    # Servers read the arguments again, and some fail on what is not JSON; the tool's answer tells what was wrong.
    arguments = json.dumps(call.arguments, ensure_ascii=False, separators=(",", ":"))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _results(results: Sequence[ToolResultBlock]) -> Iterable[dict[str, Any]]:
    images: list[dict[str, Any]] = []
    for result in results:
        shown = [block for block in result.content if isinstance(block, ImageBlock)]
        text = result.text
        if shown:
            note = f"({len(shown)} image{'s' if len(shown) > 1 else ''}, shown below)"
            text = f"{text}\n{note}" if text else note
            images.append(_text(f"Images from {result.name or result.call_id}:"))
            images.extend(_image(block) for block in shown)
        yield {
            "role": "tool",
            "tool_call_id": result.call_id,
            "content": f"Error: {text}" if result.is_error else text,
        }
    if images:
        yield {"role": "user", "content": images}


def _content(blocks: Sequence[Any]) -> str | list[dict[str, Any]]:
    """Return blocks as one text where that is possible, which every server understands, else as parts."""
    parts = [_part(block) for block in blocks]
    if all(part["type"] == "text" for part in parts):
        return "\n\n".join(part["text"] for part in parts)
    return parts


def _part(block: Any) -> dict[str, Any]:
    if isinstance(block, ImageBlock):
        return _image(block)
    if isinstance(block, DocumentBlock):
        return _document(block)
    assert isinstance(block, TextBlock)
    return _text(block.text)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(block: ImageBlock) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": _data_url(block.media_type, block.data)}}


def _document(block: DocumentBlock) -> dict[str, Any]:
    if block.media_type == "text/plain":
        text = block.data.decode("utf-8", "replace")
        return _text(f"{block.name}:\n{text}" if block.name else text)
    file = {"filename": block.name or "document.pdf", "file_data": _data_url(block.media_type, block.data)}
    return {"type": "file", "file": file}


def _data_url(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"
