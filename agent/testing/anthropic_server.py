"""A server on loopback that speaks Anthropic's Messages and says what a test wrote for it. Not a model.

with AnthropicServer(Reply("Hello")) as server:
    provider = AnthropicProvider("any-model", base_url=server.url)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from agent.results import StopReason
from agent.testing.scripted import Reply, arguments_of, pieces
from agent.testing.wire_server import WireServer

_REASONS = {
    StopReason.STOP: "end_turn",
    StopReason.TOOL_CALLS: "tool_use",
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.REFUSAL: "refusal",
}


class AnthropicServer(WireServer):
    """Answers ``/v1/messages`` with *replies* in order, ``/v1/models`` with *models*."""

    def encoded(self, reply: Reply) -> Iterator[bytes]:
        """Yield *reply* as server-sent events."""
        for event in events(reply):
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()

    def listed(self, models: Sequence[str]) -> Any:
        """Return the list of *models*."""
        data = [{"type": "model", "id": name, "display_name": name.title()} for name in models]
        return {"data": data, "has_more": False, "first_id": None, "last_id": None}


def events(reply: Reply) -> Iterator[dict[str, Any]]:
    """Yield the events of a streamed message that says *reply*."""
    usage = reply.usage
    read = {
        "input_tokens": usage.input - usage.cache_read - usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
        "output_tokens": 1,
    }
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": read,
    }
    yield {"type": "message_start", "message": message}
    yield {"type": "ping"}
    for index, (start, deltas) in enumerate(_blocks(reply)):
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    if reply.error is not None:
        yield {"type": "error", "error": {"type": "overloaded_error", "message": str(reply.error)}}
        return
    written = {"output_tokens": usage.output, "output_tokens_details": {"thinking_tokens": usage.reasoning}}
    delta = {"stop_reason": _REASONS[reply.reason], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": written}
    yield {"type": "message_stop"}


def _blocks(reply: Reply) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield each block as it starts, and its deltas."""
    if reply.thinking or reply.signature:
        thoughts: list[dict[str, Any]] = [
            {"type": "thinking_delta", "thinking": piece} for piece in pieces(reply.thinking, reply.piece)
        ]
        if reply.signature:
            thoughts.append({"type": "signature_delta", "signature": reply.signature})
        yield {"type": "thinking", "thinking": "", "signature": ""}, thoughts
    for data in reply.redacted:
        yield {"type": "redacted_thinking", "data": data}, []
    if reply.text:
        said = [{"type": "text_delta", "text": piece} for piece in reply.pieces]
        yield {"type": "text", "text": ""}, said
    for asked in reply.calls:
        text = arguments_of(asked) if asked.arguments or asked.invalid is not None else ""
        given = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(text, 5)]]
        yield {"type": "tool_use", "id": asked.id, "name": asked.name, "input": {}}, given
