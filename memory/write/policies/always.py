"""The policy that keeps everything."""

from __future__ import annotations

from dataclasses import dataclass

from memory.records import Memory
from memory.write.policies.protocol import Action, Decision


@dataclass(frozen=True, slots=True)
class StoreAlways:
    """Everything is kept."""

    def decide(self, memory: Memory) -> Decision:
        """Accept."""
        return Decision(Action.ACCEPT)
