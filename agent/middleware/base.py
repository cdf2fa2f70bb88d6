"""Protocol of middleware: a callable around a call of a tool or of a model, which is given the next handler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from agent.providers.base import Delta, Request
from agent.tools.base import Facets, Tool, ToolContext, ToolOutput, facets_of
from memory import ToolCallBlock


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call of a tool on its way through the chain. *given_up* says whether its time is over, which tells a
    timeout from another cancellation."""

    tool: Tool
    call: ToolCallBlock
    context: ToolContext
    given_up: Callable[[], bool] = _never

    @property
    def facets(self) -> Facets:
        """What the tool says of itself."""
        return facets_of(self.tool)


Proceed: TypeAlias = Callable[[Invocation], Awaitable[ToolOutput]]


class ToolMiddleware(Protocol):
    """Around a call of a tool: it may change the call, answer itself, raise ``ToolFailed`` or ``StopRun``, call
    *proceed* several times or not at all. One instance serves all calls; calls run at the same time."""

    async def __call__(self, invocation: Invocation, proceed: Proceed) -> ToolOutput:
        """Return what the model is to read."""
        ...


Stream: TypeAlias = Callable[[Request], AsyncIterator[Delta]]


class ModelMiddleware(Protocol):
    """Around a call of a model: an async generator that may rewrite the request, answer itself by yielding deltas
    that end in a ``Stop``, raise ``Refused`` or ``StopRun``, or change what comes back."""

    def __call__(self, request: Request, context: ToolContext, proceed: Stream) -> AsyncIterator[Delta]:
        """Yield the reply."""
        ...


def around_tools(middleware: Sequence[ToolMiddleware], innermost: Proceed) -> Proceed:
    """Return *innermost* inside *middleware*; the first one is outermost."""
    proceed = innermost
    for one in reversed(middleware):
        proceed = _inside(one, proceed)
    return proceed


def _inside(middleware: ToolMiddleware, proceed: Proceed) -> Proceed:
    async def called(invocation: Invocation) -> ToolOutput:
        return await middleware(invocation, proceed)

    return called


def around_model(middleware: Sequence[ModelMiddleware], context: ToolContext, innermost: Stream) -> Stream:
    """Return *innermost* inside *middleware*; the first one is outermost."""
    stream = innermost
    for one in reversed(middleware):
        stream = _streamed(one, context, stream)
    return stream


def _streamed(middleware: ModelMiddleware, context: ToolContext, proceed: Stream) -> Stream:
    def called(request: Request) -> AsyncIterator[Delta]:
        return middleware(request, context, proceed)

    return called
