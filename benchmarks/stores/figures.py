"""Looking up measurements, and ratios of two of them with their spread over the rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.stores import measures as m
from benchmarks.stores.contenders import PEERS
from benchmarks.stores.results import Measurement


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ratio of the upper to the lower: of the medians, and lowest and highest over the rounds."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{short(self.value)} × ({short(self.low)} to {short(self.high)})"


class Figures:
    """The measurements of one results file; a figure measured twice is taken from the later line."""

    def __init__(self, measurements: Iterable[Measurement]) -> None:
        self.all = list(measurements)
        self._by = {(item.store, item.measure, item.data, item.n): item for item in self.all}

    def get(self, store: str, measure: str, data: str, n: int) -> Measurement | None:
        """Return the measurement, None where there is none."""
        return self._by.get((store, measure, data, n))

    def best_peer(self, measure: str, data: str, n: int, peers: Sequence[str] = PEERS) -> Measurement | None:
        """Return the best of *peers* (the persistent ones) in that line."""
        items = [item for key in peers if (item := self.get(key, measure, data, n)) is not None]
        if not items:
            return None
        return (max if m.is_rate(measure) else min)(items, key=lambda item: item.p50)

    def sizes(self) -> list[tuple[str, int]]:
        """Return what was raced: (data, n), made-up rows first, small ones first."""
        return sorted(
            {(item.data, item.n) for item in self.all if item.measure == "search" and "guard" not in item.store}
        )


def ratio(upper: Measurement, lower: Measurement) -> Ratio:
    """Return upper / lower. Rounds measured side by side are paired; else the spread is of extremes."""
    value = upper.p50 / lower.p50
    if len(upper.rounds) == len(lower.rounds) > 1:
        each: Sequence[float] = [up / low for up, low in zip(upper.rounds, lower.rounds, strict=True)]
        return Ratio(value, min(each), max(each))
    return Ratio(value, min(upper.rounds) / max(lower.rounds), max(upper.rounds) / min(lower.rounds))


def short(value: float) -> str:
    """Return a number in about three figures, as people write it."""
    if value >= 1_000:
        return f"{value:,.0f}"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"
