"""Which messages belong together: what must never be split, and what a turn of the conversation is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from memory.messages import Message, ToolCallBlock


def groups(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Cut *messages* into groups that must stay whole, in order.

    An assistant message that calls tools, all tool messages directly after it, and everything up to the last result
    of its calls that comes later (others may speak meanwhile) are one group; each other message is its own.
    """
    found: list[tuple[Message, ...]] = []
    position = 0
    last = _last_results(messages)
    while position < len(messages):
        end = position + 1
        reach = last.get(position)
        while reach is not None and end < len(messages) and (end <= reach or messages[end].role == "tool"):
            reach = max(reach, last.get(end, reach))
            end += 1
        found.append(tuple(messages[position:end]))
        position = end
    return found


def turns(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Cut *messages* into turns: each begins with a user message; what comes before the first is one too."""
    begins = [position for position, message in enumerate(messages) if message.role == "user"]
    borders = sorted({0, *begins, len(messages)})
    return [tuple(messages[start:end]) for start, end in pairwise(borders)]


def calls_told(messages: Sequence[Message]) -> list[tuple[ToolCallBlock, ...]]:
    """Return for each message the calls that it is to tell of: a tool message those that it answers, an assistant's
    those that nothing among *messages* answers. A result belongs to the last call of its id that has none yet.
    """
    told: list[list[ToolCallBlock]] = [[] for _ in messages]
    waiting: dict[str, tuple[int, ToolCallBlock]] = {}
    for position, message in enumerate(messages):
        if message.role == "assistant":
            told[position] += message.tool_calls
            waiting.update((call.id, (position, call)) for call in message.tool_calls)
        for result in message.tool_results if message.role == "tool" else ():
            caller, call = waiting.pop(result.call_id, (None, None))
            if caller is not None and call is not None:
                told[caller].remove(call)
                told[position].append(call)
    return [tuple(calls) for calls in told]


def _last_results(messages: Sequence[Message]) -> dict[int, int]:
    """Return, by the place of a message that calls tools, the place of the last result of its calls.

    Some servers use an id again: a result belongs to the last call of that id that has none yet.
    """
    last: dict[int, int] = {}
    waiting: dict[str, int] = {}
    for position, message in enumerate(messages):
        if message.role == "assistant" and message.tool_calls:
            last[position] = position
            waiting.update(dict.fromkeys((call.id for call in message.tool_calls), position))
        for result in message.tool_results if message.role == "tool" else ():
            caller = waiting.pop(result.call_id, None)
            if caller is not None:
                last[caller] = position
    return last
