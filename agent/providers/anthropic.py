"""Provider for Anthropic's Messages API: Anthropic's own endpoint, and servers that follow it, such as llama.cpp.

    provider = AnthropicProvider("the-name-of-a-model", api_key="…")

The request body and the reader of the event stream are pure; unknown events are skipped. Thinking blocks go back
unchanged with their signatures, redacted ones too. The results of one round of tool calls are one user message, and
neighbouring messages of one role are joined, as the format wants the roles to alternate.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from typing import Any, ClassVar
from urllib.parse import quote

from tellback.agent.context_items import MODEL_SOURCES, AnswerCitation
from tellback.agent.errors import ArgumentError
from tellback.agent.json_values import object_field, object_list, text_or_empty
from tellback.agent.providers.base import (
    SETTING_NAMES,
    Capabilities,
    CitationPiece,
    Delta,
    ModelInfo,
    ModelSettings,
    OpaquePiece,
    Request,
    TextPiece,
    ThinkingPiece,
    ToolCallPiece,
    UsagePiece,
    sampling_fields,
)
from tellback.agent.providers.http_provider import (
    HttpProvider,
    ProviderEndpoint,
    ReplyReader,
    bearer_header,
    checked_api_key,
    count_or_zero,
)
from tellback.agent.providers.schemas import anthropic_schema
from tellback.agent.results import StopReason, Usage
from tellback.memory import DocumentBlock, ImageBlock, Message, TextBlock, ThinkingBlock, ToolCallBlock
from tellback.memory.http import HttpClient, ServerEvent
from tellback.memory.internals import Block, OpaqueBlock

FORMAT = "anthropic"
_CITED_TEXT = "cited_text"
"""Type of our opaque block that holds the citations of the text before it."""
_TOOL_CHOICE_TYPES = {"none": "none", "required": "any"}
_CACHE_CONTROL = {"type": "ephemeral"}
MIN_THINKING_BUDGET = 1024


def anthropic_payload(
    request: Request, model: str, *, max_tokens: int, cache: bool, system_in_place: bool = False
) -> dict[str, Any]:
    """Return the body of the request; *max_tokens*, which the format demands, is used where none is set.

    *cache* marks the last block, so that the repeated part of the next request is charged less. *system_in_place*:
    messages of the system within the conversation stay there.
    """
    system, messages = request.system_and_messages(in_place=system_in_place)
    body: dict[str, Any] = {"model": model, "messages": _message_params(messages), "stream": True}
    if system:
        body["system"] = system
    tools: list[dict[str, Any]] = [
        {"name": spec.name, "description": spec.description, "input_schema": dict(spec.parameters)}
        for spec in request.tools
    ]
    if tools := [*tools, *(dict(tool.data) for tool in request.server_tools)]:
        body["tools"] = tools
        if request.tool_choice in _TOOL_CHOICE_TYPES:
            body["tool_choice"] = {"type": _TOOL_CHOICE_TYPES[request.tool_choice]}
        elif request.tool_choice != "auto":
            body["tool_choice"] = {"type": "tool", "name": request.tool_choice}
    if cache:
        body["cache_control"] = _CACHE_CONTROL
    return {**body, **_setting_params(request.settings, max_tokens), **request.settings.extra}


def _setting_params(settings: ModelSettings, max_tokens: int) -> dict[str, Any]:
    named = sampling_fields(settings, stop="stop_sequences", max_tokens="max_tokens")
    named.setdefault("max_tokens", max_tokens)
    if isinstance(settings.thinking, int):
        if settings.thinking < MIN_THINKING_BUDGET:
            raise ArgumentError("thinking", settings.thinking, f"a budget of at least {MIN_THINKING_BUDGET} is needed")
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
        output["format"] = {"type": "json_schema", "schema": anthropic_schema(settings.response_schema)}
    return {**named, "output_config": output} if output else named


def _message_params(messages: Iterable[Message]) -> list[dict[str, Any]]:
    joined: list[dict[str, Any]] = []
    for message in messages:
        role = message.role if message.role in ("assistant", "system") else "user"
        blocks = _content_blocks(message.blocks)
        if not blocks:
            continue
        if joined and joined[-1]["role"] == role:
            # Results must come first in their message, and do: a tool message precedes the user's.
            joined[-1]["content"] += blocks
        else:
            joined.append({"role": role, "content": blocks})
    return joined


def _content_blocks(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    params: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, OpaqueBlock) and block.data.get("type") == _CITED_TEXT:
            if params and params[-1]["type"] == "text" and block.format == FORMAT:
                params[-1] = {**params[-1], "citations": block.data["citations"]}
        elif (param := _content_block(block)) is not None:
            params.append(param)
    return params


def _content_block(block: Block) -> dict[str, Any] | None:
    if isinstance(block, TextBlock):
        # An empty text is refused by the server, and says nothing.
        return {"type": "text", "text": block.text} if block.text.strip() else None
    if isinstance(block, ImageBlock):
        return {"type": "image", "source": _source(block)}
    if isinstance(block, DocumentBlock):
        source = _source(block)
        if block.media_type == "text/plain":
            source = {"type": "text", "media_type": "text/plain", "data": block.data.decode("utf-8", "replace")}
        document = {"type": "document", "source": source}
        return {**document, "title": block.name} if block.name else document
    if isinstance(block, ThinkingBlock):
        if block.redacted is not None:
            return {"type": "redacted_thinking", "data": block.redacted}
        if block.signature is None:
            return None  # another provider's reasoning, which this one could not check
        return {"type": "thinking", "thinking": block.text, "signature": block.signature}
    if isinstance(block, OpaqueBlock):
        return dict(block.data) if block.format == FORMAT else None
    if isinstance(block, ToolCallBlock):
        return {"type": "tool_use", "id": _tool_use_id(block.id), "name": block.name, "input": block.arguments}
    param: dict[str, Any] = {"type": "tool_result", "tool_use_id": _tool_use_id(block.call_id)}
    if content := _content_blocks(block.content):
        param["content"] = content
    if block.is_error:
        param["is_error"] = True
    return param


def _tool_use_id(id: str) -> str:
    """Return the id of a call as the format takes it; another provider's may have other characters."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", id)


