"""What tools were asked and what they answered, in words, as one memory tells it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pydantic_core

from memory.captions import media_words
from memory.message_metadata import RECALLED
from memory.messages import Message, ToolCallBlock, ToolResultBlock


def answered_words(message: Message, calls: Sequence[ToolCallBlock] = ()) -> str:
    """Return the results of a tool *message*, each below what was asked for it, where that is among *calls*.

    Empty where all of it is remembered already.
    """
    asked = {call.id: call for call in calls}
    again = message.metadata.get(RECALLED)
    left_out = again if isinstance(again, (list, tuple)) else ()
    told = [
        _told(result, asked.get(result.call_id)) for result in message.tool_results if result.call_id not in left_out
    ]
    return "\n\n".join(told)


def call_words(call: ToolCallBlock) -> str:
    """Return what *call* asks, such as ``weather (city: Paris, days: 2)``."""
    given = call.invalid if call.invalid is not None else _fields(call.arguments)
    return f"{call.name} ({given})" if given else call.name


def _told(result: ToolResultBlock, call: ToolCallBlock | None) -> str:
    asked = result.name if call is None else call_words(call)
    words = [asked + " (failed)" * result.is_error, result.text.strip(), media_words(result.content)]
    return "\n".join(one for one in words if one)


def _fields(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {_value(value)}" for name, value in arguments.items())


def _value(value: Any) -> str:
    return value if isinstance(value, str) else pydantic_core.to_json(value).decode()
