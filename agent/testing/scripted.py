"""Scripted provider: replies that a test wrote, errors for requests that it did not foresee, and the items shown.

with ScriptedProvider(Reply(calls=(call("add", a=1, b=2),)), Reply("3", expect="3")) as provider:
    assert (await Agent(provider, tools=[add]).run("1 + 2?")).text == "3"
shown = shown_items(provider.requests[0])
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tellback.agent.context.rendering import RenderedItem, parse_items
from tellback.agent.errors import choice
from tellback.agent.providers.base import Delta, Request, StopPiece, TextPiece, ThinkingPiece, ToolCallPiece, UsagePiece
from tellback.agent.results import StopReason, Usage
from tellback.memory import ToolCallBlock


@dataclass(frozen=True, slots=True)
class Reply:
    """Scripted reply of a model, on any wire format.

    *text* comes in pieces of *piece* characters; *redacted* are whole blocks of withheld reasoning. *stop* follows
    from the calls unless given. *error* is raised after all else, in place of the end. *expect* is a text that the
    request's last message must hold, or a test of the request. *mentions* are texts and numbers that it must hold
    anywhere: in its messages, its tools or its settings; on a server, in its body. *before* is awaited before the
    first piece.
    """

    text: str = ""
    calls: tuple[ToolCallBlock, ...] = ()
    thinking: str = ""
    signature: str | None = None
    redacted: tuple[str, ...] = ()
    stop: StopReason | None = None
    usage: Usage = field(default_factory=lambda: Usage(input=10, output=5))
    error: Exception | None = None
    expect: str | Callable[[Request], bool] | None = None
    mentions: tuple[str | float, ...] = ()
    before: Callable[[], Awaitable[object]] | None = None
    piece: int = 4

    def __post_init__(self) -> None:
        if self.stop is not None:
            object.__setattr__(self, "stop", choice(StopReason, self.stop, "stop"))

    @property
    def reason(self) -> StopReason:
        """Reason why it stops."""
        return self.stop or (StopReason.TOOL_CALLS if self.calls else StopReason.STOP)

    @property
    def pieces(self) -> list[str]:
        """The text as it is streamed."""
        return text_pieces(self.text, self.piece)


_call_numbers = itertools.count(1)


def call(name: str, /, **arguments: Any) -> ToolCallBlock:
    """Return a call of the tool *name*, with an id of its own."""
    return ToolCallBlock(id=f"call-{next(_call_numbers)}", name=name, arguments=arguments)


def text_pieces(text: str, size: int) -> list[str]:
    """Return *text* cut into pieces of *size* characters."""
    return [text[start : start + size] for start in range(0, len(text), size)]


class ScriptedProvider:
    """Gives *replies* in order. A request too many, or one that a reply did not expect, raises ``AssertionError``;
    so does leaving the ``with`` block with replies that nobody asked for. ``requests`` are those that came.
    """

    def __init__(self, *replies: Reply) -> None:
        self._replies = replies
        self._unexpected: AssertionError | None = None
        self.requests: list[Request] = []

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Stream the next reply."""
        self.requests.append(request)
        reply = self._reply(request)
        if reply.before is not None:
            await reply.before()
        if reply.thinking or reply.signature:
            for piece in text_pieces(reply.thinking, reply.piece):
                yield ThinkingPiece(piece)
            yield ThinkingPiece(signature=reply.signature)
        for data in reply.redacted:
            yield ThinkingPiece(redacted=data)
        for piece in reply.pieces:
            yield TextPiece(piece)
        for index, tool_call in enumerate(reply.calls):
            yield ToolCallPiece(index, tool_call.id, tool_call.name)
            for piece in text_pieces(arguments_text(tool_call), max(reply.piece, 1) * 4):
                yield ToolCallPiece(index, arguments=piece)
        yield UsagePiece(reply.usage)
        if reply.error is not None:
            raise reply.error
        yield StopPiece(reply.reason)

    def check(self) -> None:
        """Raise if a request came that was not expected, or a reply was never asked for."""
        if self._unexpected is not None:
            raise self._unexpected
        unused = len(self._replies) - len(self.requests)
        if unused > 0:
            raise AssertionError(f"{unused} of {len(self._replies)} replies were never asked for")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._unexpected is not None or error is None:
            self.check()

    def _reply(self, request: Request) -> Reply:
        index = len(self.requests) - 1
        if index >= len(self._replies):
            raise self._wrong(f"request {index + 1}, but only {len(self._replies)} replies are scripted")
        reply = self._replies[index]
        if isinstance(reply.expect, str):
            last = request.messages[-1]
            shown = "\n".join([last.text, *(result.text for result in last.tool_results)])
            if reply.expect not in shown:
                raise self._wrong(f"request {index + 1}: {reply.expect!r} is not in its last message {shown!r}")
        elif reply.expect is not None and not reply.expect(request):
            raise self._wrong(f"request {index + 1} is not what the reply expects: {request!r}")
        if missing := [mention for mention in reply.mentions if str(mention) not in repr(request)]:
            raise self._wrong(f"request {index + 1} does not hold {missing}: {request!r}")
        return reply

    def _wrong(self, problem: str) -> AssertionError:
        self._unexpected = self._unexpected or AssertionError(problem)
        return self._unexpected


def arguments_text(block: ToolCallBlock) -> str:
    """Return a call's arguments as a model writes them."""
    return block.invalid if block.invalid is not None else json.dumps(block.arguments)


_MARK_IN_RULES = re.compile("In <memories ([0-9a-f]{8})> is what you remember")


def mark_in(request: Request) -> str:
    """Return the mark that the system prompt of *request* names; empty where it names none."""
    marks = _MARK_IN_RULES.findall(request.system)
    return str(marks[-1]) if marks else ""


def shown_items(request: Request) -> list[RenderedItem]:
    """Return the memories and passages that *request* shows as such, in their order.

    Items anywhere but in the words of the user's role would be a fault: they raise ``AssertionError``.
    """
    mark = mark_in(request)
    if not mark:
        return []
    shown: list[RenderedItem] = []
    for message in request.messages:
        texts = [message.text, *(result.text for result in message.tool_results)]
        if message.role == "user":
            shown += parse_items(texts[0], mark)
        elif any(mark in text for text in texts):
            raise AssertionError(f"the mark of recalled items stands in a message of the role {message.role}")
    return shown