def _source(block: ImageBlock | DocumentBlock) -> dict[str, Any]:
    if block.url is not None:
        return {"type": "url", "url": block.url}
    return {"type": "base64", "media_type": block.media_type, "data": base64.b64encode(block.data).decode()}


_TRANSIENT_ERROR_TYPES = frozenset({"overloaded_error", "rate_limit_error", "api_error", "timeout_error"})


class AnthropicEventReader(ReplyReader):
    """Reader of the events of one reply."""

    _stop_reasons: ClassVar = {
        "end_turn": StopReason.STOP,
        "stop_sequence": StopReason.STOP,
        "pause_turn": StopReason.PAUSED,
        "tool_use": StopReason.TOOL_CALLS,
        "max_tokens": StopReason.MAX_TOKENS,
        "model_context_window_exceeded": StopReason.MAX_TOKENS,
        "refusal": StopReason.REFUSAL,
    }

    def __init__(self, endpoint: ProviderEndpoint) -> None:
        super().__init__(endpoint)
        self._counts: dict[str, Any] = {}
        self._inputs: dict[int, tuple[str, bool]] = {}
        """Arguments given whole at the start of a call, by its index, and whether they were yielded or streamed."""
        self._opaque: dict[int, dict[str, Any]] = {}
        """Blocks of server tools and the like that have begun, by their index."""
        self._opaque_inputs: dict[int, str] = {}
        self._cited: dict[int, list[dict[str, Any]]] = {}

    @property
    def _complete(self) -> bool:
        return self.done and self._reason is not None

    def read(self, frame: ServerEvent) -> Iterator[Delta]:
        """Yield the deltas of one event; raise ``ProviderError`` where it is an error or no JSON."""
        if frame.event == "ping":
            return
        value = self._endpoint.object_of(frame.data)
        kind = value.get("type") or frame.event
        if kind == "error" or (frame.whole and object_field(value, "error")):
            error = object_field(value, "error") or value
            raise self._endpoint.reported_error(error, transient=error.get("type") in _TRANSIENT_ERROR_TYPES)
        if frame.whole:
            yield from self._message(value)
            return
        if kind == "message_start":
            message = object_field(value, "message")
            yield from self._model_pieces(message)
            yield from self._usage(message.get("usage"))
        elif kind == "content_block_start":
            yield from self._started(self._index(value), object_field(value, "content_block"))
        elif kind == "content_block_delta":
            yield from self._more(self._index(value), object_field(value, "delta"))
        elif kind == "content_block_stop":
            yield from self._stopped(self._index(value))
        elif kind == "message_delta":
            self._reason = text_or_empty(object_field(value, "delta").get("stop_reason")) or self._reason
            yield from self._usage(value.get("usage"))
        elif kind == "message_stop":
            self.done = True

    def _message(self, message: dict[str, Any]) -> Iterator[Delta]:
        """Yield the deltas of a reply that came in one piece."""
        if not isinstance(message.get("content"), list):
            raise self._endpoint.malformed("the answer is JSON, and no message of the format")
        yield from self._model_pieces(message)
        for index, block in enumerate(object_list(message, "content")):
            yield from self._started(index, block)
            for citation in object_list(block, "citations"):
                yield from self._more(index, {"type": "citations_delta", "citation": citation})
            yield from self._stopped(index)
        self._reason = text_or_empty(message.get("stop_reason")) or None
        yield from self._usage(message.get("usage"))
        self.done = True

    def _index(self, value: dict[str, Any]) -> int:
        index = value.get("index")
        if type(index) is not int:
            raise self._endpoint.malformed("a piece of the reply does not say where it belongs")
        return index

    def _started(self, index: int, block: dict[str, Any]) -> Iterator[Delta]:
        kind = block.get("type")
        if kind == "text" and (text := text_or_empty(block.get("text"))):
            yield TextPiece(text)
        elif kind == "thinking":
            signature = text_or_empty(block.get("signature")) or None
            if text_or_empty(block.get("thinking")) or signature:
                yield ThinkingPiece(text_or_empty(block.get("thinking")), signature)
        elif kind == "redacted_thinking":
            yield ThinkingPiece(redacted=text_or_empty(block.get("data")))
        elif kind == "tool_use":
            self._has_calls = True
            arguments = block.get("input")
            self._inputs[index] = (json.dumps(arguments, ensure_ascii=False) if arguments else "", False)
            yield ToolCallPiece(index, text_or_empty(block.get("id")), text_or_empty(block.get("name")))
        elif kind not in ("text", "thinking"):
            self._opaque[index] = block

    def _stopped(self, index: int) -> Iterator[Delta]:
        """Yield the pieces that are complete only at the end of a block: arguments, opaque blocks, citations."""
        arguments, streamed = self._inputs.get(index, ("", True))
        if arguments and not streamed:  # given whole at the start of the call
            self._inputs[index] = ("", True)
            yield ToolCallPiece(index, arguments=arguments)
        if index in self._opaque:
            block, text = self._opaque.pop(index), self._opaque_inputs.pop(index, "")
            yield OpaquePiece(FORMAT, {**block, "input": self._endpoint.object_of(text)} if text else block)
        if citations := self._cited.pop(index, None):
            yield OpaquePiece(FORMAT, {"type": _CITED_TEXT, "citations": citations})

    def _more(self, index: int, delta: dict[str, Any]) -> Iterator[Delta]:
        kind = delta.get("type")
        if kind == "text_delta" and (text := text_or_empty(delta.get("text"))):
            yield TextPiece(text)
        elif kind == "thinking_delta" and (text := text_or_empty(delta.get("thinking"))):
            yield ThinkingPiece(text)
        elif kind == "signature_delta" and (signature := text_or_empty(delta.get("signature"))):
            yield ThinkingPiece(signature=signature)
        elif kind == "citations_delta" and (citation := object_field(delta, "citation")):
            self._cited.setdefault(index, []).append(citation)
            yield CitationPiece(anthropic_citation(citation))
        elif kind == "input_json_delta" and index in self._opaque:
            self._opaque_inputs[index] = self._opaque_inputs.get(index, "") + text_or_empty(delta.get("partial_json"))
        elif kind == "input_json_delta" and index in self._inputs:
            text = text_or_empty(delta.get("partial_json"))
            if text:
                self._inputs[index] = ("", True)
                yield ToolCallPiece(index, arguments=text)

    def _usage(self, counts: Any) -> Iterator[UsagePiece]:
        """Yield the usage so far: counts are cumulative, and those that a later event leaves out stay as they were."""
        if isinstance(counts, dict):
            self._counts.update({name: value for name, value in counts.items() if value is not None})
            yield UsagePiece(anthropic_usage(self._counts))


