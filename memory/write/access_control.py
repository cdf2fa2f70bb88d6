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
from typing import Final

from memory.errors import NotTrusted
from memory.http.requests import is_remote
from memory.models import Actor, Memory, Operation, Trust, choice
from memory.partitions import CONVERSATION, store_namespace
from memory.validation import checked_actor
from vectorstore import Entry


def actor_trust(actor: Actor) -> Trust:
    """Return how far *actor*'s word is trusted."""
    return Trust.of(checked_actor(actor, "actor"))


def may_change(actor: Actor, memory: Memory, *, approved_by: Actor | None = None) -> bool:
    """Whether *actor*, or who approved what it does, is trusted at least as much as *memory*."""
    actors = [checked_actor(actor, "actor")]
    if approved_by is not None:
        actors.append(checked_actor(approved_by, "approved_by"))
    trust = choice(Trust, memory.trust, "memory.trust")
    return any(Trust.of(name).rank <= trust.rank for name in actors)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who acts in a user's *namespace*, and who approved it; checked when it is made.

    >>> Caller("", "tool").may_change(Memory("I like tea.", trust=Trust.USER))
    False
    """

    namespace: str
    actor: Actor = "user"
    approved_by: Actor | None = None

    def __post_init__(self) -> None:
        store_namespace(self.namespace, CONVERSATION)
        checked_actor(self.actor, "actor")
        if self.approved_by is not None:
            checked_actor(self.approved_by, "approved_by")

    @property
    def trust(self) -> Trust:
        """How far the actor's own word is trusted."""
        return Trust.of(self.actor)

    def may_change(self, memory: Memory) -> bool:
        """Whether the actor, or who approved what it does, is trusted at least as much as *memory*."""
        return may_change(self.actor, memory, approved_by=self.approved_by)

    def check_may_change(self, memories: Iterable[Memory], operation: str, *, what: str = "memory") -> None:
        """Raise ``NotTrusted`` for the first of *memories* on which the actor may not carry out *operation*.

        *operation* ("forget") and *what* they are stand in the error.
        """
        check_may_change(self.actor, memories, operation, approved_by=self.approved_by, what=what)

    def check_may_undo(self, operation: Operation) -> None:
        """Raise ``NotTrusted`` where somebody who is trusted more than the actor decided on *operation*."""
        check_may_undo(self.actor, operation, approved_by=self.approved_by)

    def trust_after_change(self, memory: Memory) -> Trust:
        """Return how far *memory* is to be trusted once the actor has replaced its words.

        The user's words, or what the user approved, are the user's; nobody else raises what was trusted less.
        """
        return trust_after_change(self.actor, memory, approved_by=self.approved_by)


def check_may_change(
    actor: Actor,
    memories: Iterable[Memory],
    operation: str,
    *,
    approved_by: Actor | None = None,
    what: str = "memory",
) -> None:
    """Raise ``NotTrusted`` for the first of *memories* on which *actor* may not carry out *operation* ("forget").

    *what* they are, in the error.
    """
    for memory in memories:
        if not may_change(actor, memory, approved_by=approved_by):
            raise NotTrusted(memory.id, operation, actor, memory.trust, what)


def check_may_undo(actor: Actor, done: Operation, *, approved_by: Actor | None = None) -> None:
    """Raise ``NotTrusted`` where *done* was decided by somebody who is trusted more than *actor*."""
    decided = actor_trust(done.actor)
    if not may_change(actor, Memory("", trust=decided), approved_by=approved_by):
        raise NotTrusted(done.id, "undo", actor, decided, "operation")


def trust_after_change(actor: Actor, memory: Memory, *, approved_by: Actor | None = None) -> Trust:
    """Return how far *memory* is to be trusted once *actor* has put other words in its place.

    The user's words, or what the user approved, are the user's; nobody else raises what was trusted less.
    """
    if Trust.USER in (actor_trust(actor), None if approved_by is None else actor_trust(approved_by)):
        return Trust.USER
    return Trust.least((memory.trust, actor_trust(actor)))


SENSITIVE_REASON: Final = "sensitive: not sent to a remote embedder"


def may_embed(memory: Memory, embedder: object) -> bool:
    """Whether the words of *memory* may be given to *embedder*."""
    return not (memory.sensitive and is_remote(embedder))


def may_embed_entry(entry: Entry, embedder: object) -> bool:
    """As ``may_embed``, for a memory as it is stored."""
    return not (entry.metadata.get("sensitive") is True and is_remote(embedder))
