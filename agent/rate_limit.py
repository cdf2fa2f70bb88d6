"""Rate limit: how many requests of each caller a minute are answered."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_MOST_CALLERS: Final = 10_000
"""Callers whose requests are counted; the one that asked longest ago is forgotten, and begins anew."""


class RateLimit:
    """Token buckets by caller: a minute's requests may come at once, and then as many as *clock* gives room for."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str, per_minute: int) -> float:
        """Return 0, and count a request of *caller*; where it comes too soon, the seconds until one is allowed."""
        now, rate = self._clock(), per_minute / 60
        left, since = self._buckets.pop(caller, (float(per_minute), now))
        left = min(float(per_minute), left + (now - since) * rate)
        allowed = left >= 1
        self._buckets[caller] = (left - 1 if allowed else left, now)
        while len(self._buckets) > _MOST_CALLERS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) / rate
