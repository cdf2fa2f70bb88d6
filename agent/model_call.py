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
    """Not an error: it carries an ending up to where it is told."""

    def __init__(self, ending: Ending, problem: str = "", cause: Exception | None = None) -> None:
        self.ending = ending
        self.problem = problem
        self.cause = cause
        super().__init__(problem)


class RequestTooLong(Exception):
    """Not an error yet: nothing was said, since the request is longer than the model's window."""

    def __init__(self, cause: ContextOverflow) -> None:
        self.cause = cause
        super().__init__(str(cause))


class ModelCaller:
    """Asks *provider*, with *middleware* around each call. One serves any number of runs."""

    def __init__(self, provider: Provider, middleware: Sequence[ModelMiddleware], ids: Callable[[], str]) -> None:
        self._provider, self._middleware, self._ids = provider, tuple(middleware), ids

    async def ask(
        self, request: Request, context: ToolContext, stamp: Callable[[], dict[str, Any]], into: list[Response]
    ) -> AsyncGenerator[Event, None]:
        """Ask once and put the reply, or what there was of it, *into* the list."""
        scope, collector = context.scope, ResponseAccumulator(self._ids)
        scope.ledger.call()
        yield RoundStarted(**stamp())
        await scope.watch.tell("model_called", request, step=context.step)
        stream = wrap_model_handler(self._middleware, context, self._provider.stream)
        deltas: AsyncIterator[Delta] | None = None
        try:
            with_deadline = context.deadline is not None
            deltas = stream(request)
            step = deltas.__anext__
            while True:
                try:
                    delta = await (self._timely(step, context.deadline) if with_deadline else step())
                except StopAsyncIteration:
                    break
                except Exception as error:  # a provider may be a stranger's; whatever it raises ends the run, told
                    raise _exit_for_error(error, collector) from error
                collector.add(delta)
                if isinstance(delta, TextPiece):
                    yield TextDelta(delta.text, **stamp())
                elif isinstance(delta, ThinkingPiece) and delta.text:
                    yield ThinkingDelta(delta.text, **stamp())
            if collector.stop is None:
                raise LoopExit(Ending.PROVIDER_ERROR, "the reply broke off", ProviderError("the reply broke off"))
        finally:
            response = collector.response()
            into.append(response)
            scope.ledger.spend(response.usage)
            close = getattr(deltas, "aclose", None)
            if close is not None:
                await close()
        for block in response.message.blocks:
            if isinstance(block, ThinkingBlock):
                await scope.watch.tell("thinking", block, step=context.step)
        await scope.watch.tell("model_answered", response, step=context.step)
        yield RoundEnded(response.usage, **stamp())

    async def _timely(self, step: Callable[[], Any], deadline: float | None) -> Delta:
        try:
            async with asyncio.timeout_at(deadline) as scope:
                delta: Delta = await step()
                return delta
        except TimeoutError:
            if not scope.expired():
                raise
            raise LoopExit(Ending.DEADLINE, "the deadline passed while the model was answering") from None


def _exit_for_error(error: Exception, collector: ResponseAccumulator) -> Exception:
    if isinstance(error, LoopExit):
        return error
    if isinstance(error, ContextOverflow):
        if not collector.response().message.blocks:
            return RequestTooLong(error)
        return LoopExit(Ending.CONTEXT_OVERFLOW, f"the model's window is full: {error}", error)
    if isinstance(error, RequestRefused):
        return LoopExit(Ending.REFUSAL, str(error), error)
    if isinstance(error, StopRun):
        return LoopExit(Ending.STOPPED, f"middleware ended the run: {error}", error)
    return LoopExit(Ending.PROVIDER_ERROR, f"the model's endpoint failed: {error}", error)
