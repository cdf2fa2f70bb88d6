"""Transports of the memory server: standard input and output for the client that started it, and streamable HTTP with
a token for those that connect.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import secrets
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Generator, Iterator, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from agent.errors import ArgumentError
from memory.internals import is_loopback

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

MCP_PATH: Final = "/mcp"
_MIN_TOKEN_LENGTH: Final = 16
_MAX_BODY_BYTES: Final = 1_000_000
_MAX_SESSIONS: Final = 100
_SECONDS_TO_END: Final = 2
_SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_Message: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[_Message]]
_Send: TypeAlias = Callable[[_Message], Awaitable[None]]
_Application: TypeAlias = Callable[[_Message, _Receive, _Send], Awaitable[None]]


async def serve_stdio(server: Server[Any], close: Callable[[], Awaitable[object]]) -> None:
    """Serve until standard input ends. Standard output carries the protocol alone.

    A signal ends the process after *close*: the thread that waits for a line cannot be woken.
    """
    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    with _signals() as signalled:
        serving = asyncio.ensure_future(serve())
        waited: set[asyncio.Future[Any]] = {serving, signalled}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if signalled.done() and not serving.done():
            await close()
            sys.stderr.flush()
            os._exit(128 + signalled.result())
        await serving


async def serve_http(
    server: Server[Any], *, host: str, port: int, token: str, on_ready: Callable[[str], object] = lambda address: None
) -> None:
    """Serve on *host* and *port* (0: a free one) until a signal comes; *on_ready* gets the address.

    Each request must bear *token*. On a loopback address, requests that name another host or come from another origin
    are refused, too. An address that cannot be bound raises ``ArgumentError``.
    """
    import uvicorn

    class Listener(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Generator[None, None, None]:
            yield  # they are handled here, so that the memory is closed before the process ends

    listening = _listen(host, port)
    address = f"http://{_host_name(host)}:{listening.getsockname()[1]}{MCP_PATH}"
    application = http_application(server, host=host, token=token)
    listener = Listener(
        uvicorn.Config(
            application, log_config=None, access_log=False, timeout_graceful_shutdown=_SECONDS_TO_END, ws="none"
        )
    )
    with _signals() as signalled:
        signalled.add_done_callback(lambda _: setattr(listener, "should_exit", True))
        on_ready(address)
        await listener.serve(sockets=[listening])


def http_application(server: Server[Any], *, host: str, token: str) -> _Application:
    """Return *server* as an ASGI application that answers requests with *token* alone."""
    from mcp.server.transport_security import TransportSecuritySettings

    if len(token) < _MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        raise ArgumentError("token", "***", f"{_MIN_TOKEN_LENGTH} or more ASCII characters without spaces are needed")
    name = _host_name(host)
    names = {"localhost", "127.0.0.1", "[::1]", name} if is_loopback(f"http://{name}") else {name}
    security = TransportSecuritySettings(
        # Where any name of the machine is right, the token alone keeps web pages out: they cannot know it.
        enable_dns_rebinding_protection=host not in ("0.0.0.0", "::"),  # noqa: S104
        allowed_hosts=[form for name in names for form in (name, f"{name}:*")],
        allowed_origins=[f"http://{form}" for name in names for form in (name, f"{name}:*")],
    )
    inner = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        host=host,
        transport_security=security,
        max_request_body_size=_MAX_BODY_BYTES,
        max_sessions=_MAX_SESSIONS,
    )
    expected = f"Bearer {token}".encode()

    async def application(scope: _Message, receive: _Receive, send: _Send) -> None:
        if scope["type"] == "http":
            authorization = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            if not hmac.compare_digest(authorization, expected):
                await _refuse(send)
                return
        await inner(scope, receive, send)

    return application


async def _refuse(send: _Send) -> None:
    headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": b"the token of this server is needed"})


def read_or_make_token(path: Path) -> str:
    """Return the token in the private file *path* (0600), which is created with a new token where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(FileExistsError):
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
    if sys.platform != "win32":
        path.chmod(0o600)
    return path.read_text(encoding="ascii", errors="replace").strip()


def _host_name(host: str) -> str:
    """Return *host* as it stands in an address."""
    return f"[{host}]" if ":" in host else host


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        try:
            if sys.platform != "win32":  # there it would let two servers share the port
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(place)
            listening.listen(128)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise ArgumentError("port", port, f"a free port of {host} is needed ({error})") from error
    return listening


@contextlib.contextmanager
def _signals() -> Iterator[asyncio.Future[int]]:
    """Yield a future that gets the number of the first signal that would end the process."""
    loop = asyncio.get_running_loop()
    received: asyncio.Future[int] = loop.create_future()

    def take(number: int) -> None:
        if not received.done():
            received.set_result(number)

    handled = []
    for number in _SIGNALS:
        try:
            loop.add_signal_handler(number, take, number)
            handled.append(number)
        except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread: the default holds
            break
    try:
        yield received
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
        received.cancel()
