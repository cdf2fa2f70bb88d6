"""A server on loopback that speaks OpenAI's Chat Completions and says what a test wrote for it. Not a model.

with OpenAIServer(Reply("Hello")) as server:
    provider = OpenAICompatibleProvider(server.url, "any-model")
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agent.results import StopReason
from agent.testing.scripted import Reply, arguments_of, pieces
from agent.testing.wire_server import WireServer

_REASONS = {
    StopReason.STOP: "stop",
    StopReason.TOOL_CALLS: "tool_calls",
    StopReason.MAX_TOKENS: "length",
    StopReason.CONTENT_FILTER: "content_filter",
    StopReason.REFUSAL: "stop",
}


class OpenAIServer(WireServer):
    """Answers ``/v1/chat/completions`` with *replies* in order, ``/v1/models`` with *models*."""

    @property
    def url(self) -> str:
        """The base address, ending in ``/v1``."""
        return f"{super().url}/v1"

    def encoded(self, reply: Reply) -> Iterator[bytes]:
        """Yield *reply* as server-sent events."""
        yield from map(_event, chunks(reply))


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
