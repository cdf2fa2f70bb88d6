"""Provider for Ollama's own chat format.

    provider = OllamaProvider("the-name-of-a-model")  # at http://127.0.0.1:11434

The request body and the reader of the lines are pure; unknown fields are skipped. Content that the format has no field
for is put into words (the error flag of a result, a text document) or raises.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from agent.errors import Unsupported
from agent.providers.base import (
    SETTING_NAMES,
    TOOL_CHOICES,
    Capabilities,
    Delta,
    ModelInfo,
    ModelSettings,
    Request,
    StopPiece,
    TextPiece,
    ThinkingPiece,
    ToolCallPiece,
    ToolSpec,
    UsagePiece,
    sampling_fields,
)
from agent.providers.http_provider import (
    HttpProvider,
    ProviderEndpoint,
    ReplyReader,
    bearer_header,
    count_or_zero,
    object_field,
    text_or_empty,
)
from agent.results import StopReason, Usage
from memory import DocumentBlock, ImageBlock, Message, TextBlock, ThinkingBlock, ToolResultBlock
from memory.http import HttpClient
from memory.internals import Block


def ollama_payload(request: Request, model: str) -> dict[str, Any]:
    """Return the body of the request."""
    body: dict[str, Any] = {"model": model, "messages": list(_ollama_messages(request)), "stream": True}
    if request.tools and request.tool_choice != "none":
        body["tools"] = [_tool_definition(spec) for spec in request.tools]
    return {**body, **_option_fields(request.settings), **request.settings.extra}


def _option_fields(settings: ModelSettings) -> dict[str, Any]:
    options = sampling_fields(settings, max_tokens="num_predict")
    fields: dict[str, Any] = {"options": options} if options else {}
    if settings.response_schema is not None:
        fields["format"] = dict(settings.response_schema)
    if settings.effort is not None:
        fields["think"] = settings.effort
    elif settings.thinking is not None:
        fields["think"] = settings.thinking == "adaptive"
    return fields


def _tool_definition(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": dict(spec.parameters)}
    return {"type": "function", "function": function}


def _ollama_messages(request: Request) -> Iterable[dict[str, Any]]:
    if system := request.system_words:
        yield {"role": "system", "content": system}
    for message in request.conversation:
        if message.role == "tool":
            for result in message.tool_results:
                yield _ollama_tool_message(result)
        elif message.role == "assistant":
            yield _ollama_assistant_message(message)
        else:
            yield {"role": message.role, "content": _blocks_text(message.blocks), **_image_fields(message.blocks)}


def _ollama_assistant_message(message: Message) -> dict[str, Any]:
    body: dict[str, Any] = {"role": "assistant", "content": message.text}
    thoughts = "".join(block.text for block in message.blocks if isinstance(block, ThinkingBlock))
    if thoughts and message.tool_calls:
        body["thinking"] = thoughts
    if message.tool_calls:
        body["tool_calls"] = [
            {"function": {"name": call.name, "arguments": call.arguments}} for call in message.tool_calls
        ]
    return body


def _ollama_tool_message(result: ToolResultBlock) -> dict[str, Any]:
    content = f"Error: {result.text}" if result.is_error else result.text
    return {"role": "tool", "content": content, "tool_name": result.name, **_image_fields(result.content)}


def _blocks_text(blocks: Sequence[Block]) -> str:
    return "\n\n".join(part for block in blocks if (part := _block_text(block)))


def _block_text(block: Block) -> str:
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, DocumentBlock):
        if block.media_type != "text/plain":
            raise Unsupported("OllamaProvider", "input", f"a document of type {block.media_type}")
        text = block.data.decode("utf-8", "replace")
        return f"{block.name}:\n{text}" if block.name else text
    return ""


def _image_fields(blocks: Sequence[Block]) -> dict[str, Any]:
    images = [base64.b64encode(block.data).decode() for block in blocks if isinstance(block, ImageBlock)]
    return {"images": images} if images else {}


_OLLAMA_STOP_REASONS = {
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.CONTENT_FILTER,
    "refusal": StopReason.REFUSAL,
}


class OllamaLineReader:
    """Reads one reply of *endpoint*: ``read`` each line, then ``finish``."""

    def __init__(self, endpoint: ProviderEndpoint) -> None:
        self._endpoint = endpoint
        self._reason: str | None = None
        self._done = False
        self._calls = 0

    @property
    def done(self) -> bool:
        """Whether the server has said that nothing more comes."""
        return self._done

    def read(self, frame: str) -> Iterator[Delta]:
        """Yield the deltas of one line; raise ``ProviderError`` where it is an error or no JSON."""
        value = self._endpoint.object_of(frame)
        if value.get("error"):
            raise self._endpoint.reported_error(value["error"])
        message = object_field(value, "message")
        if thought := text_or_empty(message.get("thinking")):
            yield ThinkingPiece(thought)
        if text := text_or_empty(message.get("content")):
            yield TextPiece(text)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                yield self._call(call)
        if value.get("done") is True:
            self._done = True
            self._reason = text_or_empty(value.get("done_reason"))
            yield UsagePiece(ollama_usage(value))

    def finish(self) -> StopPiece:
        """Return the reason why the reply ended; raise where it broke off."""
        if not self._done:
            raise self._endpoint.malformed("the reply broke off before its end", transient=True)
        reason = _OLLAMA_STOP_REASONS.get(self._reason or "", StopReason.STOP)
        return StopPiece(StopReason.TOOL_CALLS if reason == StopReason.STOP and self._calls else reason)

    def _call(self, call: dict[str, Any]) -> ToolCallPiece:
        """Return a call, numbered by us: calls come whole, and the server's index is not unique."""
        function = object_field(call, "function")
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
        index, self._calls = self._calls, self._calls + 1
        return ToolCallPiece(index, text_or_empty(call.get("id")), text_or_empty(function.get("name")), text)


