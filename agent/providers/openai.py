"""Provider for OpenAI's Chat Completions: OpenAI, llama.cpp, vLLM, LM Studio, Ollama, OpenRouter and others.

    provider = OpenAICompatibleProvider("http://localhost:8080/v1", "qwen3")

The request body and the reader of the chunks are pure; unknown fields are skipped. Content that the format has no
field for is put into words (the error flag of a result, an image that a tool returned) or raises.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

from tellback.agent.context_items import MODEL_SOURCES, AnswerCitation
from tellback.agent.errors import ArgumentError
from tellback.agent.json_values import object_field, object_list, text_or_empty
from tellback.agent.providers.base import (
    SETTING_NAMES,
    THINKING_MODES,
    TOOL_CHOICES,
    Capabilities,
    CitationPiece,
    Delta,
    ModelInfo,
    OpaquePiece,
    Request,
    StopPiece,
    TextPiece,
    Thinking,
    ThinkingPiece,
    ToolCallPiece,
    UsagePiece,
    WarningPiece,
    sampling_fields,
)
from tellback.agent.providers.http_provider import (
    HttpProvider,
    ProviderEndpoint,
    ReplyReader,
    bearer_header,
    count_or_zero,
    function_definition,
)
from tellback.agent.providers.schemas import openai_schema
from tellback.agent.results import StopReason, Usage
from tellback.memory import DocumentBlock, ImageBlock, Message, TextBlock, ThinkingBlock, ToolResultBlock
from tellback.memory.http import HttpClient, ServerEvent
from tellback.memory.internals import OpaqueBlock

Server: TypeAlias = Literal["openai", "openrouter", "llama.cpp", "vllm", "lmstudio", "ollama"]
"""Servers of the format whose own fields are known."""

_REPETITION_FIELDS: Mapping[str | None, str] = {
    "openrouter": "repetition_penalty",
    "vllm": "repetition_penalty",
    "llama.cpp": "repeat_penalty",
    "lmstudio": "repeat_penalty",
}
_THINKING_MODES: Mapping[str | None, frozenset[str]] = {
    None: frozenset({"off"}),
    "openai": frozenset({"off", "on"}),
    "lmstudio": frozenset({"off", "on"}),
    "ollama": frozenset({"off", "on"}),
    "llama.cpp": THINKING_MODES,
    "openrouter": THINKING_MODES,
    "vllm": THINKING_MODES,
}
_SERVERS_WITH_SYSTEM_IN_PLACE = frozenset({"openai", "openrouter"})
"""Servers that take system messages within the conversation; the templates of many local models take one, first."""
FORMAT = "openai"
_CONTENT = "content"
"""Field of thinking that comes among the typed parts of the content."""
_MEDIUM_EFFORT = "medium"
"""Effort that switches thinking on where a server knows only grades of it."""
_REASONING_FIELDS = ("reasoning_content", "reasoning")
_REASONING_DETAILS = "reasoning_details"
_DETAIL_TEXTS = ("text", "summary")
_EXTRA_CONTENT = "extra_content"
"""Field of a tool call, or of the message, at Gemini with the signature of the thought behind it."""
_KEPT_FIELDS = (_EXTRA_CONTENT, "thought_signature")
"""Fields of a message that go back as they came."""
_UNREAD_FIELDS = ("executed_tools", "logprobs", "audio")
"""Fields of a reply that nothing here reads, and that servers refuse in a request."""
_VALID_SCHEMA_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VALID_USER_NAME = re.compile(r"[^\s<|\\/>]{1,64}")


def openai_payload(
    request: Request, model: str, *, server: str | None, limit_field: str, reasoning_field: str | None
) -> dict[str, Any]:
    """Return the body of the request to *server*; *limit_field* is its name for the limit of output tokens."""
    body: dict[str, Any] = {
        "model": model,
        "messages": _join_user_messages(_chat_messages(request, server, reasoning_field)),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if tools := [*map(function_definition, request.tools), *(dict(tool.data) for tool in request.server_tools)]:
        body["tools"] = tools
        if request.tool_choice in TOOL_CHOICES - {"auto"}:
            body["tool_choice"] = request.tool_choice
        elif request.tool_choice != "auto":
            body["tool_choice"] = {"type": "function", "function": {"name": request.tool_choice}}
    settings = request.settings
    body |= sampling_fields(settings, max_tokens=limit_field, effort="reasoning_effort")
    if settings.repetition_penalty is not None:
        body[_REPETITION_FIELDS[server]] = settings.repetition_penalty
    if settings.thinking is not None:
        body |= _thinking_fields(settings.thinking, settings.effort, server)
    if settings.response_schema is not None:
        title = str(settings.response_schema.get("title", ""))
        name = title if _VALID_SCHEMA_NAME.fullmatch(title) else "answer"
        schema = {"name": name, "schema": openai_schema(settings.response_schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif settings.json_mode:
        body["response_format"] = {"type": "json_object"}
    return {**body, **settings.extra}


def _thinking_fields(thinking: Thinking, effort: str | None, server: str | None) -> dict[str, Any]:
    """Return the fields by which *server* is told to reason or not; *effort* is sent beside them."""
    budget = thinking if isinstance(thinking, int) else None
    if server == "openrouter":
        switch: dict[str, Any] = {"enabled": thinking != "off"}
        return {"reasoning": switch if budget is None else {"max_tokens": budget}}
    if server in ("llama.cpp", "vllm"):  # the template of the model decides
        fields: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": thinking != "off"}}
        if budget is not None:
            fields["thinking_budget_tokens" if server == "llama.cpp" else "thinking_token_budget"] = budget
        return fields
    if thinking == "off":
        return {"reasoning_effort": "none"}
    return {} if effort is not None else {"reasoning_effort": _MEDIUM_EFFORT}


def _chat_messages(request: Request, server: str | None, reasoning_field: str | None) -> Iterable[dict[str, Any]]:
    system, messages = request.system_and_messages(in_place=server in _SERVERS_WITH_SYSTEM_IN_PLACE)
    if system:
        yield {"role": "system", "content": system}
    for message in messages:
        if message.role == "tool":
            yield from _tool_messages(message.tool_results)
        elif message.role == "assistant":
            yield _assistant_message(message, reasoning_field)
        else:
            body = {"role": message.role, "content": _message_content(message.blocks)}
            if message.role == "user" and message.name and _VALID_USER_NAME.fullmatch(message.name):
                body["name"] = message.name
            yield body


def _join_user_messages(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return *messages* with neighbours of the user joined, as pictures of a tool's result and a prompt may be."""
    joined: list[dict[str, Any]] = []
    for message in messages:
        if joined and message["role"] == joined[-1]["role"] == "user":
            joined[-1]["content"] = [*_as_parts(joined[-1]["content"]), *_as_parts(message["content"])]
        else:
            joined.append(message)
    return joined


