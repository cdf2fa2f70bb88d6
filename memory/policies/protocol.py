"""What a read policy is: it chooses the messages that a model sees. Storage keeps them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from memory.errors import ArgumentError
from memory.messages import Message
from memory.storage.conversation import Conversation


@dataclass(frozen=True, slots=True)
class Window:
    """What was chosen: *messages*, how many were left out (*dropped*), and whether they exceed the limit.

    *summary* is the one of *messages* that nobody said: it tells what was left out, and stands after the system's.
    *notes* say what was done differently than asked.
    """

    messages: tuple[Message, ...]
    dropped: int = 0
    over_budget: bool = False
    summary: Message | None = None
    notes: tuple[str, ...] = ()


@runtime_checkable
class ReadPolicy(Protocol):
    """Chooses from a conversation, oldest message first. Pure: it keeps nothing and changes no message.

    - System messages are always kept, and come first, in their order.
    - Of the others the newest are kept, without gaps: groups (``memory.turns.groups``) from the end, whole.
    - The newest group is kept even where it exceeds the limit; ``over_budget`` then says so.
    - No messages give an empty window, and the messages of a window give the same window.
    """

    def apply(self, messages: Sequence[Message]) -> Window:
        """Return the window of *messages*."""
        ...


@runtime_checkable
class ConversationPolicy(ReadPolicy, Protocol):
    """A read policy that may keep something beside the conversation, and so reads it itself.

    ``apply`` gives its window of messages alone. ``window`` obeys the same rules, and no message is changed.
    """

    async def window(self, conversation: Conversation) -> Window:
        """Return the window of *conversation*."""
        ...


def checked_messages(messages: Sequence[Message]) -> Sequence[Message]:
    """Return *messages* if they are a list of messages; what a history gives is a ``StoredMessage``, and has one."""
    if isinstance(messages, (str, bytes)) or not isinstance(messages, Sequence):
        raise ArgumentError("messages", messages, "a list of messages is needed")
    for position, message in enumerate(messages):
        if not isinstance(message, Message):
            raise ArgumentError(f"messages[{position}]", message, "a Message is needed")
    return messages


def checked_policy(policy: object, argument: str) -> ReadPolicy:
    """Return *policy* if it is a read policy; a class that makes one is none."""
    if isinstance(policy, type) or not isinstance(policy, ReadPolicy):
        expected = "a read policy is needed, such as FixedWindow(turns=10); it has a method apply(messages)"
        raise ArgumentError(argument, policy, expected)
    return policy


async def window_of(policy: ReadPolicy, conversation: Conversation) -> Window:
    """Return what *policy* shows of *conversation*, whichever kind of policy it is."""
    if isinstance(policy, ConversationPolicy):
        return await policy.window(conversation)
    return policy.apply([one.message for one in await conversation.load()])