def anthropic_usage(usage: dict[str, Any]) -> Usage:
    """Return the counts of a ``usage`` object: its input does not count tokens read from or written to the cache."""
    read = count_or_zero(usage.get("cache_read_input_tokens"))
    written = count_or_zero(usage.get("cache_creation_input_tokens"))
    return Usage(
        input=count_or_zero(usage.get("input_tokens")) + read + written,
        output=count_or_zero(usage.get("output_tokens")),
        cache_read=read,
        cache_write=written,
        reasoning=count_or_zero(object_field(usage, "output_tokens_details").get("thinking_tokens")),
    )


def anthropic_citation(citation: dict[str, Any]) -> AnswerCitation:
    """Return a citation of the model's own: into a document that it was given, or of a page that the server found."""
    address = text_or_empty(citation.get("url")) or text_or_empty(citation.get("source"))
    title = text_or_empty(citation.get("title")) or text_or_empty(citation.get("document_title"))
    start, end = count_or_zero(citation.get("start_char_index")), count_or_zero(citation.get("end_char_index"))
    return AnswerCitation(
        number=0,
        id=address or title or f"document {count_or_zero(citation.get('document_index')) + 1}",
        quote=text_or_empty(citation.get("cited_text")),
        start=start,
        end=end,
        span=(start, end),
        lane=MODEL_SOURCES,
        source=address or title,
        title=title,
        page=count_or_zero(citation.get("start_page_number")) or None,
    )


