"""Database files: checked before SQLite opens them, created whole under a private name, and opened.

The header names the program that owns a file. The table ``file_facts`` has its identity, its time of creation, the mark
of an unfinished erasure and the copies made of it. A foreign, newer or linked file is refused untouched. A file
that cannot be written is opened for reading.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

import apsw

from tellback.vectorstore.database import Component, Connection
from tellback.vectorstore.errors import ArgumentError, BusyError, NewerFile, NotAStore, StorageUnwritable
from tellback.vectorstore.persisted_names import APPLICATION_ID, UNFINISHED_FILES
from tellback.vectorstore.sqlite.connection import (
    Access,
    DeviceInode,
    device_inode,
    fetch_all,
    fetch_first,
    fetch_one,
    log_size,
    open_connection,
    reading_access,
    release_inherited,
    translate_errors,
    translate_system_errors,
)
from tellback.vectorstore.sqlite.dialect import SqliteConnection
from tellback.vectorstore.sqlite.migrations import (
    check_component_version,
    check_schema,
    component_versions,
    make_file_tables,
    run_migrations,
)
from tellback.vectorstore.types import Finding

RandomBytes: TypeAlias = Callable[[int], bytes]
"""Function that returns a number of random bytes, like ``os.urandom``."""


def utc_now() -> datetime:
    """Return the present moment."""
    return datetime.now(UTC)


SIDE_FILE_SUFFIXES = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite makes beside a database."""


@contextmanager
def atomic_write(path: Path, *, token: RandomBytes, replace: bool = False) -> Iterator[Path]:
    """Yield an empty private file (mode 0600) to fill; at the end it is at *path*, on disk.

    ``FileExistsError``: *path* exists; with *replace* that file is replaced in one step. After an error no private
    file is left.
    """
    missing = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(0o700, exist_ok=True)
    private, descriptor = _create_private_file(path, token)
    try:
        yield private
        _flush_file(private)
        if replace:
            private.replace(path)
        else:
            _link_into_place(private, path)
        flush_folder(path.parent)
    finally:
        if descriptor >= 0:
            os.close(descriptor)
        for leftover in (private, *(private.with_name(private.name + end) for end in SIDE_FILE_SUFFIXES)):
            leftover.unlink(missing_ok=True)


def _create_private_file(path: Path, token: RandomBytes) -> tuple[Path, int]:
    """Make an empty file beside *path*; return it and the descriptor that keeps it locked, -1 without locks."""
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    while True:
        private = path.with_name(f".tellback-{token(8).hex()}.part")
        descriptor = os.open(private, flags, 0o600)
        if hasattr(os, "fchmod"):
            os.fchmod(descriptor, 0o600)
        locked = _lock_file(descriptor)
        if locked and private.exists():
            return private, descriptor
        os.close(descriptor)
        if locked is None:
            return private, -1
        private.unlink(missing_ok=True)  # somebody took it for abandoned before it was locked


def unfinished_files(folder: Path) -> list[Path]:
    """Return the files in *folder* that a killed process did not finish, and those being written now; by name."""
    return sorted(path for pattern in UNFINISHED_FILES for path in folder.glob(pattern))


_UNLOCKED_AGE: Final = 24 * 60 * 60
"""Seconds since its last change after which an unlocked file counts as abandoned."""


@contextmanager
def abandoned(path: Path) -> Iterator[bool]:
    """Yield whether the writer of the unfinished file at *path* is dead; it stays locked until the block ends.

    A writer holds a lock, which the system drops when it dies. Where there is no such lock (a system other than Linux,
    a file of a former version) the file must not have been changed for a day.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        yield False
        return
    try:
        status = os.fstat(descriptor)
        old = time.time() - status.st_mtime > _UNLOCKED_AGE
        locked = _lock_file(descriptor) and path.match(UNFINISHED_FILES[0])
        yield stat.S_ISREG(status.st_mode) and (locked or (old and _lock_file(descriptor) is not False))
    finally:
        os.close(descriptor)


def _lock_file(descriptor: int) -> bool | None:
    """Lock a file for as long as *descriptor* is open; False where another process has, None where there is no lock.

    On other systems than Linux such a lock would conflict with SQLite's own.
    """
    if sys.platform != "linux":
        return None
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


def _link_into_place(private: Path, path: Path) -> None:
    try:
        os.link(private, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: claim the name, which takes a moment in which it is empty
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            private.replace(path)
        except BaseException:
            path.unlink()
            raise


def _flush_file(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Make names put into *folder*, or taken from it, durable."""
    if os.name == "nt":
        return  # folders cannot be opened there, and need no flush
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


SQLITE_MAGIC = b"SQLite format 3\x00"
_FILE_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


