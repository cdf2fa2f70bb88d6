"""Connections to SQLite: opening, queries for rows, translation of errors, and safety after a fork.

Each has the same pragmas and sqlite-vec loaded, with extension loading off again. Rows are plain tuples; the schema
guarantees their types (all tables are STRICT). Errors of SQLite and of the operating system are translated here alone;
a bug of ours passes unchanged. Closing waits for transactions under way. A forked child cannot use the connections of
its parent.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_tb
from typing import Any, Final, TypeAlias
from weakref import WeakSet

import apsw

from tellback.vectorstore.database import Connection
from tellback.vectorstore.errors import (
    ArgumentError,
    BusyError,
    DamageError,
    ForkedError,
    NotAStore,
    StorageFull,
    StorageUnwritable,
    StoreClosed,
    UnsupportedError,
    VectorStoreError,
)
from tellback.vectorstore.sqlite.dialect import SqliteConnection
from tellback.vectorstore.sqlite.filter_sql import register_filter_function

Row: TypeAlias = tuple[Any, ...]
json_array = json.JSONEncoder(ensure_ascii=False).encode
"""A list as JSON text, for ``json_each``."""


def fetch_all(connection: Connection, sql: str, values: Sequence[Any] = ()) -> list[Row]:
    """Return all rows."""
    return connection.execute(sql, tuple(values)).fetchall()


def iterate_rows(connection: Connection, sql: str, values: Sequence[Any] = ()) -> Iterator[Row]:
    """Return rows one by one, as SQLite finds them."""
    return iter(connection.execute(sql, tuple(values)))


def rows_of_keys(connection: Connection, columns: str, tables: str, keys: Sequence[int], *values: Any) -> Iterator[Row]:
    """Return *columns* of *tables*, joined with the ``wanted.value`` of each of *keys*; *values* are bound behind."""
    sql = f"SELECT {columns} FROM {connection.dialect.wanted_keys} {tables}"
    return iterate_rows(connection, sql, (json_array(list(keys)), *values))


def fetch_first(connection: Connection, sql: str, values: Sequence[Any] = ()) -> Row | None:
    """Return the first row, None where there is none."""
    row: Row | None = connection.execute(sql, tuple(values)).fetchone()
    return row


def fetch_one(connection: Connection, sql: str, values: Sequence[Any] = ()) -> Row:
    """Return the first row of a query that always has one."""
    row = fetch_first(connection, sql, values)
    if row is None:
        raise DamageError(f"a row that must be there is missing: {sql}")
    return row


_FULL_ERRNOS = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
_SHARED_MEMORY_BYTES = 32_768
"""Size of the file that SQLite shares between processes, beside a file in WAL mode."""
_FORBIDDEN_ERRNOS = {errno.EACCES, errno.EPERM, errno.EROFS}
_READ_ERROR_CODES = {
    apsw.SQLITE_IOERR_READ,
    apsw.SQLITE_IOERR_SHORT_READ,
    apsw.SQLITE_IOERR_DATA,
    apsw.SQLITE_IOERR_CORRUPTFS,
}

_DAMAGE_TEXTS: Final = ("malformed JSON", "unsupported file format")
"""Texts of plain SQLite errors that only damage causes: JSON and header are valid when written."""
_READERS: Final = ("tellback.vectorstore.", "tellback.memory.")
"""Packages that read rows inside a block."""


@contextmanager
def translate_errors(path: Path, connection: SqliteConnection | None = None) -> Iterator[None]:
    """Translate SQLite's errors about the file at *path*; *connection* has the system's error number."""
    try:
        yield
    except apsw.Error as error:
        translated = _translate_sqlite_error(error, path, connection)
        if translated is None:
            raise
        raise translated from error
    except UnicodeDecodeError as error:
        if not _raised_by_our_row(error):
            raise
        raise DamageError(f"{path}: a text in it is no UTF-8") from error


@contextmanager
def translate_system_errors(path: Path) -> Iterator[None]:
    """Translate the system's errors about *path*, and SQLite's; ``FileExistsError`` passes unchanged."""
    try:
        with translate_errors(path):
            yield
    except FileExistsError:
        raise
    except OSError as error:
        raise _system_error(error.errno or 0, path, str(error)) from error


def _translate_sqlite_error(
    error: apsw.Error, path: Path, connection: SqliteConnection | None
) -> VectorStoreError | None:
    code = int(getattr(error, "extendedresult", 0))  # what apsw's type stubs leave out
    match error:
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            return BusyError(f"{path}: another process or thread held the file too long; try again")
        case apsw.FullError():
            return _system_error(errno.ENOSPC, path)
        case apsw.ReadOnlyError():
            if code == apsw.SQLITE_READONLY_DBMOVED:
                return _moved_error(path)
            if connection is not None and not connection.readonly("main"):
                return None  # a statement that writes came through a connection for reading: a bug, not the disk
            return StorageUnwritable(f"{path}: the file can only be read")
        case apsw.CantOpenError() | apsw.PermissionsError() | apsw.IOError():
            if code == apsw.SQLITE_CANTOPEN_SYMLINK:
                return NotAStore(str(path), "it is a link; name the file it points to")
            if isinstance(error, apsw.IOError) and code in _READ_ERROR_CODES:
                return DamageError(f"{path}: cannot be read back from the disk ({error})")
            number = _system_errno(connection)
            if isinstance(error, apsw.IOError) and not number and _is_disk_full(path):
                number = errno.ENOSPC
            return _system_error(number, path, f"{error}: {os.strerror(number)}" if number else str(error))
        case apsw.CorruptError() | apsw.NotADBError() | apsw.FormatError():
            return DamageError(f"{path}: {error}")
        case apsw.SQLError() if any(text in str(error) for text in _DAMAGE_TEXTS):
            return DamageError(f"{path}: {error}")
        case apsw.TooBigError():
            return ArgumentError("data", str(error), "less than a gigabyte in one row is needed")
    return None


def _raised_by_our_row(error: UnicodeDecodeError) -> bool:
    """Return whether *error* comes from our packages reading rows, not from a caller's code inside a block."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return str(frames[-1].f_globals.get("__name__", "")).startswith(_READERS)


