"""The HTTP client against real sockets on loopback.

Inner parts, on no face: ``tellback.memory.http.redaction``, ``tellback.memory.http.retry``.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tellback.memory import ArgumentError, run_sync
from tellback.memory.http import (
    HttpClient,
    HttpConnectError,
    HttpError,
    HttpStatusError,
    HttpTimeout,
    ServerEvent,
    Timeouts,
)
from tellback.memory.http.redaction import error_message, redact_line, safe_url
from tellback.memory.http.retry import backoff_delay, is_retriable, retry_after_delay
from tellback.memory.internals import is_loopback
from tests.support.waiting import wait_until

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class Server:
    """Requests to a server, and its answer to each."""

    url: str = ""
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    open_connections: int = 0


Answer = Callable[[BaseHTTPRequestHandler, int], None]


@contextmanager
def serving(answer: Answer) -> Iterator[Server]:
    """Serve on loopback; *answer* gets the handler and the number of the request, from 0."""
    server, counting = Server(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            with counting:
                server.open_connections += 1
            super().setup()

        def finish(self) -> None:
            super().finish()
            with counting:
                server.open_connections -= 1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            server.requests.append((self.command, self.path, headers, body))
            answer(self, len(server.requests) - 1)

        do_GET = do_POST  # noqa: N815 -- the name that http.server calls

        def log_message(self, *_: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass  # clients of these tests hang up on purpose

    with Quiet(("127.0.0.1", 0), Handler) as httpd:
        server.url = f"http://127.0.0.1:{httpd.server_address[1]}"
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            httpd.shutdown()
            thread.join()


def send(handler: BaseHTTPRequestHandler, body: Any, status: int = 200, **headers: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in {"content-type": "application/json", **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("content-length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def send_stream(handler: BaseHTTPRequestHandler, *parts: bytes, content_type: str = "text/event-stream") -> None:
    """Send *parts* each as one piece, then hang up."""
    handler.send_response(200)
    handler.send_header("content-type", content_type)
    handler.send_header("connection", "close")
    handler.end_headers()
    for part in parts:
        handler.wfile.write(part)
        handler.wfile.flush()
    handler.close_connection = True


class Waits:
    """Replacement of ``sleep`` that records the seconds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def client(waits: Waits | None = None, **options: Any) -> HttpClient:
    return HttpClient(sleep=waits or Waits(), rng=lambda: 0.0, clock=lambda: NOW, **options)


def post(server: Server, waits: Waits | None = None, payload: Any = None, **options: Any) -> Any:
    async def work() -> Any:
        async with client(waits, **options) as http:
            return await http.post_json(server.url + "/v1/thing", payload)

    return asyncio.run(work())


def events(server: Server, waits: Waits | None = None, **options: Any) -> list[ServerEvent]:
    async def work() -> list[ServerEvent]:
        async with client(waits, **options) as http:
            return [event async for event in http.stream_events(server.url + "/stream", {})]

    return asyncio.run(work())


def test_post_json_sends_the_payload_as_json_and_returns_the_parsed_response() -> None:
    with serving(lambda handler, _: send(handler, {"héllo": [1, 2.5, None]})) as server:
        assert post(server, payload={"text": "grüße 記憶"}) == {"héllo": [1, 2.5, None]}
    method, path, headers, body = server.requests[0]
    assert (method, path, headers["content-type"]) == ("POST", "/v1/thing", "application/json")
    assert json.loads(body) == {"text": "grüße 記憶"}


