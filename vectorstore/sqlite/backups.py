"""Which copies were made of a file: recorded in the file itself, so that an erasure can name what it does not reach."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import apsw

from vectorstore.errors import NotAStore, VectorStoreError
from vectorstore.sqlite.border import border
from vectorstore.sqlite.connection import Access, open_connection
from vectorstore.sqlite.examining import check_file, is_missing
from vectorstore.sqlite.frame import fact, put_fact
from vectorstore.sqlite.query import every

_PREFIX: Final = "backup "


def record_backup(connection: apsw.Connection, path: Path, at: str) -> None:
    """Record that a copy is made at *path*."""
    put_fact(connection, _PREFIX + str(path), at)


def recorded_backups(connection: apsw.Connection) -> dict[str, str]:
    """Return the paths of the copies with when they were made, in order of path."""
    rows = every(connection, "SELECT name, value FROM file_facts WHERE name >= ? AND name < ?", (_PREFIX, "backup!"))
    return {str(name)[len(_PREFIX) :]: str(at) for name, at in sorted(rows)}


def drop_record(connection: apsw.Connection, path: str) -> None:
    """Take the record of a copy away."""
    connection.execute("DELETE FROM file_facts WHERE name = ?", (_PREFIX + path,))


def remove_copy(path: Path, *, of: str, original: Path) -> bool:
    """Remove the file at *path* if it is a copy of the file whose identity is *of*; say whether it was there.

    Anything else that stands there by now (another file, a link, the *original* itself) is left, and raises.
    """
    if not os.path.lexists(path):
        return False
    is_missing(path)
    if path == original or path.samefile(original):
        raise NotAStore(str(path), "it is the memory itself and not a copy of it")
    check_file(path)
    connection = open_connection(path, Access.FROZEN, busy_timeout=0)
    try:
        with border(path, connection):
            identity = fact(connection, "identity")
    except VectorStoreError as error:
        raise NotAStore(str(path), "it cannot be read, so it is not known to be a copy of this memory") from error
    finally:
        connection.close()
    if identity != of:
        raise NotAStore(str(path), "it is another memory and not a copy of this one")
    path.unlink()
    return True