def _system_errno(connection: SqliteConnection | None) -> int:
    try:
        return 0 if connection is None else connection.system_errno
    except apsw.ConnectionClosedError:  # closing failed
        return 0


def _is_disk_full(path: Path) -> bool:
    """Return whether the disk of *path* has no room for what SQLite makes beside a file that it opens."""
    import shutil  # imported here: it is slow, and rarely needed

    try:
        return shutil.disk_usage(path.parent).free < _SHARED_MEMORY_BYTES
    except OSError:
        return False


def _system_error(number: int, path: Path, reason: str = "") -> VectorStoreError:
    if number in _FULL_ERRNOS:
        return StorageFull(f"{path}: the disk is full; nothing of the call was written")
    if number in _FORBIDDEN_ERRNOS:
        return StorageUnwritable(f"{path}: no permission ({reason})")
    return StorageUnwritable(f"{path}: the file cannot be opened or written ({reason})")


def _moved_error(path: Path) -> NotAStore:
    return NotAStore(str(path), "it was moved, removed or replaced since it was opened; open it again")


DeviceInode: TypeAlias = tuple[int, int]
"""Device and inode, which identify a file whatever its name."""


def device_inode(path: Path) -> DeviceInode:
    """Return the device and inode of the file at *path*."""
    status = path.stat()
    return status.st_dev, status.st_ino


def check_same_file(path: Path, inode: DeviceInode) -> None:
    """Raise when *path* is another file than the one opened, with which writes would be lost."""
    try:
        same = device_inode(path) == inode
    except OSError:
        same = False
    if not same:
        raise _moved_error(path)


_open_guards: WeakSet[ForkGuard] = WeakSet()
# One set for the process, like the system's locks: SQLite takes locks inherited over a fork for its own.


class ForkGuard:
    """Counter of the transactions under way in one process. *shut* runs once, when it is closed and the count is 0.

    *place* is the file (device and inode), *connections* returns the open connections.
    """

    def __init__(
        self, place: DeviceInode, shut: Callable[[], None], connections: Callable[[], list[SqliteConnection]]
    ) -> None:
        self.place = place
        self._shut = shut
        self._connections = connections
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._inside = 0
        self._closed = False
        self._shut_down = False
        _open_guards.add(self)

    def check_process(self) -> None:
        """Raise in a forked child, before any lock is taken: a thread of the parent may have held it."""
        if self.forked():
            raise ForkedError

    def forked(self) -> bool:
        """Return whether this process is not the one that opened the database."""
        return os.getpid() != self._pid

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Count the caller until the block ends."""
        self.check_process()
        with self._changed:
            if self._closed:
                raise StoreClosed("the database")
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                if self._closed:
                    self._settle()

    def close(self, wait: float) -> None:
        """Refuse new callers and wait for those inside; after *wait* seconds the last to leave shuts down."""
        self.check_process()
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._inside, timeout=wait)
            self._settle()

    def _settle(self) -> None:
        if self._inside == 0 and not self._shut_down:
            self._shut_down = True
            _open_guards.discard(self)
            self._shut()
        self._changed.notify_all()

    def __del__(self) -> None:
        """Keep the parent's connections from being closed in a forked child, even when the interpreter ends."""
        if self.forked() and not self._shut_down:
            for connection in self._connections():
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))

    def release_connections(self) -> None:
        """Close the parent's connections in a forked child, without touching the file or the parent's locks."""
        if self._inside:
            raise ForkedError(
                "the file was being read or written while this process was forked from another; "
                "start it with 'spawn', or fork while nothing is under way"
            )
        self._shut_down = True
        _open_guards.discard(self)
        for connection in self._connections():
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.close()


