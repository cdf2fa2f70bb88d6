"""Writes and embeddings in flight, so that closing can wait for them and lose nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress


class WritesInFlight:
    """Counts writes; knows the embeddings that they wait for. Any thread and event loop may call."""

    def __init__(self) -> None:
        self.closing = False
        """Whether embeddings are no longer waited for."""
        self._changed = threading.Condition()
        self._writes = 0
        self._waits: dict[asyncio.Timeout, asyncio.AbstractEventLoop] = {}

    @contextmanager
    def write(self) -> Iterator[None]:
        """A block that stores something; ``wait`` waits for its end."""
        with self._changed:
            self._writes += 1
        try:
            yield
        finally:
            with self._changed:
                self._writes -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def embedding(self, patience: float | None) -> AsyncIterator[asyncio.Timeout]:
        """A block that waits for an embedder, *patience* seconds at the most, and not once ``hurry`` was called."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(patience) as limit:
            with self._changed:
                self._waits[limit] = loop
                if self.closing:
                    limit.reschedule(loop.time())
            try:
                yield limit
            finally:
                with self._changed:
                    del self._waits[limit]

    def wait(self, seconds: float) -> bool:
        """Block until no write is under way, at most *seconds*; return whether it is so. In a thread."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._writes, seconds)

    def hurry(self) -> None:
        """End the waiting for embedders, now and from now on: what is being written is stored without vectors."""
        with self._changed:
            self.closing = True
            for limit, loop in self._waits.items():
                with suppress(RuntimeError):  # a loop that was closed with the work in it
                    loop.call_soon_threadsafe(_expire_now, limit, loop)


def _expire_now(limit: asyncio.Timeout, loop: asyncio.AbstractEventLoop) -> None:
    with suppress(RuntimeError):  # it has ended meanwhile
        limit.reschedule(loop.time())
