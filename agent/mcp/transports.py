"""Transports of the memory server: standard input and output for the client that started it, and streamable HTTP with
a token for those that connect.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from tellback.agent.http_listener import (
    Application,
    OneCaller,
    RequestGuard,
    address_of,
    ending_signals,
    host_names,
    listen,
    serve_application,
)

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp_types import JSONRPCError
    from starlette.applications import Starlette

MCP_PATH: Final = "/mcp"
_MAX_BODY_BYTES: Final = 1_000_000
_MAX_SESSIONS: Final = 100


async def serve_stdio(server: Server[Any], close: Callable[[], Awaitable[object]]) -> None:
    """Serve until standard input ends. Standard output carries the protocol alone.

    A signal ends the process after *close*: the thread that waits for a line cannot be woken.
    """
    import anyio
    from mcp.server.stdio import stdio_server
    from mcp.shared.message import SessionMessage

    async def serve() -> None:
        readable_end, readable = anyio.create_memory_object_stream[SessionMessage](0)
        async with stdio_server() as (incoming, outgoing), anyio.create_task_group() as group:

            async def sort() -> None:
                async with readable_end:
                    async for item in incoming:
                        if isinstance(item, Exception):  # the SDK leaves such a request without an answer
                            await outgoing.send(SessionMessage(_unreadable()))
                        else:
                            await readable_end.send(item)

            group.start_soon(sort)
            await server.run(readable, outgoing, server.create_initialization_options())

    with ending_signals() as signalled:
        serving = asyncio.ensure_future(serve())
        waited: set[asyncio.Future[Any]] = {serving, signalled}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if signalled.done() and not serving.done():
            await close()
            sys.stderr.flush()
            os._exit(128 + signalled.result())
        await serving


def _unreadable() -> JSONRPCError:
    """Return the reply to a line that is no message of the protocol; its id is not known."""
    from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError

    error = ErrorData(code=INVALID_REQUEST, message="the line is not JSON, or no message of the protocol")
    return JSONRPCError(jsonrpc="2.0", id=None, error=error)


async def serve_http(
    server: Server[Any], *, host: str, port: int, token: str, on_ready: Callable[[str], object] = lambda address: None
) -> None:
    """Serve on *host* and *port* (0: a free one) until a signal comes; *on_ready* gets the address.

    Each request must bear *token*. On a loopback address, requests that name another host or come from another origin
    are refused, too. An address that cannot be bound raises ``ArgumentError``.
    """
    listening = listen(host, port)
    on_ready(address_of(listening, host) + MCP_PATH)
    with ending_signals() as signalled:
        await serve_application(http_application(server, host=host, token=token), listening, signalled)


def http_application(server: Server[Any], *, host: str, token: str) -> Application:
    """Return *server* as an ASGI application that answers requests with *token* alone."""
    caller = OneCaller(token)
    return RequestGuard(application=mcp_application(server), callers=caller, names=host_names(host))


def mcp_application(server: Server[Any], *, stateless: bool = False) -> Starlette:
    """Return *server* as an ASGI application, whose requests a ``RequestGuard`` has to let pass: it sees to hosts.

    *stateless*: each request stands alone, so that any of several processes may answer it.
    """
    from mcp.server.transport_security import TransportSecuritySettings

    return server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        max_request_body_size=_MAX_BODY_BYTES,
        max_sessions=_MAX_SESSIONS,
        stateless_http=stateless,
    )
