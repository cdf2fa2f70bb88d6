"""Base of providers over HTTP: endpoint, API key, JSON fields, errors translated, and the stream of a reply.

Sending and receiving is ``tellback.memory.http``. A wire format defines the request body and how the frames of an
answer are read.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, ClassVar
from urllib.parse import urlsplit

from tellback.agent.errors import ArgumentError, ContextOverflow, ProviderError, UnreadableToolCall, shorten
from tellback.agent.json_values import object_field, object_list, parsed_object, text_or_empty
from tellback.agent.providers.base import (
    Capabilities,
    Delta,
    ModelPiece,
    OpaquePiece,
    Request,
    StopPiece,
    TextPiece,
    ThinkingPiece,
    ToolCallPiece,
    ToolSpec,
    WaitPiece,
    WarningPiece,
    check_request,
)
from tellback.agent.providers.document_blocks import with_documents_as_text
from tellback.agent.providers.inline_thinking import InlineThinkingSplitter
from tellback.agent.results import StopReason
from tellback.memory.http import (
    HttpClient,
    HttpConnectError,
    HttpError,
    HttpStatusError,
    HttpWait,
    ServerEvent,
    safe_url,
)
from tellback.memory.internals import is_loopback

_COMPLAINT_LENGTH = 300
_NOTICE_SECONDS = 5.0
"""Seconds of silence after which a stream reports it, repeatedly."""
_MIN_KEY_LENGTH = 4
_CONTEXT_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|context (?:length|window|size)|prompt is too long|"
    r"maximum (?:context|prompt)|too many (?:input )?tokens|input is too long|request_too_large",
    re.IGNORECASE,
)
"""Words by which servers say that a request does not fit: no status stands for it alone."""
_TOOL_USE_FAILED = "tool_use_failed"
"""Code of Groq's error for a tool call that it could not read."""
_OVERFLOW_STATUSES = frozenset({400, 413, 422, 500})


