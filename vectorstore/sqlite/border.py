"""The one border to SQLite's errors and the operating system's. A bug of ours passes it as it is."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb

import apsw

from vectorstore.errors import (
    ArgumentError,
    BusyError,
    DamageError,
    NotAStore,
    StorageFull,
    StorageUnwritable,
    VectorStoreError,
)

_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_READING = {
    apsw.SQLITE_IOERR_READ,
    apsw.SQLITE_IOERR_SHORT_READ,
    apsw.SQLITE_IOERR_DATA,
    apsw.SQLITE_IOERR_CORRUPTFS,
}


@contextmanager
def border(path: Path, connection: apsw.Connection | None = None) -> Iterator[None]:
    """Translate SQLite's errors about the file at *path*; *connection* knows the system's reason for them."""
    try:
        yield
    except apsw.Error as error:
        ours = _translated(error, path, connection)
        if ours is None:
            raise
        raise ours from error
    except UnicodeDecodeError as error:
        if not _is_of_a_row(error):
            raise
        raise DamageError(f"{path}: a text in it is no UTF-8") from error


@contextmanager
def system_border(path: Path) -> Iterator[None]:
    """Translate the system's errors about *path*, and SQLite's; ``FileExistsError`` is an answer, it stays."""
    try:
        with border(path):
            yield
    except FileExistsError:
        raise
    except OSError as error:
        raise _of_the_system(error.errno or 0, path, str(error)) from error


def _translated(error: apsw.Error, path: Path, connection: apsw.Connection | None) -> VectorStoreError | None:
    if isinstance(error, apsw.BusyError | apsw.LockedError | apsw.ProtocolError):
        return BusyError(f"{path}: another process or thread held the file too long; try again")
    if isinstance(error, apsw.FullError):
        return StorageFull(f"{path}: the disk is full; nothing of the call was written")
    if isinstance(error, apsw.ReadOnlyError):
        return _read_only(error, path, connection)
    if isinstance(error, apsw.CantOpenError | apsw.PermissionsError | apsw.IOError):
        return _of_the_disk(error, path, connection)
    if isinstance(error, apsw.CorruptError | apsw.NotADBError | apsw.FormatError):
        return DamageError(f"{path}: {error}")
    if isinstance(error, apsw.SQLError) and "malformed JSON" in str(error):  # ours is whole, so it is the stored one
        return DamageError(f"{path}: {error}")
    if isinstance(error, apsw.TooBigError):
        return ArgumentError("data", str(error), "less than a gigabyte in one row is needed")
    return None


def _is_of_a_row(error: UnicodeDecodeError) -> bool:
    """Whether it was raised while this package read rows, and not by what a caller does inside a block."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return str(frames[-1].f_globals.get("__name__", "")).startswith("vectorstore.sqlite.")


def _read_only(error: apsw.Error, path: Path, connection: apsw.Connection | None) -> VectorStoreError | None:
    if _code(error) == apsw.SQLITE_READONLY_DBMOVED:
        return NotAStore(str(path), "it was moved, removed or replaced since it was opened; open it again")
    if connection is not None and not connection.readonly("main"):
        return None  # a statement that writes came through a connection for reading: a bug, not the disk
    return StorageUnwritable(f"{path}: the file can only be read")


def _code(error: apsw.Error) -> int:
    return int(getattr(error, "extendedresult", 0))  # what apsw's type stubs leave out


def _of_the_disk(error: apsw.Error, path: Path, connection: apsw.Connection | None) -> VectorStoreError:
    if _code(error) == apsw.SQLITE_CANTOPEN_SYMLINK:
        return NotAStore(str(path), "it is a link; name the file it points to")
    if isinstance(error, apsw.IOError) and _code(error) in _READING:
        return DamageError(f"{path}: cannot be read back from the disk ({error})")
    number = _reason_of_the_system(connection)
    reason = f"{error}: {os.strerror(number)}" if number else str(error)
    return _of_the_system(number, path, reason)


def _reason_of_the_system(connection: apsw.Connection | None) -> int:
    try:
        return 0 if connection is None else connection.system_errno
    except apsw.ConnectionClosedError:  # it was closing that failed
        return 0


def _of_the_system(number: int, path: Path, reason: str) -> VectorStoreError:
    if number in _FULL:
        return StorageFull(f"{path}: the disk is full; nothing of the call was written")
    if number in _FORBIDDEN:
        return StorageUnwritable(f"{path}: no permission ({reason})")
    return StorageUnwritable(f"{path}: the file cannot be opened or written ({reason})")
