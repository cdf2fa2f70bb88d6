"""History as rows: what a storage does in one thread, and the async face over it.

The rows carry what the public protocol does not show: which memory keeps a message searchable, and whether
that is settled. A row that is not settled is an intent: what was said is safe in history, its memory is
still to be written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from memory.messages import Message, Role
from memory.storage.protocol import SessionInfo, StoredMessage
from memory.storage.serialise import check_sequences
from memory.storage.summaries import Summary


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A message in its place. *memory* is the id reserved for it, empty when nothing is to be kept of it."""

    namespace: str
    session: str
    sequence: int
    message: Message
    at: datetime
    memory: str | None = None


class HistoryRows(Protocol):
    """The synchronous side of a history. A call is one transaction, or part of the one its thread is in."""

    def append(
        self,
        session: str,
        messages: Sequence[Message],
        *,
        namespace: str = "",
        memories: Sequence[str | None] | None = None,
    ) -> list[int]:
        """As ``HistoryStorage.append``; *memories* are ids reserved for them (empty: nothing to keep)."""
        ...

    def load(
        self,
        session: str,
        *,
        namespace: str = "",
        limit: int | None = None,
        offset: int = 0,
        roles: Iterable[Role] | None = None,
        after: int = 0,
    ) -> list[StoredMessage]:
        """As ``HistoryStorage.load``."""
        ...

    def replace(self, session: str, messages: Sequence[Message], *, namespace: str = "") -> list[int]:
        """As ``HistoryStorage.replace``; a message that was there before keeps its memory."""
        ...

    def delete(self, session: str, sequences: Iterable[int] | None, *, namespace: str = "") -> int:
        """As ``HistoryStorage.delete``; None means all."""
        ...

    def erase(self, rows: Sequence[HistoryRow]) -> None:
        """Remove rows and see to their bytes: at the end of the transaction, or marked as pending."""
        ...

    def erase_namespace(self, namespace: str) -> int:
        """Remove all messages of a namespace, and the names of its sessions, as ``erase``; return how many."""
        ...

    def place(self, rows: Sequence[HistoryRow]) -> int:
        """Put rows at their own session and sequence, with their own time; return how many.

        A place that is taken is left as it is. Numbers that are given later are above those placed.
        """
        ...

    def sessions(self, *, namespace: str = "", limit: int | None = None) -> list[SessionInfo]:
        """As ``HistoryStorage.sessions``."""
        ...

    def namespaces(self) -> list[str]:
        """As ``HistoryStorage.namespaces``."""
        ...

    def unsettled(self, limit: int) -> list[HistoryRow]:
        """Return rows whose memory is still to be decided or written, oldest first."""
        ...

    def reserve(self, rows: Sequence[HistoryRow]) -> None:
        """Note the id of each row's memory, which is still to be written."""
        ...

    def settle(self, rows: Sequence[HistoryRow]) -> None:
        """Note each row's memory as written; an empty id says that nothing is to be kept of it."""
        ...

    def of_memories(self, ids: Sequence[str], *, namespace: str = "") -> list[HistoryRow]:
        """Return the rows that these memories keep."""
        ...

    def at(self, places: Sequence[tuple[str, int]], *, namespace: str = "") -> list[HistoryRow]:
        """Return the rows at (session, sequence), those that are there."""
        ...

    def holding(self, texts: Sequence[str], *, namespace: str = "") -> list[HistoryRow]:
        """Return rows that may hold one of *texts* in any of their parts, or over several; the caller looks closely."""
        ...

    def kept(self, session: str | None = None, *, namespace: str = "") -> Iterator[HistoryRow]:
        """Yield every row of a session (None: of all) by session and number, those too that a retention has hidden."""
        ...

    def next_numbers(self, session: str | None = None, *, namespace: str = "") -> list[tuple[str, int]]:
        """Return sessions (None: all), in order, with the number that the next message gets; empty ones are among them,
        since numbers are never given twice."""
        ...

    def count_from(self, session: str, number: int, *, namespace: str = "") -> None:
        """Let the next message of *session* get *number*, or a later one where that is due."""
        ...

    def summary(self, session: str, name: str, *, namespace: str = "") -> Summary | None:
        """As ``SummaryStorage.summary``."""
        ...

    def keep_summary(
        self, session: str, summary: Summary, *, before: Summary | None, made_of: Sequence[int], namespace: str = ""
    ) -> bool:
        """As ``SummaryStorage.keep_summary``."""
        ...

    def erase_summaries(
        self, memories: Sequence[str], holds: Callable[[str], bool] | None = None, *, namespace: str = ""
    ) -> int:
        """Erase summaries made of a message that was one of *memories*, and left by a retention since, and those whose
        text *holds* what is forgotten; return how many. (``erase`` sees to those of messages that are there.)"""
        ...


class ThreadedHistory:
    """``HistoryStorage`` and ``SummaryStorage`` over rows: each call is one hop to a worker thread."""

    def __init__(self, rows: HistoryRows) -> None:
        self.rows = rows

    async def append(self, session: str, messages: Sequence[Message], *, namespace: str = "") -> list[int]:
        """As ``HistoryStorage.append``."""
        return await asyncio.to_thread(self.rows.append, session, messages, namespace=namespace)

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
        """As ``HistoryStorage.load``."""
        return await asyncio.to_thread(
            self.rows.load, session, namespace=namespace, limit=limit, offset=offset, roles=roles, after=after
        )

    async def replace(self, session: str, messages: Sequence[Message], *, namespace: str = "") -> list[int]:
        """As ``HistoryStorage.replace``."""
        return await asyncio.to_thread(self.rows.replace, session, messages, namespace=namespace)

    async def clear(self, session: str, *, namespace: str = "") -> int:
        """As ``HistoryStorage.clear``."""
        return await asyncio.to_thread(self.rows.delete, session, None, namespace=namespace)

    async def delete(self, session: str, sequences: Iterable[int], *, namespace: str = "") -> int:
        """As ``HistoryStorage.delete``."""
        chosen = check_sequences(sequences)  # to the rows None means all of them, which only ``clear`` may mean
        return await asyncio.to_thread(self.rows.delete, session, chosen, namespace=namespace)

    async def sessions(self, *, namespace: str = "", limit: int | None = None) -> list[SessionInfo]:
        """As ``HistoryStorage.sessions``."""
        return await asyncio.to_thread(self.rows.sessions, namespace=namespace, limit=limit)

    async def namespaces(self) -> list[str]:
        """As ``HistoryStorage.namespaces``."""
        return await asyncio.to_thread(self.rows.namespaces)

    async def summary(self, session: str, name: str, *, namespace: str = "") -> Summary | None:
        """As ``SummaryStorage.summary``."""
        return await asyncio.to_thread(self.rows.summary, session, name, namespace=namespace)

    async def keep_summary(
        self, session: str, summary: Summary, *, before: Summary | None, made_of: Sequence[int], namespace: str = ""
    ) -> bool:
        """As ``SummaryStorage.keep_summary``."""
        return await asyncio.to_thread(
            self.rows.keep_summary, session, summary, before=before, made_of=made_of, namespace=namespace
        )
