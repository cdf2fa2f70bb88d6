"""Several policies one after the other: each sees what the one before it has left."""

from __future__ import annotations

from collections.abc import Sequence

from memory.errors import ArgumentError
from memory.messages import Message
from memory.policies.protocol import ConversationPolicy, ReadPolicy, Window, checked_messages, checked_policy


class Chain:
    """The messages that all of *policies* let through, such as ``Chain(FixedWindow(turns=20), TokenWindow(4000, …))``.

    A policy that sums up what fell out stands around a chain, not in it: ``SummaryWindow(Chain(…), summarise)``.
    """

    def __init__(self, *policies: ReadPolicy) -> None:
        if not policies:
            raise ArgumentError("policies", policies, "at least one policy is needed")
        for position, policy in enumerate(policies):
            checked_policy(policy, f"policies[{position}]")
            if isinstance(policy, ConversationPolicy):
                expected = "put the chain inside it, so that it sums up what the whole chain leaves out"
                raise ArgumentError(f"policies[{position}]", policy, expected)
        self._policies = policies

    def apply(self, messages: Sequence[Message]) -> Window:
        """As the protocol says; over budget if one of the windows is."""
        chosen, over_budget = tuple(checked_messages(messages)), False
        notes: list[str] = []
        for policy in self._policies:
            window = policy.apply(chosen)
            chosen, over_budget = window.messages, over_budget or window.over_budget
            notes += window.notes
        return Window(chosen, len(messages) - len(chosen), over_budget, notes=tuple(notes))

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self._policies))})"
