"""Limit of failing calls of the memory server."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from tellback.agent.errors import ToolFailed


class FailureLimit:
    """Limit of failing calls: after *most* of them within *seconds*, further calls are refused for a while."""

    def __init__(self, most: int = 30, seconds: float = 60.0, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._times: deque[float] = deque()

    def check(self) -> None:
        """Raise ``ToolFailed`` where too many recent calls failed."""
        now = self._clock()
        while self._times and self._times[0] <= now - self._seconds:
            self._times.popleft()
        if len(self._times) >= self._most:
            wait = max(1, round(self._times[0] + self._seconds - now))
            raise ToolFailed(f"{self._most} calls failed within {self._seconds:.0f} seconds; wait {wait} s, then go on")

    def record(self) -> None:
        """Record that a call failed."""
        self._times.append(self._clock())
