"""Context windows: policies that choose the messages of a conversation that a model sees.

A policy filters and keeps nothing; the storage keeps every message. A call of tools and its results are never split,
and the newest group is always shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tellback.memory.errors import ArgumentError
from tellback.memory.history.codec import checked_messages
from tellback.memory.history.protocol import Conversation
from tellback.memory.messages import Message, conversation_turns, message_groups
from tellback.memory.tokens.counter import TokenCounter, checked_counter, message_tokens


@dataclass(frozen=True, slots=True)
class Window:
    """Chosen *messages*, the number of those left out (*dropped*), and whether they exceed the limit.

    *summary* is the message among them that carries a summary of what was left out; it stands after the system's.
    *notes* say what was done differently than asked, *degraded* are those among them that tell of a failure.
    """

    messages: tuple[Message, ...]
    dropped: int = 0
    over_budget: bool = False
    summary: Message | None = None
    notes: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()


@runtime_checkable
class WindowPolicy(Protocol):
    """Chooses from a conversation, oldest message first. Pure: it keeps nothing and changes no message.

    - System messages are always kept, and come first, in their order.
    - Of the others the newest are kept, without gaps: groups (``tellback.memory.messages.groups``) from the end, whole.
    - The newest group is kept even where it exceeds the limit; ``over_budget`` then says so.
    - No messages give an empty window, and the messages of a window give the same window.
    """

    def apply(self, messages: Sequence[Message]) -> Window:
        """Return the window of *messages*."""


@runtime_checkable
class ConversationWindowPolicy(WindowPolicy, Protocol):
    """Window policy that may keep something beside the conversation, and so reads it itself.

    ``apply`` gives its window of messages alone. ``window`` obeys the same rules, and no message is changed.
    """

    async def window(self, conversation: Conversation) -> Window:
        """Return the window of *conversation*."""


def checked_window_policy(policy: object, argument: str) -> WindowPolicy:
    """Return *policy* if it is a window policy; a class is none."""
    if isinstance(policy, type) or not isinstance(policy, WindowPolicy):
        expected = "a read policy is needed, such as FixedWindow(turns=10); it has a method apply(messages)"
        raise ArgumentError(argument, policy, expected)
    return policy


async def window_of(policy: WindowPolicy, conversation: Conversation) -> Window:
    """Return what *policy* shows of *conversation*, whichever kind of policy it is."""
    if isinstance(policy, ConversationWindowPolicy):
        return await policy.window(conversation)
    return policy.apply([stored.message for stored in await conversation.load()])


MessageCost = Callable[[Message], int]


def newest_groups(messages: Sequence[Message], budget: int, cost: MessageCost, *, system_cost: MessageCost) -> Window:
    """Return system messages and the newest groups whose costs sum up to at most *budget*.

    A tool message whose call is not in the window would be refused by a model: such orphans at the window's
    start are left out, unless there is nothing else.
    """
    checked_messages(messages)
    system = [message for message in messages if message.role == "system"]
    found = message_groups([message for message in messages if message.role != "system"])
    spent = sum(map(system_cost, system))
    kept: list[tuple[Message, ...]] = []
    for group in reversed(found):
        price = sum(map(cost, group))
        if kept and spent + price > budget:
            break
        kept.insert(0, group)
        spent += price
    while len(kept) > 1 and kept[0][0].role == "tool":
        kept.pop(0)  # more than one group is never over the budget, so *spent* need not be corrected
    chosen = (*system, *(message for group in kept for message in group))
    return Window(chosen, dropped=len(messages) - len(chosen), over_budget=spent > budget)


class FullWindow:
    """Window of all messages; system messages come first."""

    def apply(self, messages: Sequence[Message]) -> Window:
        """As the protocol says."""
        checked_messages(messages)
        system = [message for message in messages if message.role == "system"]
        return Window((*system, *(message for message in messages if message.role != "system")))

    def __repr__(self) -> str:
        return "FullWindow()"


class FixedWindow:
    """The newest *messages*, or the newest *turns* (a turn begins with what the user says); one of the two.

    Every message counts but the system's: prompts, answers, calls and results. A group of tool calls and results that
    the limit would cut is left out, and so is all that is older, so that fewer may be shown: of a prompt, a call, its
    result and the answer, two *messages* are the answer alone; one of *turns* is all four.
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
            limit = sum(len(turn) for turn in conversation_turns(spoken)[-self._turns :])
        return newest_groups(messages, limit, lambda _: 1, system_cost=lambda _: 0)

    def __repr__(self) -> str:
        chosen = f"messages={self._messages}" if self._messages is not None else f"turns={self._turns}"
        return f"FixedWindow({chosen})"


class TokenWindow:
    """The newest groups that fit into *budget* tokens as *counter* counts them, system messages included."""

    def __init__(self, budget: int, counter: TokenCounter) -> None:
        if type(budget) is not int or budget < 1:
            raise ArgumentError("budget", budget, "a whole number of tokens of at least 1 is needed")
        self._budget = budget
        self._counter = checked_counter(counter)

    def apply(self, messages: Sequence[Message]) -> Window:
        """As the protocol says."""
        return newest_groups(messages, self._budget, self._cost, system_cost=self._cost)

    def _cost(self, message: Message) -> int:
        return message_tokens(message, self._counter)

    def __repr__(self) -> str:
        return f"TokenWindow({self._budget})"