ANTHROPIC_API_URL = "https://api.anthropic.com"
ANTHROPIC_VERSION = "2026-10-21"
_UNSUPPORTED_SETTINGS = frozenset(
    {"min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "seed", "json_mode"}
)
_SAMPLING_PARAMETERS = frozenset({"temperature", "top_p", "top_k"})
_FIRST_VERSION_WITHOUT_SAMPLING = "2026-10-21"
"""From this version on the format has no sampling settings, system messages have a place within the conversation, and
keys go as bearer tokens."""
_MAX_MODEL_PAGES = 20


class AnthropicProvider(HttpProvider):
    """Streams replies of *model* at *base_url* (without ``/v1``).

    *api_key* is sent where given and never shown. *max_tokens*, which the format demands, is the limit of output
    where a request sets none. *cache* asks for prompt caching. *version* is the format's: one before 2026-10-21
    takes temperature, top_p and top_k, which raise with later ones. *headers* are added to each request. A *client*
    given is shared and not closed here. *reads_documents* says whether PDF is sent as it is or as its text; None: as
    text to this machine, whose servers of the format take no documents.
    """

    _hints: ClassVar = {
        401: "the key was refused; is ANTHROPIC_API_KEY that of this endpoint?",
        403: "the key may not use this model",
        404: "no such model, or the address is wrong: it has no /v1 at its end",
    }

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str = ANTHROPIC_API_URL,
        max_tokens: int = 8192,
        cache: bool = False,
        version: str = ANTHROPIC_VERSION,
        headers: Mapping[str, str] | None = None,
        client: HttpClient | None = None,
        reads_documents: bool | None = None,
    ) -> None:
        if type(max_tokens) is not int or max_tokens < 1:
            raise ArgumentError("max_tokens", max_tokens, "at least 1 is needed")
        if not isinstance(version, str) or not re.fullmatch(r"\d{4}-\d\d-\d\d", version):
            raise ArgumentError("version", version, f"a date such as {ANTHROPIC_VERSION} is needed")
        self._max_tokens, self._cache = max_tokens, cache
        self._samples = version < _FIRST_VERSION_WITHOUT_SAMPLING
        key = checked_api_key(api_key)
        carrying = ({"x-api-key": key} if key else {}) if self._samples else bearer_header(api_key)
        sent = {**(headers or {}), "anthropic-version": version, **carrying}
        super().__init__(base_url, model, api_key=api_key, headers=sent, client=client)
        self._reads_documents = self.remote if reads_documents is None else reads_documents
        settings = SETTING_NAMES - _UNSUPPORTED_SETTINGS
        settings = settings if self._samples else settings - _SAMPLING_PARAMETERS
        urls = frozenset({"image", "document"} if self._reads_documents else {"image"})
        self.capabilities = Capabilities(settings, server_tools=True, urls=urls)

    async def models(self) -> list[ModelInfo]:
        """Return the models that the endpoint has, sorted by name."""
        models: list[ModelInfo] = []
        after = ""
        for _ in range(_MAX_MODEL_PAGES):
            answer = await self._endpoint.get("/v1/models?limit=1000" + (f"&after_id={quote(after)}" if after else ""))
            for item in self._endpoint.listed_models(answer, "data"):
                if isinstance(item.get("id"), str):
                    context = count_or_zero(item.get("max_input_tokens")) or None
                    models.append(ModelInfo(item["id"], text_or_empty(item.get("display_name")), context))
            after = text_or_empty(answer.get("last_id"))
            if answer.get("has_more") is not True or not after:
                break
        return sorted(models, key=lambda model: model.name)

    def _open_reply(self, request: Request) -> tuple[AsyncGenerator[Any, None], ReplyReader]:
        body = anthropic_payload(
            request,
            self.model,
            max_tokens=self._max_tokens,
            cache=self._cache,
            system_in_place=not self._samples,
        )
        return self._endpoint.events("/v1/messages", body), AnthropicEventReader(self._endpoint)