def _as_parts(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [_text_part(content)] if isinstance(content, str) else content


def _assistant_message(message: Message, reasoning_field: str | None) -> dict[str, Any]:
    body: dict[str, Any] = {"role": "assistant", "content": message.text}
    if message.tool_calls:
        body["content"] = message.text or None
    thoughts: dict[str, str] = {}
    for block in message.blocks:
        if isinstance(block, OpaqueBlock) and block.format == FORMAT:
            body |= block.data
        elif isinstance(block, ThinkingBlock) and (field := reasoning_field or block.field):
            thoughts[field] = thoughts.get(field, "") + block.text
    if parts := thoughts.pop(_CONTENT, ""):
        thinking = {"type": "thinking", "thinking": [_text_part(parts)]}
        body["content"] = [thinking, *([_text_part(message.text)] if message.text else [])]
    if _REASONING_DETAILS not in body:  # they hold the same thoughts
        body |= {field: text for field, text in thoughts.items() if text}
    if message.tool_calls:
        body["tool_calls"] = []
        for call in message.tool_calls:
            # Servers parse the arguments again, and some fail where they are not JSON; the tool's answer says so.
            arguments = json.dumps(call.arguments, ensure_ascii=False, separators=(",", ":"))
            function = {"name": call.name, "arguments": arguments}
            body["tool_calls"].append({"id": call.id, "type": "function", "function": function, **(call.opaque or {})})
    return body


def _tool_messages(results: Sequence[ToolResultBlock]) -> Iterable[dict[str, Any]]:
    media: list[dict[str, Any]] = []
    for result in results:
        shown = [block for block in result.content if isinstance(block, (ImageBlock, DocumentBlock))]
        text = result.text
        if shown:
            kinds = Counter(block.type for block in shown)
            counts = ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in kinds.items())
            note = f"({counts}, shown below)"
            text = f"{text}\n{note}" if text else note
            title = " and ".join(f"{kind}s" for kind in kinds).capitalize()
            media.append(_text_part(f"{title} from {result.name or result.call_id}:"))
            media.extend(map(_content_part, shown))
        content = f"Error: {text}" if result.is_error else text
        yield {"role": "tool", "tool_call_id": result.call_id, "content": content}
    if media:
        yield {"role": "user", "content": media}


