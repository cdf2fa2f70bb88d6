"""Protocols of middleware: around a whole run, around a call of the model, around a call of a tool.

Around a call it is a callable that is given the next handler. Around a run, whose events are streamed meanwhile, it is
an object with a method before and one after.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from tellback.agent.providers.base import Delta, Request
from tellback.agent.results import RunResult
from tellback.agent.tools.base import Tool, ToolAnnotations, ToolContext, ToolOutput, annotations_of
from tellback.memory import Message, ToolCallBlock


class RunMiddleware:
    """Middleware around a whole run; a subclass overrides one method or both.

    The first one is outermost: it sees the prompt first and the answer last. Either method may raise
    ``RequestRefused``, whose words are the answer then; the run ends in a refusal. Any other error is the program's own
    and is raised as it is. One instance serves all runs; runs happen at the same time. *context* names the session,
    the agent and the namespace.
    """

    async def before(self, prompt: Message, context: ToolContext) -> Message:
        """Return the message of the user to answer: *prompt*, or another.

        Nothing has been read yet. After a refusal nothing is: memory is not asked, no model is, and nothing is kept.
        """
        return prompt

    async def after(self, result: RunResult[Any], context: ToolContext) -> str:
        """Return the words of the answer: ``result.text``, or others; only answers come here.

        Nothing of the turn is kept yet; these words are, and those of a refusal. What was streamed already is followed
        by ``TextWithdrawn`` and the other words. With a wanted type they must fit it.
        """
        return result.text


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


ModelHandler: TypeAlias = Callable[[Request], AsyncIterator[Delta]]


class ModelMiddleware(Protocol):
    """Middleware around a call of a model, an async generator.

    It may rewrite the request, answer itself by yielding deltas that end in a ``StopPiece``, raise ``RequestRefused``
    or ``StopRun``, or change the reply.
    """

    def __call__(self, request: Request, context: ToolContext, proceed: ModelHandler) -> AsyncIterator[Delta]:
        """Yield the reply."""


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
