"""Which messages belong together: what must never be split, and what a turn of the conversation is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from memory.messages import Message


def groups(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Cut *messages* into groups that must stay whole, in order.

    An assistant message that calls tools and all tool messages directly after it are one group; each other
    message is its own.
    """
    found: list[tuple[Message, ...]] = []
    position = 0
    while position < len(messages):
        end = position + 1
        if messages[position].role == "assistant" and messages[position].tool_calls:
            while end < len(messages) and messages[end].role == "tool":
                end += 1
        found.append(tuple(messages[position:end]))
        position = end
    return found


def turns(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Cut *messages* into turns: each begins with a user message; what comes before the first is one too."""
    begins = [position for position, message in enumerate(messages) if message.role == "user"]
    borders = sorted({0, *begins, len(messages)})
    return [tuple(messages[start:end]) for start, end in pairwise(borders)]
