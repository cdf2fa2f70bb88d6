"""HTTP listener of this machine: requests with the token, from the right host and origin, of bounded size and time.

What is served is an ASGI application: the memory server for MCP clients, or the HTTP API.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import math
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Generator, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

from tellback.agent.errors import ArgumentError
from tellback.agent.rate_limit import RequestLimit
from tellback.memory.internals import is_loopback

_MIN_TOKEN_LENGTH: Final = 16
_MAX_CONNECTIONS: Final = 200
"""Connections above which further ones are answered with 503; each session of a client may hold two."""
_SECONDS_FOR_HEAD: Final = 10
_SECONDS_FOR_BODY: Final = 30
_SECONDS_TO_ANSWER: Final = 300
"""Seconds after which a request whose answer has not begun is refused; reading many documents takes minutes."""
_SECONDS_FOR_READER: Final = 60
"""Seconds that a client may leave an answer unread before it is disconnected."""
_SECONDS_TO_END: Final = 2
_WRONG_TOKENS_PER_MINUTE: Final = 60
_ONCE: Final = (b"host", b"authorization", b"x-api-key", b"origin", b"content-length", b"cookie")
"""Headers that a request has at most once: two servers could each believe another one."""
_MAX_HEADER_BYTES: Final = 32_768
_MAX_HEADERS: Final = 100
_MAX_TARGET_BYTES: Final = 16_384
_MAX_BODY_BYTES: Final = 1_000_000
_SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_HEADERS: Final = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"x-frame-options": b"DENY",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    b"cache-control": b"no-store",
}
"""Headers of every answer that the application gives none of its own."""
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]
_Refusal: TypeAlias = tuple[int, str, Mapping[bytes, bytes]]


class _BodyTooLarge(Exception):
    pass


class HttpCaller(Protocol):
    """Sender of a request: a *name* ("" of the one whose server it is), and the requests a minute they may send."""

    @property
    def name(self) -> str:
        """Name of the caller."""

    @property
    def requests_per_minute(self) -> int:
        """Requests a minute that are answered."""


class Callers(Protocol):
    """Callers by their token."""

    async def caller(self, token: str) -> HttpCaller | None:
        """Return the caller with *token*; None where it is nobody's."""


