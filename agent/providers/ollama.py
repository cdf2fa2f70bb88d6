"""Provider for Ollama's own chat format.

    provider = OllamaProvider("the-name-of-a-model")  # at http://127.0.0.1:11434

The request body and the reader of the lines are pure; unknown fields are skipped. Content that the format has no field
for is put into words: the error flag of a result, a document.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from tellback.agent.json_values import object_field, object_list, text_or_empty
from tellback.agent.providers.base import (
    SETTING_NAMES,
    TOOL_CHOICES,
    Capabilities,
    Delta,
    ModelInfo,
    Request,
    TextPiece,
    ThinkingPiece,
    ToolCallPiece,
    UsagePiece,
    sampling_fields,
)
from tellback.agent.providers.http_provider import (
    HttpProvider,
    ReplyReader,
    bearer_header,
    count_or_zero,
    function_definition,
)
from tellback.agent.results import StopReason, Usage
from tellback.memory import ImageBlock, Message, TextBlock, ThinkingBlock
from tellback.memory.http import HttpClient
from tellback.memory.internals import Block


def ollama_payload(request: Request, model: str) -> dict[str, Any]:
    """Return the body of the request."""
    body: dict[str, Any] = {"model": model, "messages": list(_ollama_messages(request)), "stream": True}
    if request.tools and request.tool_choice != "none":
        body["tools"] = [function_definition(spec) for spec in request.tools]
    settings = request.settings
    if options := sampling_fields(settings, max_tokens="num_predict", repetition_penalty="repeat_penalty"):
        body["options"] = options
    if settings.response_schema is not None:
        body["format"] = dict(settings.response_schema)
    elif settings.json_mode:
        body["format"] = "json"
    if settings.effort is not None:
        body["think"] = settings.effort
    elif settings.thinking is not None:
        body["think"] = settings.thinking == "on"
    return {**body, **settings.extra}


def _ollama_messages(request: Request) -> Iterable[dict[str, Any]]:
    system, messages = request.system_and_messages()
    if system:
        yield {"role": "system", "content": system}
    for message in messages:
        if message.role == "tool":
            for result in message.tool_results:
                content = f"Error: {result.text}" if result.is_error else result.text
                yield {"role": "tool", "content": content, "tool_name": result.name, **_image_fields(result.content)}
        elif message.role == "assistant":
            yield _ollama_assistant_message(message)
        else:
            text = "\n\n".join(block.text for block in message.blocks if isinstance(block, TextBlock) and block.text)
            yield {"role": message.role, "content": text, **_image_fields(message.blocks)}


def _ollama_assistant_message(message: Message) -> dict[str, Any]:
    body: dict[str, Any] = {"role": "assistant", "content": message.text}
    thoughts = "".join(block.text for block in message.blocks if isinstance(block, ThinkingBlock))
    if thoughts and message.tool_calls:
        body["thinking"] = thoughts
    if message.tool_calls:
        functions = [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls]
        body["tool_calls"] = [{"function": function} for function in functions]
    return body


def _image_fields(blocks: Sequence[Block]) -> dict[str, Any]:
    images = [base64.b64encode(block.data).decode() for block in blocks if isinstance(block, ImageBlock)]
    return {"images": images} if images else {}


class OllamaLineReader(ReplyReader):
    """Reader of the lines of one reply."""

    _stop_reasons: ClassVar = {
        "length": StopReason.MAX_TOKENS,
        "content_filter": StopReason.CONTENT_FILTER,
        "refusal": StopReason.REFUSAL,
    }
    _calls = 0

    def read(self, frame: str) -> Iterator[Delta]:
        """Yield the deltas of one line; raise ``ProviderError`` where it is an error or no JSON."""
        value = self._endpoint.object_of(frame)
        if value.get("error"):
            raise self._endpoint.reported_error(value["error"])
        yield from self._model_pieces(value)
        message = object_field(value, "message")
        if thought := text_or_empty(message.get("thinking")):
            yield ThinkingPiece(thought)
        if text := text_or_empty(message.get("content")):
            yield TextPiece(text)
        for call in object_list(message, "tool_calls"):
            self._has_calls = True
            yield self._call(call)
        if value.get("done") is True:
            self.done = True
            self._reason = text_or_empty(value.get("done_reason"))
            # the format counts neither caching nor reasoning
            read, written = count_or_zero(value.get("prompt_eval_count")), count_or_zero(value.get("eval_count"))
            yield UsagePiece(Usage(input=read, output=written))

    def _call(self, call: dict[str, Any]) -> ToolCallPiece:
        """Return a call, numbered by us: calls come whole, and the server's index is not unique."""
        function = object_field(call, "function")
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
        index, self._calls = self._calls, self._calls + 1
        return ToolCallPiece(index, text_or_empty(call.get("id")), text_or_empty(function.get("name")), text)


OLLAMA_API_URL = "http://127.0.0.1:11434"


class OllamaProvider(HttpProvider):
    """Streams replies of *model* at *base_url* (without ``/v1``).

    *api_key* is for a server behind a guard; Ollama itself wants none. *headers* are added to each request. A
    *client* given is shared and not closed here. The format has no way to force a tool call and no thinking budget.
    """

    _hints: ClassVar = {404: "no such model there; `ollama pull` fetches it"}
    _reads_documents = False
    capabilities = Capabilities(
        SETTING_NAMES, thinking=frozenset({"off", "on"}), tool_choices=TOOL_CHOICES - {"required"}
    )

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
        super().__init__(base_url, model, api_key=api_key, headers=sent, client=client)

    async def models(self) -> list[ModelInfo]:
        """Return the models that are installed, sorted by name."""
        listed = self._endpoint.listed_models(await self._endpoint.get("/api/tags"), "models")
        names = (text_or_empty(item.get("name")) or text_or_empty(item.get("model")) for item in listed)
        return [ModelInfo(name) for name in sorted(filter(None, names))]

    def _open_reply(self, request: Request) -> tuple[AsyncGenerator[Any, None], ReplyReader]:
        return self._endpoint.lines("/api/chat", ollama_payload(request, self.model)), OllamaLineReader(self._endpoint)