def _message_content(blocks: Sequence[Any]) -> str | list[dict[str, Any]]:
    """Return blocks as one text where that is possible, which every server understands, else as parts."""
    parts = [_content_part(block) for block in blocks if not isinstance(block, OpaqueBlock) or block.format == FORMAT]
    if all(part["type"] == "text" for part in parts):
        return "\n\n".join(part["text"] for part in parts)
    return parts


def _content_part(block: Any) -> dict[str, Any]:
    if isinstance(block, OpaqueBlock):
        return dict(block.data)
    if isinstance(block, ImageBlock):
        return {"type": "image_url", "image_url": {"url": _address(block)}}
    if isinstance(block, DocumentBlock):
        if block.media_type == "text/plain":
            text = block.data.decode("utf-8", "replace")
            return _text_part(f"{block.name}:\n{text}" if block.name else text)
        file = {"filename": block.name or "document.pdf", "file_data": _address(block)}
        return {"type": "file", "file": file}
    assert isinstance(block, TextBlock)
    return _text_part(block.text)


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _address(block: ImageBlock | DocumentBlock) -> str:
    """Return the address of *block*, which holds the bytes themselves where they were given."""
    return block.url or f"data:{block.media_type};base64,{base64.b64encode(block.data).decode()}"


class OpenAIChunkReader(ReplyReader):
    """Reader of the chunks of one reply."""

    _stop_reasons: ClassVar = {
        "stop": StopReason.STOP,
        "length": StopReason.MAX_TOKENS,
        "tool_calls": StopReason.TOOL_CALLS,
        "function_call": StopReason.TOOL_CALLS,
        "content_filter": StopReason.CONTENT_FILTER,
        "refusal": StopReason.REFUSAL,
    }

    def __init__(self, endpoint: ProviderEndpoint) -> None:
        super().__init__(endpoint)
        self._refused = False
        self._indexes: dict[str, int] = {}
        self._last_index = -1
        self._details: list[dict[str, Any]] = []
        self._kept: dict[str, Any] = {}
        self._unread: dict[str, None] = {}

    @property
    def _complete(self) -> bool:
        return self.done or self._reason is not None

    def read(self, frame: ServerEvent) -> Iterator[Delta]:
        """Yield the deltas of one event; raise ``ProviderError`` where it is an error or no JSON."""
        if frame.data.strip() == "[DONE]":
            self.done = True
            return
        chunk = self._endpoint.object_of(frame.data)
        if chunk.get("error") or frame.event == "error" or chunk.get("object") == "error":
            raise self._endpoint.reported_error(chunk.get("error") or chunk)
        yield from self._model_pieces(chunk)
        choices = chunk.get("choices")
        if frame.whole and not choices:
            raise self._endpoint.malformed("the answer is JSON, and no completion of the format")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            yield from self._choice(choices[0])
        if isinstance(chunk.get("usage"), dict):
            yield UsagePiece(openai_usage(chunk["usage"]))

    def finish(self) -> StopPiece:
        """Return the reason why the reply ended; raise where it broke off."""
        stop = super().finish()
        return StopPiece(StopReason.REFUSAL) if self._refused else stop

    def _choice(self, choice: dict[str, Any]) -> Iterator[Delta]:
        delta = object_field(choice, "delta" if isinstance(choice.get("delta"), dict) else "message")
        fields = ((name, _delta_text(delta.get(name))) for name in _REASONING_FIELDS)
        field, thought = next((pair for pair in fields if pair[1]), (_CONTENT, _thinking_parts(delta.get("content"))))
        if thought:
            yield ThinkingPiece(thought, field=field)
        self._add_details(object_list(delta, _REASONING_DETAILS))
        for annotation in object_list(delta, "annotations"):
            if citation := object_field(annotation, "url_citation"):
                yield CitationPiece(_url_citation(citation))
            else:  # a file that OpenRouter has parsed, which spares it the next time
                self._kept.setdefault("annotations", []).append(annotation)
        self._kept |= {name: delta[name] for name in _KEPT_FIELDS if delta.get(name)}
        self._unread |= dict.fromkeys(name for name in _UNREAD_FIELDS if delta.get(name) or choice.get(name))
        if text := _delta_text(delta.get("content")):
            yield TextPiece(text)
        if refusal := _delta_text(delta.get("refusal")):
            self._refused = True
            yield TextPiece(refusal)
        for call in object_list(delta, "tool_calls"):
            self._has_calls = True
            yield self._call(call)
        if isinstance(choice.get("finish_reason"), str):
            self._reason = choice["finish_reason"]

    def _call(self, call: dict[str, Any]) -> ToolCallPiece:
        function = object_field(call, "function")
        arguments = function.get("arguments")
        if isinstance(arguments, (dict, list)):
            arguments = json.dumps(arguments, ensure_ascii=False)  # some servers send the object itself
        index, id = call.get("index"), _delta_text(call.get("id"))
        if type(index) is not int:  # some servers number no calls
            index = self._indexes.setdefault(id, self._last_index + 1) if id else max(self._last_index, 0)
        self._last_index = max(self._last_index, index)
        extra = object_field(call, _EXTRA_CONTENT)
        opaque = {_EXTRA_CONTENT: extra} if extra else None
        return ToolCallPiece(index, id, _delta_text(function.get("name")), _delta_text(arguments), opaque)

    def _add_details(self, details: list[dict[str, Any]]) -> None:
        """Join the pieces of reasoning details: those of one type and index follow one another."""
        for detail in details:
            last = self._details[-1] if self._details else {}
            if (
                all(last.get(name) == detail.get(name) for name in ("type", "index"))
                and detail.get("index") is not None
            ):
                texts = {
                    name: last[name] + detail[name] for name in _DETAIL_TEXTS if last.get(name) and detail.get(name)
                }
                last |= {name: value for name, value in detail.items() if value is not None} | texts
            else:
                self._details.append(dict(detail))

    def remaining(self) -> Iterator[Delta]:
        """Yield the fields of the message that are whole now, and a warning of those that nothing reads."""
        if kept := self._kept | ({_REASONING_DETAILS: self._details} if self._details else {}):
            yield OpaquePiece(FORMAT, kept)
        if self._unread:
            yield WarningPiece(f"the reply has fields that are not read: {', '.join(self._unread)}")


