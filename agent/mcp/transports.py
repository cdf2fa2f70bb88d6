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
from collections.abc import Awaitable, Callable, Collection, Generator, Iterator, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tellback.agent.errors import ArgumentError
from tellback.memory.internals import is_loopback

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp_types import JSONRPCError

MCP_PATH: Final = "/mcp"
_MIN_TOKEN_LENGTH: Final = 16
_MAX_BODY_BYTES: Final = 1_000_000
_MAX_SESSIONS: Final = 100
_MAX_CONNECTIONS: Final = 200
"""Connections above which further ones are answered with 503; each session of a client may hold two."""
_SECONDS_FOR_HEAD: Final = 10
_SECONDS_FOR_BODY: Final = 30
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

    with _signals() as signalled:
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
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class TimedProtocol(H11Protocol):
        """Closes a connection that takes long to send the head of a request, which uvicorn would wait for."""

        waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.limit()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.limit()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self.waiting is not None:
                self.waiting.cancel()

        def limit(self) -> None:
            is_served = self.cycle is not None and not self.cycle.response_complete
            if is_served and self.waiting is not None:
                self.waiting.cancel()
                self.waiting = None
            elif not is_served and self.waiting is None:
                self.waiting = self.loop.call_later(_SECONDS_FOR_HEAD, self.transport.close)

    class Listener(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Generator[None, None, None]:
            yield  # they are handled here, so that the memory is closed before the process ends

    listening = _listen(host, port)
    address = f"http://{_host_name(host)}:{listening.getsockname()[1]}{MCP_PATH}"
    application = http_application(server, host=host, token=token)
    listener = Listener(
        uvicorn.Config(
            application,
            http=TimedProtocol,
            limit_concurrency=_MAX_CONNECTIONS,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=_SECONDS_TO_END,
            ws="none",
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
                await _refuse(send, 401, b"the token of this server is needed")
                return
            origin = next((value for name, value in scope["headers"] if name == b"origin"), None)
            if origin is not None and security.enable_dns_rebinding_protection and not _is_origin_of(origin, names):
                await _refuse(send, 403, b"this origin is not allowed")
                return
            receive = _in_time(receive)
        await inner(scope, receive, send)

    return application


def _is_origin_of(origin: bytes, names: Collection[str]) -> bool:
    """Return whether *origin* is scheme, one of *names* and at most a port; the SDK compares how it begins."""
    host, separator, port = origin.decode("latin-1").removeprefix("http://").rpartition(":")
    return f"{host}{separator}{port}" in names or (host in names and port.isdecimal())


def _in_time(receive: _Receive) -> _Receive:
    """Return *receive* with a limit of time for the body of a request; a client too slow counts as disconnected."""
    end = asyncio.get_running_loop().time() + _SECONDS_FOR_BODY
    is_whole = False

    async def receive_in_time() -> _Message:
        nonlocal is_whole
        if is_whole:  # what is awaited now is the end of the connection
            return await receive()
        try:
            async with asyncio.timeout_at(end):
                message = await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        is_whole = not message.get("more_body", False)
        return message

    return receive_in_time


async def _refuse(send: _Send, status: int, reason: bytes) -> None:
    headers = [(b"content-type", b"text/plain"), *([(b"www-authenticate", b"Bearer")] if status == 401 else [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": reason})


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
