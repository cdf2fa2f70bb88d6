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
from vectorstore.sqlite.frame import drop_fact, fact, facts, put_fact
from vectorstore.sqlite.wiping import half_wiped, wipe

_KIND: Final = "backup "


def record_backup(connection: apsw.Connection, path: Path, at: str) -> None:
    """Record that a copy is made at *path*."""
    put_fact(connection, _KIND + str(path), at)


def recorded_backups(connection: apsw.Connection) -> dict[str, str]:
    """Return the paths of the copies with when they were made, in order of path."""
    return facts(connection, _KIND)


def drop_record(connection: apsw.Connection, path: str) -> None:
    """Take the record of a copy away."""
    drop_fact(connection, _KIND + path)


def remove_copy(path: Path, *, of: str, original: Path, only_untouched: bool = False) -> bool:
    """Remove the file at *path* if it is a copy of the file whose identity is *of*; say whether it was there.

    Anything else that stands there by now (another file, a link, the *original* itself) is left, and raises. So does,
    with *only_untouched*, a copy that does not name itself any more: it was opened, and serves as a memory.
    """
    if not os.path.lexists(path):
        return False
    is_missing(path)
    if path == original or path.samefile(original):
        raise NotAStore(str(path), "it is the memory itself and not a copy of it")
    try:
        check_file(path)
    except NotAStore:
        if not half_wiped(path, of=of):
            raise
    else:
        _check_copy(path, of, only_untouched=only_untouched)
    wipe(path, of=of)
    return True


def _check_copy(path: Path, of: str, *, only_untouched: bool) -> None:
    connection = open_connection(path, Access.FROZEN, busy_timeout=0)
    try:
        with border(path, connection):
            identity, itself = fact(connection, "identity"), fact(connection, _KIND + str(path))
    except VectorStoreError as error:
        raise NotAStore(str(path), "it cannot be read, so it is not known to be a copy of this memory") from error
    finally:
        connection.close()
    if identity != of:
        raise NotAStore(str(path), "it is another memory and not a copy of this one")
    if only_untouched and (itself is None or path.with_name(path.name + "-wal").exists()):
        raise NotAStore(str(path), "it was opened since it was made, and may hold more than this memory")
