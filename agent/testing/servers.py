"""Scripted servers on loopback, one for each wire format, which send the replies that a test wrote. Not models.

with OpenAIServer(Reply("Hello")) as server:
    provider = OpenAICompatibleProvider(server.url, "any-model")
with AnthropicServer(Reply("Hello")) as server:
    provider = AnthropicProvider("any-model", base_url=server.url)
with OllamaServer(Reply("Hello")) as server:
    provider = OllamaProvider("any-model", base_url=server.url)
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tellback.agent.results import StopReason
from tellback.agent.testing.scripted import Reply, arguments_text, text_pieces


@dataclass(frozen=True, slots=True)
class RawReply:
    """Bytes as they are: for streams that are broken on purpose. *cuts* are sent one after the other; a number
    among them is a silence of so many seconds, which the end of the server cuts short."""

    cuts: Sequence[bytes | float] = ()
    status: int = 200
    content_type: str = "text/event-stream"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """Recorded request: *path*, *headers* with small-letter names, and the JSON *body*, whose bytes are *content*."""

    path: str
    headers: dict[str, str]
    body: Any
    content: bytes = b""


class ScriptedServer(ABC):
    """Answers requests with *replies* in order, and lists *models*.

    A request too many gets status 500, which a client may try again; ``requests`` are those that came.
    ``connections`` counts the open ones, and ``left`` is set while there are none.
    """

    content_type = "text/event-stream"
    listing = "/models"

    def __init__(self, *replies: Reply | RawReply, models: Sequence[str] = ("scripted",)) -> None:
        self._replies = list(replies)
        self._models = list(models)
        self._lock = threading.Lock()
        self.stopping = threading.Event()
        self.requests: list[RecordedRequest] = []
        self.connections = 0
        self.left = threading.Event()
        self.left.set()

    @property
    def url(self) -> str:
        """The base address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @abstractmethod
    def encoded(self, reply: Reply) -> Iterator[bytes]:
        """Yield *reply* as this format streams it."""

    def listed(self, models: Sequence[str]) -> Any:
        """Return the list of *models* in this format."""
        return {"object": "list", "data": [{"id": name, "object": "model"} for name in models]}

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_RequestHandler, self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, request: RecordedRequest) -> RawReply:
        """Record a request and return its reply."""
        with self._lock:
            self.requests.append(request)
            if request.path.partition("?")[0].endswith(self.listing):
                return RawReply([json.dumps(self.listed(self._models)).encode()], content_type="application/json")
            if not self._replies:
                return RawReply([b'{"error": {"message": "nothing more is scripted"}}'], 500, "application/json")
            reply = self._replies.pop(0)
        if isinstance(reply, RawReply):
            return reply
        sent = json.dumps(request.body, ensure_ascii=False)
        if missing := [mention for mention in reply.mentions if str(mention) not in sent]:
            return RawReply(
                [json.dumps({"error": {"message": f"not sent: {missing}"}}).encode()], 400, "application/json"
            )
        return RawReply(list(self.encoded(reply)), 200, self.content_type)

    def count(self, change: int) -> None:
        """Note that a connection came or went."""
        with self._lock:
            self.connections += change
            self.left.clear() if self.connections else self.left.set()