def test_get_json_sends_the_headers_of_client_and_call() -> None:
    async def work(url: str) -> Any:
        async with client(headers={"X-One": "1", "X-Two": "client"}) as http:
            return await http.get_json(url, headers={"x-two": "call"})

    with serving(lambda handler, _: send(handler, [])) as server:
        assert asyncio.run(work(server.url)) == []
    assert server.requests[0][2]["x-one"] == "1"
    assert server.requests[0][2]["x-two"] == "call"


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
def test_a_retriable_status_is_retried_with_doubling_waits(status: int) -> None:
    waits = Waits()
    with serving(lambda handler, n: send(handler, {"n": n}, status if n < 2 else 200)) as server:
        assert post(server, waits) == {"n": 2}
    assert waits.seconds == [0.5, 1.0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_non_retriable_status_is_raised_without_a_retry(status: int) -> None:
    with (
        serving(lambda handler, _: send(handler, {"error": {"message": "no"}}, status)) as server,
        pytest.raises(HttpStatusError, match=f"{status}.*no") as raised,
    ):
        post(server)
    assert raised.value.status == status
    assert len(server.requests) == 1


def test_the_last_error_status_is_raised_when_the_retries_are_exhausted() -> None:
    with (
        serving(lambda handler, n: send(handler, {"error": f"busy {n}"}, 503)) as server,
        pytest.raises(HttpStatusError, match="busy 2"),
    ):
        post(server)
    assert len(server.requests) == 3


def test_no_retries_means_one_request() -> None:
    with serving(lambda handler, _: send(handler, {}, 503)) as server, pytest.raises(HttpStatusError):
        post(server, retries=0)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("header", "value", "waited"),
    [
        ("retry-after-ms", "250", 0.25),
        ("retry-after", "7", 7.0),
        ("retry-after", format_datetime(NOW + timedelta(seconds=30), usegmt=True), 30.0),
        ("retry-after", "0", 0.5),
        ("retry-after", "86400", 0.5),
        ("retry-after", "soon", 0.5),
        ("retry-after", "-3", 0.5),
        ("retry-after", "nan", 0.5),
    ],
)
def test_the_retry_after_header_is_honoured_within_a_bound(header: str, value: str, waited: float) -> None:
    waits = Waits()
    with serving(lambda handler, n: send(handler, n, 429 if n == 0 else 200, **{header: value})) as server:
        assert post(server, waits) == 1
    assert waits.seconds == [waited]


def test_a_long_wait_is_reported_in_the_error() -> None:
    with (
        serving(lambda handler, _: send(handler, {}, 429, retry_after="86400")) as server,
        pytest.raises(HttpStatusError, match="86400 s") as raised,
    ):
        post(server)
    assert raised.value.retry_after == 86400


def test_the_x_should_retry_header_overrides_the_status() -> None:
    with (
        serving(lambda handler, _: send(handler, {}, 500, x_should_retry="false")) as server,
        pytest.raises(HttpStatusError),
    ):
        post(server)
    assert len(server.requests) == 1
    with serving(lambda handler, n: send(handler, n, 400 if n == 0 else 200, x_should_retry="true")) as server:
        assert post(server) == 1


def test_the_backoff_doubles_to_eight_seconds_with_jitter_downwards() -> None:
    assert [backoff_delay(n, None, lambda: 0.0) for n in range(7)] == [0.5, 1, 2, 4, 8, 8, 8]
    assert backoff_delay(0, None, lambda: 1.0) == 0.375
    assert backoff_delay(5000, None, lambda: 0.0) == 8


def test_retry_after_delay_prefers_milliseconds_and_takes_a_past_date_as_zero() -> None:
    assert retry_after_delay({"retry-after-ms": "1500", "retry-after": "9"}, NOW) == 1.5
    assert retry_after_delay({"retry-after": "Thu, 01 Jan 2026 00:00:00 GMT"}, NOW) == 0
    assert retry_after_delay({}, NOW) is None
    assert is_retriable(429, {})
    assert not is_retriable(404, {})


def test_a_dropped_connection_is_retried() -> None:
    def answer(handler: BaseHTTPRequestHandler, n: int) -> None:
        if n == 0:
            handler.close_connection = True  # close without a response
        else:
            send(handler, "ok")

    with serving(answer) as server:
        assert post(server) == "ok"
    assert len(server.requests) == 2


def test_a_refused_connection_raises_an_error_without_the_secrets_of_the_url() -> None:
    async def work() -> None:
        async with client() as http:
            await http.get_json(f"http://user:hunter2@127.0.0.1:{port}/v1?key=hunter3#hunter4")

    with socket.socket() as taken:  # so that nobody else listens there, nor does this one
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(HttpConnectError, match="is the server running") as raised:
            asyncio.run(work())
    assert raised.value.url == f"http://127.0.0.1:{port}/v1"
    assert "hunter" not in str(raised.value)


def test_a_refused_loopback_connection_raises_at_once_without_a_retry() -> None:
    async def never(_: float) -> None:
        raise AssertionError("nothing is waited for")

    async def work() -> None:
        async with HttpClient(retries=2, sleep=never) as http:
            await http.get_json(f"http://localhost:{port}/v1")

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(HttpConnectError, match="is the server running"):
            asyncio.run(work())


def test_a_silent_server_gives_a_timeout_without_a_retry() -> None:
    quiet = threading.Event()
    with serving(lambda *_: quiet.wait(600) and None) as server:
        try:
            with pytest.raises(HttpTimeout, match=r"silent for 0.05 s"):
                post(server, retries=2, timeout=Timeouts(read=0.05))
            assert wait_until(lambda: server.requests)  # its thread may be later than the client's patience
        finally:
            quiet.set()
    assert len(server.requests) == 1


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), True, "60", None])
def test_an_invalid_timeout_is_refused(seconds: object) -> None:
    with pytest.raises(ArgumentError, match="seconds"):
        Timeouts(read=seconds)


