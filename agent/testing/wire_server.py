"""A server on loopback that says what a test wrote for it, whatever the wire format. Not a model.

Each format's server (``OpenAIServer``, ``AnthropicServer``, ``OllamaServer``) says how a reply looks on its wire.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from agent.testing.scripted import Reply


@dataclass(frozen=True, slots=True)
class RawReply:
    """Bytes as they are: for streams that are broken on purpose. *cuts* are sent one after the other; a number
    among them is a silence of so many seconds, which the end of the server cuts short."""

    cuts: Sequence[bytes | float] = ()
    status: int = 200
    content_type: str = "text/event-stream"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that came: *path*, *headers* with small-letter names, and the JSON *body*."""

    path: str
    headers: dict[str, str]
    body: Any


class WireServer:
    """Answers requests with *replies* in order, and lists *models*.

    A request too many gets status 500, which a client may try again; ``requests`` are those that came.
    ``connections`` counts those that are open now, and ``left`` is set while there are none.
    """

    content_type = "text/event-stream"
    listing = "/models"

    def __init__(self, *replies: Reply | RawReply, models: Sequence[str] = ("scripted",)) -> None:
        self._replies = list(replies)
        self._models = list(models)
        self._lock = threading.Lock()
        self.stopping = threading.Event()
        self.requests: list[Seen] = []
        self.connections = 0
        self.left = threading.Event()
        self.left.set()

    @property
    def url(self) -> str:
        """The base address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def encoded(self, reply: Reply) -> Iterable[bytes]:
        """Return *reply* as this format streams it."""
        raise NotImplementedError("a format's server says how a reply looks")

    def listed(self, models: Sequence[str]) -> Any:
        """Return the list of *models* in this format."""
        return {"object": "list", "data": [{"id": name, "object": "model"} for name in models]}

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, seen: Seen) -> RawReply:
        """Note a request and return what to answer."""
        with self._lock:
            self.requests.append(seen)
            if seen.path.partition("?")[0].endswith(self.listing):
                return RawReply([json.dumps(self.listed(self._models)).encode()], content_type="application/json")
            if not self._replies:
                return RawReply([b'{"error": {"message": "nothing more is scripted"}}'], 500, "application/json")
            reply = self._replies.pop(0)
        return reply if isinstance(reply, RawReply) else RawReply(list(self.encoded(reply)), 200, self.content_type)

    def count(self, change: int) -> None:
        """Note that a connection came or went."""
        with self._lock:
            self.connections += change
            self.left.clear() if self.connections else self.left.set()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, owner: WireServer, *args: Any) -> None:
        self._owner = owner
        super().__init__(*args)

    def setup(self) -> None:
        super().setup()
        self._owner.count(1)

    def finish(self) -> None:
        try:
            super().finish()
        finally:
            self._owner.count(-1)

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        try:
            body = json.loads(content)
        except ValueError:
            self.close_connection = True  # the client left before it had said all
        else:
            self._answer(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: requests are kept in ``requests``."""

    def _answer(self, body: Any) -> None:
        seen = Seen(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        raw = self._owner.answer(seen)
        try:
            self.send_response(raw.status)
            self.send_header("content-type", raw.content_type)
            for name, value in raw.headers:
                self.send_header(name, value)
            self.send_header("connection", "close")
            self.end_headers()
            for cut in raw.cuts:
                if isinstance(cut, bytes):
                    self.wfile.write(cut)
                    self.wfile.flush()
                else:
                    self._owner.stopping.wait(cut)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client left in the middle, as clients may
