"""The policy that leaves out what is too short to mean anything: "ok", "thanks".

>>> MinimumLength(10).decide(Memory(text="ok")).action
<Action.REJECT: 'reject'>
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from memory.errors import ArgumentError
from memory.records import Memory
from memory.write.checking import whole
from memory.write.policies.protocol import Action, Decision, Turn, TurnDecision

_TOO_SHORT = Decision(Action.REJECT, "too short")


@dataclass(frozen=True, slots=True)
class MinimumLength:
    """Keeps what has strictly more than *characters*, blanks at both ends not counted; the rest is "too short".

    *of* "turn" counts prompt and answer together, so that a short question stays with its long answer.
    """

    characters: int
    of: Literal["item", "turn"] = "item"

    def __post_init__(self) -> None:
        whole(self.characters, "characters", 1)
        if self.of not in ("item", "turn"):
            raise ArgumentError("of", self.of, 'one of "item", "turn" is needed')

    def decide(self, memory: Memory) -> Decision:
        """Reject what is too short."""
        return Decision(Action.ACCEPT) if _length(memory) > self.characters else _TOO_SHORT

    def decide_turn(self, turn: Turn) -> TurnDecision:
        """As ``decide``, for each memory or for all together."""
        if self.of == "item":
            return TurnDecision(tuple(self.decide(memory) for memory in turn.memories))
        long = sum(_length(memory) for memory in turn.memories) > self.characters
        return TurnDecision((Decision(Action.ACCEPT) if long else _TOO_SHORT,) * len(turn.memories))


def _length(memory: Memory) -> int:
    return len(memory.text.strip())
