"""Accumulator of deltas into a whole response: the one place where pieces of text and tool calls are joined."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tellback.agent.context_items import AnswerCitation
from tellback.agent.errors import ProviderError, choice
from tellback.agent.providers.base import (
    CitationPiece,
    Delta,
    ModelPiece,
    OpaquePiece,
    Provider,
    Request,
    StopPiece,
    StoredReply,
    TextPiece,
    TextWasThinking,
    ThinkingPiece,
    ToolCallPiece,
    UsagePiece,
)
from tellback.agent.results import StopReason, Usage
from tellback.memory import Message, TextBlock, ThinkingBlock, ToolCallBlock
from tellback.memory.internals import MODEL, Block, OpaqueBlock


@dataclass(frozen=True, slots=True)
class Response:
    """Whole reply; *model* is the model that answered, where the endpoint names it. *elapsed* is its duration in
    seconds, *first_token* the part of it until the first piece of text, thinking or a call came (None: none came)."""

    message: Message
    stop: StopReason
    usage: Usage = field(default_factory=Usage)
    citations: tuple[AnswerCitation, ...] = ()
    kept: StoredReply | None = None
    model: str = ""
    elapsed: float = 0.0
    first_token: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop", choice(StopReason, self.stop, "stop"))

    @property
    def text(self) -> str:
        """Text of the reply."""
        return self.message.text


def new_call_id() -> str:
    """Return an id for a tool call whose provider gave none."""
    return f"call_{uuid.uuid4().hex}"


@dataclass(slots=True)
class _PartialCall:
    id: str
    name: str
    arguments: list[str]
    opaque: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _PartialThinking:
    text: list[str]
    signature: str | None = None
    redacted: str | None = None
    finished: bool = False
    field: str | None = None


class ResponseAccumulator:
    """Accumulates deltas; ``response`` returns the reply so far at any time. The time of the call begins here, as
    *timer* counts it."""

    def __init__(self, ids: Callable[[], str] = new_call_id, *, timer: Callable[[], float] = time.perf_counter) -> None:
        self._ids, self._timer = ids, timer
        self._began = timer()
        self._first_token: float | None = None
        self._parts: list[list[str] | _PartialThinking | OpaqueBlock | _PartialCall] = []
        self._calls: dict[int, _PartialCall] = {}
        self._usage = Usage()
        self._citations: list[AnswerCitation] = []
        self._kept: StoredReply | None = None
        self._model = ""
        self.stop: StopReason | None = None

    def add(self, delta: Delta) -> None:
        """Take one delta."""
        if self._first_token is None and isinstance(delta, (TextPiece, ThinkingPiece, ToolCallPiece)):
            self._first_token = self._timer() - self._began
        if isinstance(delta, TextPiece):
            if self._parts and isinstance(text := self._parts[-1], list):
                text.append(delta.text)
            elif delta.text:
                self._parts.append([delta.text])
        elif isinstance(delta, ThinkingPiece):
            self._add_thought(delta)
        elif isinstance(delta, OpaquePiece):
            self._parts.append(OpaqueBlock(format=delta.format, data=dict(delta.data)))
        elif isinstance(delta, ToolCallPiece):
            self._add_call(delta)
        elif isinstance(delta, UsagePiece):
            self._usage = delta.usage
        elif isinstance(delta, CitationPiece):
            self._citations.append(delta.citation)
        elif isinstance(delta, ModelPiece):
            self._model = delta.model
        elif isinstance(delta, StoredReply):
            self._kept = delta
        elif isinstance(delta, TextWasThinking):
            texts = (["".join(part).strip()] if isinstance(part, list) else None for part in self._parts)
            self._parts = [
                part if text is None else _PartialThinking(text) for part, text in zip(self._parts, texts, strict=True)
            ]
        elif isinstance(delta, StopPiece):
            self.stop = delta.reason

    def response(self) -> Response:
        """Return the reply as far as it has come."""
        taken: set[str] = set()
        blocks = tuple(block for part in self._parts if (block := self._block(part, taken)) is not None)
        message = Message.assistant(blocks)
        if self._model:
            message = message.model_copy(update={"metadata": {MODEL: self._model}})
        return Response(
            message=message,
            stop=self.stop or StopReason.STOP,
            usage=self._usage,
            citations=tuple(self._citations),
            kept=self._kept,
            elapsed=self._timer() - self._began,
            first_token=self._first_token,
            model=self._model,
        )

    def _add_thought(self, piece: ThinkingPiece) -> None:
        last = self._parts[-1] if self._parts else None
        goes_on = isinstance(last, _PartialThinking) and not last.finished and last.field == piece.field
        if piece.redacted is not None or not isinstance(last, _PartialThinking) or not goes_on:
            last = _PartialThinking([], field=piece.field)
            self._parts.append(last)
        last.text.append(piece.text)
        last.signature, last.redacted = piece.signature, piece.redacted
        last.finished = piece.signature is not None or piece.redacted is not None

    def _add_call(self, piece: ToolCallPiece) -> None:
        if piece.index not in self._calls:
            self._calls[piece.index] = _PartialCall("", "", [])
            self._parts.append(self._calls[piece.index])
        call = self._calls[piece.index]
        call.id = call.id or piece.id
        call.name = call.name or piece.name
        call.arguments.append(piece.arguments)
        call.opaque |= piece.opaque or {}

    def _block(self, part: list[str] | _PartialThinking | OpaqueBlock | _PartialCall, taken: set[str]) -> Block | None:
        if isinstance(part, OpaqueBlock):
            return part
        if isinstance(part, list):
            return TextBlock(text=_without_surrogates("".join(part)))
        if isinstance(part, _PartialThinking):
            text = _without_surrogates("".join(part.text))
            return ThinkingBlock(text=text, signature=part.signature, redacted=part.redacted, field=part.field)
        if not part.id or part.id in taken:
            part.id = self._ids()  # some servers give none, or the same one twice
        taken.add(part.id)
        call = parse_tool_call(part.id, part.name, "".join(part.arguments))
        return ToolCallBlock(**{**dict(call), "opaque": part.opaque}) if part.opaque else call


def parse_tool_call(id: str, name: str, arguments: str) -> ToolCallBlock:
    """Return a call; *arguments* that are not a JSON object of whole text are kept as they are, in ``invalid``."""
    id, name = _without_surrogates(id), _without_surrogates(name)
    try:
        parsed: Any = json.loads(arguments, parse_constant=_reject_constant) if arguments.strip() else {}
        json.dumps(parsed, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict):
        return ToolCallBlock(id=id, name=name, arguments=parsed)
    return ToolCallBlock(id=id, name=name, invalid=_without_surrogates(arguments))


@asynccontextmanager
async def closing_stream(deltas: AsyncIterator[Delta]) -> AsyncIterator[AsyncIterator[Delta]]:
    """Close the stream of a reply when the block is left."""
    try:
        yield deltas
    finally:
        close = getattr(deltas, "aclose", None)
        if close is not None:
            await close()


def open_stream(provider: Provider, request: Request) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
    """Open the stream of a reply, and close it when the block is left."""
    return closing_stream(provider.stream(request))


async def limited_stream(deltas: AsyncIterator[Delta], most: int) -> AsyncGenerator[Delta, None]:
    """Yield *deltas* until they have more than *most* characters of text, reasoning and arguments: then the reply ends,
    whatever the model goes on to say."""
    room = most
    async with closing_stream(deltas):
        async for delta in deltas:
            shortened: Delta
            if isinstance(delta, ToolCallPiece):
                length, shortened = len(delta.arguments), replace(delta, arguments=delta.arguments[:room])
            elif isinstance(delta, (TextPiece, ThinkingPiece)):
                length, shortened = len(delta.text), replace(delta, text=delta.text[:room])
            else:
                yield delta
                continue
            if length > room:
                yield shortened
                yield StopPiece(StopReason.TOO_LONG)
                return
            room -= length
            yield delta


async def collect_response(
    provider: Provider, request: Request, accumulator: ResponseAccumulator | None = None
) -> Response:
    """Return the whole reply to *request*; where it fails, *accumulator* has the part that arrived."""
    accumulator = ResponseAccumulator() if accumulator is None else accumulator
    deltas = limited_stream(provider.stream(request), request.settings.max_characters)
    async with closing_stream(deltas):
        async for delta in deltas:
            accumulator.add(delta)
    if accumulator.stop is None:
        raise ProviderError("the reply broke off", provider=type(provider).__name__)
    return accumulator.response()


def _without_surrogates(text: str) -> str:
    """Return *text* without lone surrogates, which no file and no other server would take."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _reject_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
