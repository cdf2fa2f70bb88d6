"""The HTTP client of embedders and model providers: JSON and event streams, limits, retries, one error tree.

With ``web_page`` the one module that imports httpx. It knows no models: paths, payloads and their meaning are the
caller's.

    async with HttpClient(headers={"authorization": "Bearer …"}) as client:
        answer = await client.post_json("http://localhost:8080/v1/embeddings", {"input": ["a"]})
        async for event in client.stream_events("http://localhost:8080/v1/chat/completions", payload):
            print(event.data)
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import random
import ssl
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import httpx
from httpx_sse import EventSource

from tellback.memory.errors import ArgumentError, HttpConnectError, HttpError, HttpStatusError, HttpTimeout
from tellback.memory.http.redaction import error_message, header_secrets, redact_line, safe_url
from tellback.memory.http.requests import checked_headers, checked_url, encode_json, is_loopback
from tellback.memory.http.retry import MAX_RETRY_AFTER, backoff_delay, is_retriable, retry_after_delay, retry_exchange
from tellback.memory.timestamps import Clock, system_clock

__all__ = ["HttpAnswer", "HttpClient", "HttpWait", "ServerEvent", "Timeouts"]

T = TypeVar("T")

_MEGABYTE = 1 << 20
_EVENT_STREAM, _JSON_LINES = "text/event-stream", "application/x-ndjson"
_JSON = "application/json"
_STREAM_KINDS = {_EVENT_STREAM: "an event stream", _JSON_LINES: "JSON lines"}
_MAX_ERROR_BODY = 256 * 1024
_CONNECTION_LIMITS = httpx.Limits(max_connections=32, max_keepalive_connections=8, keepalive_expiry=5.0)
# Requests to this machine never pass through a proxy: what is asked of a local model stays here.
_DIRECT_HOSTS: dict[str, None] = {"all://localhost": None, "all://127.0.0.1": None, "all://[::1]": None}


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits in seconds. *read* is the longest silence: no byte comes, neither before the answer nor within it; *total*
    bounds a JSON exchange, never a stream."""

    connect: float = 10.0
    read: float = 300.0
    write: float = 60.0
    total: float | None = 900.0

    def __post_init__(self) -> None:
        for name in ("connect", "read", "write", "total"):
            seconds = getattr(self, name)
            number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and 0 < seconds < math.inf
            if not number and not (name == "total" and seconds is None):
                raise ArgumentError(name, seconds, "a number of seconds above 0 is needed")


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """Server-sent event; *event* is "message" where the server names none. *whole*: the server did not stream, and
    *data* is its whole answer, of JSON."""

    event: str
    data: str
    whole: bool = False


