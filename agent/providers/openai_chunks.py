"""The chunks of a streamed Chat Completion read as deltas. Pure; fields that it does not know are passed over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agent.errors import ProviderError
from agent.providers.protocol import Delta, Stop, TextPiece, ThinkingPiece, ToolCallPiece, UsagePiece
from agent.results import StopReason, Usage

_STOPS = {
    "stop": StopReason.STOP,
    "length": StopReason.MAX_TOKENS,
    "tool_calls": StopReason.TOOL_CALLS,
    "function_call": StopReason.TOOL_CALLS,
    "content_filter": StopReason.CONTENT_FILTER,
    "refusal": StopReason.REFUSAL,
}
_SHOWN = 300


class ChunkReader:
    """Reads one reply: ``read`` each event's data, then ``finish``. *hidden* is shown in no error."""

    def __init__(self, provider: str, *, hidden: str = "") -> None:
        self._provider = provider
        self._hidden = hidden
        self._reason: str | None = None
        self._done = False
        self._refused = False
        self._indexes: dict[str, int] = {}
        self._last_index = -1

    @property
    def done(self) -> bool:
        """Whether the server has said that nothing more comes."""
        return self._done

    def read(self, event: str, data: str) -> Iterator[Delta]:
        """Yield what one event says; raise ``ProviderError`` where it is an error or no JSON."""
        if data.strip() == "[DONE]":
            self._done = True
            return
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self._broken("a chunk of the reply is not JSON") from error
        if not isinstance(chunk, dict):
            raise self._broken("a chunk of the reply is not a JSON object")
        if chunk.get("error") or event == "error" or chunk.get("object") == "error":
            raise self._broken(f"failed in the middle of the reply: {self._complaint(chunk)}")
        choices = chunk.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            yield from self._choice(choices[0])
        if isinstance(chunk.get("usage"), dict):
            yield UsagePiece(usage_of(chunk["usage"]))

    def finish(self) -> Stop:
        """Return why the reply ended; raise where it broke off."""
        if self._reason is None and not self._done:
            raise self._broken("the reply broke off before its end")
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
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
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

    def _complaint(self, chunk: dict[str, Any]) -> str:
        error = chunk.get("error") or chunk
        said = error.get("message") if isinstance(error, dict) else error
        line = " ".join((said if isinstance(said, str) else "no reason given").split())
        if self._hidden:
            line = line.replace(self._hidden, "[hidden]")
        return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"

    def _broken(self, problem: str) -> ProviderError:
        return ProviderError(problem, provider=self._provider)


def usage_of(given: dict[str, Any]) -> Usage:
    """Return the counts of a ``usage`` object; what is missing is 0."""
    read, written = given.get("prompt_tokens_details"), given.get("completion_tokens_details")
    read = read if isinstance(read, dict) else {}
    written = written if isinstance(written, dict) else {}
    return Usage(
        input=_count(given.get("prompt_tokens")),
        output=_count(given.get("completion_tokens")),
        cache_read=_count(read.get("cached_tokens")),
        cache_write=_count(read.get("cache_write_tokens")),
        reasoning=_count(written.get("reasoning_tokens")),
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):  # some servers send the content in typed parts
        return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))
    return ""


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0
