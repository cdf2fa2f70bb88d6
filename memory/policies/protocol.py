"""What a read policy is: it chooses the messages that a model sees. Storage keeps them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from memory.messages import Message


@dataclass(frozen=True, slots=True)
class Window:
    """What was chosen: *messages*, how many were left out (*dropped*), and whether they exceed the limit."""

    messages: tuple[Message, ...]
    dropped: int = 0
    over_budget: bool = False


@runtime_checkable
class ReadPolicy(Protocol):
    """Chooses from a conversation, oldest message first. Pure: it keeps nothing and changes no message.

    - System messages are always kept, and come first, in their order.
    - Of the others the newest are kept, without gaps: groups (``memory.turns.groups``) from the end, whole.
    - The newest group is kept even where it exceeds the limit; ``over_budget`` then says so.
    - No messages give an empty window.
    """

    def apply(self, messages: Sequence[Message]) -> Window:
        """Return the window of *messages*."""
        ...
