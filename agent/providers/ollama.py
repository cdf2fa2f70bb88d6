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
    SETTINGS,
    TOOL_CHOICES,
    Capabilities,
    Delta,
    ModelInfo,
    ModelSettings,
    Request,
    Stop,
    TextPiece,
    ThinkingPiece,
    ToolCallPiece,
    ToolSpec,
    UsagePiece,
    sampling,
)
from agent.providers.http_provider import Endpoint, EndpointProvider, Reader, bearer, count_of, part_of, text_of
from agent.results import StopReason, Usage
from memory import Block, DocumentBlock, ImageBlock, Message, TextBlock, ThinkingBlock, ToolResultBlock
from memory.http import HttpClient


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


_STOPS = {"length": StopReason.MAX_TOKENS, "content_filter": StopReason.CONTENT_FILTER, "refusal": StopReason.REFUSAL}


class LineReader:
    """Reads one reply of *endpoint*: ``read`` each line, then ``finish``."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._reason: str | None = None
        self._done = False
        self._calls = 0

    @property
    def done(self) -> bool:
        """Whether the server has said that nothing more comes."""
        return self._done

    def read(self, frame: str) -> Iterator[Delta]:
        """Yield what one line says; raise ``ProviderError`` where it is an error or no JSON."""
        value = self._endpoint.object_of(frame)
        if value.get("error"):
            raise self._endpoint.complained(value["error"])
        message = part_of(value, "message")
        if thought := text_of(message.get("thinking")):
            yield ThinkingPiece(thought)
        if text := text_of(message.get("content")):
            yield TextPiece(text)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                yield self._call(call)
        if value.get("done") is True:
            self._done = True
            self._reason = text_of(value.get("done_reason"))
            yield UsagePiece(usage_of(value))

    def finish(self) -> Stop:
        """Return why the reply ended; raise where it broke off."""
        if not self._done:
            raise self._endpoint.broken("the reply broke off before its end", transient=True)
        reason = _STOPS.get(self._reason or "", StopReason.STOP)
        return Stop(StopReason.TOOL_CALLS if reason is StopReason.STOP and self._calls else reason)

    def _call(self, call: dict[str, Any]) -> ToolCallPiece:
        """Calls come whole, one after the other; an index that the server gives is not unique, so ours count."""
        function = part_of(call, "function")
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
        index, self._calls = self._calls, self._calls + 1
        return ToolCallPiece(index, text_of(call.get("id")), text_of(function.get("name")), text)


def usage_of(given: dict[str, Any]) -> Usage:
    """Return the counts of the last line; the format tells neither caching nor reasoning."""
    return Usage(input=count_of(given.get("prompt_eval_count")), output=count_of(given.get("eval_count")))


BASE_URL = "http://127.0.0.1:11434"
_HINTS = {404: "no such model there; `ollama pull` fetches it"}


class OllamaProvider(EndpointProvider):
    """Streams replies of *model* at *base_url* (without ``/v1``).

    *api_key* is for a server behind a guard; Ollama itself wants none. *headers* are added to each request. A
    *client* given is shared and not closed here. The format has no way to force a tool call and no thinking budget.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = BASE_URL,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        client: HttpClient | None = None,
    ) -> None:
        sent = {**(headers or {}), **bearer(api_key)}
        super().__init__(Endpoint(base_url, name=model, headers=sent, key=api_key, hints=_HINTS, client=client), model)

    @property
    def capabilities(self) -> Capabilities:
        """What the format can say."""
        choices = TOOL_CHOICES - {"required"}
        return Capabilities(SETTINGS, thinking=frozenset({"off", "adaptive"}), tool_choices=choices)

    async def models(self) -> list[ModelInfo]:
        """Return the models that are installed, sorted by name."""
        answer = await self._endpoint.get("/api/tags")
        listed = answer.get("models") if isinstance(answer, dict) else None
        if not isinstance(listed, list):
            raise self._endpoint.broken("the list of models has an unknown shape")
        names = [text_of(one.get("name")) or text_of(one.get("model")) for one in listed if isinstance(one, dict)]
        return [ModelInfo(name) for name in sorted(filter(None, names))]

    def _asked(self, request: Request) -> tuple[AsyncGenerator[Any, None], Reader]:
        return self._endpoint.lines("/api/chat", payload(request, self._model)), LineReader(self._endpoint)
