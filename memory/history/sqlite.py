"""Conversation history in a database: that of the memory's store, or one in the memory of the process.

A write inside the database's own ``write()``, by the same thread, is part of that transaction; so a turn
and its record are stored together or not at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from memory.history.codec import checked_sequences
from memory.history.protocol import SessionInfo, StoredMessage, Summary
from memory.history.retention import Retention
from memory.history.rows import HistoryRows
from memory.messages import Message, Role
from memory.timestamps import Clock, system_clock
from vectorstore import Database


class SqliteHistory:
    """``HistoryStorage`` and ``SummaryStorage`` in *database*; each call is one hop to a worker thread.

    ``rows`` is its synchronous side, which the memory uses inside its transactions.
    """

    def __init__(self, database: Database, *, clock: Clock = system_clock, retention: Retention | None = None) -> None:
        self.rows = HistoryRows(database, clock=clock, retention=retention)

    @property
    def database(self) -> Database:
        """The database that it is in."""
        return self.rows.database

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
        numbers = checked_sequences(sequences)  # to the rows None means all of them, which only ``clear`` may mean
        return await asyncio.to_thread(self.rows.delete, session, numbers, namespace=namespace)

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


class InMemoryHistory(SqliteHistory):
    """``SqliteHistory`` in a database of its own, in the memory of the process."""

    def __init__(self, *, clock: Clock = system_clock, retention: Retention | None = None) -> None:
        from vectorstore.sqlite import InMemoryDatabase

        super().__init__(InMemoryDatabase(), clock=clock, retention=retention)
