"""Backups of a file: copied page by page, checked, and recorded in the file itself.

The record lets an erasure name the copies that it does not reach. A copy from before a migration is recorded before it
is made, so that every copy is recorded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final, TypeAlias

import apsw

from tellback.vectorstore.database import Component
from tellback.vectorstore.errors import BusyError, DamageError, NotAStore, VectorStoreError
from tellback.vectorstore.sqlite.connection import (
    Access,
    fetch_all,
    open_connection,
    reading_access,
    translate_errors,
    translate_system_errors,
)
from tellback.vectorstore.sqlite.dialect import SqliteConnection
from tellback.vectorstore.sqlite.files import (
    SQLITE_MAGIC,
    RandomBytes,
    abandoned,
    atomic_write,
    check_database_file,
    is_missing,
    read_fact,
    unfinished_files,
    write_fact,
)
from tellback.vectorstore.sqlite.page_gaps import clear_page_gaps
from tellback.vectorstore.sqlite.secure_delete import is_half_wiped, wipe_file
from tellback.vectorstore.types import Finding

_BACKUP_FACT: Final = "backup "
_STEM_BYTES: Final = 120
"""Bytes of the file's name in the name of its copy; the rest of the name needs the others."""


def record_backup(connection: SqliteConnection, path: Path, time: str) -> None:
    """Record that a copy is made at *path*."""
    write_fact(connection, _BACKUP_FACT + str(path), time)


def recorded_backups(connection: SqliteConnection) -> dict[str, str]:
    """Return the time of each recorded copy by its path, in order of path."""
    rows = fetch_all(
        connection, "SELECT name, value FROM file_facts WHERE name >= 'backup ' AND name < 'backup!' ORDER BY name"
    )
    return {str(name)[len(_BACKUP_FACT) :]: str(value) for name, value in rows}


def drop_backup_record(connection: SqliteConnection, path: str) -> None:
    """Delete the record of a copy, and the second one that former versions made for migration copies."""
    connection.execute("DELETE FROM file_facts WHERE name IN (?, ?)", (_BACKUP_FACT + path, f"migration {path}"))


def migration_copy_path(file: Path, component: Component, before: int) -> Path:
    """Return an unused path beside *file* for its copy from before a migration."""
    stem = file.name.encode()[:_STEM_BYTES].decode(errors="ignore")
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in component.name[:40])
    name = f"{stem}.before-{plain}-{before}-to-{len(component.migrations)}"
    numbered = (f"{name}{'' if number == 1 else f'-{number}'}.backup" for number in count(1))
    return next(path for path in map(file.with_name, numbered) if not os.path.lexists(path))


def is_migration_copy(path: str) -> bool:
    """Return whether a recorded backup has the name of a copy from before a migration."""
    return path.endswith(".backup") and ".before-" in Path(path).name