class _RequestHandler(BaseHTTPRequestHandler):
    def __init__(self, owner: ScriptedServer, *args: Any) -> None:
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
        self._answer(None, b"")

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        try:
            body = json.loads(content)
        except ValueError:
            self.close_connection = True  # the client left before it had sent all
        else:
            self._answer(body, content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: requests are kept in ``requests``."""

    def _answer(self, body: Any, content: bytes) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = RecordedRequest(self.path, headers, body, content)
        raw = self._owner.answer(request)
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


_OPENAI_FINISH_REASONS = {
    StopReason.STOP: "stop",
    StopReason.TOOL_CALLS: "tool_calls",
    StopReason.MAX_TOKENS: "length",
    StopReason.CONTENT_FILTER: "content_filter",
    StopReason.REFUSAL: "stop",
}


class OpenAIServer(ScriptedServer):
    """Answers ``/v1/chat/completions`` with *replies* in order, ``/v1/models`` with *models*."""

    @property
    def url(self) -> str:
        """The base address, ending in ``/v1``."""
        return f"{super().url}/v1"

    def encoded(self, reply: Reply) -> Iterator[bytes]:
        """Yield *reply* as server-sent events."""
        for chunk in _completion_chunks(reply):
            yield f"data: {json.dumps(chunk)}\n\n".encode()
        if reply.error is None:
            yield b"data: [DONE]\n\n"


def _completion_chunks(reply: Reply) -> Iterator[dict[str, Any]]:
    """Yield the chunks of a streamed completion that says *reply*."""
    yield _completion_chunk({"role": "assistant", "content": ""})
    for piece in text_pieces(reply.thinking, reply.piece):
        yield _completion_chunk({"reasoning_content": piece})
    field = "refusal" if reply.stop == StopReason.REFUSAL else "content"
    for piece in reply.pieces:
        yield _completion_chunk({field: piece})
    for index, call in enumerate(reply.calls):
        start: dict[str, Any] = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        pieces = [{"function": {"arguments": piece}} for piece in text_pieces(arguments_text(call), 5)]
        for part in (start, *pieces):
            yield _completion_chunk({"tool_calls": [{"index": index, **part}]})
    if reply.error is not None:
        yield {"error": {"message": str(reply.error), "type": "server_error"}}
        return
    yield _completion_chunk({}, _OPENAI_FINISH_REASONS[reply.reason])
    usage = reply.usage
    counts = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
    yield {"object": "chat.completion.chunk", "choices": [], "usage": counts}


def _completion_chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "scripted", "choices": [choice]}


_ANTHROPIC_FINISH_REASONS = {
    StopReason.STOP: "end_turn",
    StopReason.TOOL_CALLS: "tool_use",
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.REFUSAL: "refusal",
}


class AnthropicServer(ScriptedServer):
    """Answers ``/v1/messages`` with *replies* in order, ``/v1/models`` with *models*."""

    def encoded(self, reply: Reply) -> Iterator[bytes]:
        """Yield *reply* as server-sent events."""
        for event in _message_events(reply):
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()

    def listed(self, models: Sequence[str]) -> Any:
        """Return the list of *models*."""
        data = [{"type": "model", "id": name, "display_name": name.title()} for name in models]
        return {"data": data, "has_more": False, "first_id": None, "last_id": None}


def _message_events(reply: Reply) -> Iterator[dict[str, Any]]:
    """Yield the events of a streamed message that says *reply*."""
    usage = reply.usage
    read = {
        "input_tokens": usage.input - usage.cache_read - usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
        "output_tokens": 1,
    }
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": []}
    ending = {"stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": {**message, **ending, "usage": read}}
    yield {"type": "ping"}
    for index, (start, deltas) in enumerate(_streamed_blocks(reply)):
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    if reply.error is not None:
        yield {"type": "error", "error": {"type": "overloaded_error", "message": str(reply.error)}}
        return
    written = {"output_tokens": usage.output, "output_tokens_details": {"thinking_tokens": usage.reasoning}}
    reason = _ANTHROPIC_FINISH_REASONS[reply.reason]
    yield {"type": "message_delta", "delta": {**ending, "stop_reason": reason}, "usage": written}
    yield {"type": "message_stop"}


def _streamed_blocks(reply: Reply) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield each block as it starts, and its deltas."""
    if reply.thinking or reply.signature:
        thoughts = [{"type": "thinking_delta", "thinking": piece} for piece in text_pieces(reply.thinking, reply.piece)]
        if reply.signature:
            thoughts.append({"type": "signature_delta", "signature": reply.signature})
        yield {"type": "thinking", "thinking": "", "signature": ""}, thoughts
    for data in reply.redacted:
        yield {"type": "redacted_thinking", "data": data}, []
    if reply.text:
        pieces = [{"type": "text_delta", "text": piece} for piece in reply.pieces]
        yield {"type": "text", "text": ""}, pieces
    for call in reply.calls:
        text = arguments_text(call) if call.arguments or call.invalid is not None else ""
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *text_pieces(text, 5)]]
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}, deltas


class OllamaServer(ScriptedServer):
    """Answers ``/api/chat`` with *replies* in order, ``/api/tags`` with *models*."""

    content_type = "application/x-ndjson"
    listing = "/api/tags"

    def encoded(self, reply: Reply) -> Iterator[bytes]:
        """Yield *reply* as JSON lines."""
        for line in _chat_lines(reply):
            yield json.dumps(line).encode() + b"\n"

    def listed(self, models: Sequence[str]) -> Any:
        """Return the list of *models*."""
        return {"models": [{"name": name, "model": name, "size": 1} for name in models]}


def _chat_lines(reply: Reply) -> Iterator[dict[str, Any]]:
    """Yield the lines of a streamed chat that says *reply*."""
    for piece in text_pieces(reply.thinking, reply.piece):
        yield _chat_line({"content": "", "thinking": piece})
    for piece in reply.pieces:
        yield _chat_line({"content": piece})
    for call in reply.calls:
        arguments = call.arguments if call.invalid is None else call.invalid
        function = {"index": 0, "name": call.name, "arguments": arguments}
        yield _chat_line({"content": "", "tool_calls": [{"id": call.id, "function": function}]})
    if reply.error is not None:
        yield {"error": str(reply.error)}
        return
    reason = "length" if reply.reason == StopReason.MAX_TOKENS else "stop"
    counts = {"prompt_eval_count": reply.usage.input, "eval_count": reply.usage.output}
    yield {**_chat_line({"content": ""}), "done": True, "done_reason": reason, "total_duration": 1, **counts}


def _chat_line(message: dict[str, Any]) -> dict[str, Any]:
    line = {"model": "scripted", "created_at": "2026-01-01T00:00:00Z", "done": False}
    return {**line, "message": {"role": "assistant", **message}}
