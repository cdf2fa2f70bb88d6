"""The chunks of a streamed Chat Completion read as deltas. Pure; fields that it does not know are passed over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agent.providers.protocol import Delta, Stop, TextPiece, ThinkingPiece, ToolCallPiece, UsagePiece
from agent.providers.wire import Endpoint, count_of, part_of
from agent.results import StopReason, Usage
from memory.http import ServerEvent

_STOPS = {
    "stop": StopReason.STOP,
    "length": StopReason.MAX_TOKENS,
    "tool_calls": StopReason.TOOL_CALLS,
    "function_call": StopReason.TOOL_CALLS,
    "content_filter": StopReason.CONTENT_FILTER,
    "refusal": StopReason.REFUSAL,
}


class ChunkReader:
    """Reads one reply of *endpoint*: ``read`` each event's data, then ``finish``."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._reason: str | None = None
        self._done = False
        self._refused = False
        self._indexes: dict[str, int] = {}
        self._last_index = -1

    @property
    def done(self) -> bool:
        """Whether the server has said that nothing more comes."""
        return self._done

    def read(self, frame: ServerEvent) -> Iterator[Delta]:
        """Yield what one event says; raise ``ProviderError`` where it is an error or no JSON."""
        if frame.data.strip() == "[DONE]":
            self._done = True
            return
        chunk = self._endpoint.object_of(frame.data)
        if chunk.get("error") or frame.event == "error" or chunk.get("object") == "error":
            raise self._endpoint.complained(chunk.get("error") or chunk)
        choices = chunk.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            yield from self._choice(choices[0])
        if isinstance(chunk.get("usage"), dict):
            yield UsagePiece(usage_of(chunk["usage"]))

    def finish(self) -> Stop:
        """Return why the reply ended; raise where it broke off."""
        if self._reason is None and not self._done:
            raise self._endpoint.broken("the reply broke off before its end", transient=True)
        if self._refused:
            return Stop(StopReason.REFUSAL)
        reason = _STOPS.get(self._reason or "", StopReason.STOP)
        if reason is StopReason.STOP and self._last_index >= 0:
            reason = StopReason.TOOL_CALLS  # some servers say "stop" after tool calls
        return Stop(reason)

    def _choice(self, choice: dict[str, Any]) -> Iterator[Delta]:
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            delta = choice.get("message") if isinstance(choice.get("message"), dict) else {}
        assert isinstance(delta, dict)
        thought = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
        if thought:
            yield ThinkingPiece(thought)
        if text := _text(delta.get("content")):
            yield TextPiece(text)
        if refusal := _text(delta.get("refusal")):
            self._refused = True
            yield TextPiece(refusal)
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                yield self._call(call)
        if isinstance(choice.get("finish_reason"), str):
            self._reason = choice["finish_reason"]

    def _call(self, call: dict[str, Any]) -> ToolCallPiece:
        function = part_of(call, "function")
        arguments = function.get("arguments")
        if isinstance(arguments, (dict, list)):
            arguments = json.dumps(arguments, ensure_ascii=False)  # some servers send the object itself
        index = self._index(call)
        return ToolCallPiece(index, _text(call.get("id")), _text(function.get("name")), _text(arguments))

    def _index(self, call: dict[str, Any]) -> int:
        """Return which call of the reply a piece belongs to; where the server does not say, its id does."""
        given, id = call.get("index"), _text(call.get("id"))
        if type(given) is int:
            index = given
        elif id:
            index = self._indexes.setdefault(id, self._last_index + 1)
        else:
            index = max(self._last_index, 0)
        self._last_index = max(self._last_index, index)
        return index


def usage_of(given: dict[str, Any]) -> Usage:
    """Return the counts of a ``usage`` object; what is missing is 0."""
    read, written = part_of(given, "prompt_tokens_details"), part_of(given, "completion_tokens_details")
    return Usage(
        input=count_of(given.get("prompt_tokens")),
        output=count_of(given.get("completion_tokens")),
        cache_read=count_of(read.get("cached_tokens")),
        cache_write=count_of(read.get("cache_write_tokens")),
        reasoning=count_of(written.get("reasoning_tokens")),
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):  # some servers send the content in typed parts
        return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))
    return ""
