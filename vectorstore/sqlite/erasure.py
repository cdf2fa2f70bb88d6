"""Deleted bytes that still stand in the log: a durable mark, and the checkpoint that takes them away."""

from __future__ import annotations

import apsw

from vectorstore.sqlite.connection import milliseconds
from vectorstore.sqlite.frame import fact, put_fact

_MARK = "erasure"


def set_mark(connection: apsw.Connection, value: str) -> None:
    """Mark the file, in the transaction that deletes. *value* is new each time."""
    put_fact(connection, _MARK, value)


def mark(connection: apsw.Connection) -> str | None:
    """Return the mark, if there is one."""
    return fact(connection, _MARK)


def finish(connection: apsw.Connection, *, wait: float, busy_timeout: float) -> bool:
    """Empty the log and take the mark away; False when a reader or a full disk prevents it for now."""
    connection.set_busy_timeout(milliseconds(wait))
    try:
        value = mark(connection)
        if value is None:
            return True
        if not emptied_log(connection):
            return False
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have marked anew since the checkpoint: that mark stays.
            connection.execute("DELETE FROM file_facts WHERE name = ? AND value = ?", (_MARK, value))
            left = mark(connection)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        return left is None
    except (apsw.BusyError, apsw.FullError, apsw.IOError, apsw.ReadOnlyError, apsw.CantOpenError):
        return False  # what was deleted is deleted and the mark is durable: the next try comes
    finally:
        connection.set_busy_timeout(milliseconds(busy_timeout))


def emptied_log(connection: apsw.Connection) -> bool:
    """Move the log into the file and cut it to nothing; False when a reader is in the way."""
    # That it was busy comes as a value in the first column, not as an error.
    ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return not busy