def _thinking_parts(content: Any) -> str:
    """Return the thinking among typed parts of the content, as Mistral sends it."""
    parts = content if isinstance(content, list) else ()
    return "".join(_delta_text(part.get("thinking")) for part in parts if isinstance(part, dict))


def _url_citation(citation: dict[str, Any]) -> AnswerCitation:
    """Return a citation of a page that the server found; its quote is the page's text where the server gives it."""
    address, title = _delta_text(citation.get("url")), _delta_text(citation.get("title"))
    quote = _delta_text(citation.get("content"))
    return AnswerCitation(
        number=0, id=address, quote=quote, start=0, end=0, span=(0, 0), lane=MODEL_SOURCES, source=address, title=title
    )


def openai_usage(usage: dict[str, Any]) -> Usage:
    """Return the counts of a ``usage`` object; missing counts are 0."""
    prompt_details, completion_details = (
        object_field(usage, "prompt_tokens_details"),
        object_field(usage, "completion_tokens_details"),
    )
    return Usage(
        input=count_or_zero(usage.get("prompt_tokens")),
        output=count_or_zero(usage.get("completion_tokens")),
        cache_read=count_or_zero(prompt_details.get("cached_tokens")),
        cache_write=count_or_zero(prompt_details.get("cache_write_tokens")),
        reasoning=count_or_zero(completion_details.get("reasoning_tokens")),
    )


def _delta_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):  # some servers send the content in typed parts
        return "".join(_delta_text(part.get("text")) for part in value if isinstance(part, dict))
    return ""


