"""Backups of a file: copied page by page, checked, and recorded in the file itself.

The record lets an erasure name the copies that it does not reach. A copy from before a migration is recorded before it
is made, so that none is ever there that the file does not name.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Final

import apsw

from vectorstore.database import Component
from vectorstore.errors import DamageError, NotAStore, VectorStoreError
from vectorstore.sqlite.connection import Access, fetch_all, open_connection, translate_errors, translate_system_errors
from vectorstore.sqlite.files import (
    RandomBytes,
    abandoned,
    atomic_write,
    check_database_file,
    is_missing,
    read_fact,
    unfinished_files,
    write_fact,
)
from vectorstore.sqlite.page_gaps import clear_page_gaps
from vectorstore.sqlite.secure_delete import is_half_wiped, wipe_file
from vectorstore.types import Finding

_BACKUP_FACT: Final = "backup "
_STEM_BYTES: Final = 120
"""Bytes of the file's name that the name of its copy keeps, which leaves room for the rest."""


def record_backup(connection: apsw.Connection, path: Path, time: str) -> None:
    """Record that a copy is made at *path*."""
    write_fact(connection, _BACKUP_FACT + str(path), time)


def recorded_backups(connection: apsw.Connection) -> dict[str, str]:
    """Return the paths of the copies with when they were made, in order of path."""
    rows = fetch_all(
        connection, "SELECT name, value FROM file_facts WHERE name >= 'backup ' AND name < 'backup!' ORDER BY name"
    )
    return {str(name)[len(_BACKUP_FACT) :]: str(value) for name, value in rows}


def drop_backup_record(connection: apsw.Connection, path: str) -> None:
    """Take the record of a copy away; copies from before migrations once had a second one."""
    connection.execute("DELETE FROM file_facts WHERE name IN (?, ?)", (_BACKUP_FACT + path, f"migration {path}"))


def migration_copy_path(file: Path, component: Component, before: int) -> Path:
    """Return a path beside *file* for its copy from before a migration, where nothing is yet."""
    stem = file.name.encode()[:_STEM_BYTES].decode(errors="ignore")
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in component.name[:40])
    name = f"{stem}.before-{plain}-{before}-to-{len(component.migrations)}"
    numbered = (f"{name}{'' if number == 1 else f'-{number}'}.backup" for number in count(1))
    return next(path for path in map(file.with_name, numbered) if not os.path.lexists(path))


def is_migration_copy(path: str) -> bool:
    """Return whether a recorded backup has the name of a copy from before a migration."""
    return path.endswith(".backup") and ".before-" in Path(path).name


def remove_backup_file(path: Path, *, of: str, original: Path) -> bool:
    """Remove the file at *path* if it is a copy of the file whose identity is *of*; say whether it was there.

    Anything else that is there by now (another file, a link, the *original* itself) is left, and raises.
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
        _check_is_copy(path, of)
    wipe_file(path, of=of)
    return True


def _check_is_copy(path: Path, of: str) -> None:
    try:
        connection = open_connection(path, Access.FROZEN, busy_timeout=0)
        with closing(connection), translate_errors(path, connection):
            identity = read_fact(connection, "identity")
    except VectorStoreError as error:
        raise NotAStore(str(path), "it cannot be read, so it is not known to be a copy of this memory") from error
    if identity != of:
        raise NotAStore(str(path), "it is another memory and not a copy of this one")


def remove_abandoned_files(folder: Path) -> None:
    """Overwrite and remove files in *folder* that a killed process did not finish; those being written now stay."""
    for path in unfinished_files(folder):
        with abandoned(path) as dead, suppress(OSError):
            if dead:
                wipe_file(path, of="")


_PAGES_PER_STEP: Final = 1024
"""Pages copied in one step."""


def write_backup(source: apsw.Connection, path: Path, *, token: RandomBytes) -> None:
    """Copy the state that *source* reads to *path*, where it is put once its pages were checked."""
    with translate_system_errors(path), atomic_write(path, token=token) as private:
        target = open_connection(private, Access.WRITE, busy_timeout=0)
        with closing(target), translate_errors(path, target):
            target.pragma("journal_mode", "off")
            target.pragma("synchronous", "off")  # the whole file is flushed before it is put in place
            with target.backup("main", source, "main") as copying:
                while not copying.done:
                    copying.step(_PAGES_PER_STEP)
            clear_page_gaps(target)  # nobody else has it open yet
        target = open_connection(private, Access.FROZEN, busy_timeout=0)
        with closing(target), translate_errors(path, target):
            rows = target.execute("PRAGMA quick_check").fetchall()
        if rows != [("ok",)]:
            raise DamageError([Finding("pages", str(text)) for (text,) in rows])
