"""Backups of a file: copied page by page, checked, and recorded in the file itself.

The record lets an erasure name the copies that it does not reach.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import apsw

from vectorstore.errors import DamageError, NotAStore, VectorStoreError
from vectorstore.sqlite.connection import Access, open_connection, translate_errors, translate_system_errors
from vectorstore.sqlite.files import (
    RandomBytes,
    atomic_write,
    check_database_file,
    delete_fact,
    is_missing,
    read_fact,
    read_facts,
    write_fact,
)
from vectorstore.sqlite.secure_delete import is_half_wiped, wipe_file
from vectorstore.types import Finding

_BACKUP_FACT: Final = "backup "


def record_backup(connection: apsw.Connection, path: Path, at: str) -> None:
    """Record that a copy is made at *path*."""
    write_fact(connection, _BACKUP_FACT + str(path), at)


def recorded_backups(connection: apsw.Connection) -> dict[str, str]:
    """Return the paths of the copies with when they were made, in order of path."""
    return read_facts(connection, _BACKUP_FACT)


def drop_backup_record(connection: apsw.Connection, path: str) -> None:
    """Take the record of a copy away."""
    delete_fact(connection, _BACKUP_FACT + path)


def remove_backup_file(path: Path, *, of: str, original: Path, only_untouched: bool = False) -> bool:
    """Remove the file at *path* if it is a copy of the file whose identity is *of*; say whether it was there.

    Anything else that is there by now (another file, a link, the *original* itself) is left, and raises. So does,
    with *only_untouched*, a copy that does not name itself any more: it was opened, and serves as a memory.
    """
    if not os.path.lexists(path):
        return False
    is_missing(path)
    if path == original or path.samefile(original):
        raise NotAStore(str(path), "it is the memory itself and not a copy of it")
    try:
        check_database_file(path)
    except NotAStore:
        if not is_half_wiped(path, of=of):
            raise
    else:
        _check_is_copy(path, of, only_untouched=only_untouched)
    wipe_file(path, of=of)
    return True


def _check_is_copy(path: Path, of: str, *, only_untouched: bool) -> None:
    connection = open_connection(path, Access.FROZEN, busy_timeout=0)
    try:
        with translate_errors(path, connection):
            identity, itself = read_fact(connection, "identity"), read_fact(connection, _BACKUP_FACT + str(path))
    except VectorStoreError as error:
        raise NotAStore(str(path), "it cannot be read, so it is not known to be a copy of this memory") from error
    finally:
        connection.close()
    if identity != of:
        raise NotAStore(str(path), "it is another memory and not a copy of this one")
    if only_untouched and (itself is None or path.with_name(path.name + "-wal").exists()):
        raise NotAStore(str(path), "it was opened since it was made, and may hold more than this memory")


_PAGES_PER_STEP: Final = 1024
"""Pages copied in one step."""


def write_backup(
    source: apsw.Connection,
    path: Path,
    *,
    token: RandomBytes,
    finish: Callable[[apsw.Connection], object] | None = None,
) -> None:
    """Copy the state that *source* reads to *path*; *finish* may change it. It counts once its pages were checked."""
    with translate_system_errors(path), atomic_write(path, token=token) as private:
        target = open_connection(private, Access.WRITE, busy_timeout=0)
        try:
            with translate_errors(path, target):
                target.pragma("journal_mode", "off")
                target.pragma("synchronous", "off")  # the whole file is flushed before it is put in place
                with target.backup("main", source, "main") as copying:
                    while not copying.done:
                        copying.step(_PAGES_PER_STEP)
                if finish is not None:
                    finish(target)
        finally:
            target.close()
        _check_pages(private, path)


def _check_pages(private: Path, path: Path) -> None:
    connection = open_connection(private, Access.FROZEN, busy_timeout=0)
    try:
        with translate_errors(path, connection):
            rows = connection.execute("PRAGMA quick_check").fetchall()
    finally:
        connection.close()
    if rows != [("ok",)]:
        raise DamageError([Finding("pages", str(text)) for (text,) in rows])
