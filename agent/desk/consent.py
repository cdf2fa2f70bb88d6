"""Consent to changes of a memory: who asks for one, whether a person has to agree, and tokens of what was shown.

A model's report of what the user said never becomes the user's word. What the user said is changed or removed by a
model only after the user agreed: asked in the call, or, where nobody can be asked, by a second call with a token.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Literal, Self, TypeAlias

from tellback.agent.errors import ToolFailed
from tellback.memory import Memory, Receipt, Trust
from tellback.memory.internals import Actor, may_change

ChangeKind: TypeAlias = Literal["replace", "correct", "forget"]
ModelActor: TypeAlias = Literal["assistant", "tool", "document"]
_ACTORS_BY_TRUST: Final[dict[Trust, ModelActor]] = {Trust.TOOL: "tool", Trust.DOCUMENT: "document"}
_MODEL_ACTORS: Final = frozenset({"assistant", *_ACTORS_BY_TRUST.values()})
_CONFIRMATION_SECONDS: Final = 600
"""Lifetime of a confirmation: long enough for a person to read the question."""
_UNSEEN_GRACE: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Question:
    """Question to a person before a *change*: the *memories* that it concerns, and the new *text* or the *plan*."""

    change: ChangeKind
    memories: Sequence[Memory]
    text: str = ""
    plan: Receipt | None = None


Ask: TypeAlias = Callable[[Question], Awaitable[bool | None]]
"""Puts a question to a person: True is a yes, False a no, None means that nobody can be asked here."""


async def ask_nobody(question: Question) -> bool | None:
    """Return that nobody can be asked."""
    return None


async def agree_as_asked(question: Question) -> bool | None:
    """Return the yes of a person who was shown the plan by the caller."""
    return True


@dataclass(frozen=True, slots=True)
class Permission:
    """Permission for a change: the *actor* that answers for it, and who approved it."""

    actor: Actor = "user"
    approved_by: Actor | None = None


@dataclass(frozen=True, slots=True)
class Person:
    """The user, at a terminal or a page: may change everything, and is shown first what a forgetting takes along."""

    ask: Ask = ask_nobody
    actor: Actor = "user"
    origin: str = ""
    agreed: Permission = Permission()
    unseen_grace: timedelta | None = None

    def permission(self, change: ChangeKind, memories: Sequence[Memory], *, of: str = "") -> Permission | None:
        """Return the permission for all but a forgetting."""
        return None if change == "forget" else self.agreed


@dataclass(frozen=True, slots=True)
class ClientProgram:
    """Model behind another program, such as an MCP client: may change what is trusted no more than a tool."""

    origin: str = ""
    ask: Ask = ask_nobody
    actor: Actor = "tool"
    agreed: Permission = Permission("tool", "user")
    unseen_grace: timedelta | None = _UNSEEN_GRACE

    def permission(self, change: ChangeKind, memories: Sequence[Memory], *, of: str = "") -> Permission | None:
        """Return the permission for memories of programs and documents; the user's own are asked about."""
        users = [memory.id for memory in memories if not may_change("tool", memory)]
        if users and change == "replace":
            raise ToolFailed(
                f"Not stored: {users[0]} is the user's own word. Call correct with that id, which asks them."
            )
        return None if users or change == "forget" else Permission("tool")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunModel:
    """Model of a run of ours, which has read words of *trust*; a person may have *approved* this very call.

    It changes what a model wrote, and the user's own words only with *users_words*. After it has read the words of a
    tool or a document it changes nothing without approval.
    """

    trust: Trust
    approved: bool = False
    users_words: bool = False
    ask: Ask = ask_nobody
    origin: str = ""
    agreed: Permission = Permission()
    unseen_grace: timedelta | None = None

    @property
    def actor(self) -> ModelActor:
        """Whose words the model writes: those of the least trusted that it has read, its own at most."""
        return _ACTORS_BY_TRUST.get(self.trust, "assistant")

    def permission(self, change: ChangeKind, memories: Sequence[Memory], *, of: str = "") -> Permission:
        """Return the permission; of what a model wrote, the approval of this call counts as the assistant's."""
        if self.trust.rank > Trust.ASSISTANT.rank and not self.approved:
            raise ToolFailed(f"after reading the words of a {self.trust.value}, this needs the user's approval")
        others = [memory.id for memory in memories if not _is_written_by_model(memory)]
        if not others:
            return Permission(self.actor, "assistant" if self.approved else None)
        if not self.users_words:
            subject = f"{others[0]}, {of}," if of else others[0]
            raise ToolFailed(f"{subject} is not a note of yours; only the user can change or remove it")
        return Permission("user" if self.approved else self.actor, "user")


Requester: TypeAlias = Person | ClientProgram | RunModel
"""Whoever asks for something at the desk: *actor* is whose words come in, *origin* the program through which they come.

*agreed* is the permission that a person's yes gives, *unseen_grace* the time in which a forgetting can be taken back to
which nobody was seen to agree, since a token alone came.
"""


def document_of(memory: Memory) -> str | None:
    """Return the document of which *memory* is a passage, whose words change with it alone; None for any other."""
    return None if memory.source is None else memory.source.document


def _is_written_by_model(memory: Memory) -> bool:
    return memory.actor in _MODEL_ACTORS and memory.trust != Trust.USER and document_of(memory) is None


@dataclass(frozen=True, slots=True)
class ConfirmationTokens:
    """Tokens that bind a confirmation to exactly the items shown, for ten minutes, in all processes with their *key*.

    A subject names revisions, so a token is used once: what it confirms changes them.
    """

    key: bytes = field(repr=False)
    clock: Callable[[], float] = time.time

    def issue(self, action: str, subject: Iterable[str]) -> str:
        """Return a token for *action* on *subject*."""
        return self._token(int(self.clock()) + _CONFIRMATION_SECONDS, action, subject)

    def is_valid(self, token: str, action: str, subject: Iterable[str]) -> bool:
        """Return whether *token* was issued for *action* on exactly this *subject*, and has not expired."""
        end, _, _ = token.partition("-")
        if not end.isascii() or not end.isdigit() or len(end) > 12 or int(end) < self.clock():
            return False
        return hmac.compare_digest(token.encode(), self._token(int(end), action, subject).encode())

    @classmethod
    def of(cls, key: bytes) -> Self:
        """Return the tokens of the memory with the secret *key*, from which theirs is derived."""
        return cls(hmac.new(key, b"confirmation", hashlib.sha256).digest())

    def _token(self, end: int, action: str, subject: Iterable[str]) -> str:
        words = "\0".join((str(end), action, *subject)).encode()
        return f"{end}-{hmac.new(self.key, words, hashlib.sha256).hexdigest()[:24]}"
