"""Hook on every SQL statement of every connection: a write can be made to fail, each commit can be observed.

Nothing of the product is touched: ``apsw`` tells of connections as they are opened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

_WRITES = re.compile(r"\s*(INSERT|UPDATE|DELETE|REPLACE|CREATE|ALTER|DROP|COMMIT)\b", re.IGNORECASE)


class Statements:
    """Watches the connections to files that are opened while it is entered; no disk holds those of the process.

    ``fail(at)`` lets the write statement number *at* from now on (0 is the next, a commit counts) fail as on a full
    disk. *committed* is called, with the name of the file, whenever something has been committed.
    """

    def __init__(self) -> None:
        self.committed: Callable[[str], object] = lambda _: None
        self.written = 0
        self.failed = False
        self._at: int | None = None

    def __enter__(self) -> Statements:
        apsw.connection_hooks.append(self._opened)
        return self

    def __exit__(self, *_: object) -> None:
        apsw.connection_hooks.remove(self._opened)

    def fail(self, at: int | None) -> None:
        """Begin to count anew; None: nothing fails."""
        self._at, self.written, self.failed = at, 0, False

    def _opened(self, connection: apsw.Connection) -> None:
        if not connection.filename:
            return
        dirty = False

        def begins(_: apsw.Cursor, sql: str, __: Any) -> bool:
            if _WRITES.match(sql):
                self.written += 1
                if self._at is not None and self.written == self._at + 1:
                    self.failed = True
                    raise apsw.FullError("planted")
            return True

        def ended(event: dict[str, Any]) -> None:
            nonlocal dirty
            dirty = dirty or _WRITES.match(event["sql"]) is not None
            if dirty and not event["connection"].in_transaction:
                dirty = False
                self.committed(connection.filename)

        connection.exec_trace = begins
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, ended, id=self)


class Disk:
    """Contents of *files* and their logs, kept at a moment; the files are open elsewhere in this process.

    What is read is not closed before the end: closing it would let go of the locks that SQLite has on it.
    """

    def __init__(self, *files: Path) -> None:
        self._files = [path.with_name(path.name + end) for path in files for end in ("", "-wal")]
        self._open: list[int] = []

    def keep(self, folder: Path) -> None:
        """Write what the files hold now into *folder*, under their names: what a process that ends here leaves."""
        folder.mkdir()
        for path in self._files:
            if path.exists():
                self._open.append(os.open(path, os.O_RDONLY))
                (folder / path.name).write_bytes(os.pread(self._open[-1], os.fstat(self._open[-1]).st_size, 0))

    def close(self) -> None:
        """Let go of the files; nobody has them open any more."""
        for number in self._open:
            os.close(number)


def rows_of(path: Path) -> dict[str, list[Any]]:
    """Return every row of every table of the file, but for the mark that something is still to be erased."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return rows_in(connection)
    finally:
        connection.close()


def rows_in(connection: apsw.Connection) -> dict[str, list[Any]]:
    """As ``rows_of``, through a connection that is kept."""
    with connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        rows = {name: list(connection.execute(f'SELECT * FROM "{name}"')) for name in sorted(names)}
    rows["file_facts"] = [row for row in rows["file_facts"] if row[0] != "erasure"]
    return rows
