"""Circuit breaker: a tool that fails again and again is not called for a while; then one call probes it."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from agent.errors import ArgumentError, CircuitOpen, RateLimited, StopRun, ToolFailed
from agent.middleware.base import ToolHandler, ToolInvocation
from agent.tools.base import ToolOutput


@dataclass(slots=True)
class _Circuit:
    """*since* is when it opened (None: closed); *probing* that one call is trying; *age* grows at each change, so
    that the outcome of a call that began before it says nothing."""

    failures: int = 0
    since: float | None = None
    probing: bool = False
    age: int = 0


class CircuitBreaker:
    """Opens after *failures* in a row of one tool and lets nothing through for *rest* seconds, then exactly one call.

    A call that ends well closes it. What counts as a failure: an error, a timeout, a ``ToolFailed`` that says it is
    transient. What does not: other ``ToolFailed`` (the tool works, the call was wrong), a rate limit, a
    cancellation, ``StopRun``. The state outlives runs: share one breaker between agents to share what is known.
    """

    def __init__(self, failures: int = 5, *, rest: float = 30.0, timer: Callable[[], float] = time.monotonic) -> None:
        if type(failures) is not int or failures < 1:
            raise ArgumentError("failures", failures, "at least 1 is needed")
        if not (math.isfinite(rest) and rest > 0):
            raise ArgumentError("rest", rest, "a number of seconds above 0 is needed")
        self._most, self._rest, self._timer = failures, rest, timer
        self._circuits: dict[str, _Circuit] = {}
        self._lock = threading.Lock()

    async def __call__(self, invocation: ToolInvocation, proceed: ToolHandler) -> ToolOutput:
        """As the protocol says; an open circuit raises ``CircuitOpen``."""
        name = invocation.call.name
        circuit, age = self._entered(name)
        try:
            output = await proceed(invocation)
        except asyncio.CancelledError:
            if invocation.given_up():
                await self._failed(invocation, circuit, age)
            else:
                self._undecided(circuit, age)
            raise
        except (RateLimited, StopRun):
            self._undecided(circuit, age)
            raise
        except ToolFailed as error:
            if error.transient:
                await self._failed(invocation, circuit, age)
            else:
                self._worked(circuit, age)
            raise
        except Exception:
            await self._failed(invocation, circuit, age)
            raise
        self._worked(circuit, age)
        return output

    def is_open(self, name: str) -> bool:
        """Whether the tool *name* is being left alone."""
        circuit = self._circuits.get(name)
        return circuit is not None and circuit.since is not None

    def _entered(self, name: str) -> tuple[_Circuit, int]:
        with self._lock:
            circuit = self._circuits.setdefault(name, _Circuit())
            if circuit.since is None:
                return circuit, circuit.age
            left = circuit.since + self._rest - self._timer()
            if circuit.probing or left > 0:
                left = max(left, 0.0)
                text = f"{name} failed {circuit.failures} times in a row and rests for {left:.0f} s; go on without it"
                raise CircuitOpen(text, retry_after=left)
            circuit.probing = True
            circuit.age += 1
            return circuit, circuit.age

    def _worked(self, circuit: _Circuit, age: int) -> None:
        with self._lock:
            if circuit.age == age:
                circuit.failures, circuit.since, circuit.probing = 0, None, False

    def _undecided(self, circuit: _Circuit, age: int) -> None:
        """Leave it as it was; a probe that was not decided leaves its place to the next."""
        with self._lock:
            if circuit.age == age:
                circuit.probing = False

    async def _failed(self, invocation: ToolInvocation, circuit: _Circuit, age: int) -> None:
        with self._lock:
            if circuit.age != age:
                return
            circuit.failures += 1
            opens = circuit.probing or circuit.failures >= self._most
            if opens:
                circuit.since, circuit.probing, circuit.age = self._timer(), False, age + 1
        if opens:
            context = invocation.context
            await context.scope.hooks.dispatch("circuit_opened", invocation.call.name, step=context.step)
