"""Resilience of tool calls: timeout, rate limit, retry and circuit breaker.

A call that runs in a thread cannot be stopped at its timeout; the run goes on without it. A call whose turn would come
too late fails at once. Only idempotent tools are retried. A tool that fails repeatedly is not called for a while; then
one call probes it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from tellback.agent.errors import (
    ArgumentError,
    CircuitOpen,
    RateLimited,
    StopRun,
    ToolFailed,
    ToolTimedOut,
    check_count,
    check_seconds,
)
from tellback.agent.events import CircuitOpened, CircuitRejected
from tellback.agent.middleware.base import ToolHandler, ToolInvocation
from tellback.agent.providers.retrying import Backoff
from tellback.agent.tools.base import ToolOutput

_log = logging.getLogger(__name__)


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
                await asyncio.wait([previous])  # its turn is earlier, but a busy loop has not resumed it yet
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
                call, kind = invocation.call, type(error).__name__
                _log.info("tool %s (%s) failed: %s; it is called again in %.3f s", call.name, call.id, kind, wait)
                await self._sleep(wait)
                attempt += 1


def _is_retryable(error: Exception) -> bool:
    return error.transient if isinstance(error, ToolFailed) else True


@dataclass(slots=True)
class _Circuit:
    """Circuit of one tool: *opened_at* is None while it is closed, *half_open* while exactly one call is let through.

    *generation* grows at each change of state, so that the outcome of a call that began before it does not count.
    """

    failures: int = 0
    opened_at: float | None = None
    half_open: bool = False
    generation: int = 0


class CircuitBreaker:
    """Opens after *failures* in a row of one tool: no call passes for *reset_timeout* seconds, then exactly one does.

    A call that succeeds closes it. Failures are errors, timeouts and a ``ToolFailed`` that says it is transient.
    Other ``ToolFailed`` (the tool works, the call was wrong), rate limits, cancellations and ``StopRun`` are none.
    The state outlives runs: share one breaker between agents to share what is known.
    """

    def __init__(
        self, failures: int = 5, *, reset_timeout: float = 30.0, timer: Callable[[], float] = time.monotonic
    ) -> None:
        check_count("failures", failures)
        if not (math.isfinite(reset_timeout) and reset_timeout > 0):
            raise ArgumentError("reset_timeout", reset_timeout, "a number of seconds above 0 is needed")
        self._threshold, self._reset_timeout, self._timer = failures, reset_timeout, timer
        self._circuits: dict[str, _Circuit] = {}
        self._lock = threading.Lock()

    async def __call__(self, invocation: ToolInvocation, proceed: ToolHandler) -> ToolOutput:
        """Call the tool; an open circuit raises ``CircuitOpen``, and its hook and event tell of each rejection."""
        try:
            circuit, generation = self._admit(invocation.call.name)
        except CircuitOpen as rejection:
            await self._announce_rejection(invocation, rejection)
            raise
        try:
            output = await proceed(invocation)
        except (Exception, asyncio.CancelledError) as error:
            await self._record(invocation, circuit, generation, failed=_is_failure(error, invocation))
            raise
        await self._record(invocation, circuit, generation, failed=False)
        return output

    def is_open(self, name: str) -> bool:
        """Return whether the circuit of the tool *name* is open."""
        circuit = self._circuits.get(name)
        return circuit is not None and circuit.opened_at is not None

    def _admit(self, name: str) -> tuple[_Circuit, int]:
        with self._lock:
            circuit = self._circuits.setdefault(name, _Circuit())
            if circuit.opened_at is None:
                return circuit, circuit.generation
            left = circuit.opened_at + self._reset_timeout - self._timer()
            if circuit.half_open or left > 0:
                raise CircuitOpen(name, circuit.failures, max(left, 0.0))
            circuit.half_open = True
            circuit.generation += 1
            return circuit, circuit.generation

    async def _record(
        self, invocation: ToolInvocation, circuit: _Circuit, generation: int, *, failed: bool | None
    ) -> None:
        """Record whether a call *failed*; None leaves the state as it was, and another call may probe."""
        opens = False
        with self._lock:
            if circuit.generation != generation:
                return
            if failed:
                circuit.failures += 1
                opens = circuit.half_open or circuit.failures >= self._threshold
                if opens:
                    circuit.opened_at, circuit.generation = self._timer(), generation + 1
            elif failed is not None:
                circuit.failures, circuit.opened_at = 0, None
            circuit.half_open = False  # a probe that fails has opened the circuit again
        if opens:
            context, call = invocation.context, invocation.call
            _log.warning("the circuit of %s opened after %d failures", call.name, circuit.failures)
            context.scope.emit(CircuitOpened(call, circuit.failures, self._reset_timeout, **context.stamp()))
            await context.scope.hooks.dispatch("circuit_opened", call.name, step=context.step)

    async def _announce_rejection(self, invocation: ToolInvocation, rejection: CircuitOpen) -> None:
        context, call, left = invocation.context, invocation.call, rejection.retry_after or 0.0
        _log.info("%s (%s) was not called: its circuit is open for %.1f s more", call.name, call.id, left)
        event = CircuitRejected(call, rejection.failures, left, **context.stamp())
        context.scope.emit(event)
        await context.scope.hooks.dispatch("circuit_rejected", event, step=context.step)


def _is_failure(error: BaseException, invocation: ToolInvocation) -> bool | None:
    """Return whether *error* is a failure of the tool; None if it says nothing about the tool."""
    if isinstance(error, asyncio.CancelledError):
        return True if invocation.given_up() else None
    if isinstance(error, (RateLimited, StopRun)):
        return None
    return error.transient if isinstance(error, ToolFailed) else True
