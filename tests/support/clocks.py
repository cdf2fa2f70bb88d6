"""Clocks for tests: one that moves by itself, and one that is set by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class TickingClock:
    """A clock that moves by *step* at each reading."""

    def __init__(self, now: datetime = BEGIN, step: timedelta = timedelta(seconds=1)) -> None:
        self.now, self.step = now, step

    def __call__(self) -> datetime:
        self.now += self.step
        return self.now


class ManualClock:
    """A clock that stands still until ``now`` is set."""

    def __init__(self, now: datetime = BEGIN) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now
