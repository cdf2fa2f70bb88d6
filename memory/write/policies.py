"""Write policies: what may become a memory, and in which form; each decision says why.

A policy looks at one memory and decides; it stores nothing and does no I/O. The first that rejects ends it,
a memory that one has changed is what the next one sees.

    >>> MinimumLength(10).decide(Memory(text="ok")).action
    <Action.REJECT: 'reject'>
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from memory.errors import ArgumentError
from memory.records import Memory, Outcome
from memory.write.checking import checked, whole


class Action(StrEnum):
    """What a policy does with a memory."""

    ACCEPT = "accept"
    TRANSFORM = "transform"
    """Store the memory given with the decision instead (other words, the same content)."""
    REDACT = "redact"
    """Store the memory given with the decision instead, from which something was taken out."""
    REROUTE = "reroute"
    """Store the memory given with the decision instead, as another kind or scope."""
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, a *reason* code for the report, and the *memory* that takes the place of the one judged."""

    action: Action
    reason: str = ""
    memory: Memory | None = None


@runtime_checkable
class WritePolicy(Protocol):
    """Decides about one memory at a time. Any thread may call."""

    def decide(self, memory: Memory) -> Decision:
        """Return the decision; the memory has been checked and has no id yet unless the caller gave one."""
        ...


@dataclass(frozen=True, slots=True)
class StoreAlways:
    """Everything is kept."""

    def decide(self, memory: Memory) -> Decision:
        """Accept."""
        return Decision(Action.ACCEPT)


@dataclass(frozen=True, slots=True)
class MinimumLength:
    """Texts of fewer than *characters*, blanks at the ends not counted, are rejected as "too short"."""

    characters: int

    def __post_init__(self) -> None:
        whole(self.characters, "characters", 1)

    def decide(self, memory: Memory) -> Decision:
        """Reject what is too short."""
        if len(memory.text.strip()) < self.characters:
            return Decision(Action.REJECT, "too short")
        return Decision(Action.ACCEPT)


@dataclass(frozen=True, slots=True)
class Judged:
    """What the policies made of a memory; None when it is not to be stored."""

    memory: Memory | None
    outcome: Outcome
    reason: str = ""


def judge(memory: Memory, policies: Sequence[WritePolicy]) -> Judged:
    """Ask *policies* in their order what becomes of *memory*."""
    outcome, reasons = Outcome.STORED, []
    for policy in policies:
        decision = policy.decide(memory)
        if decision.action is Action.REJECT:
            return Judged(None, Outcome.REJECTED, decision.reason or "rejected")
        if decision.reason:
            reasons.append(decision.reason)
        if decision.action is Action.ACCEPT:
            continue
        if decision.memory is None:
            expected = f"a decision to {decision.action} needs the memory to store"
            raise ArgumentError(f"policies ({type(policy).__name__})", decision, expected)
        memory = checked(decision.memory, argument=f"policies ({type(policy).__name__})")
        if decision.action is Action.REDACT:
            outcome = Outcome.REDACTED
    return Judged(memory, outcome, "; ".join(reasons))