def test_a_slow_response_body_is_bounded_by_the_total_timeout() -> None:
    stop = threading.Event()

    def drip(handler: BaseHTTPRequestHandler, _: int) -> None:
        handler.send_response(200)
        handler.send_header("content-length", "1000")
        handler.end_headers()
        while not stop.wait(0.02):
            handler.wfile.write(b" ")

    with serving(drip) as server:
        try:
            with pytest.raises(HttpTimeout, match="no whole answer"):
                post(server, retries=0, timeout=Timeouts(total=0.2))
        finally:
            stop.set()


def test_a_stream_longer_than_the_total_timeout_is_not_cut() -> None:
    def answer(handler: BaseHTTPRequestHandler, _: int) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        for n in range(4):
            threading.Event().wait(0.05)
            handler.wfile.write(f"data: {n}\n\n".encode())
        handler.close_connection = True

    with serving(answer) as server:
        found = events(server, timeout=Timeouts(total=0.1))
    assert [event.data for event in found] == ["0", "1", "2", "3"]


def test_an_answer_larger_than_the_limit_is_refused_after_decompression() -> None:
    packed = gzip.compress(b'"' + b"a" * 500_000 + b'"')
    assert len(packed) < 10_000
    with serving(lambda handler, _: send(handler, packed, content_encoding="gzip")) as server:
        assert len(post(server)) == 500_000
        with pytest.raises(HttpError, match="larger than 100,000 bytes"):
            post(server, max_body=100_000)


def test_an_answer_that_is_not_json_is_an_http_error() -> None:
    for body in (b"<html>", b"", b"[" * 100_000, b"\xff\xfe\xfa"):
        with (
            serving(lambda handler, _, body=body: send(handler, body)) as server,
            pytest.raises(HttpError, match="not JSON"),
        ):
            post(server)


def test_redirects_are_not_followed() -> None:
    with (
        serving(lambda handler, _: send(handler, {}, 307, location="http://127.0.0.1:1/")) as server,
        pytest.raises(HttpStatusError, match="redirects are not followed"),
    ):
        post(server)
    assert len(server.requests) == 1


def test_an_error_shows_the_servers_message_but_never_the_key() -> None:
    key = "plain-looking-secret"

    def answer(handler: BaseHTTPRequestHandler, _: int) -> None:
        text = f"Incorrect API key provided: {key}, sk-abcdefgh12345678. " + "x " * 1000
        send(handler, {"error": {"message": text, "type": "auth_error"}, "debug": "internal"}, 401)

    with serving(answer) as server, pytest.raises(HttpStatusError) as raised:
        post(server, headers={"Authorization": f"Bearer {key}"})
    text = str(raised.value)
    assert "Incorrect API key provided" in text
    assert key not in text
    assert "sk-abcdefgh" not in text
    assert "internal" not in text
    assert len(text) < 500


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": {"message": "no such model", "type": "not_found"}}', "no such model (not_found)"),
        (b'{"error": "model not loaded"}', "model not loaded"),
        (b'[{"error": {"message": "quota", "status": "RESOURCE_EXHAUSTED"}}]', "quota (RESOURCE_EXHAUSTED)"),
        (b'{"detail": "nope"}', "nope"),
        (b'{"error": {"type": "overloaded_error"}}', "overloaded_error"),
        (b'{"error": null}', ""),
        (b'{"error": {"message": 7}}', ""),
        (b"<html>secret page</html>", ""),
        (b"7", ""),
        (b"[]", ""),
    ],
)
def test_error_message_reads_only_known_fields_of_an_error_body(body: bytes, said: str) -> None:
    assert error_message(body) == said


def test_redaction_keeps_plain_words() -> None:
    plain = "The model `gpt-4o-mini` does not exist or you do not have access to it; key value pairs are fine."
    assert redact_line(plain) == plain
    assert redact_line("Bearer abc.def") == "[hidden]"
    assert redact_line("wrong key sk-secret") == "wrong key [hidden]"
    assert redact_line("one\n\ttwo") == "one two"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@h.example:8/v1/x?k=1#f", "https://h.example:8/v1/x"),
        ("http://[::1]:9/a", "http://[::1]:9/a"),
        ("http://h:port/", "(unreadable address)"),
        ("localhost:11434/v1?k=1", "localhost:11434/v1"),
        ("me:secret@h/v1", "(unreadable address)"),
        ("h/v1", "h/v1"),
        ("", ""),
    ],
)
def test_safe_url_removes_secrets(url: str, shown: str) -> None:
    assert safe_url(url) == shown


