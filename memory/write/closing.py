"""Closing without losing anything: what is being written is stored, with its vector if that comes in time."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from memory.threads import in_thread
from memory.write import pending
from memory.write.context import WriteContext

_STORING = 15.0
"""Seconds that a write without its vector may take: a little more than another process may hold the file."""


async def finish(context: WriteContext, wait: float) -> None:
    """Wait at most *wait* seconds for vectors, those that are pending included; then for what is being stored."""
    end = time.monotonic() + wait
    flushing = None
    if wait > 0:
        await _stored(context, wait)
        if context.embedding.embedder is not None:
            flushing = asyncio.ensure_future(pending.catch_up(context, None))
            await asyncio.wait({flushing}, timeout=max(end - time.monotonic(), 0))
    context.under_way.hurry()
    if flushing is not None:
        await asyncio.gather(flushing, return_exceptions=True)  # what is not embedded stays pending
    await _stored(context, _STORING)


async def _stored(context: WriteContext, seconds: float) -> None:
    """Wait until nothing is being stored, in a thread of its own: those of the event loop may all be needed for that,
    and cancelled it would keep the loop from ending."""
    await in_thread(partial(context.under_way.wait, seconds), name="mneme-closing")
