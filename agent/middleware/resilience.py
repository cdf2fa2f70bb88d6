"""Resilience of tool calls: timeout, rate limit and retry.

A call that runs in a thread cannot be stopped at its timeout; it is not waited for. A call whose turn would come too
late fails at once. Only idempotent tools are called again.
"""

from __future__ import annotations

import asyncio
import math
import random
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace

from agent.errors import ArgumentError, RateLimited, StopRun, ToolFailed, ToolTimedOut, check_count, check_seconds
from agent.middleware.base import ToolHandler, ToolInvocation
from agent.providers.retrying import Backoff
from agent.tools.base import ToolOutput


class ToolTimeout:
    """Cancels a call after the tool's own limit, or else after *seconds* (None: never)."""

    def __init__(self, seconds: float | None = None) -> None:
        check_seconds("tool_timeout", seconds)
        self._seconds = seconds

    async def __call__(self, invocation: ToolInvocation, proceed: ToolHandler) -> ToolOutput:
        """Call the tool within its limit; inside, the context's deadline is no later than the call's own."""
        limit = invocation.tool.timeout if invocation.tool.timeout is not None else self._seconds
        if limit is None:
            return await proceed(invocation)
        try:
            async with asyncio.timeout(limit) as timeout:
                end = timeout.when()
                assert end is not None
                deadline = invocation.context.deadline
                context = replace(invocation.context, deadline=end if deadline is None else min(end, deadline))
                return await proceed(replace(invocation, context=context, given_up=timeout.expired))
        except TimeoutError as error:
            if not timeout.expired():
                raise
            raise ToolTimedOut(f"no answer within {limit:g} s; it was given up", transient=True) from error


class RateLimit:
    """Lets *per_second* calls through on average and *burst* at once: of each tool, or with *shared* of all together.

    Others wait their turn, in the order in which they came. Where the turn would come after the call's deadline,
    ``RateLimited`` is raised at once; that is no failure of the tool.
    """

    def __init__(
        self, per_second: float, *, burst: int = 1, shared: bool = False, timer: Callable[[], float] | None = None
    ) -> None:
        if not (math.isfinite(per_second) and per_second > 0):
            raise ArgumentError("per_second", per_second, "a number of calls above 0 is needed")
        check_count("burst", burst)
        self._gap, self._burst, self._shared, self._timer = 1 / per_second, burst, shared, timer
        self._full_at: dict[str, float] = {}
        self._last: dict[tuple[str, asyncio.AbstractEventLoop], asyncio.Future[None]] = {}
        self._lock = threading.Lock()

    async def __call__(self, invocation: ToolInvocation, proceed: ToolHandler) -> ToolOutput:
        """Call the tool once its turn has come."""
        name = "" if self._shared else invocation.call.name
        wait = self._take_turn(name, invocation.context.deadline)
        loop = asyncio.get_running_loop()
        previous, gone = self._last.get((name, loop)), loop.create_future()
        self._last[name, loop] = gone
        try:
            if wait > 0:
                await asyncio.sleep(wait)
            if previous is not None and not previous.done():
                await asyncio.wait([previous])  # its turn has come, too, but a busy loop has not woken it yet
        finally:
            gone.set_result(None)
            if self._last[name, loop] is gone:
                del self._last[name, loop]
        return await proceed(invocation)

    def _take_turn(self, name: str, deadline: float | None) -> float:
        """Take the next turn and return the seconds until it comes.

        One time per bucket suffices: when it would be full again if nobody called (the virtual scheduling form
        of the leaky bucket, ITU-T I.371).
        """
        now = (self._timer or asyncio.get_running_loop().time)()
        with self._lock:
            full_at = max(self._full_at.get(name, now), now)
            wait = max(full_at - now - self._gap * (self._burst - 1), 0.0)
            if deadline is not None and now + wait >= deadline:
                text = f"too many calls: the next turn is {wait:.1f} s away, later than this call may take"
                raise RateLimited(text, retry_after=wait)
            self._full_at[name] = full_at + self._gap
        return wait


class Retry:
    """Calls an idempotent tool up to *attempts* times in all.

    *passes* decides which errors are tried again; without it, a ``ToolFailed`` that says it is transient and every
    error of another kind. The wait is what the error asks for, but at most *longest* seconds, or *first* seconds
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
        self._passes, self._sleep = passes or _is_retryable, sleep

    async def __call__(self, invocation: ToolInvocation, proceed: ToolHandler) -> ToolOutput:
        """Call the tool, and again where that may help."""
        attempt = 1
        while True:
            try:
                return await proceed(invocation)
            except StopRun:
                raise
            except Exception as error:  # a stranger's code may raise anything; *passes* decides
                repeatable = attempt < self._backoff.attempts and invocation.annotations.idempotent
                if not (repeatable and self._passes(error)):
                    raise
                retry_after = getattr(error, "retry_after", None)
                if isinstance(retry_after, (int, float)) and retry_after > 0:
                    wait = min(float(retry_after), self._backoff.longest)
                else:
                    wait = self._backoff.wait(attempt)
                deadline = invocation.context.deadline
                if deadline is not None and asyncio.get_running_loop().time() + wait >= deadline:
                    raise
                await self._sleep(wait)
                attempt += 1


def _is_retryable(error: Exception) -> bool:
    return error.transient if isinstance(error, ToolFailed) else True
