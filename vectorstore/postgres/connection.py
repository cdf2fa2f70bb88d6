"""Connections to PostgreSQL: statements, transactions and the translation of the server's errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import errors as server

from tellback.vectorstore.database import Dialect
from tellback.vectorstore.errors import (
    BusyError,
    DamageError,
    ServerUnavailable,
    StorageFull,
    StorageUnwritable,
    VectorStoreError,
)
from tellback.vectorstore.postgres.dialect import POSTGRES, postgres_sql

_WAITED: Final = (
    server.LockNotAvailable,
    server.DeadlockDetected,
    server.SerializationFailure,
    server.QueryCanceled,
    server.TooManyConnections,
)
_LOST: Final = (psycopg.OperationalError, psycopg.InterfaceError, server.IdleInTransactionSessionTimeout)
_FORBIDDEN: Final = (server.InsufficientPrivilege, server.ReadOnlySqlTransaction)


@contextmanager
def translate_errors(place: str) -> Iterator[None]:
    """Translate psycopg's errors about the database at *place*; a bug of ours passes unchanged."""
    try:
        yield
    except psycopg.Error as error:
        if (translated := _translated(error, place)) is None:
            raise
        raise translated from error


def _translated(error: psycopg.Error, place: str) -> VectorStoreError | None:
    reason = str(error).partition("\n")[0]
    match error:
        case server.DiskFull() | server.OutOfMemory():
            return StorageFull(f"{place}: the server has no room left ({reason}); nothing of the call was written")
        case _ if isinstance(error, _WAITED):
            return BusyError(f"{place}: it took too long, or somebody else was in the way ({reason}); try again")
        case _ if isinstance(error, _FORBIDDEN):
            return StorageUnwritable(f"{place}: the role may not do this ({reason})")
        case server.DataCorrupted() | server.IndexCorrupted():
            return DamageError(f"{place}: {reason}")
        case _ if isinstance(error, _LOST):
            return ServerUnavailable(f"{place}: the server cannot be reached, or was lost in the call ({reason})")
    return None


class PostgresRows:
    """Implements ``Rows``; a statement that returns none has none."""

    def __init__(self, cursor: psycopg.Cursor[Any]) -> None:
        self._rows = iter(cursor.fetchall() if cursor.description is not None else ())

    def __iter__(self) -> Iterator[Any]:
        return self._rows

    def __next__(self) -> Any:
        return next(self._rows)

    def fetchone(self) -> Any:
        """As ``Rows.fetchone``."""
        return next(self._rows, None)

    def fetchall(self) -> list[Any]:
        """As ``Rows.fetchall``."""
        return list(self._rows)


class PostgresConnection:
    """Implements ``Connection`` on *raw*, a connection that begins and ends its transactions by statements.

    What ``prepare`` was given goes out with the next statement, so that it costs no way to the server of its own.
    """

    dialect: Dialect = POSTGRES

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self.raw = raw
        self._prepared: list[str] = []
        self._changes = 0
        self._total = 0

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> PostgresRows:
        """As ``Connection.execute``."""
        cursor = self.raw.cursor(binary=True)
        self._send(lambda: cursor.execute(postgres_sql(sql), values))
        self._count(cursor)
        return PostgresRows(cursor)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> PostgresRows:
        """As ``Connection.executemany``, all rows on one way to the server."""
        cursor, many = self.raw.cursor(binary=True), list(rows)
        if many:
            self._send(lambda: cursor.executemany(postgres_sql(sql), many))
            self._count(cursor)
        return PostgresRows(cursor)

    def changes(self) -> int:
        """As ``Connection.changes``."""
        return self._changes

    def total_changes(self) -> int:
        """As ``Connection.total_changes``."""
        return self._total

    def prepare(self, statement: str) -> None:
        """Let *statement* go out before the next one."""
        self._prepared.append(statement)

    def withdraw(self, statement: str) -> bool:
        """Drop a prepared statement, and those after it, if it did not go out yet; return whether it did not."""
        if statement not in self._prepared:
            return False
        del self._prepared[self._prepared.index(statement) :]
        return True

    def forget_prepared(self) -> None:
        """Drop what did not go out yet."""
        self._prepared.clear()

    def _send(self, run: Any) -> None:
        if not self._prepared:
            run()
            return
        prepared, self._prepared = self._prepared, []
        with self.raw.pipeline():
            for statement in prepared:
                self.raw.execute(statement)
            run()

    def _count(self, cursor: psycopg.Cursor[Any]) -> None:
        if cursor.statusmessage is not None and cursor.statusmessage.startswith(("INSERT", "UPDATE", "DELETE")):
            self._changes = max(cursor.rowcount, 0)
            self._total += self._changes
