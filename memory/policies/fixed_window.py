"""The policy that shows a number of newest messages, or of newest turns."""

from __future__ import annotations

from collections.abc import Sequence

from memory.errors import ArgumentError
from memory.messages import Message
from memory.policies.newest import newest_groups
from memory.policies.protocol import Window, checked_messages
from memory.turns import turns


class FixedWindow:
    """The newest *messages*, or the newest *turns* (a turn begins with what the user says); one of the two.

    System messages do not count. A group of tool calls and results that the limit would cut is left out.
    """

    def __init__(self, *, messages: int | None = None, turns: int | None = None) -> None:
        if (messages is None) == (turns is None):
            raise ArgumentError("messages, turns", (messages, turns), "exactly one of the two is needed")
        for name, value in (("messages", messages), ("turns", turns)):
            if value is not None and (type(value) is not int or value < 1):
                raise ArgumentError(name, value, "a whole number of at least 1 is needed")
        self._messages = messages
        self._turns = turns

    def apply(self, messages: Sequence[Message]) -> Window:
        """As the protocol says."""
        checked_messages(messages)
        if self._messages is not None:
            limit = self._messages
        else:
            assert self._turns is not None
            spoken = [message for message in messages if message.role != "system"]
            limit = sum(len(turn) for turn in turns(spoken)[-self._turns :])
        return newest_groups(messages, limit, _one, system_cost=_nothing)

    def __repr__(self) -> str:
        chosen = f"messages={self._messages}" if self._messages is not None else f"turns={self._turns}"
        return f"FixedWindow({chosen})"


def _one(message: Message) -> int:
    return 1


def _nothing(message: Message) -> int:
    return 0
