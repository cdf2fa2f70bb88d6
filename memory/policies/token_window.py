"""The policy that shows the newest messages within a budget of tokens."""

from __future__ import annotations

from collections.abc import Sequence

from memory.errors import ArgumentError
from memory.messages import Message
from memory.policies.newest import newest_groups
from memory.policies.protocol import Window
from memory.tokens import TokenCounter, checked_counter, message_tokens


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
