"""Time that passes at once: the clock of the running event loop jumps, so a deadline passes when a test wants it to."""

from __future__ import annotations

import asyncio

DEADLINE, HOURS = 600.0, 7200.0
"""Seconds: a limit that no slow machine reaches, and a time that is well beyond it."""


def time_passes() -> None:
    """Let ``HOURS`` pass for the running loop: timers within them are due at its next turn."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + HOURS  # type: ignore[method-assign]


async def outlasting() -> None:
    """Take longer than any deadline that was set before."""
    time_passes()
    await asyncio.sleep(HOURS)
