"""A file made as small as what it holds: its pages written anew without those that are free.

SQLite does it as one transaction through the log (``VACUUM``), so a crash leaves the file as it was, and readers keep
their state meanwhile; the file itself shrinks when the log is moved into it, which needs that nobody reads.
"""

from __future__ import annotations

from pathlib import Path

import apsw

from vectorstore.errors import StorageFull
from vectorstore.sqlite.connection import milliseconds
from vectorstore.sqlite.erasure import emptied_log


def size_of(path: Path) -> int:
    """Return the bytes of the file and of its log."""
    log = path.with_name(path.name + "-wal")
    return path.stat().st_size + (log.stat().st_size if log.exists() else 0)


def vacuum(connection: apsw.Connection, path: Path) -> None:
    """Write the pages anew, into the log, in one transaction."""
    try:
        connection.execute("VACUUM")
    except apsw.NoMemError as error:
        raise StorageFull(f"{path}: memory is too small for the copy that compacting makes") from error


def emptied(connection: apsw.Connection, *, wait: float, busy_timeout: float) -> bool:
    """Move the log into the file and cut it to nothing; False when a reader prevents it for *wait* seconds."""
    connection.set_busy_timeout(milliseconds(wait))
    try:
        return emptied_log(connection)
    except apsw.BusyError:  # another connection empties it at this moment
        return False
    finally:
        connection.set_busy_timeout(milliseconds(busy_timeout))