def check_path(path: str | os.PathLike[str], argument: str = "path") -> Path:
    """Return *path* as absolute, with links among its folders resolved and its own name unchanged."""
    value: object = path  # untyped callers pass anything
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str):
        raise ArgumentError(argument, path, "the path of a file, a str or a PathLike of one, is needed")
    if not text or "\0" in text or text == ":memory:":
        raise ArgumentError(argument, path, "the path of a file on disk is needed")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ArgumentError(argument, path, "a path that can be written as UTF-8 is needed")
    file = Path(text)
    if file.name in ("", ".."):
        raise ArgumentError(argument, path, "the path of a file, not of a folder, is needed")
    return file.parent.resolve() / file.name


def is_missing(path: Path) -> bool:
    """Return whether *path* is free for a new file; ``NotAStore`` where anything but a file is."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        wal = path.with_name(path.name + "-wal")
        if wal.exists() and not path.exists():
            raise NotAStore(
                str(path), f"the file is gone but its log {wal.name} is there; restore the file, or move the log away"
            ) from None
        return not path.exists()
    if stat.S_ISLNK(mode):
        raise NotAStore(str(path), f"it is a link to {str(path.readlink())!r}; name the file it points to")
    if not stat.S_ISREG(mode):
        raise NotAStore(str(path), f"it is {_FILE_KINDS.get(stat.S_IFMT(mode), 'not a file')}; choose another path")
    return False


def check_database_file(path: Path) -> None:
    """Refuse a file that is not Tellback's, or newer, by its first hundred bytes."""
    try:
        # Through SQLite's own layer: to open and close a file in any other way drops the locks that another
        # connection of this process holds on it.
        file = apsw.VFSFile("", str(path), [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0])
    except apsw.CantOpenError as error:
        raise StorageUnwritable(f"{path}: no permission to read the file") from error
    try:
        size = file.xFileSize()
        if size == 0:
            raise NotAStore(str(path), "the file is empty, which no memory is; restore it from a backup, or remove it")
        header = file.xRead(min(100, size), 0)
    finally:
        file.xClose()
    if not header.startswith(SQLITE_MAGIC) or len(header) < 100:
        raise NotAStore(str(path), "it is not a memory file of Tellback; choose another path")
    check_header(path, int.from_bytes(header[68:72]), int.from_bytes(header[60:64]))


FORMAT_VERSION: Final = 1
"""The version of the file format, kept as SQLite's user version."""


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Identity and time of creation that are recorded in a new file."""

    identity: str
    created: str


def write_header(connection: SqliteConnection, birth: FileIdentity) -> None:
    """Write the header, and the tables that every file has, into an empty file."""
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", FORMAT_VERSION)
    make_file_tables(connection)
    write_fact(connection, "identity", birth.identity)
    write_fact(connection, "created", birth.created)


def check_header(path: Path, application: int, version: int) -> None:
    """Refuse a file of another program, or of a newer Tellback."""
    if application != APPLICATION_ID:
        raise NotAStore(str(path), "it is an SQLite file of another program; choose another path")
    if version > FORMAT_VERSION:
        raise NewerFile(str(path), "file format", version, FORMAT_VERSION)


def read_fact(connection: Connection, name: str) -> str | None:
    """Return a fact of the file."""
    row = fetch_first(connection, "SELECT value FROM file_facts WHERE name = ?", (name,))
    return None if row is None else str(row[0])


def write_fact(connection: Connection, name: str, value: str) -> None:
    """Record a fact of the file."""
    connection.execute(
        "INSERT INTO file_facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (name, value)
    )


def has_rows(connection: SqliteConnection) -> bool:
    """Return whether any component's table has rows."""
    tables = fetch_all(
        connection,
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"
        " AND name NOT IN ('components', 'file_facts')",
    )
    return any(fetch_first(connection, 'SELECT 1 FROM "{}"'.format(str(name).replace('"', '""'))) for (name,) in tables)


def verify_header(connection: Connection) -> list[Finding]:
    """Return a finding for each defect of the header and the file's facts."""
    findings = []
    if fetch_one(connection, "PRAGMA application_id") != (APPLICATION_ID,):
        findings.append(Finding("header", "the application id is not Tellback's"))
    if fetch_one(connection, "PRAGMA user_version") != (FORMAT_VERSION,):
        findings.append(Finding("header", f"the file format is not {FORMAT_VERSION}"))
    for name in ("identity", "created"):
        if read_fact(connection, name) is None:
            findings.append(Finding("file_facts", "a fact of the file is missing", name))
    return findings


