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

_FREE = frozenset({"metadata", "arguments"})


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

    def value(self, value: Any, name: str = "", *, free: bool = False) -> Any:
        """Return JSON *value*, which stands under *name*, with its texts cleaned; *free* is what anybody may name."""
        if isinstance(value, str):
            return self._text(value, name)
        if isinstance(value, list):
            return [self.value(inner, name, free=free) for inner in value]
        if not isinstance(value, dict):
            return value
        if free:
            return {self._text(name): self.value(inner, name, free=True) for name, inner in value.items()}
        return {
            name: inner if name in _LEFT else self.value(inner, name, free=name in _FREE)
            for name, inner in value.items()
        }

    def _text(self, text: str, name: str = "") -> str:
        for policy in self._policies:
            text, count = policy.cleaned(text, name)
            self.spans += count
        return text