def remove_backup_file(path: Path, *, of: str, original: Path) -> bool:
    """Remove the file at *path* if it is a copy of the file whose identity is *of*; return whether it existed.

    Anything else at *path* (another file, a link, the *original* itself) is left, and raises.
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
_SECONDS_FOR_SOLE_USE: Final = 2.0
CopyProgress: TypeAlias = Callable[[int, int], object]
"""Callback that gets the bytes copied and the bytes in all."""


def write_backup(
    source: SqliteConnection, path: Path, *, token: RandomBytes, on_progress: CopyProgress | None = None
) -> None:
    """Copy the state that *source* reads, check the pages of the copy, and put it at *path*."""
    with translate_system_errors(path), atomic_write(path, token=token) as private:
        copy_pages(source, private, path, on_progress)


def copy_pages(source: SqliteConnection, private: Path, path: Path, on_progress: CopyProgress | None = None) -> None:
    """Fill the file *private* with the state that *source* reads, and check its pages; errors name *path*."""
    target = open_connection(private, Access.WRITE, busy_timeout=0)
    with closing(target), translate_errors(path, target):
        target.pragma("journal_mode", "off")
        target.pragma("synchronous", "off")  # the whole file is flushed before it is put in place
        page_size = int(source.pragma("page_size"))
        with target.backup("main", source, "main") as copying:
            while not copying.done:
                copying.step(_PAGES_PER_STEP)
                if on_progress is not None:
                    on_progress((copying.page_count - copying.remaining) * page_size, copying.page_count * page_size)
        clear_page_gaps(target)  # nobody else has it open yet
    target = open_connection(private, Access.FROZEN, busy_timeout=0)
    with closing(target), translate_errors(path, target):
        rows = target.execute("PRAGMA quick_check").fetchall()
    if rows != [("ok",)]:
        raise DamageError([Finding("pages", str(text)) for (text,) in rows])


def backup_damage(path: Path) -> str:
    """Return the damage of the backup at *path*, "" where its pages are whole; no file is made beside it."""
    try:
        check_database_file(path)
        connection = open_connection(path, reading_access(path, Access.FROZEN), busy_timeout=0)
        with closing(connection), translate_errors(path, connection):
            rows = connection.execute("PRAGMA quick_check(1)").fetchall()
    except (VectorStoreError, apsw.Error) as error:
        return str(error)
    return "" if rows == [("ok",)] else str(rows[0][0])


def restore_file(
    source: Path,
    path: Path,
    *,
    kept: Path,
    time: str,
    check: Callable[[Path], object],
    token: RandomBytes,
    on_progress: CopyProgress | None = None,
) -> bool:
    """Replace the file at *path*, which becomes *kept*, by a copy of the backup *source*; return whether it existed.

    *check* verifies the whole copy; where it raises, nothing was changed. ``BusyError``: another process has the file
    open. A crash leaves either the old file or the new one at *path*. The old
    one is recorded in the new one as a backup made at *time*.
    """
    check_database_file(source)
    with (
        ExitStack() as resources,
        translate_system_errors(path),
        atomic_write(path, token=token, replace=True) as private,
    ):
        if damage := backup_damage(source):
            raise DamageError([Finding("backup", damage)], place=str(source))
        reading = open_connection(source, reading_access(source, Access.FROZEN), busy_timeout=0)
        with closing(reading), translate_errors(source, reading):
            copy_pages(reading, private, source, on_progress)
        try:
            check(private)
        except DamageError as error:  # found in the copy, which nobody knows
            raise DamageError(error.findings or str(error), place=str(source)) from error
        if missing := is_missing(path):
            return False
        writing = open_connection(private, Access.WRITE, busy_timeout=0)
        with closing(writing), translate_errors(path, writing):
            record_backup(writing, kept, time)
        resources.enter_context(_sole_use(path))
        _set_aside(path, kept)
    return not missing


@contextmanager
def _sole_use(path: Path) -> Iterator[None]:
    """Keep every other process out of the file at *path*; ``BusyError`` where one has it open.

    Only the sole connection to a file can take it out of WAL mode, which empties the log. A file that is too damaged
    for that is taken to be unused.
    """
    with ExitStack() as resources:
        try:
            check_restorable(path)
            connection = resources.enter_context(
                closing(open_connection(path, Access.WRITE, busy_timeout=_SECONDS_FOR_SOLE_USE))
            )
            with translate_errors(path, connection):
                if connection.pragma("journal_mode", "delete") != "delete":
                    raise BusyError(f"{path}: another process has it open; end it, and try again")
                connection.execute("BEGIN EXCLUSIVE")
        except BusyError as error:
            raise BusyError(f"{path}: another process has it open; end it, and try again") from error
        except (DamageError, apsw.NotADBError, apsw.CorruptError):
            resources.close()
        if os.name == "nt":
            resources.close()  # an open file cannot be replaced there
        yield


def check_restorable(path: Path) -> None:
    """Raise ``DamageError`` for a file that is no database any more, ``NotAStore`` for one of another program."""
    file = apsw.VFSFile("", str(path), [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0])  # keeps locks
    try:
        is_database = file.xFileSize() >= 100 and file.xRead(len(SQLITE_MAGIC), 0) == SQLITE_MAGIC
    finally:
        file.xClose()
    if not is_database:
        raise DamageError([Finding("header", "it is no database any more")])
    check_database_file(path)


def _set_aside(path: Path, kept: Path) -> None:
    """Link the file at *path* as *kept* too, so that *path* always names a file; its log is renamed."""
    for end in ("-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + end).rename(kept.with_name(kept.name + end))
    try:
        os.link(path, kept)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        path.rename(kept)