@dataclass(frozen=True, slots=True)
class HttpWait:
    """A wait within a stream: the *seconds* before the next attempt after *problem*, which the server *named* itself or
    not; or, without a problem, the seconds for which nothing has come so far, of *limit* at most."""

    seconds: float
    problem: str = ""
    named: bool = False
    limit: float = 0.0


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Answer as a server gave it: its *status*, its *headers* with small-letter names, and its body in *parts*, as they
    come."""

    status: int
    headers: tuple[tuple[str, str], ...]
    parts: AsyncIterator[bytes]


class HttpClient:
    """Sends JSON, receives JSON or event streams; safe to use from several event loops.

    What may pass (no connection, the answers 408, 409, 429 and 5xx) is tried again *retries* times, as
    ``tellback.memory.http.retry`` says; a stream only until it has begun. A silent server is not asked again, nor this
    machine where nothing listens. Redirects are not followed: they would carry the headers to another place. *offline*
    refuses every address but this machine's own. *max_body* and *max_event* are in bytes. *transport* replaces the
    network in tests.
    """

    def __init__(
        self,
        *,
        timeout: Timeouts = Timeouts(),
        retries: int = 2,
        headers: Mapping[str, str] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        offline: bool = False,
        max_body: int = 64 * _MEGABYTE,
        max_event: int = 64 * _MEGABYTE,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        rng: Callable[[], float] = random.random,
        clock: Clock = system_clock,
    ) -> None:
        if type(retries) is not int or retries < 0:
            raise ArgumentError("retries", retries, "a whole number of at least 0 is needed")
        self._timeout = timeout
        self._retries, self._sleep, self._rng = retries, sleep, rng
        self._headers = checked_headers(headers)
        self._transport = transport
        self._offline = offline
        self._max_body = max_body
        self._max_event = max_event
        self._clock = clock
        self._closed = False
        self._lock = threading.Lock()
        self._ssl: ssl.SSLContext | None = None
        self._clients: dict[asyncio.AbstractEventLoop, tuple[httpx.AsyncClient, AsyncGenerator[None, None]]] = {}

    async def post_json(self, url: str, payload: Any, *, headers: Mapping[str, str] | None = None) -> Any:
        """Send *payload* as JSON and return the JSON answer."""
        return await self._json("POST", url, encode_json(payload), headers)

    async def get_json(self, url: str, *, headers: Mapping[str, str] | None = None) -> Any:
        """Return the JSON answer at *url*."""
        return await self._json("GET", url, None, headers)

    def stream_events(
        self, url: str, payload: Any, *, headers: Mapping[str, str] | None = None, notice: float | None = None
    ) -> AsyncGenerator[ServerEvent | HttpWait, None]:
        """Send *payload* as JSON and yield the events of the answer; leaving the loop frees the connection.

        A server that does not stream gives one event, its *whole* answer. Wrap it in ``contextlib.aclosing``
        where it may be left early, so that this happens at once. With *notice*, an ``HttpWait`` comes before
        each further attempt, and whenever nothing has come for *notice* more seconds.
        """
        return self._watched(
            self._stream(url, payload, headers, _EVENT_STREAM, self._read_events, _whole_event), notice
        )

    def stream_lines(
        self, url: str, payload: Any, *, headers: Mapping[str, str] | None = None, notice: float | None = None
    ) -> AsyncGenerator[str | HttpWait, None]:
        """As ``stream_events``, for an answer of JSON lines: yield each line that is not blank, without its end."""
        return self._watched(self._stream(url, payload, headers, _JSON_LINES, self._read_lines, str), notice)

    @asynccontextmanager
    async def forward(
        self, method: str, url: str, content: bytes | None, *, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[HttpAnswer, None]:
        """Send *content* as it is, once, and yield the answer of whatever status; leaving frees the connection.

        It is for what passes requests on: the one who asked decides about another attempt. A body that is compressed
        all the same, unasked, comes decompressed.
        """
        sent = self._prepare_headers(url, headers, accept="*/*", encoding="identity")
        with self._translated(url):
            client = await self._client()
            response = await client.send(client.build_request(method, url, content=content, headers=sent), stream=True)
        try:
            yield HttpAnswer(response.status_code, tuple(response.headers.multi_items()), self._parts(url, response))
        finally:
            await response.aclose()

    async def _parts(self, url: str, response: httpx.Response) -> AsyncIterator[bytes]:
        with self._translated(url):
            async for part in response.aiter_bytes():
                yield part

    async def aclose(self) -> None:
        """Close this loop's connections (others close as their loop ends); using the client then raises."""
        self._closed = True
        loop = asyncio.get_running_loop()
        with self._lock:
            entry = self._clients.get(loop)
        if entry is not None:
            await entry[1].aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _json(self, method: str, url: str, content: bytes | None, headers: Mapping[str, str] | None) -> Any:
        sent = self._prepare_headers(url, headers, accept="application/json", encoding="gzip, deflate")

        async def exchange() -> bytes:
            try:
                async with asyncio.timeout(self._timeout.total):
                    response = await self._send(method, url, content, sent)
                    return await self._body(url, response, self._max_body)
            except TimeoutError as error:
                raise HttpTimeout(safe_url(url), f"no whole answer within {self._timeout.total:g} s") from error

        body = await retry_exchange(exchange, self._retries, sleep=self._sleep, rng=self._rng)
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise HttpError(safe_url(url), "the answer is not JSON; is this the right address?") from error

    async def _send(self, method: str, url: str, content: bytes | None, headers: dict[str, str]) -> httpx.Response:
        """Return the answer, its body unread; raise ``HttpStatusError`` for a status that is no success."""
        with self._translated(url):
            client = await self._client()
            request = client.build_request(method, url, content=content, headers=headers)
            response = await client.send(request, stream=True)
        if response.is_success:
            return response
        status, wait = response.status_code, retry_after_delay(response.headers, self._clock())
        try:
            body = await self._body(url, response, _MAX_ERROR_BODY)
        except HttpError:
            body = b""  # the status says enough, and is what the caller must see
        message = error_message(body, header_secrets(headers))
        problem = " ".join(part for part in (str(status), redact_line(response.reason_phrase)) if part)
        problem += f": {message}" if message else ""
        if response.is_redirect:
            problem += "; redirects are not followed, use the final address"
        if wait is not None:
            problem += f"; asks to wait {wait:g} s"
        refusal = HttpStatusError(safe_url(url), problem, status=status, retry_after=wait)
        refusal.retriable, refusal.body = is_retriable(status, response.headers), body
        raise refusal

    async def _body(self, url: str, response: httpx.Response, limit: int) -> bytes:
        """Read *response* whole, at most *limit* bytes after decompression, and release its connection."""
        parts, size = [], 0
        try:
            with self._translated(url):
                async for part in response.aiter_bytes():
                    size += len(part)
                    if size > limit:
                        raise HttpError(safe_url(url), f"the answer is larger than {limit:,} bytes")
                    parts.append(part)
        finally:
            await response.aclose()
        return b"".join(parts)

    async def _stream(
        self,
        url: str,
        payload: Any,
        headers: Mapping[str, str] | None,
        expected: str,
        read: Callable[[str, httpx.Response], AsyncGenerator[T, None]],
        whole: Callable[[str], T],
    ) -> AsyncGenerator[T | HttpWait, None]:
        """Yield what *read* finds in the answer to *payload*, which must be of the *expected* kind, or *whole* of one
        that is not streamed, and the wait before each further attempt."""
        sent, content = self._prepare_headers(url, headers, accept=expected, encoding="identity"), encode_json(payload)
        for attempt in itertools.count():
            try:
                response = await self._send("POST", url, content, sent)
                break
            except HttpError as error:
                if attempt >= self._retries or not error.retriable:
                    raise
                delay = backoff_delay(attempt, error.retry_after, self._rng)
                named = error.retry_after is not None and 0 < error.retry_after <= MAX_RETRY_AFTER
                wait = HttpWait(delay, str(error).removeprefix(f"{error.url}: "), named)
            yield wait
            await self._sleep(delay)
        try:
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if response.headers.get("content-encoding", "identity") != "identity":
                raise HttpError(safe_url(url), "the stream is compressed, which was not asked for")
            if kind == _JSON:  # some gateways do not stream
                yield whole((await self._body(url, response, self._max_body)).decode("utf-8", "replace"))
                return
            if kind != expected:
                message = error_message(await self._body(url, response, _MAX_ERROR_BODY), header_secrets(sent))
                problem = f"answered {redact_line(kind) or 'no content type'} instead of {_STREAM_KINDS[expected]}"
                raise HttpError(safe_url(url), problem + (f": {message}" if message else ""))
            async with aclosing(read(url, response)) as items:
                async for item in items:
                    yield item
        finally:
            await response.aclose()

    async def _watched(
        self, items: AsyncGenerator[T | HttpWait, None], notice: float | None
    ) -> AsyncGenerator[T | HttpWait, None]:
        """Yield *items* and, with *notice*, the seconds of silence between them, each time *notice* more have passed;
        without it the items alone."""
        async with aclosing(items):
            if notice is None:
                async for item in items:
                    if not isinstance(item, HttpWait):
                        yield item
                return
            resting = 0.0
            while True:
                step = asyncio.ensure_future(anext(items))
                try:
                    silent = -resting
                    while not (await asyncio.wait({step}, timeout=notice + max(-silent, 0.0)))[0]:
                        silent = max(silent, 0.0) + notice
                        yield HttpWait(silent, limit=self._timeout.read)
                finally:
                    if not step.done():
                        step.cancel()
                        await asyncio.wait({step})
                try:
                    item = step.result()
                except StopAsyncIteration:
                    return
                resting = item.seconds if isinstance(item, HttpWait) else 0.0
                yield item

    async def _read_events(self, url: str, response: httpx.Response) -> AsyncGenerator[ServerEvent, None]:
        assert isinstance(response.stream, httpx.AsyncByteStream)
        gauge = response.stream = _LimitedStream(url, response.stream, self._max_event)
        with self._translated(url):
            async with aclosing(EventSource(response).aiter_sse()) as events:
                async for event in events:
                    gauge.reset()
                    if event.data:  # one without data (a ping, an id) is not an event by the standard
                        yield ServerEvent(event.event, event.data)

    async def _read_lines(self, url: str, response: httpx.Response) -> AsyncGenerator[str, None]:
        pending: list[bytes] = []
        size = 0
        with self._translated(url):
            async for part in response.aiter_bytes():
                *ended, rest = part.split(b"\n")
                for line in ended:
                    whole = b"".join((*pending, line)).strip()
                    pending, size = [], 0
                    if whole:
                        yield whole.decode("utf-8", "replace")
                pending.append(rest)
                size += len(rest)
                if size > self._max_event:
                    raise HttpError(safe_url(url), f"a line of the stream is larger than {self._max_event:,} bytes")
        if last := b"".join(pending).strip():
            yield last.decode("utf-8", "replace")

    def _translated(self, url: str) -> AbstractContextManager[None]:
        return _translate_errors(url, self._timeout.read)

    def _prepare_headers(
        self, url: str, headers: Mapping[str, str] | None, *, accept: str, encoding: str
    ) -> dict[str, str]:
        """Check address and headers before anything is sent; return the headers to send."""
        checked_url(url)
        if self._closed:
            raise HttpError(safe_url(url), "this client is closed")
        if self._offline and not is_loopback(url):
            raise HttpConnectError(safe_url(url), "offline: only this machine may be asked")
        defaults = {"accept": accept, "accept-encoding": encoding, "content-type": "application/json"}
        return defaults | self._headers | checked_headers(headers)

    async def _client(self) -> httpx.AsyncClient:
        """Return this loop's client; connections cannot be shared between loops."""
        loop = asyncio.get_running_loop()
        with self._lock:
            entry = self._clients.get(loop)
            if entry is not None:
                return entry[0]
            for ended in [other for other in self._clients if other.is_closed()]:
                del self._clients[ended]
            client = self._new_client()
            keeper = self._keep_open(loop, client)
            self._clients[loop] = (client, keeper)
        await anext(keeper)
        return client

    async def _keep_open(
        self, loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient
    ) -> AsyncGenerator[None, None]:
        """Close *client* when this generator is closed, which ``asyncio.run`` does before its loop ends."""
        try:
            yield
        finally:
            with self._lock:
                self._clients.pop(loop, None)
            await client.aclose()

    def _new_client(self) -> httpx.AsyncClient:
        if self._ssl is None and self._transport is None:
            self._ssl = httpx.create_ssl_context()  # tens of milliseconds, so once; honours SSL_CERT_FILE
        times = self._timeout
        try:
            return httpx.AsyncClient(
                timeout=httpx.Timeout(None, connect=times.connect, read=times.read, write=times.write),
                limits=_CONNECTION_LIMITS,
                transport=self._transport,
                verify=self._ssl or True,
                mounts=_DIRECT_HOSTS if self._transport is None else None,
                trust_env=not self._offline,
            )
        except (ImportError, ValueError) as error:  # SOCKS needs a package of its own; a malformed proxy address
            raise HttpError("proxy", f"the proxy settings of the environment are unusable: {error}") from error


