"""A server on loopback that speaks Ollama's own chat and says what a test wrote for it. Not a model.

with OllamaServer(Reply("Hello")) as server:
    provider = OllamaProvider("any-model", base_url=server.url)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from agent.results import StopReason
from agent.testing.scripted import Reply, pieces
from agent.testing.wire_server import WireServer
from memory import ToolCallBlock


class OllamaServer(WireServer):
    """Answers ``/api/chat`` with *replies* in order, ``/api/tags`` with *models*."""

    content_type = "application/x-ndjson"
    listing = "/api/tags"

    def encoded(self, reply: Reply) -> Iterator[bytes]:
        """Yield *reply* as JSON lines."""
        for line in lines(reply):
            yield json.dumps(line).encode() + b"\n"

    def listed(self, models: Sequence[str]) -> Any:
        """Return the list of *models*."""
        return {"models": [{"name": name, "model": name, "size": 1} for name in models]}


def lines(reply: Reply) -> Iterator[dict[str, Any]]:
    """Yield the lines of a streamed chat that says *reply*."""
    for piece in pieces(reply.thinking, reply.piece):
        yield _line({"content": "", "thinking": piece})
    for piece in reply.pieces:
        yield _line({"content": piece})
    for asked in reply.calls:
        yield _line({"content": "", "tool_calls": [_call(asked)]})
    if reply.error is not None:
        yield {"error": str(reply.error)}
        return
    reason = "length" if reply.reason is StopReason.MAX_TOKENS else "stop"
    counts = {"prompt_eval_count": reply.usage.input, "eval_count": reply.usage.output}
    yield {**_line({"content": ""}), "done": True, "done_reason": reason, "total_duration": 1, **counts}


def _line(message: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": "scripted",
        "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", **message},
        "done": False,
    }


def _call(asked: ToolCallBlock) -> dict[str, Any]:
    arguments: Any = asked.arguments if asked.invalid is None else asked.invalid
    return {"id": asked.id, "function": {"index": 0, "name": asked.name, "arguments": arguments}}
