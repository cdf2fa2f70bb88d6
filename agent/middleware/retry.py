"""A call of a tool that failed in passing, made again: only where the tool says that repeating does no harm."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from agent.backoff import Backoff
from agent.errors import StopRun, ToolFailed
from agent.middleware.protocol import Invocation, Proceed
from agent.tools.protocol import ToolOutput


class Retry:
    """Calls an idempotent tool up to *attempts* times in all.

    *passes* decides what is tried again; without it, a ``ToolFailed`` that says it is transient and every error
    that is not one of ours. The wait is what the error asks for, but at most *longest* seconds, or *first* seconds
    doubling to *longest*; then up to a quarter is taken off at random. The last real error is raised, also when
    waiting would pass the call's deadline; cancelled while waiting, it is the cancellation's context.
    """

    def __init__(
        self,
        attempts: int = 3,
        *,
        first: float = 0.2,
        longest: float = 10.0,
        passes: Callable[[Exception], bool] | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._backoff = Backoff(attempts, first, longest, rng)
        self._passes, self._sleep = passes or _passes, sleep

    async def __call__(self, invocation: Invocation, proceed: Proceed) -> ToolOutput:
        """As the protocol says."""
        attempt = 1
        while True:
            try:
                return await proceed(invocation)
            except StopRun:
                raise
            except Exception as error:  # a stranger's code may raise anything; *passes* knows what passes
                if attempt >= self._backoff.attempts or not invocation.facets.idempotent or not self._passes(error):
                    raise
                wait = self._delay(attempt, getattr(error, "retry_after", None))
                deadline = invocation.context.deadline
                if deadline is not None and asyncio.get_running_loop().time() + wait >= deadline:
                    raise
                await self._sleep(wait)
                attempt += 1

    def _delay(self, attempt: int, named: object) -> float:
        if isinstance(named, (int, float)) and named > 0:
            return min(float(named), self._backoff.longest)
        return self._backoff.wait(attempt)


def _passes(error: Exception) -> bool:
    return error.transient if isinstance(error, ToolFailed) else True