@dataclass(frozen=True, slots=True)
class OneCaller:
    """Callers of whom there is one, with *token*."""

    token: str = field(repr=False)
    name: str = ""
    requests_per_minute: int = 6_000

    def __post_init__(self) -> None:
        check_token(self.token)

    async def caller(self, token: str) -> OneCaller | None:
        """Return this one."""
        return self if hmac.compare_digest(token.encode(), self.token.encode()) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestGuard:
    """Application that passes on to *application* the requests of *callers*, and refuses all others.

    ``scope["state"]["caller"]`` is the one whose token a request bears. Requests that name another host than one of
    *names* (none: any is right), or come from another origin than that host by *scheme*, are refused, and bodies of
    more bytes than *body_limits* allows for the beginning of a path. A path that is among *open*, or whose first
    segment is, needs no token. *on_end* is told of each request when its answer has ended, with its status and seconds.
    """

    application: Application
    callers: Callers
    names: Collection[str]
    scheme: str = "http"
    body_limits: Mapping[str, int] = field(default_factory=dict)
    open: Collection[str] = ()
    on_end: Callable[[Message, int, float], object] = lambda scope, status, seconds: None
    limit: RequestLimit = field(default_factory=RequestLimit)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.application(scope, receive, send)
            return
        began, answer = time.monotonic(), _Answer(send)
        try:
            refusal = self._refusal(scope) or await self._refusal_of_caller(scope)
            if refusal is not None:
                await _refuse(answer.send, *refusal)
            else:
                await self._pass_on(scope, receive, answer)
        finally:
            self.on_end(scope, answer.status, time.monotonic() - began)

    async def _pass_on(self, scope: Message, receive: Receive, answer: _Answer) -> None:
        body = _BoundedBody(_in_time(receive), self._body_limit(scope["path"]))

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                deadline.reschedule(None)  # an answer that has begun may be a stream
                given = {name.lower() for name, _ in message["headers"]}
                added = [(name, value) for name, value in _HEADERS.items() if name not in given]
                message["headers"] = [*message["headers"], *added]
            if answer.status or not body.is_too_large:  # what the application says about a broken body is dropped
                await answer.send(message)

        with contextlib.suppress(_BodyTooLarge):
            try:
                async with asyncio.timeout(_SECONDS_TO_ANSWER) as deadline:
                    await self.application(scope, body.receive, sending)
            except TimeoutError:
                if not deadline.expired() or answer.status:
                    raise
                await _refuse(answer.send, 503, "the answer takes too long")
        if body.is_too_large and not answer.status:
            await _refuse(answer.send, 413, "the body is too large")

    def _body_limit(self, path: str) -> int:
        fitting = [beginning for beginning in self.body_limits if path.startswith(beginning)]
        return self.body_limits[max(fitting, key=len)] if fitting else _MAX_BODY_BYTES

    def _refusal(self, scope: Message) -> _Refusal | None:
        """Return status and reason where nobody's request of *scope* is answered."""
        if scope["http_version"] not in ("1.0", "1.1"):
            return 505, "HTTP/1.1 is spoken here", {}
        if len(scope["headers"]) > _MAX_HEADERS or _header_bytes(scope) > _MAX_HEADER_BYTES:
            return 431, "the headers are too large", {}
        if len(scope["raw_path"]) + len(scope["query_string"]) > _MAX_TARGET_BYTES:
            return 414, "the address is too long", {}
        headers = _headers(scope)
        if b"transfer-encoding" in headers and b"content-length" in headers:
            return 400, "a body has one length", {}
        if any(len(headers.get(name, ())) > 1 for name in _ONCE):
            return 400, "a header is given twice", {}
        place = headers.get(b"host", [b""])[0].decode("latin-1")
        if self.names and not _is_place_of(place, self.names):
            return 421, "this host is not served here", {}
        origin = headers.get(b"origin", [None])[0]
        if origin is not None and self.names and not is_origin_of(origin, self.names, self.scheme):
            return 403, "this origin is not allowed", {}
        if not scope["raw_path"].startswith(b"/"):
            return 400, "a path is needed", {}
        length = headers.get(b"content-length", [b"0"])[0]
        if length.isdigit() and int(length) > self._body_limit(scope["path"]):
            return 413, "the body is too large", {}
        return None

    async def _refusal_of_caller(self, scope: Message) -> _Refusal | None:
        """Return status and reason where the request of *scope* has no caller, or theirs are too many; note them."""
        path = scope["path"]
        if path in self.open or "/" + path[1:].partition("/")[0] in self.open:
            return None
        token = bearer_token(_headers(scope))
        caller = await self.callers.caller(token) if token else None
        if caller is None:
            client = str((scope.get("client") or ("",))[0])
            if token and (seconds := self.limit.wait(f"failed {client}", _WRONG_TOKENS_PER_MINUTE)):
                return 429, "too many wrong tokens", _retry_after(seconds)
            return 401, "the token of this server is needed", {b"www-authenticate": b"Bearer"}
        if seconds := self.limit.wait(f"caller {caller.name}", caller.requests_per_minute):
            return 429, "too many requests", _retry_after(seconds)
        scope.setdefault("state", {})["caller"] = caller
        return None


class _Answer:
    """Answer on its way by *send*: *status* is 0 until it has begun."""

    def __init__(self, send: Send) -> None:
        self._send, self.status = send, 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


def _header_bytes(scope: Message) -> int:
    return sum(len(name) + len(value) for name, value in scope["headers"])


def _headers(scope: Message) -> dict[bytes, list[bytes]]:
    headers: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.lower(), []).append(value)
    return headers


def bearer_token(headers: Mapping[bytes, Sequence[bytes]]) -> str:
    """Return the token that the *headers* of a request bear; "" for none."""
    if b"x-api-key" in headers and b"authorization" not in headers:  # where clients of Anthropic's format put it
        return headers[b"x-api-key"][0].decode("latin-1")
    scheme, _, token = headers.get(b"authorization", [b""])[0].decode("latin-1").partition(" ")
    return token if scheme == "Bearer" else ""


def _retry_after(seconds: float) -> dict[bytes, bytes]:
    return {b"retry-after": str(math.ceil(seconds)).encode()}


def check_token(token: str) -> None:
    """Raise ``ArgumentError`` for a token that can be guessed, or that is no value of a header."""
    if len(token) < _MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        problem = f"{_MIN_TOKEN_LENGTH} or more ASCII characters without spaces are needed"
        raise ArgumentError("token", "***", problem)


