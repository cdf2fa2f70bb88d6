"""Circuit breaker: a tool that fails again and again is not called for a while; then one call probes it."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from agent.errors import ArgumentError, CircuitOpen, RateLimited, StopRun, ToolFailed, check_count
from agent.middleware.base import ToolHandler, ToolInvocation
from agent.tools.base import ToolOutput


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
        """Call the tool; an open circuit raises ``CircuitOpen``."""
        circuit, generation = self._admit(invocation.call.name)
        try:
            output = await proceed(invocation)
        except (Exception, asyncio.CancelledError) as error:
            await self._record(invocation, circuit, generation, failed=_is_failure(error, invocation))
            raise
        await self._record(invocation, circuit, generation, failed=False)
        return output

    def is_open(self, name: str) -> bool:
        """Whether the circuit of the tool *name* is open."""
        circuit = self._circuits.get(name)
        return circuit is not None and circuit.opened_at is not None

    def _admit(self, name: str) -> tuple[_Circuit, int]:
        with self._lock:
            circuit = self._circuits.setdefault(name, _Circuit())
            if circuit.opened_at is None:
                return circuit, circuit.generation
            left = circuit.opened_at + self._reset_timeout - self._timer()
            if circuit.half_open or left > 0:
                left = max(left, 0.0)
                text = f"{name} failed {circuit.failures} times in a row and rests for {left:.0f} s; go on without it"
                raise CircuitOpen(text, retry_after=left)
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
            context = invocation.context
            await context.scope.hooks.dispatch("circuit_opened", invocation.call.name, step=context.step)


def _is_failure(error: BaseException, invocation: ToolInvocation) -> bool | None:
    """Return whether *error* is a failure of the tool; None if it says nothing about the tool."""
    if isinstance(error, asyncio.CancelledError):
        return True if invocation.given_up() else None
    if isinstance(error, (RateLimited, StopRun)):
        return None
    return error.transient if isinstance(error, ToolFailed) else True