class ProviderEndpoint:
    """Address with its headers, asked through one HTTP client; closing leaves a client that was passed in open.

    *name* stands in errors; *key* is hidden in them; *hints* explain statuses in words.
    """

    def __init__(
        self,
        base_url: str,
        *,
        name: str,
        headers: Mapping[str, str],
        key: str,
        hints: Mapping[int, str],
        client: HttpClient | None,
    ) -> None:
        self.url = checked_base_url(base_url)
        self.name = name
        self.key = key
        self._headers = dict(headers)
        self._hints = hints
        self._own = client is None
        self._client = client or HttpClient()

    def events(self, path: str, body: Any) -> AsyncGenerator[ServerEvent | HttpWait, None]:
        """Send *body* and return the server-sent events of the answer, with the waits between them."""
        return self._client.stream_events(self.url + path, body, headers=self._headers, notice=_NOTICE_SECONDS)

    def lines(self, path: str, body: Any) -> AsyncGenerator[str | HttpWait, None]:
        """Send *body* and return the lines of the answer, with the waits between them."""
        return self._client.stream_lines(self.url + path, body, headers=self._headers, notice=_NOTICE_SECONDS)

    async def get(self, path: str) -> Any:
        """Return the JSON answer at *path*."""
        with self.translated():
            return await self._client.get_json(self.url + path, headers=self._headers)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Translate errors of the HTTP client into ``ProviderError``."""
        try:
            yield
        except HttpError as error:
            hint = self._hints.get(error.status or 0)
            problem = redact_key(f"{error} ({hint})" if hint else str(error), self.key)
            if error.status in _OVERFLOW_STATUSES and _CONTEXT_OVERFLOW.search(str(error)):
                raise ContextOverflow(problem, provider=self.name, status=error.status) from error
            if isinstance(error, HttpStatusError) and (
                unreadable := self._unreadable_call(object_field(parsed_object(error.body), "error"), problem)
            ):
                raise unreadable from error
            unreached = error.retriable if isinstance(error, HttpConnectError) else None
            raise ProviderError(
                problem, provider=self.name, status=error.status, retry_after=error.retry_after, transient=unreached
            ) from error

    def wait_piece(self, wait: HttpWait) -> WaitPiece:
        """Return *wait* as a delta, without keys."""
        return WaitPiece(wait.seconds, redact_key(wait.problem, self.key), wait.named, wait.limit or None)

    def malformed(self, problem: str, *, transient: bool | None = None) -> ProviderError:
        """Return the error for an answer that cannot be parsed."""
        return ProviderError(problem, provider=self.name, transient=transient)

    def reported_error(self, error: Any, *, transient: bool | None = None) -> ProviderError:
        """Return the error for an error object in the middle of an answer, shortened and without keys."""
        fields = error if isinstance(error, dict) else {"message": error}
        message, kind = fields.get("message"), fields.get("type") or fields.get("code")
        words = (message if isinstance(message, str) else "no reason given").split()
        line = shorten(redact_key(" ".join(words), self.key), _COMPLAINT_LENGTH)
        searched = f"{line} {kind}" if isinstance(kind, str) else line
        problem = f"failed in the middle of the reply: {line}"
        if _CONTEXT_OVERFLOW.search(searched):
            return ContextOverflow(problem, provider=self.name)
        unreadable = self._unreadable_call(fields, problem)
        return unreadable or ProviderError(problem, provider=self.name, transient=transient)

    def _unreadable_call(self, fields: dict[str, Any], problem: str) -> UnreadableToolCall | None:
        """Return the error for *fields* that say that the server could not read a tool call; None for any other."""
        if fields.get("code") != _TOOL_USE_FAILED:
            return None
        generation = redact_key(text_or_empty(fields.get("failed_generation")), self.key)
        return UnreadableToolCall(problem, provider=self.name, generation=generation)

    def object_of(self, data: str) -> dict[str, Any]:
        """Return *data* as a JSON object; raise ``ProviderError`` where it is none."""
        try:
            value = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self.malformed("a piece of the reply is not JSON") from error
        if not isinstance(value, dict):
            raise self.malformed("a piece of the reply is not a JSON object")
        return value

    def listed_models(self, answer: Any, field: str) -> list[dict[str, Any]]:
        """Return the models that *answer* lists under *field*; raise where it has another shape."""
        if not isinstance(answer, dict) or not isinstance(answer.get(field), list):
            raise self.malformed("the list of models has an unknown shape")
        return object_list(answer, field)

    async def aclose(self) -> None:
        """Close its connections; a client that was given stays open."""
        if self._own:
            await self._client.aclose()


def bearer_header(api_key: str | None) -> dict[str, str]:
    """Return the header that carries *api_key*; none without one."""
    key = checked_api_key(api_key)
    return {"authorization": f"Bearer {key}"} if key else {}


def checked_api_key(api_key: str | None) -> str:
    """Return *api_key* as it is sent ("" for None); one that no header can carry raises, and is not shown."""
    if api_key is None:
        return ""
    if not isinstance(api_key, str) or not api_key.strip() or not api_key.isascii():
        raise ArgumentError("api_key", "(hidden)", "a key of plain characters is needed, or None")
    return api_key.strip()


def checked_base_url(base_url: str) -> str:
    """Return *base_url* without a trailing slash, if it is an http address."""
    expected = "an address such as http://localhost:8080/v1 is needed, before the name of the model"
    if not isinstance(base_url, str):
        raise ArgumentError("base_url", base_url, expected)
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query
    except ValueError:
        usable = False
    if not usable:
        raise ArgumentError("base_url", safe_url(base_url), expected)
    return base_url.rstrip("/")


def redact_key(text: str, key: str) -> str:
    """Return *text* without *key*; a placeholder of a few letters ("x", "no") is none, and is in every sentence."""
    return text.replace(key, "[hidden]") if len(key) >= _MIN_KEY_LENGTH else text


def count_or_zero(value: Any) -> int:
    """Return *value* if it is a number of tokens, else 0."""
    return value if type(value) is int and value > 0 else 0


def function_definition(spec: ToolSpec) -> dict[str, Any]:
    """Return a tool as the formats of OpenAI and Ollama define it."""
    function = {"name": spec.name, "description": spec.description, "parameters": dict(spec.parameters)}
    return {"type": "function", "function": function}


class ReplyReader(ABC):
    """Reads one reply of *endpoint*: ``read`` each frame, then ``finish``."""

    _stop_reasons: ClassVar[Mapping[str, StopReason]]

    def __init__(self, endpoint: ProviderEndpoint) -> None:
        self._endpoint = endpoint
        self.done = False
        """True once the server has ended the reply."""
        self._reason: str | None = None
        self._has_calls = False
        self._model = ""

    @property
    def _complete(self) -> bool:
        """Return whether the reply is complete."""
        return self.done

    def _model_pieces(self, frame: Mapping[str, Any]) -> Iterator[ModelPiece]:
        """Yield the name of the model that answers, where *frame* is the first to have it."""
        if not self._model and (model := text_or_empty(frame.get("model"))):
            self._model = model
            yield ModelPiece(model)

    @abstractmethod
    def read(self, frame: Any) -> Iterator[Delta]:
        """Yield the deltas of one frame; raise ``ProviderError`` where it is an error or cannot be read."""

    def remaining(self) -> Iterator[Delta]:
        """Yield the deltas that are whole only when no frame comes any more."""
        return iter(())

    def finish(self) -> StopPiece:
        """Return the reason why the reply ended; raise where it broke off."""
        if not self._complete:
            raise self._endpoint.malformed("the reply broke off before its end", transient=True)
        reason = self._stop_reasons.get(self._reason or "", StopReason.STOP)
        # some servers say "stop" after tool calls
        return StopPiece(StopReason.TOOL_CALLS if reason == StopReason.STOP and self._has_calls else reason)


class HttpProvider(ABC):
    """Base of providers that ask *model* at *base_url*; *headers* carry the key, which errors hide.

    Reasoning between tags in the text of a reply becomes thinking. Documents that the endpoint cannot read are sent as
    their text.
    """

    _hints: ClassVar[Mapping[int, str]]
    """Explanations of statuses."""

    capabilities: Capabilities
    """Capabilities of the wire format."""
    _reads_documents: bool
    """Whether the endpoint takes documents as they are."""

    def __init__(
        self, base_url: str, model: str, *, api_key: str | None, headers: Mapping[str, str], client: HttpClient | None
    ) -> None:
        key = checked_api_key(api_key)
        self._endpoint = ProviderEndpoint(
            base_url, name=model, headers=headers, key=key, hints=self._hints, client=client
        )
        if not isinstance(model, str) or not model.strip():
            raise ArgumentError("model", model, "the name of a model is needed; `tellback config models` lists them")
        self.model = model
        self.remote = not is_loopback(self._endpoint.url)
        """Whether requests leave this machine."""
        self._opens_thinking = False
        """True while the template of the model begins its replies within the reasoning."""

    @abstractmethod
    def _open_reply(self, request: Request) -> tuple[AsyncGenerator[Any, None], ReplyReader]:
        """Send *request* and return the frames of the answer, with their reader."""

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Answer *request*, streamed by the endpoint."""
        check_request(request, self.capabilities, type(self).__name__)
        if not self._reads_documents:
            request, notes = await with_documents_as_text(request)
            for note in notes:
                yield WarningPiece(note)
        frames, reader = self._open_reply(request)
        splitter = InlineThinkingSplitter(opened=self._opens_thinking)
        with self._endpoint.translated():
            async with aclosing(frames):
                async for frame in frames:
                    if isinstance(frame, HttpWait):
                        yield self._endpoint.wait_piece(frame)
                        continue
                    for delta in reader.read(frame):
                        if isinstance(delta, TextPiece):
                            for part in splitter.feed(delta.text):
                                yield part
                            continue
                        if isinstance(delta, ThinkingPiece):
                            splitter.reasoning_is_separate()
                        elif isinstance(delta, (ToolCallPiece, OpaquePiece)):
                            for part in splitter.flush():
                                yield part
                        yield delta
                    if reader.done:
                        break
        stop = reader.finish()
        for part in splitter.finish(cut=stop.reason == StopReason.MAX_TOKENS):
            yield part
        for delta in reader.remaining():
            yield delta
        self._opens_thinking = splitter.opened
        yield stop

    async def aclose(self) -> None:
        """Close its connections; a client that was given stays open."""
        await self._endpoint.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, {safe_url(self._endpoint.url)!r})"
