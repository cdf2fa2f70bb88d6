"""Usage of a run, sub-agents included, and its limits. Counts only; no model is asked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tellback.agent.errors import ArgumentError, check_count
from tellback.agent.results import Usage

_TOKENS_PER_PRICE = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a million tokens, in any currency. Reading from and writing to a cache cost as input unless
    they are given."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        for name in ("input", "output", "cache_read", "cache_write"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ArgumentError(name, value, "a price of at least 0 is needed")

    def cost(self, usage: Usage) -> float:
        """Return the cost of *usage*."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        plain = max(usage.input - usage.cache_read - usage.cache_write, 0)
        parts = (plain * self.input, usage.cache_read * read, usage.cache_write * write, usage.output * self.output)
        return sum(parts) / _TOKENS_PER_PRICE


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of one run with its sub-agents: *calls* of models, *tokens* in and out, *cost* by the agent's prices.

    They are checked before each call of a model: the call that passes a limit is the last.
    """

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None

    def __post_init__(self) -> None:
        for name in ("calls", "tokens"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), expected="at least 1 is needed, or None")
        if self.cost is not None and not (math.isfinite(self.cost) and self.cost > 0):
            raise ArgumentError("cost", self.cost, "a cost above 0 is needed, or None")


@dataclass(slots=True, eq=False)
class UsageLedger:
    """Counts the *calls*, tokens (*usage*) and cost of one run, in *parent*, too."""

    limits: RunLimits = RunLimits()
    prices: Prices | None = None
    parent: UsageLedger | None = None
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    _cost: float = 0.0

    @property
    def cost(self) -> float | None:
        """Cost so far, in the currency of the prices; None where there are none."""
        return None if self.prices is None else self._cost

    def call(self) -> None:
        """Count a call of a model that is about to be made."""
        self.calls += 1
        if self.parent is not None:
            self.parent.call()

    def spend(self, usage: Usage, *, cost: float | None = None) -> None:
        """Count *usage*; a sub-agent's *cost* goes by its own prices."""
        if cost is None and self.prices is not None:
            cost = self.prices.cost(usage)
        self.usage += usage
        self._cost += cost or 0.0
        if self.parent is not None:
            self.parent.spend(usage, cost=cost)

    def passed(self, *, keeping: int = 0) -> str:
        """Return in words which limit leaves no room for another call, here or above; empty where none does.

        *keeping* is the number of calls to leave for more important ones.
        """
        limits = self.limits
        if limits.calls is not None and self.calls + keeping >= limits.calls:
            state = "was reached" if self.calls >= limits.calls else "has none to spare"
            return f"the limit of {limits.calls} calls of models {state}"
        if limits.tokens is not None and self.usage.total >= limits.tokens:
            return f"the limit of {limits.tokens} tokens was reached ({self.usage.total} used)"
        if limits.cost is not None and self._cost >= limits.cost:
            return f"the limit of cost, {limits.cost:g}, was reached ({self._cost:g} spent)"
        return self.parent.passed(keeping=keeping) if self.parent is not None else ""
