"""A server on loopback that speaks OpenAI's Chat Completions and says what a test wrote for it. Not a model.

with OpenAIServer(Reply("Hello")) as server:
    provider = OpenAICompatibleProvider(server.url, "any-model")
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from agent.results import StopReason
from agent.testing.scripted import Reply, arguments_of, pieces

_REASONS = {
    StopReason.STOP: "stop",
    StopReason.TOOL_CALLS: "tool_calls",
    StopReason.MAX_TOKENS: "length",
    StopReason.CONTENT_FILTER: "content_filter",
    StopReason.REFUSAL: "stop",
}


@dataclass(frozen=True, slots=True)
class RawReply:
    """Bytes as they are: for streams that are broken on purpose. *cuts* are sent one after the other."""

    cuts: Sequence[bytes] = ()
    status: int = 200
    content_type: str = "text/event-stream"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that came: *path*, *headers* with small-letter names, and the JSON *body*."""

    path: str
    headers: dict[str, str]
    body: Any


class OpenAIServer:
    """Answers ``/v1/chat/completions`` with *replies* in order, ``/v1/models`` with *models*.

    A request too many gets status 500, which a client may try again; ``requests`` are those that came.
    """

    def __init__(self, *replies: Reply | RawReply, models: Sequence[str] = ("scripted",)) -> None:
        self._replies = list(replies)
        self._models = list(models)
        self._lock = threading.Lock()
        self.requests: list[Seen] = []

    @property
    def url(self) -> str:
        """The base address, ending in ``/v1``."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, seen: Seen) -> Reply | RawReply:
        """Note a request and return what to answer."""
        with self._lock:
            self.requests.append(seen)
            if seen.path.endswith("/models"):
                listed = {"object": "list", "data": [{"id": name, "object": "model"} for name in self._models]}
                return RawReply([json.dumps(listed).encode()], content_type="application/json")
            if not self._replies:
                return RawReply([b'{"error": {"message": "nothing more is scripted"}}'], 500, "application/json")
            return self._replies.pop(0)


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, owner: OpenAIServer, *args: Any) -> None:
        self._owner = owner
        super().__init__(*args)

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: requests are kept in ``requests``."""

    def _answer(self, body: Any) -> None:
        seen = Seen(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        reply = self._owner.answer(seen)
        raw = reply if isinstance(reply, RawReply) else RawReply([_event(one) for one in chunks(reply)])
        try:
            self.send_response(raw.status)
            self.send_header("content-type", raw.content_type)
            for name, value in raw.headers:
                self.send_header(name, value)
            self.send_header("connection", "close")
            self.end_headers()
            for cut in raw.cuts:
                self.wfile.write(cut)
                self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client left in the middle, as clients may


def chunks(reply: Reply) -> Iterator[dict[str, Any] | str]:
    """Yield the chunks of a streamed completion that says *reply*."""
    yield _chunk({"role": "assistant", "content": ""})
    for piece in pieces(reply.thinking, reply.piece):
        yield _chunk({"reasoning_content": piece})
    field = "refusal" if reply.stop is StopReason.REFUSAL else "content"
    for piece in reply.pieces:
        yield _chunk({field: piece})
    for index, asked in enumerate(reply.calls):
        function = {"name": asked.name, "arguments": ""}
        yield _chunk({"tool_calls": [{"index": index, "id": asked.id, "type": "function", "function": function}]})
        for piece in pieces(arguments_of(asked), 5):
            yield _chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    if reply.error is not None:
        yield {"error": {"message": str(reply.error), "type": "server_error"}}
        return
    yield _chunk({}, _REASONS[reply.reason])
    usage = reply.usage
    counts = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
    yield {"object": "chat.completion.chunk", "choices": [], "usage": counts}
    yield "[DONE]"


def _chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "scripted", "choices": [choice]}


def _event(chunk: dict[str, Any] | str) -> bytes:
    data = chunk if isinstance(chunk, str) else json.dumps(chunk)
    return f"data: {data}\n\n".encode()
