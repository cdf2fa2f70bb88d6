"""One call of a model: middleware, the run's deadline, deltas as events, tokens counted.

What follows from the reply is decided in ``loop``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Any

from agent.errors import ContextOverflow, ProviderError, RequestRefused, StopRun
from agent.events import Event, RoundEnded, RoundStarted, TextDelta, ThinkingDelta
from agent.middleware.base import ModelMiddleware, wrap_model_handler
from agent.providers.accumulator import Response, ResponseAccumulator
from agent.providers.base import Delta, Provider, Request, TextPiece, ThinkingPiece
from agent.results import Ending
from agent.tools.base import ToolContext
from memory import ThinkingBlock


class LoopExit(Exception):
    """Not an error: it carries an ending up to the loop that reports it."""

    def __init__(self, ending: Ending, problem: str = "", cause: Exception | None = None) -> None:
        self.ending = ending
        self.problem = problem
        self.cause = cause
        super().__init__(problem)


class RequestTooLong(Exception):
    """Not an error yet: the request is longer than the model's window, and may be shortened."""

    def __init__(self, cause: ContextOverflow) -> None:
        self.cause = cause
        super().__init__(str(cause))


class ModelCaller:
    """Calls *provider*, with *middleware* around each call. One caller serves any number of runs."""

    def __init__(self, provider: Provider, middleware: Sequence[ModelMiddleware], ids: Callable[[], str]) -> None:
        self._provider, self._middleware, self._ids = provider, tuple(middleware), ids

    async def call(
        self, request: Request, context: ToolContext, stamp: Callable[[], dict[str, Any]], replies: list[Response]
    ) -> AsyncGenerator[Event, None]:
        """Call the model once; the reply, or what there was of it, is appended to *replies*."""
        scope, accumulator = context.scope, ResponseAccumulator(self._ids)
        scope.ledger.call()
        yield RoundStarted(**stamp())
        await scope.hooks.dispatch("model_called", request, step=context.step)
        stream = wrap_model_handler(self._middleware, context, self._provider.stream)
        deltas: AsyncIterator[Delta] | None = None
        try:
            with_deadline = context.deadline is not None
            deltas = stream(request)
            step = deltas.__anext__
            while True:
                try:
                    delta = await (self._before_deadline(step, context.deadline) if with_deadline else step())
                except StopAsyncIteration:
                    break
                except Exception as error:  # a provider may be a stranger's; any error ends the run
                    raise _exit_for_error(error, accumulator) from error
                accumulator.add(delta)
                if isinstance(delta, TextPiece):
                    yield TextDelta(delta.text, **stamp())
                elif isinstance(delta, ThinkingPiece) and delta.text:
                    yield ThinkingDelta(delta.text, **stamp())
            if accumulator.stop is None:
                raise LoopExit(Ending.PROVIDER_ERROR, "the reply broke off", ProviderError("the reply broke off"))
        finally:
            response = accumulator.response()
            replies.append(response)
            scope.ledger.spend(response.usage)
            close = getattr(deltas, "aclose", None)
            if close is not None:
                await close()
        for block in response.message.blocks:
            if isinstance(block, ThinkingBlock):
                await scope.hooks.dispatch("thinking", block, step=context.step)
        await scope.hooks.dispatch("model_answered", response, step=context.step)
        yield RoundEnded(response.usage, **stamp())

    async def _before_deadline(self, step: Callable[[], Any], deadline: float | None) -> Delta:
        try:
            async with asyncio.timeout_at(deadline) as scope:
                delta: Delta = await step()
                return delta
        except TimeoutError:
            if not scope.expired():
                raise
            raise LoopExit(Ending.DEADLINE, "the deadline passed while the model was answering") from None


def _exit_for_error(error: Exception, accumulator: ResponseAccumulator) -> Exception:
    if isinstance(error, LoopExit):
        return error
    if isinstance(error, ContextOverflow):
        if not accumulator.response().message.blocks:
            return RequestTooLong(error)
        return LoopExit(Ending.CONTEXT_OVERFLOW, f"the model's window is full: {error}", error)
    if isinstance(error, RequestRefused):
        return LoopExit(Ending.REFUSAL, str(error), error)
    if isinstance(error, StopRun):
        return LoopExit(Ending.STOPPED, f"middleware ended the run: {error}", error)
    return LoopExit(Ending.PROVIDER_ERROR, f"the model's endpoint failed: {error}", error)
