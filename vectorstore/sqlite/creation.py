"""A new file: header, frame and every component's tables, made whole under a private name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import apsw

from vectorstore.errors import StorageUnwritable
from vectorstore.sqlite.border import border, system_border
from vectorstore.sqlite.component import Component
from vectorstore.sqlite.connection import Access, open_connection
from vectorstore.sqlite.frame import Birth, migrate, write_frame
from vectorstore.sqlite.placing import Token, placed_whole

Fill = Callable[[apsw.Connection], int]


def create_file(
    path: Path, components: Sequence[Component], birth: Birth, *, token: Token, fill: Fill | None = None
) -> int:
    """Make the file; *fill* may put rows in, and its count is returned. ``FileExistsError``: one is there."""
    filled = 0
    with system_border(path), placed_whole(path, token=token) as private:
        connection = open_connection(private, Access.WRITE, busy_timeout=0)
        try:
            with border(path, connection):
                # Nobody sees the private file: it needs neither a journal on disk nor a sync for each step.
                connection.pragma("journal_mode", "memory")
                connection.pragma("synchronous", "off")
                connection.execute("BEGIN IMMEDIATE")
                write_frame(connection, birth)
                for component in components:
                    migrate(connection, component, path)
                if fill is not None:
                    filled = fill(connection)
                connection.execute("COMMIT")
                use_wal(connection, path)
        finally:
            connection.close()
    return filled


def use_wal(connection: apsw.Connection, path: Path) -> None:
    """Let readers and a writer work at once; a file system that cannot is refused."""
    if connection.pragma("journal_mode", "wal") != "wal":
        raise StorageUnwritable(
            f"{path}: this file system has no shared memory, which a memory file needs; use a local disk"
        )