def release_inherited(inode: DeviceInode) -> None:
    """Drop the parent's connections to a file in a forked child, before the file is opened again.

    Otherwise SQLite takes the parent's locks for its own, locks nothing, and loses the child's writes when the parent
    closes the file.
    """
    for guard in list(_open_guards):
        if guard.place == inode and guard.forked():
            guard.release_connections()


OLDEST_SQLITE: Final = 3_052_000
"""Before 3.52 two connections checkpointing at one moment could corrupt a file in WAL mode."""
_CACHE_KIB: Final = 8 * 1024


class Access(Enum):
    """Purpose of a connection."""

    WRITE = "write"
    READ = "read"
    """Reads a file that may be writable; needs the shared index beside it."""
    READ_ONLY = "read only"
    """Reads a file that is not to be written."""
    FROZEN = "frozen"
    """Reads a file that nobody writes; needs no files beside it."""


def open_connection(path: Path, access: Access, *, busy_timeout: float, keep_log: bool = False) -> SqliteConnection:
    """Open an existing file; the errors are SQLite's own. With *keep_log* closing does not empty the log."""
    check_sqlite_version(apsw.SQLITE_VERSION_NUMBER, apsw.sqlite_lib_version())
    flags = apsw.SQLITE_OPEN_NOFOLLOW
    flags |= apsw.SQLITE_OPEN_READWRITE if access in (Access.WRITE, Access.READ) else apsw.SQLITE_OPEN_READONLY
    name = str(path)
    if access is Access.FROZEN:
        name, flags = path.as_uri() + "?immutable=1", flags | apsw.SQLITE_OPEN_URI
    connection = SqliteConnection(name, flags=flags)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(keep_log))
        _configure(connection, access, busy_timeout)
    except BaseException:
        connection.close()
        raise
    return connection


def reading_access(path: Path, access: Access) -> Access:
    """Return the access to a file for reading: one that this user cannot write is read through its log if it has one.

    An index made beside another user's file would belong to this user and block the other.
    """
    if access is Access.FROZEN and (path.with_name(path.name + "-shm").exists() or log_size(path)):
        return Access.READ_ONLY
    return access


def log_size(path: Path) -> int:
    """Return the bytes of the file's log, 0 where it has none."""
    try:
        return path.with_name(path.name + "-wal").stat().st_size
    except FileNotFoundError:
        return 0


def check_sqlite_version(compiled: int, loaded: str) -> None:
    """Refuse an SQLite older than what the file needs."""
    major, minor, patch = (int(part) for part in loaded.split("."))
    if min(compiled, major * 1_000_000 + minor * 1_000 + patch) < OLDEST_SQLITE:
        raise UnsupportedError("open", f"SQLite 3.52 or newer is needed, not {loaded}: pip install -U apsw")


def _configure(connection: SqliteConnection, access: Access, busy_timeout: float) -> None:
    connection.set_busy_timeout(milliseconds(busy_timeout))
    _load_sqlite_vec(connection)
    register_filter_function(connection)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    # A file of ours has neither; those that somebody else put into it do nothing, also while it is salvaged.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    # One call each: several statements in one call stop at the first row that one of them returns.
    connection.pragma("trusted_schema", False)
    connection.pragma("cell_size_check", True)
    connection.pragma("foreign_keys", True)
    connection.pragma("temp_store", "memory")
    connection.pragma("cache_size", -_CACHE_KIB)
    connection.pragma("synchronous", "full")
    connection.pragma("secure_delete", True)
    if access is Access.READ:
        connection.pragma("query_only", True)


@lru_cache(maxsize=1)
def _sqlite_vec_path() -> str:
    # Located, not imported: the package would load Python's own SQLite beside the one in use.
    package = find_spec("sqlite_vec")
    if package is None or package.origin is None:
        raise UnsupportedError("open", "sqlite-vec is not installed: pip install sqlite-vec")
    return str(Path(package.origin).absolute().with_name("vec0"))  # SQLite adds the suffix


def _load_sqlite_vec(connection: SqliteConnection) -> None:
    path = _sqlite_vec_path()
    connection.enable_load_extension(True)
    try:
        connection.load_extension(path)
    except apsw.ExtensionLoadingError as error:
        raise UnsupportedError(
            "open", f"sqlite-vec does not load on this machine ({error}): pip install --force-reinstall sqlite-vec"
        ) from error
    finally:
        connection.enable_load_extension(False)


def milliseconds(seconds: float) -> int:
    """Return *seconds* as SQLite takes a timeout, in whole milliseconds of 31 bits."""
    return min(int(seconds * 1000), 2**31 - 1)
