"""Connections for reading: one for each thread that reads at the moment, kept for the next.

A file that this user cannot write, and nobody is seen to write, is read without anything beside it; such a
connection serves one transaction, which notices at its end when somebody began to write after all.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import apsw

from vectorstore.errors import BusyError
from vectorstore.sqlite.border import border
from vectorstore.sqlite.connection import Access, open_connection
from vectorstore.sqlite.opening import now_for_reading

_KEPT: Final = 8
"""Idle connections kept open; more are opened while more threads read."""
_Look: TypeAlias = tuple[int, int, bool]


class ReadPool:
    """The reading connections of one database."""

    def __init__(self, path: Path, access: Access, *, busy_timeout: float) -> None:
        self._path = path
        self._access = access
        self._busy_timeout = busy_timeout
        self._lock = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._lent: list[apsw.Connection] = []

    @contextmanager
    def transaction(self, *, fresh: bool = False) -> Iterator[apsw.Connection]:
        """Yield a connection inside a transaction for reading; its state is fixed by the first read.

        A *fresh* connection has no pages in memory yet, so it sees what is on the disk.
        """
        access = now_for_reading(self._path, self._access)
        before = _look(self._path) if access is Access.FROZEN else None
        with border(self._path):
            connection = self._take(access, fresh)
        try:
            with border(self._path, connection):
                connection.execute("BEGIN")
                yield connection
        finally:
            self._give_back(connection)
        if before is not None and _look(self._path) != before:
            raise BusyError(f"{self._path}: another user wrote while it was read; try again")

    def connections(self) -> list[apsw.Connection]:
        """Return every open one."""
        return [*self._idle, *self._lent]

    def close(self) -> None:
        """Close those that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self, access: Access, fresh: bool) -> apsw.Connection:
        with self._lock:
            if self._idle and not fresh:
                self._lent.append(self._idle.pop())
                return self._lent[-1]
        connection = open_connection(self._path, access, busy_timeout=self._busy_timeout)
        with self._lock:
            self._lent.append(connection)
        return connection

    def _give_back(self, connection: apsw.Connection) -> None:
        keep = _at_rest(connection) and self._access is not Access.FROZEN
        with self._lock:
            self._lent.remove(connection)
            if keep and len(self._idle) < _KEPT:
                self._idle.append(connection)
                return
        connection.close(True)


def _at_rest(connection: apsw.Connection) -> bool:
    """End the transaction; a cursor that someone kept half read would hold its state open, and fails here."""
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except apsw.Error:  # whatever ails it, it is closed and not used again
        return False
    return connection.txn_state("main") == apsw.SQLITE_TXN_NONE


def _look(path: Path) -> _Look:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, path.with_name(path.name + "-wal").exists()
