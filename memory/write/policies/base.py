"""Protocols of write policies: decisions about one memory, about one beside stored ones, or about a whole turn.

A policy stores nothing. The first that rejects ends it; a memory that one has changed is what the next one sees. Each
method may be a coroutine. One that fails loses nothing: see ``policy_runner``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, runtime_checkable

from tellback.memory.models import Memory, choice

NEAR_DUPLICATE_KEY: Final = "near"
"""Metadata of a memory: the id of the one that it nearly repeats."""

OnPolicyFailure: TypeAlias = Literal["store", "reject"]
"""Fate of a memory that a policy failed on: kept as it was, or not kept. History has the words either way."""


class Action(StrEnum):
    """Action of a policy on a memory."""

    ACCEPT = "accept"
    TRANSFORM = "transform"
    """Store the memory given with the decision instead (other words, the same content)."""
    REDACT = "redact"
    """Store the memory given with the decision instead, from which something was taken out."""
    REROUTE = "reroute"
    """Store the memory given with the decision instead, as another kind or scope."""
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """Action to take, a *reason* code for the report, and the *memory* that takes the place of the one judged.

    *action* may be given as its text ("reject"). *spans* counts what was taken out of it; *of* is the id of the memory
    that it nearly repeats, *may_replace* that of an older statement which it may replace: a suggestion for the report.
    """

    action: Action
    reason: str = ""
    memory: Memory | None = None
    spans: int = 0
    of: str | None = None
    may_replace: str | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            action: Action | str,
            reason: str = "",
            memory: Memory | None = None,
            spans: int = 0,
            of: str | None = None,
            may_replace: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "action", choice(Action, self.action, "action"))


@dataclass(frozen=True, slots=True)
class SimilarMemory:
    """A *memory* that is there already, how like the one asked for it is (in [0, 1]), and how that was found."""

    memory: Memory
    similarity: float
    by: Literal["meaning", "words"]


@dataclass(frozen=True, slots=True)
class MemoryTurn:
    """Memories of one turn, in order: prompt and answer, or a single item; as earlier policies have left them."""

    memories: tuple[Memory, ...]

    @property
    def text(self) -> str:
        """Texts of the memories, a line for each."""
        return "\n".join(memory.text for memory in self.memories)


@dataclass(frozen=True, slots=True)
class TurnDecision:
    """A decision for each memory of a turn, in order; and what else is to be stored, made from them.

    *made* are memories with the places of those they were made from; each is a memory of its own, trusted no more
    than the least trusted of them.
    """

    decisions: tuple[PolicyDecision, ...]
    made: tuple[tuple[Memory, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class ReplacementCandidates:
    """A new *memory*, and the *older* ones most like it which it may replace, the most alike first."""

    memory: Memory
    older: tuple[Memory, ...]


class MemoryLookup(Protocol):
    """Search of the namespace that is written to, earlier items of the batch included, for a policy."""

    async def nearest(self, memory: Memory, k: int = 5) -> Sequence[SimilarMemory]:
        """Return the *k* live memories most like *memory*, best first; ties by id.

        By cosine where an embedder answers; otherwise by words: the share of all words of both that both hold.
        """


@runtime_checkable
class WritePolicy(Protocol):
    """Policy that decides about one memory at a time. Any thread may call."""

    def decide(self, memory: Memory) -> PolicyDecision | Awaitable[PolicyDecision]:
        """Return the decision; the memory has been checked and has no id yet unless the caller gave one."""


@runtime_checkable
class LookupPolicy(WritePolicy, Protocol):
    """A policy that compares with what is stored; without a store to search, ``decide`` is called instead."""

    def decide_beside(self, memory: Memory, stored: MemoryLookup) -> PolicyDecision | Awaitable[PolicyDecision]:
        """Return the decision about *memory*, compared with what is *stored*."""


@runtime_checkable
class TurnPolicy(WritePolicy, Protocol):
    """A policy that decides about prompt and answer together; an item by itself is a turn of one."""

    def decide_turn(self, turn: MemoryTurn) -> TurnDecision | Awaitable[TurnDecision]:
        """Return a decision for each memory of *turn*, and what else is to be stored."""


@runtime_checkable
class RedactionPolicy(Protocol):
    """A policy that takes parts of a text away; conversation history is kept without them, too."""

    def cleaned(self, text: str, name: str = "") -> tuple[str, int]:
        """Return *text* without them, and how many there were; *name* is what it stands under ("password")."""


def accept_all(turn: MemoryTurn) -> tuple[PolicyDecision, ...]:
    """Return the decision to accept for each memory of *turn*."""
    return tuple(PolicyDecision(Action.ACCEPT) for _ in turn.memories)
