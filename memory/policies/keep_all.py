"""The policy that shows everything, in the order it was said."""

from __future__ import annotations

from collections.abc import Sequence

from memory.messages import Message
from memory.policies.protocol import Window, checked_messages


class KeepAll:
    """No limit; system messages come first."""

    def apply(self, messages: Sequence[Message]) -> Window:
        """As the protocol says."""
        checked_messages(messages)
        system = [message for message in messages if message.role == "system"]
        return Window((*system, *(message for message in messages if message.role != "system")))

    def __repr__(self) -> str:
        return "KeepAll()"
