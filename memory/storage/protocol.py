"""What conversation history is: every message of every session, kept as it was given.

A storage keeps everything and filters nothing; what a model sees of it is the business of a read policy.

    >>> from memory import InMemoryHistory, Message, run_sync
    >>> history = InMemoryHistory()
    >>> run_sync(history.append("s1", [Message.user("Hello"), Message.assistant("Good morning")]))
    [1, 2]
    >>> [stored.message.text for stored in run_sync(history.load("s1", limit=1))]
    ['Good morning']
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from memory.messages import Message, Role


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message in its place: *sequence* within the session, and when it was stored (*at*).

    *memory* is the id of the memory that keeps it searchable, once there is one.
    """

    sequence: int
    message: Message
    at: datetime
    memory: str | None = None


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session that has messages: how many, when the first and the last were stored, and how it *begins*.

    *begins* are the first words of the user (of anybody, where the user said nothing), on one line.
    """

    session: str
    messages: int
    first_at: datetime
    last_at: datetime
    begins: str = ""


@runtime_checkable
class HistoryStorage(Protocol):
    """Messages by session, in order, within a namespace.

    - A session id is any text that is not empty (a UUID by custom), at most 1,024 characters, without NUL;
      the same id in two namespaces is two sessions. An unknown session is empty, not an error.
    - A sequence number starts at 1, rises, and is never given twice within a session: not after ``delete``,
      ``replace`` or ``clear``.
    - A message comes back equal to what was given, thinking and binary blocks included; one that JSON cannot
      carry (NaN, lone surrogates) raises ``ArgumentError`` before anything of the call is stored.
    - A call is stored whole or not at all. Several tasks, threads and processes may call.
    """

    async def append(self, session: str, messages: Sequence[Message], *, namespace: str = "") -> list[int]:
        """Add *messages* at the end; return their sequence numbers, in order."""
        ...

    async def load(
        self,
        session: str,
        *,
        namespace: str = "",
        limit: int | None = None,
        offset: int = 0,
        roles: Iterable[Role] | None = None,
        after: int = 0,
    ) -> list[StoredMessage]:
        """Return messages, oldest first.

        Only *roles*, where given, and only messages numbered above *after* are looked at; then the newest *offset*
        are left out, then the newest *limit* of the rest are kept. A limit of 0 gives none.
        """
        ...

    async def replace(self, session: str, messages: Sequence[Message], *, namespace: str = "") -> list[int]:
        """Put *messages* in the place of all that the session has; return their new sequence numbers."""
        ...

    async def clear(self, session: str, *, namespace: str = "") -> int:
        """Remove all messages of the session; return how many there were."""
        ...

    async def delete(self, session: str, sequences: Iterable[int], *, namespace: str = "") -> int:
        """Remove single messages; return how many there were. A missing one is not an error."""
        ...

    async def sessions(self, *, namespace: str = "", limit: int | None = None) -> list[SessionInfo]:
        """Return the sessions that have messages, the one used last first, ties by id; at most *limit* of them."""
        ...

    async def namespaces(self) -> list[str]:
        """Return the namespaces that have messages, sorted."""
        ...
