"""A conversation in an order that every provider takes: turn by turn, and calls with their results. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from agent.reading import marked, trust_of
from memory import Block, Message, TextBlock, ToolCallBlock, ToolResultBlock


def from_user(history: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return *history* from its first user message on: an answer without its question misleads, and some models
    refuse a conversation that they begin."""
    system = tuple(message for message in history if message.role == "system")
    rest = [message for message in history if message.role != "system"]
    start = next((place for place, one in enumerate(rest) if one.role == "user" and _says(one.blocks)), len(rest))
    return (*system, *rest[start:])


def alternating(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return *messages* with neighbours of one role joined, and no call without its results or result without its
    call: many models want the roles to alternate and calls to be answered, and refuse a conversation otherwise."""
    joined: list[Message] = []
    for message in _paired(messages):
        last = joined[-1] if joined else None
        if last is not None and message.role == last.role:
            whole = last.model_copy(update={"blocks": (*last.blocks, *message.blocks)})
            joined[-1] = marked(whole, trust_of(message))
        else:
            joined.append(message)
    return tuple(joined)


def _paired(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield *messages* with only those calls and results that belong together; one that is empty then is left out."""
    paired: set[str] = set()
    for place, message in enumerate(messages):
        if message.role != "tool":
            results = takewhile(lambda one: one.role == "tool", messages[place + 1 :]) if message.tool_calls else ()
            answered = {result.call_id for one in results for result in one.tool_results}
            paired = {call.id for call in message.tool_calls} & answered
        blocks = tuple(block for block in message.blocks if _belongs(block, paired))
        paired = paired - {block.call_id for block in blocks if isinstance(block, ToolResultBlock)}  # answered once
        if _says(blocks):
            yield message if len(blocks) == len(message.blocks) else message.model_copy(update={"blocks": blocks})


def _says(blocks: Sequence[Block]) -> bool:
    """Whether *blocks* say anything: a message without words is refused by some providers."""
    return any(block.text.strip() if isinstance(block, TextBlock) else block.type != "thinking" for block in blocks)


def _belongs(block: Block, paired: set[str]) -> bool:
    if isinstance(block, ToolCallBlock):
        return block.id in paired
    return not isinstance(block, ToolResultBlock) or block.call_id in paired