def host_names(host: str) -> set[str]:
    """Return the names under which *host* is reached: none where any is right, and the token alone keeps pages out."""
    if host in ("0.0.0.0", "::"):  # noqa: S104
        return set()
    name = host_name(host)
    return {"localhost", "127.0.0.1", "[::1]", name} if is_loopback(f"http://{name}") else {name}


def is_origin_of(origin: bytes, names: Collection[str], scheme: str = "http") -> bool:
    """Return whether *origin* is *scheme*, one of *names* and at most a port."""
    given, separator, place = origin.decode("latin-1").partition("://")
    return given == scheme and bool(separator) and _is_place_of(place, names)


def _is_place_of(place: str, names: Collection[str]) -> bool:
    host, separator, port = place.rpartition(":")
    return place in names or (bool(separator) and host in names and port.isascii() and port.isdecimal())


class _BoundedBody:
    """Body of a request, of *limit* bytes at most: a longer one breaks off what reads it."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._left = receive, limit

    @property
    def is_too_large(self) -> bool:
        return self._left < 0

    async def receive(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self.is_too_large:
            raise _BodyTooLarge
        return message


def _in_time(receive: Receive) -> Receive:
    """Return *receive* with a limit of time for the body of a request; a client too slow counts as disconnected."""
    end = asyncio.get_running_loop().time() + _SECONDS_FOR_BODY
    is_whole = False

    async def receive_in_time() -> Message:
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


async def _refuse(send: Send, status: int, reason: str, more: Mapping[bytes, bytes] = MappingProxyType({})) -> None:
    body = f'{{"type":"about:blank","title":"Refused","status":{status},"detail":"{reason}"}}'.encode()
    headers = [(b"content-type", b"application/problem+json"), (b"connection", b"close"), *_HEADERS.items()]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *more.items()]})
    await send({"type": "http.response.body", "body": body})


async def serve_application(
    application: Application,
    listening: socket.socket,
    ended: asyncio.Future[Any],
    *,
    admits: Callable[[socket.socket], bool] = lambda connection: True,
    certificate: tuple[Path, Path] | None = None,
    proxies: Collection[str] = (),
) -> None:
    """Serve *application* on a socket that is *listening*, until it has *ended*; *admits* tells whose connections.

    *certificate* (its file and that of its key) makes it HTTPS. What *proxies*, addresses or networks, say of a client
    in ``X-Forwarded-For`` and ``X-Forwarded-Proto`` is believed.
    """
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class TimedProtocol(H11Protocol):
        """Closes a connection that takes long to send the head of a request, or to read, where uvicorn would wait."""

        waiting: asyncio.TimerHandle | None = None
        unread: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if not admits(transport.get_extra_info("socket")):
                transport.close()
            self.limit()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.limit()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            for timer in (self.waiting, self.unread):
                if timer is not None:
                    timer.cancel()

        def pause_writing(self) -> None:
            super().pause_writing()
            self.unread = self.loop.call_later(_SECONDS_FOR_READER, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self.unread is not None:
                self.unread.cancel()

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

    listener = Listener(
        uvicorn.Config(
            application,
            http=TimedProtocol,
            limit_concurrency=_MAX_CONNECTIONS,
            log_config=None,
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=2 * _MAX_HEADER_BYTES,
            timeout_graceful_shutdown=_SECONDS_TO_END,
            ws="none",
            proxy_headers=bool(proxies),
            forwarded_allow_ips=list(proxies),
            ssl_certfile=None if certificate is None else certificate[0],
            ssl_keyfile=None if certificate is None else str(certificate[1]),
        )
    )
    ended.add_done_callback(lambda _: setattr(listener, "should_exit", True))
    await listener.serve(sockets=[listening])


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


def host_name(host: str) -> str:
    """Return *host* as it stands in an address."""
    return f"[{host}]" if ":" in host else host


def address_of(listening: socket.socket, host: str, scheme: str = "http") -> str:
    """Return the address of a socket that is *listening* on *host*."""
    return f"{scheme}://{host_name(host)}:{listening.getsockname()[1]}"


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on *host* and *port* (0: a free one); a taken one raises ``ArgumentError``."""
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
def ending_signals() -> Iterator[asyncio.Future[int]]:
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
