"""Connections to PostgreSQL: statements, transactions and the translation of the server's errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
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
from tellback.vectorstore.sqlite.entry_reader import READ_FACT

_FACTS: Final = "store_facts"
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

    def __init__(self, rows: Iterable[Any]) -> None:
        self._rows = iter(rows)

    @classmethod
    def of(cls, cursor: psycopg.Cursor[Any]) -> PostgresRows:
        """Return the rows that *cursor* has."""
        return cls(cursor.fetchall() if cursor.description is not None else ())

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

    A statement that returns no rows waits for the next one that does, or for the end of the block, and goes out with
    it: each way to the server counts. An error of it is raised there. *waits* is off outside of ``write()``. A fact of
    the store is asked for once a transaction: who changes the space keeps every other writer out.
    """

    dialect: Dialect = POSTGRES

    def __init__(self, raw: psycopg.Connection[Any], *, waits: bool = False) -> None:
        self.raw = raw
        self._waits = waits
        self._waiting: list[tuple[str, list[Sequence[Any]]]] = []
        self._facts: dict[str, list[Any]] = {}
        self._changes = 0
        self._total = 0

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> PostgresRows:
        """As ``Connection.execute``."""
        if sql == READ_FACT:
            name = values[0]
            if name not in self._facts:
                self._facts[name] = self._send((postgres_sql(sql), [values])).fetchall()
            return PostgresRows(self._facts[name])
        if _FACTS in sql:
            self._facts.clear()
        if self._waits and _returns_nothing(sql):
            self._waiting.append((postgres_sql(sql), [tuple(values)]))
            return PostgresRows(())
        return PostgresRows.of(self._send((postgres_sql(sql), [values])))

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> PostgresRows:
        """As ``Connection.executemany``, all rows on one way to the server."""
        statement = postgres_sql(sql), list(rows)
        if statement[1]:
            self._waiting.append(statement)
        if not self._waits:
            self.flush()
        return PostgresRows(())

    def changes(self) -> int:
        """As ``Connection.changes``."""
        self.flush()
        return self._changes

    def total_changes(self) -> int:
        """As ``Connection.total_changes``."""
        self.flush()
        return self._total

    def prepare(self, statement: str) -> None:
        """Let *statement* go out before the next one."""
        self._waiting.append((statement, [()]))

    def withdraw(self, statement: str, *, unless: int | None = None) -> bool:
        """Drop a prepared statement, and those after it, if it did not go out yet; return whether it was dropped.

        It is not dropped where more than *unless* statements wait, itself included.
        """
        for place in range(len(self._waiting) - 1, -1, -1):
            if self._waiting[place][0] == statement:
                if unless is not None and len(self._waiting) - place > unless:
                    return False
                del self._waiting[place:]
                self._facts.clear()
                return True
        return False

    def forget_waiting(self) -> None:
        """Drop what did not go out yet, and what was read since."""
        self._waiting.clear()
        self._facts.clear()

    def flush(self) -> None:
        """Send what waits."""
        if self._waiting:
            self._send()

    def commit(self) -> None:
        """Send what waits, and the end of the transaction, on one way."""
        self._send(("COMMIT", [()]))

    def _send(self, *last: tuple[str, Sequence[Sequence[Any]]]) -> psycopg.Cursor[Any]:
        """Send what waits and then *last*, in their order; return the cursor of the last statement."""
        statements, self._waiting = [*self._waiting, *last], []
        cursors = [self.raw.cursor(binary=True) for _ in statements]
        with self.raw.pipeline() if len(statements) > 1 else nullcontext():
            for cursor, (sql, rows) in zip(cursors, statements, strict=True):
                if len(rows) == 1:
                    cursor.execute(sql, rows[0])
                else:
                    cursor.executemany(sql, rows)
        for cursor in cursors:
            if cursor.statusmessage is not None and cursor.statusmessage.startswith(("INSERT", "UPDATE", "DELETE")):
                self._changes = max(cursor.rowcount, 0)
                self._total += self._changes
        return cursors[-1]


@lru_cache(maxsize=1024)
def _returns_nothing(sql: str) -> bool:
    return sql.lstrip().startswith(("INSERT", "UPDATE", "DELETE")) and "RETURNING" not in sql
