"""Access control: which actor may change which memory, and what may be given to a remote embedder.

A less trusted actor (a tool, a document, a model) may add and be recalled. It corrects, supersedes, pins, weighs,
ends or erases nothing that is trusted more, unless somebody who is trusted enough said yes.

    >>> may_change("tool", Memory("I like tea.", trust=Trust.USER))
    False
    >>> may_change("tool", Memory("I like tea.", trust=Trust.USER), approved_by="user")
    True
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypedDict

from tellback.memory.errors import NotTrusted
from tellback.memory.http.requests import is_remote
from tellback.memory.models import Actor, Memory, Operation, Trust, choice
from tellback.memory.partitions import CONVERSATION, store_namespace
from tellback.memory.validation import checked_actor
from tellback.vectorstore import Entry


def may_change(actor: Actor, memory: Memory, *, approved_by: Actor | None = None) -> bool:
    """Return whether *actor*, or who approved what it does, is trusted at least as much as *memory*."""
    return Caller("", actor, approved_by).may_change(memory)


class CallerOptions(TypedDict, total=False):
    """Options of calls that change memories: the *actor* ("user"), its *namespace* (""), and who approved it."""

    namespace: str
    actor: Actor
    approved_by: Actor | None


@dataclass(frozen=True, slots=True)
class Caller:
    """An actor in a user's *namespace*, and who approved what it does; checked when it is made.

    >>> Caller("", "tool").may_change(Memory("I like tea.", trust=Trust.USER))
    False
    """

    namespace: str = ""
    actor: Actor = "user"
    approved_by: Actor | None = None

    def __post_init__(self) -> None:
        store_namespace(self.namespace, CONVERSATION)
        checked_actor(self.actor, "actor")
        if self.approved_by is not None:
            checked_actor(self.approved_by, "approved_by")

    @property
    def trust(self) -> Trust:
        """Trust in the actor's own word."""
        return Trust.of(self.actor)

    def may_change(self, memory: Memory) -> bool:
        """Return whether the actor, or who approved what it does, is trusted at least as much as *memory*."""
        trust = choice(Trust, memory.trust, "memory.trust")
        return any(deciding.rank <= trust.rank for deciding in self._deciding_trusts())

    def check_may_change(self, memories: Iterable[Memory], operation: str, *, what: str = "memory") -> None:
        """Raise ``NotTrusted`` for the first of *memories* on which the actor may not carry out *operation*.

        The error names the *operation* ("forget") and *what* they are.
        """
        for memory in memories:
            if not self.may_change(memory):
                raise NotTrusted(memory.id, operation, self.actor, memory.trust, what)

    def check_may_undo(self, operation: Operation) -> None:
        """Raise ``NotTrusted`` where somebody who is trusted more than the actor decided on *operation*."""
        decided = Trust.of(operation.actor)
        if not self.may_change(Memory("", trust=decided)):
            raise NotTrusted(operation.id, "undo", self.actor, decided, "operation")

    def trust_after_change(self, memory: Memory) -> Trust:
        """Return how far *memory* is to be trusted once the actor has replaced its words.

        The user's words, or what the user approved, are the user's; nobody else raises what was trusted less.
        """
        return Trust.USER if Trust.USER in self._deciding_trusts() else Trust.least((memory.trust, self.trust))

    def _deciding_trusts(self) -> tuple[Trust, ...]:
        return (self.trust,) if self.approved_by is None else (self.trust, Trust.of(self.approved_by))


SENSITIVE_REASON: Final = "sensitive: not sent to a remote embedder"


def may_embed(memory: Memory, embedder: object) -> bool:
    """Return whether the words of *memory* may be given to *embedder*."""
    return not (memory.sensitive and is_remote(embedder))


def may_embed_entry(entry: Entry, embedder: object) -> bool:
    """As ``may_embed``, for a memory as it is stored."""
    return not (entry.metadata.get("sensitive") is True and is_remote(embedder))