def ollama_usage(line: dict[str, Any]) -> Usage:
    """Return the counts of the last *line*; the format counts neither caching nor reasoning."""
    return Usage(input=count_or_zero(line.get("prompt_eval_count")), output=count_or_zero(line.get("eval_count")))


OLLAMA_API_URL = "http://127.0.0.1:11434"
_OLLAMA_HINTS = {404: "no such model there; `ollama pull` fetches it"}


class OllamaProvider(HttpProvider):
    """Streams replies of *model* at *base_url* (without ``/v1``).

    *api_key* is for a server behind a guard; Ollama itself wants none. *headers* are added to each request. A
    *client* given is shared and not closed here. The format has no way to force a tool call and no thinking budget.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = OLLAMA_API_URL,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        client: HttpClient | None = None,
    ) -> None:
        sent = {**(headers or {}), **bearer_header(api_key)}
        super().__init__(
            ProviderEndpoint(base_url, name=model, headers=sent, key=api_key, hints=_OLLAMA_HINTS, client=client), model
        )

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of the format."""
        choices = TOOL_CHOICES - {"required"}
        return Capabilities(SETTING_NAMES, thinking=frozenset({"off", "adaptive"}), tool_choices=choices)

    async def models(self) -> list[ModelInfo]:
        """Return the models that are installed, sorted by name."""
        answer = await self._endpoint.get("/api/tags")
        listed = answer.get("models") if isinstance(answer, dict) else None
        if not isinstance(listed, list):
            raise self._endpoint.malformed("the list of models has an unknown shape")
        names = [
            text_or_empty(item.get("name")) or text_or_empty(item.get("model"))
            for item in listed
            if isinstance(item, dict)
        ]
        return [ModelInfo(name) for name in sorted(filter(None, names))]

    def _open_reply(self, request: Request) -> tuple[AsyncGenerator[Any, None], ReplyReader]:
        return self._endpoint.lines("/api/chat", ollama_payload(request, self._model)), OllamaLineReader(self._endpoint)
