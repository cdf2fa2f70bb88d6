"""The events of a streamed Anthropic message read as deltas. Pure; events that it does not know are passed over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agent.providers.protocol import Delta, Stop, TextPiece, ThinkingPiece, ToolCallPiece, UsagePiece
from agent.providers.wire import Endpoint, count_of, part_of, text_of
from agent.results import StopReason, Usage
from memory.http import ServerEvent

_STOPS = {
    "end_turn": StopReason.STOP,
    "stop_sequence": StopReason.STOP,
    "pause_turn": StopReason.STOP,
    "tool_use": StopReason.TOOL_CALLS,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "refusal": StopReason.REFUSAL,
}
_PASSING = frozenset({"overloaded_error", "rate_limit_error", "api_error", "timeout_error"})


class EventReader:
    """Reads one reply of *endpoint*: ``read`` each event's data, then ``finish``."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._counts: dict[str, Any] = {}
        self._reason: str | None = None
        self._done = False
        self._has_calls = False
        self._given: dict[int, tuple[str, bool]] = {}

    @property
    def done(self) -> bool:
        """Whether the server has said that nothing more comes."""
        return self._done

    def read(self, frame: ServerEvent) -> Iterator[Delta]:
        """Yield what one event says; raise ``ProviderError`` where it is an error or no JSON."""
        if frame.event == "ping":
            return
        value = self._endpoint.object_of(frame.data)
        kind = value.get("type") or frame.event
        if kind == "error":
            error = part_of(value, "error") or value
            raise self._endpoint.complained(error, transient=error.get("type") in _PASSING)
        if kind == "message_start":
            yield from self._usage(part_of(value, "message").get("usage"))
        elif kind == "content_block_start":
            yield from self._started(self._index(value), part_of(value, "content_block"))
        elif kind == "content_block_delta":
            yield from self._more(self._index(value), part_of(value, "delta"))
        elif kind == "content_block_stop":
            yield from self._ended(self._index(value))
        elif kind == "message_delta":
            self._reason = text_of(part_of(value, "delta").get("stop_reason")) or self._reason
            yield from self._usage(value.get("usage"))
        elif kind == "message_stop":
            self._done = True

    def finish(self) -> Stop:
        """Return why the reply ended; raise where it broke off."""
        if not self._done or self._reason is None:
            raise self._endpoint.broken("the reply broke off before its end", transient=True)
        reason = _STOPS.get(self._reason, StopReason.STOP)
        return Stop(StopReason.TOOL_CALLS if reason is StopReason.STOP and self._has_calls else reason)

    def _index(self, value: dict[str, Any]) -> int:
        index = value.get("index")
        if type(index) is not int:
            raise self._endpoint.broken("a piece of the reply does not say where it belongs")
        return index

    def _started(self, index: int, block: dict[str, Any]) -> Iterator[Delta]:
        kind = block.get("type")
        if kind == "text" and (text := text_of(block.get("text"))):
            yield TextPiece(text)
        elif kind == "thinking":
            signature = text_of(block.get("signature")) or None
            if text_of(block.get("thinking")) or signature:
                yield ThinkingPiece(text_of(block.get("thinking")), signature)
        elif kind == "redacted_thinking":
            yield ThinkingPiece(redacted=text_of(block.get("data")))
        elif kind == "tool_use":
            self._has_calls = True
            given = block.get("input")
            self._given[index] = (json.dumps(given, ensure_ascii=False) if given else "", False)
            yield ToolCallPiece(index, text_of(block.get("id")), text_of(block.get("name")))

    def _more(self, index: int, delta: dict[str, Any]) -> Iterator[Delta]:
        kind = delta.get("type")
        if kind == "text_delta" and (text := text_of(delta.get("text"))):
            yield TextPiece(text)
        elif kind == "thinking_delta" and (text := text_of(delta.get("thinking"))):
            yield ThinkingPiece(text)
        elif kind == "signature_delta" and (signature := text_of(delta.get("signature"))):
            yield ThinkingPiece(signature=signature)
        elif kind == "input_json_delta" and index in self._given:
            text = text_of(delta.get("partial_json"))
            if text:
                self._given[index] = ("", True)
                yield ToolCallPiece(index, arguments=text)

    def _ended(self, index: int) -> Iterator[Delta]:
        """Some servers give a call's arguments whole at its start and stream none."""
        given, streamed = self._given.get(index, ("", True))
        if given and not streamed:
            self._given[index] = ("", True)
            yield ToolCallPiece(index, arguments=given)

    def _usage(self, given: Any) -> Iterator[UsagePiece]:
        """Counts are cumulative; what a later event leaves out stays as it was."""
        if isinstance(given, dict):
            self._counts.update({name: value for name, value in given.items() if value is not None})
            yield UsagePiece(usage_of(self._counts))


def usage_of(given: dict[str, Any]) -> Usage:
    """Return the counts of a ``usage`` object: its input leaves out what was read from or written to the cache."""
    read, written = count_of(given.get("cache_read_input_tokens")), count_of(given.get("cache_creation_input_tokens"))
    return Usage(
        input=count_of(given.get("input_tokens")) + read + written,
        output=count_of(given.get("output_tokens")),
        cache_read=read,
        cache_write=written,
        reasoning=count_of(part_of(given, "output_tokens_details").get("thinking_tokens")),
    )
