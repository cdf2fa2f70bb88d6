"""Calls of tools no faster than allowed. A call that would have to wait too long fails at once."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable

from agent.errors import ArgumentError, RateLimited
from agent.middleware.protocol import Invocation, Proceed
from agent.tools.protocol import ToolOutput


class RateLimit:
    """Lets *per_second* calls through on average and *burst* at once: of each tool, or with *shared* of all together.

    Others wait their turn, in the order in which they came. Where the turn would come after the call's deadline,
    ``RateLimited`` is raised at once; that is no failure of the tool.
    """

    def __init__(
        self, per_second: float, *, burst: int = 1, shared: bool = False, timer: Callable[[], float] | None = None
    ) -> None:
        if not (math.isfinite(per_second) and per_second > 0):
            raise ArgumentError("per_second", per_second, "a number of calls above 0 is needed")
        if type(burst) is not int or burst < 1:
            raise ArgumentError("burst", burst, "at least 1 is needed")
        self._gap, self._burst, self._shared, self._timer = 1 / per_second, burst, shared, timer
        self._full_at: dict[str, float] = {}
        self._last: dict[tuple[str, asyncio.AbstractEventLoop], asyncio.Future[None]] = {}
        self._lock = threading.Lock()

    async def __call__(self, invocation: Invocation, proceed: Proceed) -> ToolOutput:
        """As the protocol says."""
        name = "" if self._shared else invocation.call.name
        wait = self._taken(name, invocation.context.deadline)
        loop = asyncio.get_running_loop()
        before, gone = self._last.get((name, loop)), loop.create_future()
        self._last[name, loop] = gone
        try:
            if wait > 0:
                await asyncio.sleep(wait)
            if before is not None and not before.done():  # its turn has come, too, but a busy loop has not woken it yet
                await asyncio.wait([before])
        finally:
            gone.set_result(None)
            if self._last[name, loop] is gone:
                del self._last[name, loop]
        return await proceed(invocation)

    def _taken(self, name: str, deadline: float | None) -> float:
        """Take the next turn and return how long it is away.

        One moment per bucket says all: when it would be full again if nobody called (the virtual scheduling form
        of the leaky bucket, ITU-T I.371).
        """
        now = (self._timer or asyncio.get_running_loop().time)()
        with self._lock:
            full_at = max(self._full_at.get(name, now), now)
            wait = max(full_at - now - self._gap * (self._burst - 1), 0.0)
            if deadline is not None and now + wait >= deadline:
                text = f"too many calls: the next turn is {wait:.1f} s away, later than this call may take"
                raise RateLimited(text, retry_after=wait)
            self._full_at[name] = full_at + self._gap
        return wait
