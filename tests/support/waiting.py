"""Waiting for what another thread or process does: for a condition, with a limit that no busy machine reaches."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], *, seconds: float = 120.0) -> bool:
    """Return True as soon as *condition* holds, False where it does not within *seconds*."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