_UNSUPPORTED_SETTINGS: Mapping[str | None, frozenset[str]] = {
    "openai": frozenset({"top_k", "min_p"}),
    "ollama": frozenset({"top_k", "min_p"}),
    "lmstudio": frozenset({"min_p"}),
}
_SERVERS = get_args(Server)


class OpenAICompatibleProvider(HttpProvider):
    """Streams replies of *model* at *base_url* (which usually ends in ``/v1``).

    *api_key* is sent where given and never shown. *headers* are added to each request. *reasoning_field* names the
    field in which this server wants a model's reasoning back during tool use (None: the one in which it came).
    *limit_field* is the server's name for the limit of output tokens (None: OpenAI's own for OpenAI, ``max_tokens``
    elsewhere). A *client* given is shared and not closed here.

    *server* says which server it is, where the address does not (OpenAI's and OpenRouter's do): servers have fields of
    their own to switch thinking and for the repetition penalty. *reads_documents* says whether PDF is sent as it is or
    as its text; None: as it is to OpenAI and OpenRouter alone.
    """

    _hints: ClassVar = {
        401: "the key was refused; is OPENAI_API_KEY that of this endpoint?",
        403: "the key may not use this model",
        404: "no such model, or the address lacks its /v1",
    }

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        client: HttpClient | None = None,
        headers: Mapping[str, str] | None = None,
        reasoning_field: Literal["reasoning_content", "reasoning"] | None = None,
        limit_field: Literal["max_tokens", "max_completion_tokens"] | None = None,
        server: Server | None = None,
        reads_documents: bool | None = None,
    ) -> None:
        if server is not None and server not in _SERVERS:
            raise ArgumentError("server", server, f"one of {', '.join(_SERVERS)} is needed, or None")
        sent = {**(headers or {}), **bearer_header(api_key)}
        super().__init__(base_url, model, api_key=api_key, headers=sent, client=client)
        self._server = server or _server_at(self._endpoint.url)
        self._reasoning_field = reasoning_field
        self._limit_field = limit_field or ("max_completion_tokens" if self._server == "openai" else "max_tokens")
        self._reads_documents = self._server in ("openai", "openrouter") if reads_documents is None else reads_documents
        settings = SETTING_NAMES - _UNSUPPORTED_SETTINGS.get(self._server, frozenset())
        if self._server not in _REPETITION_FIELDS:
            settings -= {"repetition_penalty"}
        servers = f"server=, in the configuration model_server: {', '.join(_SERVERS)}"
        remedy = "" if self._server else f"leave it out, or say which server it is ({servers})"
        urls = frozenset({"image", "document"} if self._server == "openrouter" else {"image"})
        thinking = _THINKING_MODES[self._server]
        self.capabilities = Capabilities(settings, thinking=thinking, server_tools=True, urls=urls, remedy=remedy)

    async def models(self) -> list[ModelInfo]:
        """Return the models that the endpoint has, sorted by name."""
        listed = self._endpoint.listed_models(await self._endpoint.get("/models"), "data")
        named = (item for item in listed if isinstance(item.get("id"), str))
        models = (
            ModelInfo(item["id"], context=_context_length(item), owner=text_or_empty(item.get("owned_by")))
            for item in named
        )
        return sorted(models, key=lambda model: model.name)

    def _open_reply(self, request: Request) -> tuple[AsyncGenerator[Any, None], ReplyReader]:
        body = openai_payload(
            request,
            self.model,
            server=self._server,
            limit_field=self._limit_field,
            reasoning_field=self._reasoning_field,
        )
        return self._endpoint.events("/chat/completions", body), OpenAIChunkReader(self._endpoint)


def _server_at(url: str) -> Server | None:
    """Return the server that is known to answer at *url*."""
    host = f".{urlsplit(url).hostname or ''}"
    if host.endswith(".openai.com"):
        return "openai"
    return "openrouter" if host.endswith(".openrouter.ai") else None


def _context_length(listed: dict[str, Any]) -> int | None:
    """Return the length of a model's window under the names that servers use; OpenAI itself does not tell."""
    lengths = [listed.get(name) for name in ("context_length", "context_window", "max_model_len")]
    lengths.append(object_field(listed, "meta").get("n_ctx_train"))
    return next((length for length in map(count_or_zero, lengths) if length), None)
