"""How long to wait before something is tried again: doubling up to a limit, then up to a quarter less at random."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from agent.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Backoff:
    """*attempts* in all, waits of *first* seconds doubling to *longest*; *rng* gives numbers in [0, 1)."""

    attempts: int
    first: float
    longest: float
    rng: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or self.attempts < 1:
            raise ArgumentError("attempts", self.attempts, "at least 1 is needed")
        for name in ("first", "longest"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ArgumentError(name, value, "a number of seconds of at least 0 is needed")

    def wait(self, attempt: int) -> float:
        """Return the seconds to wait after *attempt*, from 1."""
        return min(self.first * 2.0 ** min(attempt - 1, 30), self.longest) * (1 - self.rng() / 4)