@pytest.mark.parametrize(
    "url", ["", "h", "ftp://h/", "http://", "http:///x", "http://h:99999/", "http://a b/", "http://h/\n"]
)
def test_an_unusable_address_is_an_argument_error(url: str) -> None:
    with pytest.raises(ArgumentError, match="url"):
        run_sync(client().get_json(url))


def test_an_invalid_header_value_is_refused_without_showing_it() -> None:
    for value in ("sk-secret\n", "schlüssel", " sk-secret"):
        with pytest.raises(ArgumentError, match="authorization") as raised:
            HttpClient(headers={"authorization": value})
        assert "secret" not in str(raised.value)


@pytest.mark.parametrize("payload", [float("nan"), {"a": "\ud800"}, {1, 2}, object()])
def test_a_payload_that_json_cannot_carry_is_refused_before_any_request(payload: Any) -> None:
    with (
        serving(lambda handler, _: send(handler, {})) as server,
        pytest.raises(ArgumentError, match="payload"),
    ):
        post(server, payload=payload)
    assert server.requests == []


@pytest.mark.parametrize("retries", [-1, True, 1.5])
def test_unusable_retries_raise(retries: Any) -> None:
    with pytest.raises(ArgumentError, match="retries"):
        HttpClient(retries=retries)


def test_an_offline_client_refuses_every_host_but_loopback() -> None:
    async def work(url: str) -> Any:
        async with client(offline=True) as http:
            return await http.get_json(url)

    with serving(lambda handler, _: send(handler, "here")) as server:
        assert asyncio.run(work(server.url)) == "here"
    with pytest.raises(HttpConnectError, match="offline"):
        asyncio.run(work("http://192.0.2.1/"))


@pytest.mark.parametrize(
    ("host", "local"),
    [("localhost", True), ("LOCALHOST.", True), ("127.9.8.7", True), ("[::1]", True), ("10.0.0.1", False),
     ("localhost.example.com", False), ("0.0.0.0", False), ("127.0.0.1.nip.io", False)],
)  # fmt: skip
def test_is_loopback_is_true_for_addresses_of_this_machine_only(host: str, local: bool) -> None:
    assert is_loopback(f"http://{host}:80/") is local


def test_loopback_requests_bypass_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with serving(lambda handler, _: send(handler, "direct")) as server:
        assert post(server) == "direct"


def test_a_proxy_of_the_environment_is_used_for_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda handler, _: send(handler, "by proxy")) as server:
        monkeypatch.setenv("HTTP_PROXY", server.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert run_sync(client().get_json("http://model.example/v1")) == "by proxy"
    assert server.requests[0][1] == "http://model.example/v1"


def test_invalid_proxy_settings_raise_an_http_error_that_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "gopher://127.0.0.1:1")
    with pytest.raises(HttpError, match="proxy settings"):
        run_sync(client().get_json("http://model.example/v1"))


def test_a_client_serves_several_loops_one_after_another() -> None:
    http = client()
    with serving(lambda handler, n: send(handler, n)) as server:
        assert [asyncio.run(http.get_json(server.url)) for _ in range(3)] == [0, 1, 2]


def test_a_client_serves_two_loops_at_the_same_time() -> None:
    http = client()
    with serving(lambda handler, _: send(handler, "ok")) as server:

        async def outer() -> list[Any]:
            first = await http.get_json(server.url)
            second = run_sync(http.get_json(server.url))
            return [first, second, await http.get_json(server.url)]

        assert asyncio.run(outer()) == ["ok"] * 3


def test_a_loop_that_ends_closes_its_connections() -> None:
    http = client()
    with serving(lambda handler, _: send(handler, "ok")) as server:
        asyncio.run(http.get_json(server.url))
        assert wait_until(lambda: server.open_connections == 0)
    assert http._clients == {}


def test_a_closed_http_client_refuses_requests() -> None:
    async def work() -> None:
        http = client()
        await http.aclose()
        await http.aclose()
        await http.get_json("http://127.0.0.1:1/")

    with pytest.raises(HttpError, match="closed"):
        asyncio.run(work())


@pytest.mark.parametrize(
    "parts",
    [
        (b"data: one\n\ndata: two\n\n",),
        (b"data: one\r\n\r\ndata: two\r\n\r\n",),
        (b"data: one\r\rdata: two\r\r",),
        (b"data: one\r", b"\n\r\ndata: two\r\n", b"\r\n"),
        (b"da", b"ta: o", b"ne\n", b"\ndata: two\n\n"),
        (b": ping\n\ndata: one\n\n\n\n: ping\nid: 4\n\nevent: ping\n\ndata: two\n\n",),
    ],
)
def test_stream_events_are_parsed_with_any_line_endings_and_chunk_boundaries(parts: Any) -> None:
    with serving(lambda handler, _: send_stream(handler, *parts)) as server:
        assert events(server) == [ServerEvent("message", "one"), ServerEvent("message", "two")]


