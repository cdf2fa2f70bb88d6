"""Protocols of conversation history: every message of every session as it was given, and summaries beside them.

A storage keeps everything and filters nothing; what a model sees of it is the business of a window policy.

    >>> from tellback.memory import InMemoryHistory, Message, run_sync
    >>> history = InMemoryHistory()
    >>> run_sync(history.append("s1", [Message.user("Hello"), Message.assistant("Good morning")]))
    [1, 2]
    >>> [stored.message.text for stored in run_sync(history.load("s1", limit=1))]
    ['Good morning']
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from tellback.memory.errors import ArgumentError
from tellback.memory.history.codec import checked_sequences, checked_summary_name
from tellback.memory.validation import checked_text

if TYPE_CHECKING:
    from tellback.memory.messages import Message, Role


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """Message with its *sequence* within the session, and the time at which it was stored (*at*).

    *memory* is the id of the memory that keeps it searchable, once there is one.
    """

    sequence: int
    message: Message
    at: datetime
    memory: str | None = None


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """Message with its namespace and session, as the parts below the public protocol need it.

    *memory* is the id reserved for its memory, empty when nothing is to be kept of it, None while that is undecided.
    """

    namespace: str
    session: str
    sequence: int
    message: Message
    at: datetime
    memory: str | None = None


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """Session that has messages: their number, when the first and the last were said, and how it *begins*.

    *begins* are the first words of the user (of anybody, where the user said nothing), on one line. *title* is the name
    that the conversation had where it came from, "" for none.
    """

    session: str
    messages: int
    first_at: datetime
    last_at: datetime
    begins: str = ""
    title: str = ""


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

    async def replace(self, session: str, messages: Sequence[Message], *, namespace: str = "") -> list[int]:
        """Put *messages* in the place of all that the session has; return their new sequence numbers."""

    async def copy(self, session: str, new: str, *, namespace: str = "") -> list[int]:
        """Copy the messages of *session* to the session *new*, a fork of it; return their sequence numbers there.

        *new* has no messages yet, else ``ArgumentError``. Messages and times come back equal; what is added to one of
        the two later is not in the other.
        """

    async def clear(self, session: str, *, namespace: str = "") -> int:
        """Remove all messages of the session; return how many there were."""

    async def delete(self, session: str, sequences: Iterable[int], *, namespace: str = "") -> int:
        """Remove single messages; return how many there were. A missing one is not an error."""

    async def sessions(self, *, namespace: str = "", limit: int | None = None) -> list[SessionInfo]:
        """Return the sessions that have messages, the one used last first, ties by id; at most *limit* of them."""

    async def namespaces(self) -> list[str]:
        """Return the namespaces that have messages, sorted."""


def checked_history(history: object, argument: str) -> HistoryStorage:
    """Return *history* if it has every method of one; a class is none."""
    if isinstance(history, type) or not isinstance(history, HistoryStorage):
        missing = [name for name in vars(HistoryStorage) if not name.startswith("_") and not hasattr(history, name)]
        lacks = f" (it lacks {', '.join(missing)})" if missing else ""
        raise ArgumentError(argument, history, f"a HistoryStorage is needed, such as InMemoryHistory(){lacks}")
    return history


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary (*text*) of *messages* messages of a session, up to the number *through*.

    *name* tells the summaries of one maker from those of another; *at* is when it was kept, given by the storage.
    """

    name: str
    text: str
    through: int
    messages: int
    at: datetime | None = None


@runtime_checkable
class SummaryStorage(Protocol):
    """Summaries by session and name, within a namespace; a history that can keep them.

    A summary lasts as long as the messages it was made of: when one of those is deleted, replaced, cleared or
    forgotten, the session's summaries that reach as far go in the same transaction. (What leaves a history by its
    ``Retention`` is still summed up: that is not forgetting; but a session that is over loses its summaries.)
    """

    async def summary(self, session: str, name: str, *, namespace: str = "") -> Summary | None:
        """Return the summary of that name, if there is one."""

    async def keep_summary(
        self, session: str, summary: Summary, *, before: Summary | None, made_of: Sequence[int], namespace: str = ""
    ) -> bool:
        """Keep *summary*, which continues *before* by the messages numbered *made_of*; return whether it was kept.

        It is not kept, and nothing changes, where *before* is not the stored summary, or one of those messages is not
        stored: it may then hold what was just forgotten, and must not be used.
        """


def checked_summary(summary: object, before: Summary | None, made_of: Sequence[int]) -> tuple[Summary, list[int]]:
    """Return *summary* and *made_of* if they fit each other and *before*."""
    if not isinstance(summary, Summary):
        raise ArgumentError("summary", summary, "a Summary is needed")
    checked_summary_name(summary.name, "summary.name")
    if not isinstance(summary.text, str) or not summary.text.strip():
        raise ArgumentError("summary.text", summary.text, "a text that is not blank is needed")
    checked_text(summary.text, "summary.text")
    for name in ("through", "messages"):
        value = getattr(summary, name)
        if type(value) is not int or value < 1:
            raise ArgumentError(f"summary.{name}", value, "a whole number of at least 1 is needed")
    if before is not None and not isinstance(before, Summary):
        raise ArgumentError("before", before, "the Summary that was there is needed, or None where there was none")
    numbers = checked_sequences(made_of, "made_of")
    earlier = 0 if before is None else before.through
    if before is not None and before.name != summary.name:
        raise ArgumentError("before", before, "must have the name of the summary that continues it")
    if not numbers or min(numbers) <= earlier or max(numbers) != summary.through:
        expected = f"the numbers of messages after {earlier}, the last of them {summary.through}, are needed"
        raise ArgumentError("made_of", numbers, expected)
    return summary, numbers


MessageRewriter: TypeAlias = Callable[[Sequence[StoredMessage]], Awaitable[Sequence[StoredMessage]]]
"""Returns stored messages with the words that are shown, such as those that a quoting answer only points to."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages of *session* in *storage*, and the summaries kept beside them."""

    storage: HistoryStorage
    session: str
    namespace: str = ""
    worded: MessageRewriter | None = None

    async def load(self, *, after: int = 0) -> list[StoredMessage]:
        """Return the messages numbered above *after*, oldest first, and of those before the system's."""
        later = await self.storage.load(self.session, namespace=self.namespace, after=after)
        if after:
            system = await self.storage.load(self.session, namespace=self.namespace, roles=["system"])
            later = [*(stored for stored in system if stored.sequence <= after), *later]
        return later if self.worded is None else list(await self.worded(later))

    async def summary(self, name: str) -> Summary | None:
        """Return the summary of that name; a storage that keeps none raises ``ArgumentError``."""
        return await self._summaries().summary(self.session, name, namespace=self.namespace)

    async def keep_summary(self, summary: Summary, *, before: Summary | None, made_of: Sequence[int]) -> bool:
        """As ``SummaryStorage.keep_summary``."""
        return await self._summaries().keep_summary(
            self.session, summary, before=before, made_of=made_of, namespace=self.namespace
        )

    def _summaries(self) -> SummaryStorage:
        if not isinstance(self.storage, SummaryStorage):
            raise ArgumentError("storage", self.storage, "a history that keeps summaries is needed")
        return self.storage
