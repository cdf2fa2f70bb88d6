"""Conversation history in a database: that of the memory's store, or one in the memory of the process.

A write inside the database's own ``write()``, by the same thread, is part of that transaction; so a turn
and its record are stored together or not at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from tellback.memory.history.codec import checked_sequences
from tellback.memory.history.retention import Retention
from tellback.memory.history.rows import HistoryRows
from tellback.memory.timestamps import Clock, system_clock
from tellback.vectorstore import Database

if TYPE_CHECKING:
    from tellback.memory.messages import Message

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def _in_thread(
    method: Callable[Concatenate[HistoryRows, _Parameters], _Result],
) -> Callable[Concatenate[DatabaseHistory, _Parameters], CoroutineType[Any, Any, _Result]]:
    """Return a *method* of the rows as one of the history, which runs it in a worker thread."""

    @wraps(method)
    async def call(self: DatabaseHistory, /, *arguments: _Parameters.args, **options: _Parameters.kwargs) -> _Result:
        return await asyncio.to_thread(method, self.rows, *arguments, **options)

    return call  # type: ignore[return-value]  # mypy takes an async function for one of a plain Coroutine


class DatabaseHistory:
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

    load = _in_thread(HistoryRows.load)
    replace = _in_thread(HistoryRows.replace)
    copy = _in_thread(HistoryRows.copy)
    sessions = _in_thread(HistoryRows.sessions)
    namespaces = _in_thread(HistoryRows.namespaces)
    summary = _in_thread(HistoryRows.summary)
    keep_summary = _in_thread(HistoryRows.keep_summary)

    async def clear(self, session: str, *, namespace: str = "") -> int:
        """As ``HistoryStorage.clear``."""
        return await asyncio.to_thread(self.rows.delete, session, None, namespace=namespace)

    async def delete(self, session: str, sequences: Iterable[int], *, namespace: str = "") -> int:
        """As ``HistoryStorage.delete``."""
        numbers = checked_sequences(sequences)  # to the rows None means all of them, which only ``clear`` may mean
        return await asyncio.to_thread(self.rows.delete, session, numbers, namespace=namespace)


class InMemoryHistory(DatabaseHistory):
    """``DatabaseHistory`` in a database of its own, in the memory of the process."""

    def __init__(self, *, clock: Clock = system_clock, retention: Retention | None = None) -> None:
        from tellback.vectorstore.sqlite import InMemoryDatabase

        super().__init__(InMemoryDatabase(), clock=clock, retention=retention)