def create_database_file(
    path: Path,
    components: Sequence[Component],
    birth: FileIdentity,
    *,
    token: RandomBytes,
    fill: Callable[[SqliteConnection], None] | None = None,
) -> None:
    """Create the file with the tables of *components*; *fill* may add rows. ``FileExistsError``: *path* exists."""
    with translate_system_errors(path), atomic_write(path, token=token) as private:
        connection = open_connection(private, Access.WRITE, busy_timeout=0)
        with closing(connection), translate_errors(path, connection):
            # Nobody sees the private file: it needs neither a journal on disk nor a sync for each step.
            connection.pragma("journal_mode", "memory")
            connection.pragma("synchronous", "off")
            connection.execute("BEGIN IMMEDIATE")
            write_header(connection, birth)
            for component in components:
                run_migrations(connection, component, path)
            if fill is not None:
                fill(connection)
            connection.execute("COMMIT")
            enable_wal(connection, path)


def enable_wal(connection: SqliteConnection, path: Path) -> None:
    """Switch to WAL mode, in which readers and a writer work at once; refuse a file system without it."""
    if connection.pragma("journal_mode", "wal") != "wal":
        raise StorageUnwritable(
            f"{path}: this file system has no shared memory, which a memory file needs; use a local disk"
        )


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """Opened database file: *writer* is None where it can only be read, *reading* is the access of readers."""

    writer: SqliteConnection | None
    reading: Access
    birth: FileIdentity
    place: DeviceInode


def open_database_file(
    path: Path, components: Sequence[Component], *, read_only: bool, busy_timeout: float
) -> OpenedFile:
    """Open the file; refuse it untouched when it is of another program, or a component of it is newer."""
    with translate_system_errors(path):
        inode = device_inode(path)
        release_inherited(inode)
        check_database_file(path)
        if not read_only and (opened := _open_for_writing(path, components, busy_timeout)) is not None:
            return OpenedFile(opened[0], Access.READ, opened[1], inode)
        access = Access.READ_ONLY if _is_writable(path) else Access.FROZEN
        connection = open_connection(path, reading_access(path, access), busy_timeout=busy_timeout)
        with closing(connection), translate_errors(path, connection):
            return OpenedFile(None, access, _check_opened(path, connection, components), inode)


def _is_writable(path: Path) -> bool:
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def _open_for_writing(
    path: Path, components: Sequence[Component], busy_timeout: float
) -> tuple[SqliteConnection, FileIdentity] | None:
    if not os.access(path, os.W_OK):
        return None  # an attempt would make an index of ours beside another user's file
    with ExitStack() as undo:
        try:
            if keep_log := log_size(path) > 0:
                _recover_log(path, components)
            # Closing must not move into the file what a newer Tellback left in the log.
            connection = open_connection(path, Access.WRITE, busy_timeout=busy_timeout, keep_log=keep_log)
            undo.callback(connection.close)
            if connection.readonly("main"):
                return None
            with translate_errors(path, connection):
                birth = _check_opened(path, connection, components)
                enable_wal(connection, path)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        except (apsw.CantOpenError, apsw.ReadOnlyError, StorageUnwritable):
            if _is_writable(path):
                raise
            return None
        undo.pop_all()
        return connection, birth


def _recover_log(path: Path, components: Sequence[Component]) -> None:
    """Move a log that was left by a crash into the file; where somebody has the file open, it was recovered there.

    SQLite's own recovery fills the index beside the file (``-shm``) from memory that it has not cleared: where a log's
    first frame is torn, whatever texts this process held before would stand in that file. A connection that locks the
    file for itself has its index in memory alone.
    """
    with suppress(BusyError), translate_errors(path), ExitStack() as opened:
        # That alone may meet a lock: the last connection of another process holds one while it closes.
        connection = open_connection(path, Access.WRITE, busy_timeout=0, keep_log=True)
        opened.callback(connection.close)
        connection.pragma("locking_mode", "exclusive")
        _check_opened(path, connection, components)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)


def _check_opened(path: Path, connection: SqliteConnection, components: Sequence[Component]) -> FileIdentity:
    check_header(path, connection.pragma("application_id"), connection.pragma("user_version"))
    if not all(connection.table_exists("main", table) for table in ("file_facts", "components")):
        raise NotAStore(str(path), "the file lacks the tables that make it whole; restore a backup")
    identity, created = read_fact(connection, "identity"), read_fact(connection, "created")
    if identity is None or created is None:
        raise NotAStore(str(path), "the file does not know its identity, so it is not whole; restore a backup")
    with connection:  # one state: another process may be making a part's tables at this moment
        versions = component_versions(connection)
        for component in components:
            check_component_version(path, versions, component)
        check_schema(connection, components)
    return FileIdentity(identity, created)
