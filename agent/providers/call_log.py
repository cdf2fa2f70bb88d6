"""Log of model calls: a line a call under the logger ``tellback.agent.model_calls``, with sizes, times and usage.

Contents stay out unless they are asked for, and secrets in them are redacted. The same fields stand in the record's
attribute ``model_call``, for programs that log in JSON.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tellback.agent.providers.accumulator import Response
from tellback.agent.providers.base import Request
from tellback.agent.results import ErrorRecord
from tellback.memory import Message, TextBlock, ThinkingBlock, ToolCallBlock, ToolResultBlock
from tellback.memory.internals import Block, OpaqueBlock, redact_secrets

_log = logging.getLogger("tellback.agent.model_calls")


@dataclass(frozen=True, slots=True)
class ModelCallLog:
    """Log of the calls of *model* by *agent* in *session*, for a *purpose*; *contents*: with requests and replies."""

    model: str = ""
    agent: str = ""
    session: str = ""
    purpose: str = "answer"
    contents: bool = False

    def write(self, request: Request, response: Response, *, step: int = 0, error: ErrorRecord | None = None) -> None:
        """Log one call: *response* is what came of the reply, *error* the reason why it is not whole."""
        level = logging.INFO if error is None else logging.WARNING
        if not _log.isEnabledFor(level):
            return
        fields = self._fields(request, response, step, error)
        text = _line(fields)
        if self.contents:
            fields |= {"request": _request_text(request), "reply": _redacted([_shown_message(response.message)])}
            text += f"\nrequest: {fields['request']}\nreply: {fields['reply']}"
        _log.log(level, "%s", text, extra={"model_call": fields})

    def _fields(self, request: Request, response: Response, step: int, error: ErrorRecord | None) -> dict[str, Any]:
        return {
            "model": self.model,
            "agent": self.agent,
            "session": self.session,
            "purpose": self.purpose,
            "step": step,
            "messages": len(request.messages),
            "characters": len(request.system) + sum(map(_message_length, request.messages)),
            "tools": len(request.tools),
            "reply_characters": _message_length(response.message),
            "calls": [call.name for call in response.message.tool_calls],
            "finish": None if error is not None else response.stop.value,
            "error": None if error is None else str(error),
            "elapsed": response.elapsed,
            "first_token": response.first_token,
            "usage": asdict(response.usage),
        }


def _line(fields: Mapping[str, Any]) -> str:
    usage, first = fields["usage"], fields["first_token"]
    who = f" of {fields['agent']}" if fields["agent"] else ""
    called = f", calls {', '.join(fields['calls'])}" if fields["calls"] else ""
    begun = "" if first is None else f", first token after {first:.3f} s"
    parts = [
        f"{fields['purpose']} {fields['step']}{who}: {fields['model'] or 'the model'}",
        f"{fields['messages']} messages, {fields['characters']} characters, {fields['tools']} tools in",
        f"{fields['reply_characters']} characters out{called}",
        f"{fields['finish'] or 'failed'} in {fields['elapsed']:.3f} s{begun}",
        f"{usage['input']} + {usage['output']} tokens ({usage['cache_read']} from the cache)",
    ]
    return "; ".join(parts) + (f"; {fields['error']}" if fields["error"] else "")


def _message_length(message: Message) -> int:
    return sum(len(text) for block in message.blocks for text in _block_texts(block))


def _block_texts(block: Block) -> Iterable[str]:
    if isinstance(block, (TextBlock, ThinkingBlock, ToolResultBlock)):
        yield block.text
    elif isinstance(block, ToolCallBlock):
        yield json.dumps(block.arguments) if block.invalid is None else block.invalid


def _request_text(request: Request) -> str:
    system = [{"role": "system", "text": request.system}] if request.system else []
    return _redacted([*system, *map(_shown_message, request.messages)])


def _shown_message(message: Message) -> dict[str, Any]:
    return {"role": message.role, "blocks": [_shown_block(block) for block in message.blocks]}


def _shown_block(block: Block) -> dict[str, Any]:
    """Return what is readable of *block*: of an image or a document its kind and its size."""
    if isinstance(block, (TextBlock, ThinkingBlock)):
        return {block.type: block.text}
    if isinstance(block, ToolCallBlock):
        return {"call": block.name, "arguments": block.arguments if block.invalid is None else block.invalid}
    if isinstance(block, ToolResultBlock):
        return {"result": block.name, "text": block.text, "error": block.is_error}
    if isinstance(block, OpaqueBlock):
        return {block.type: block.format, "fields": sorted(block.data)}
    return {block.type: block.media_type, "bytes": len(block.data)}


def _redacted(messages: list[dict[str, Any]]) -> str:
    return redact_secrets(json.dumps(messages, ensure_ascii=False))[0]
