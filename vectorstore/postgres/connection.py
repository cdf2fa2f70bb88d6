"""Connections to PostgreSQL: statements, transactions and the translation of the server's errors."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Any, Final, NamedTuple

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
FACTS_QUERY: Final = f"SELECT name, value FROM {_FACTS} WHERE NOT starts_with(name, 'index ')"
"""Query for all that ``READ_FACT`` asks for; which namespaces are indexed may be many rows."""
_WAITED: Final = (
    server.LockNotAvailable,
    server.DeadlockDetected,
    server.SerializationFailure,
    server.QueryCanceled,
    server.TooManyConnections,
)
_LOST: Final = (psycopg.OperationalError, psycopg.InterfaceError, server.IdleInTransactionSessionTimeout)
_ROWS_AT_ONCE: Final = 64
_INSERT: Final = re.compile(
    r"(?P<head>INSERT INTO \w+ (?:\((?P<columns>[\w, ]+)\) )?VALUES )(?P<row>\((?:[^()]|\([^()]*\))*\))"
    r"(?P<tail>(?: ON CONFLICT \((?P<keys>[\w, ]+)\) DO UPDATE SET .*)?)",
    re.DOTALL,
)
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
    it: each way to the server counts. An error of it is raised there. *waits* is off outside of ``write()``. The
    *facts* of the store are asked for once a transaction: who changes the space keeps every other writer out. In a
    transaction that sees one state (*is_snapshot*), so is every row that is asked for alone.
    """

    dialect: Dialect = POSTGRES

    def __init__(
        self,
        raw: psycopg.Connection[Any],
        *,
        waits: bool = False,
        is_snapshot: bool = False,
        facts: Mapping[str, str] | None = None,
    ) -> None:
        self.raw = raw
        self._waits = waits
        self._is_snapshot = is_snapshot
        self._waiting: list[tuple[str, Sequence[Sequence[Any]]]] = []
        self._facts = facts
        self._ahead: dict[tuple[str, tuple[Any, ...]], list[Any]] = {}
        self._changes = 0
        self._total = 0

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> PostgresRows:
        """As ``Connection.execute``."""
        if sql == READ_FACT and not values[0].startswith("index "):
            if self._facts is None:
                self._facts = dict(self._send((FACTS_QUERY, [()]))[-1].fetchall())
            return PostgresRows([(self._facts[values[0]],)] if values[0] in self._facts else ())
        if _FACTS in sql:
            self._facts = None
        question = sql, tuple(values)
        if question in self._ahead:
            return PostgresRows(self._ahead[question] if self._is_snapshot else self._ahead.pop(question))
        if self._waits and _returns_nothing(sql):
            self._waiting.append((postgres_sql(sql), [tuple(values)]))
            return PostgresRows(())
        cursor = self._send((postgres_sql(sql), [values]))[-1]
        if self._is_snapshot and cursor.rowcount == 1:  # it is asked for again by other parts of a call
            self._ahead[question] = cursor.fetchall()
            return PostgresRows(self._ahead[question])
        return PostgresRows(cursor.fetchall() if cursor.description is not None else ())

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> PostgresRows:
        """As ``Connection.executemany``, all rows on one way to the server."""
        self._waiting += _batches(postgres_sql(sql), list(rows))
        if not self._waits:
            self.flush()
        return PostgresRows(())

    def read_ahead(self, reads: Iterable[tuple[str, Sequence[Any]]], /) -> None:
        """As ``Connection.read_ahead``."""
        keys = [(sql, tuple(values)) for sql, values in reads]
        if not keys:
            return
        cursors = self._send(*((postgres_sql(sql), [values]) for sql, values in keys))
        self._ahead = {key: cursor.fetchall() for key, cursor in zip(keys, cursors, strict=True)}

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
                return True
        return False

    def forget_waiting(self) -> None:
        """Drop what did not go out yet, and what was read since."""
        self._waiting.clear()
        self._facts = None
        self._ahead.clear()

    def flush(self) -> None:
        """Send what waits."""
        if self._waiting:
            self._send()

    def commit(self) -> None:
        """Send what waits, and the end of the transaction, on one way."""
        self._send(("COMMIT", [()]))

    def _send(self, *last: tuple[str, Sequence[Sequence[Any]]]) -> list[psycopg.Cursor[Any]]:
        """Send what waits and then *last*, in their order; return the cursors of *last*."""
        statements, self._waiting = [*self._waiting, *last], []
        cursors = [self._cursor(sql) for sql, _ in statements]
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
        return cursors[len(cursors) - len(last) :]

    def _cursor(self, sql: str) -> psycopg.Cursor[Any]:
        if "$1" in sql:  # psycopg takes long to read so many marks
            return psycopg.RawCursor(self.raw)
        return self.raw.cursor(binary=True)


def _batches(sql: str, rows: Sequence[Sequence[Any]]) -> Iterator[tuple[str, Sequence[Sequence[Any]]]]:
    """Yield the statements that do *sql* for each of *rows*: an INSERT takes many rows at once.

    Not where two of them may be the same row, which one statement does not write twice.
    """
    whole, many = 0, _many_rows_sql(sql) if len(rows) >= _ROWS_AT_ONCE else None
    if many is not None and (not many.keys or len({tuple(row[key] for key in many.keys) for row in rows}) == len(rows)):
        whole = len(rows) - len(rows) % _ROWS_AT_ONCE
        for start in range(0, whole, _ROWS_AT_ONCE):
            yield many.sql, [[value for row in rows[start : start + _ROWS_AT_ONCE] for value in row]]
    if len(rows) > whole:
        yield sql, rows[whole:]


class _ManyRows(NamedTuple):
    """An INSERT of ``_ROWS_AT_ONCE`` rows, numbered from $1, and the places in a row of what must differ."""

    sql: str
    keys: tuple[int, ...]


@lru_cache(maxsize=256)
def _many_rows_sql(sql: str) -> _ManyRows | None:
    """Return *sql* for many rows, None where it is more than an INSERT of one with every value bound."""
    if (insert := _INSERT.fullmatch(sql)) is None:
        return None
    columns = [name.strip() for name in (insert["columns"] or "").split(",")]
    keys = [name.strip() for name in (insert["keys"] or "").split(",")]
    if insert["keys"] is not None and not (set(keys) <= set(columns) and insert["row"].count("%s") == len(columns)):
        return None
    number = itertools.count(1)
    rows = re.sub("%s", lambda _: f"${next(number)}", ", ".join([insert["row"]] * _ROWS_AT_ONCE))
    places = () if insert["keys"] is None else tuple(columns.index(key) for key in keys)
    return _ManyRows(f"{insert['head']}{rows}{insert['tail']}", places)


@lru_cache(maxsize=1024)
def _returns_nothing(sql: str) -> bool:
    return sql.lstrip().startswith(("INSERT", "UPDATE", "DELETE")) and "RETURNING" not in sql
