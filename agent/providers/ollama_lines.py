"""The lines of a streamed Ollama chat read as deltas. Pure; fields that it does not know are passed over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agent.providers.protocol import Delta, Stop, TextPiece, ThinkingPiece, ToolCallPiece, UsagePiece
from agent.providers.wire import Endpoint, count_of, part_of, text_of
from agent.results import StopReason, Usage

_STOPS = {"length": StopReason.MAX_TOKENS, "content_filter": StopReason.CONTENT_FILTER, "refusal": StopReason.REFUSAL}


class LineReader:
    """Reads one reply of *endpoint*: ``read`` each line, then ``finish``."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._reason: str | None = None
        self._done = False
        self._calls = 0

    @property
    def done(self) -> bool:
        """Whether the server has said that nothing more comes."""
        return self._done

    def read(self, frame: str) -> Iterator[Delta]:
        """Yield what one line says; raise ``ProviderError`` where it is an error or no JSON."""
        value = self._endpoint.object_of(frame)
        if value.get("error"):
            raise self._endpoint.complained(value["error"])
        message = part_of(value, "message")
        if thought := text_of(message.get("thinking")):
            yield ThinkingPiece(thought)
        if text := text_of(message.get("content")):
            yield TextPiece(text)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                yield self._call(call)
        if value.get("done") is True:
            self._done = True
            self._reason = text_of(value.get("done_reason"))
            yield UsagePiece(usage_of(value))

    def finish(self) -> Stop:
        """Return why the reply ended; raise where it broke off."""
        if not self._done:
            raise self._endpoint.broken("the reply broke off before its end", transient=True)
        reason = _STOPS.get(self._reason or "", StopReason.STOP)
        return Stop(StopReason.TOOL_CALLS if reason is StopReason.STOP and self._calls else reason)

    def _call(self, call: dict[str, Any]) -> ToolCallPiece:
        """Calls come whole, one after the other; an index that the server gives is not unique, so ours count."""
        function = part_of(call, "function")
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
        index, self._calls = self._calls, self._calls + 1
        return ToolCallPiece(index, text_of(call.get("id")), text_of(function.get("name")), text)


def usage_of(given: dict[str, Any]) -> Usage:
    """Return the counts of the last line; the format tells neither caching nor reasoning."""
    return Usage(input=count_of(given.get("prompt_eval_count")), output=count_of(given.get("eval_count")))
