"""Messages without what a policy takes out of texts, so that history does not keep what memory must not.

Bytes of images and documents stay as they are; all texts of a message are read, tool calls and results included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memory.messages import Message
from memory.write.policies import Cleaning, WritePolicy

_LEFT = frozenset({"type", "role", "media_type", "data", "signature", "redacted", "id", "call_id", "at"})
"""Fields that are not anybody's words: names of kinds, ids, bytes, and what a provider must get back unchanged."""


def cleaners(policies: Sequence[WritePolicy]) -> tuple[Cleaning, ...]:
    """Return those of *policies* that take parts of texts away."""
    return tuple(policy for policy in policies if isinstance(policy, Cleaning))


def cleaned_message(message: Message, policies: Sequence[Cleaning]) -> tuple[Message, int]:
    """Return *message* without what *policies* take out, and how many parts that was; the same object if none."""
    if not policies:
        return message, 0
    walk = _Walk(policies)
    kept = walk.value(message.model_dump(mode="json"))
    return (Message.model_validate(kept), walk.spans) if walk.spans else (message, 0)


class _Walk:
    """One pass through the values of a message."""

    def __init__(self, policies: Sequence[Cleaning]) -> None:
        self._policies = policies
        self.spans = 0

    def value(self, value: Any) -> Any:
        """Return JSON *value* with its texts cleaned."""
        if isinstance(value, str):
            for policy in self._policies:
                value, count = policy.cleaned(value)
                self.spans += count
            return value
        if isinstance(value, dict):
            return {name: inner if name in _LEFT else self.value(inner) for name, inner in value.items()}
        return [self.value(inner) for inner in value] if isinstance(value, list) else value
