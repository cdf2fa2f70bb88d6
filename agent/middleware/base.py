"""Protocol of middleware: a callable around a call of a tool or of a model, which is given the next handler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from agent.providers.base import Delta, Request
from agent.tools.base import Tool, ToolAnnotations, ToolContext, ToolOutput, annotations_of
from memory import ToolCallBlock


@dataclass(frozen=True, slots=True)
class ToolInvocation:
    """Call of a tool on its way through the chain. *given_up* returns whether its time is over: a cancellation is a
    timeout then."""

    tool: Tool
    call: ToolCallBlock
    context: ToolContext
    given_up: Callable[[], bool] = bool

    @property
    def annotations(self) -> ToolAnnotations:
        """Annotations of the tool."""
        return annotations_of(self.tool)


ToolHandler: TypeAlias = Callable[[ToolInvocation], Awaitable[ToolOutput]]


class ToolMiddleware(Protocol):
    """Middleware around a call of a tool.

    It may change the call, answer itself, raise ``ToolFailed`` or ``StopRun``, call *proceed* several times or not at
    all. One instance serves all calls; calls run at the same time.
    """

    async def __call__(self, invocation: ToolInvocation, proceed: ToolHandler) -> ToolOutput:
        """Return the output for the model."""
        ...


ModelHandler: TypeAlias = Callable[[Request], AsyncIterator[Delta]]


class ModelMiddleware(Protocol):
    """Middleware around a call of a model, an async generator.

    It may rewrite the request, answer itself by yielding deltas that end in a ``StopPiece``, raise ``RequestRefused``
    or ``StopRun``, or change the reply.
    """

    def __call__(self, request: Request, context: ToolContext, proceed: ModelHandler) -> AsyncIterator[Delta]:
        """Yield the reply."""
        ...


def wrap_tool_handler(middleware: Sequence[ToolMiddleware], innermost: ToolHandler) -> ToolHandler:
    """Return *innermost* inside *middleware*; the first one is outermost."""
    if not middleware:
        return innermost
    outer, proceed = middleware[0], wrap_tool_handler(middleware[1:], innermost)
    return lambda invocation: outer(invocation, proceed)


def wrap_model_handler(
    middleware: Sequence[ModelMiddleware], context: ToolContext, innermost: ModelHandler
) -> ModelHandler:
    """Return *innermost* inside *middleware*; the first one is outermost."""
    if not middleware:
        return innermost
    outer, proceed = middleware[0], wrap_model_handler(middleware[1:], context, innermost)
    return lambda request: outer(request, context, proceed)
