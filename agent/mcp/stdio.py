"""Transport over standard input and output: one client, which started this process and ends it by closing the pipe."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


async def serve_stdio(server: Server[Any], close: Callable[[], Awaitable[object]]) -> None:
    """Serve until standard input ends. Standard output carries the protocol alone.

    A signal ends the process after *close*: the thread that waits for a line cannot be woken.
    """
    from mcp.server.stdio import stdio_server

    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def end(number: int) -> None:
        if not ended.done():
            ended.set_result(number)

    handled = []
    for number in _SIGNALS:
        try:
            asyncio.get_running_loop().add_signal_handler(number, end, number)
            handled.append(number)
        except (NotImplementedError, RuntimeError):  # Windows, or not the main thread: the default holds
            break

    async def serve() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    serving = asyncio.ensure_future(serve())
    try:
        waited: set[asyncio.Future[Any]] = {serving, ended}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if ended.done() and not serving.done():
            await close()
            sys.stderr.flush()
            os._exit(128 + ended.result())
        await serving
    finally:
        for number in handled:
            asyncio.get_running_loop().remove_signal_handler(number)
        ended.cancel()