def test_an_event_keeps_its_name_its_lines_and_its_characters() -> None:
    body = "event: delta\ndata: grüße\u2028x\ndata: zwei\n\n".encode()
    with serving(lambda handler, _: send_stream(handler, *[bytes([byte]) for byte in body])) as server:
        assert events(server) == [ServerEvent("delta", "grüße\u2028x\nzwei")]


def test_a_stream_is_retried_until_it_starts() -> None:
    def answer(handler: BaseHTTPRequestHandler, n: int) -> None:
        if n == 0:
            send(handler, {"error": "loading"}, 503)
        else:
            send_stream(handler, b"data: x\n\n")

    waits = Waits()
    with serving(answer) as server:
        assert [event.data for event in events(server, waits)] == ["x"]
    assert waits.seconds == [0.5]


def test_a_stream_that_breaks_in_the_middle_raises_and_is_not_repeated() -> None:
    def answer(handler: BaseHTTPRequestHandler, _: int) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("content-length", "1000")
        handler.end_headers()
        handler.wfile.write(b"data: begun\n\n")
        handler.close_connection = True

    seen: list[str] = []

    async def work(url: str) -> None:
        async with client() as http:
            async for event in http.stream_events(url, {}):
                seen.append(event.data)

    with serving(answer) as server, pytest.raises(HttpConnectError, match="lost"):
        asyncio.run(work(server.url))
    assert seen == ["begun"]
    assert len(server.requests) == 1


def test_a_stream_that_falls_silent_gives_a_timeout() -> None:
    quiet = threading.Event()

    def answer(handler: BaseHTTPRequestHandler, _: int) -> None:
        send_stream(handler, b"data: x\n\n")
        quiet.wait(600)

    with serving(answer) as server:
        try:
            with pytest.raises(HttpTimeout):
                events(server, retries=0, timeout=Timeouts(read=0.1))
        finally:
            quiet.set()


def test_an_event_larger_than_the_limit_is_refused() -> None:
    small = b"data: " + b"a" * 1000 + b"\n\n"
    with serving(lambda handler, _: send_stream(handler, *[small] * 300)) as server:
        assert len(events(server, max_event=200_000)) == 300
    with (
        serving(lambda handler, _: send_stream(handler, b"data: ", *[b"a" * 10_000] * 30)) as server,
        pytest.raises(HttpError, match="larger than 200,000 bytes"),
    ):
        events(server, max_event=200_000)


def test_an_answer_of_json_is_one_whole_event_and_another_type_raises() -> None:
    with serving(lambda handler, _: send(handler, {"text": "all at once"})) as server:
        assert events(server) == [ServerEvent("message", json.dumps({"text": "all at once"}), whole=True)]

    def page(handler: BaseHTTPRequestHandler, _: int) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/html")
        handler.send_header("content-length", "13")
        handler.end_headers()
        handler.wfile.write(b"<p>Log in</p>")

    with serving(page) as server, pytest.raises(HttpError, match="text/html instead of an event stream"):
        events(server)


def test_leaving_a_stream_early_frees_its_connection() -> None:
    stop = threading.Event()

    def answer(handler: BaseHTTPRequestHandler, _: int) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        while not stop.wait(0.01):
            handler.wfile.write(b"data: more\n\n")

    async def work(server: Server) -> bool:
        async with client() as http:
            async with aclosing(http.stream_events(server.url, {})) as stream:
                async for _ in stream:
                    break
            freed = asyncio.get_running_loop().run_in_executor(None, wait_until, lambda: server.open_connections == 0)
            return await freed

    with serving(answer) as server:
        try:
            assert asyncio.run(work(server))
        finally:
            stop.set()


def test_a_cancelled_request_leaves_the_client_usable() -> None:
    asked, quiet = threading.Event(), threading.Event()

    def answer(handler: BaseHTTPRequestHandler, n: int) -> None:
        if n == 0:
            asked.set()
            quiet.wait(600)
        send(handler, n)

    async def work(url: str) -> Any:
        async with client() as http:
            asking = asyncio.ensure_future(http.get_json(url))
            assert await asyncio.to_thread(asked.wait, 60)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            return await http.get_json(url)

    with serving(answer) as server:
        try:
            assert asyncio.run(work(server.url)) == 1
        finally:
            quiet.set()