def _whole_event(data: str) -> ServerEvent:
    return ServerEvent("message", data, whole=True)


class _LimitedStream(httpx.AsyncByteStream):
    """Bytes of a response, counted: more than *limit* of them since the last ``reset`` is an error."""

    def __init__(self, url: str, source: httpx.AsyncByteStream, limit: int) -> None:
        self._url, self._source, self._limit, self._count = url, source, limit, 0

    def reset(self) -> None:
        self._count = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._source:
            self._count += len(part)
            if self._count > self._limit:
                raise HttpError(safe_url(self._url), f"an event of the stream is larger than {self._limit:,} bytes")
            yield part

    async def aclose(self) -> None:
        await self._source.aclose()


@contextmanager
def _translate_errors(url: str, silence: float) -> Iterator[None]:
    """Turn httpx's errors into ours, the one place that knows them; *silence* is the limit that one tells of."""
    shown = safe_url(url)
    try:
        yield
    except httpx.ConnectTimeout as error:
        raise HttpConnectError(shown, "nothing answered in time; is the server running?") from error
    except httpx.ReadTimeout as error:
        raise HttpTimeout(shown, f"the server was silent for {silence:g} s") from error
    except httpx.TimeoutException as error:
        raise HttpTimeout(shown, "the server did not take the request in time") from error
    except httpx.ConnectError as error:
        refusal = HttpConnectError(shown, f"cannot connect; is the server running? ({redact_line(str(error))})")
        refusal.retriable = not is_loopback(url)  # on this machine it is sure at once, and waiting brings nothing
        raise refusal from error
    except httpx.UnsupportedProtocol as error:
        raise HttpError(shown, "this kind of address is not supported") from error
    except httpx.DecodingError as error:
        raise HttpError(shown, "the answer is damaged: it cannot be decompressed") from error
    except httpx.TransportError as error:
        raise HttpConnectError(shown, f"the connection was lost ({type(error).__name__})") from error
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        raise HttpError(shown, f"the exchange failed ({type(error).__name__})") from error
