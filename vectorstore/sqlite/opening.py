"""An existing file opened: checked first, then for writing, or for reading where that is all it allows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import apsw

from vectorstore.errors import NotAStore, StorageUnwritable
from vectorstore.sqlite.border import border, system_border
from vectorstore.sqlite.component import Component
from vectorstore.sqlite.connection import Access, open_connection
from vectorstore.sqlite.creation import use_wal
from vectorstore.sqlite.examining import check_file
from vectorstore.sqlite.frame import Birth, check_header, check_known, read_birth, versions
from vectorstore.sqlite.usage import let_go_inherited

Place: TypeAlias = tuple[int, int]
"""Device and inode: which file a path means, whatever its name."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A file that is ours: *writer* is None where it can only be read, *reading* says how readers open it."""

    writer: apsw.Connection | None
    reading: Access
    birth: Birth
    place: Place


def open_file(path: Path, components: Sequence[Component], *, read_only: bool, busy_timeout: float) -> Opened:
    """Open the file; it is refused untouched when it is not ours, or when any part of it is newer."""
    with system_border(path):
        place = place_of(path)
        let_go_inherited(place)
        check_file(path)
        if not read_only and (found := _for_writing(path, components, busy_timeout)) is not None:
            writer, birth = found
            return Opened(writer, Access.READ, birth, place)
        access, birth = _for_reading(path, components, busy_timeout)
        return Opened(None, access, birth, place)


def place_of(path: Path) -> Place:
    """Return where the file is."""
    status = path.stat()
    return status.st_dev, status.st_ino


def check_place(path: Path, place: Place) -> None:
    """Raise when *path* means another file than the one opened: what is written would go with the old one."""
    try:
        same = place_of(path) == place
    except OSError:
        same = False
    if not same:
        raise NotAStore(str(path), "it was moved, removed or replaced since it was opened; open it again")


def _for_writing(
    path: Path, components: Sequence[Component], busy_timeout: float
) -> tuple[apsw.Connection, Birth] | None:
    if not os.access(path, os.W_OK):
        return None  # even to try would make an index of ours beside another user's file
    # What a newer Mneme left in the log must not be moved into the file by our closing it.
    left = _log_size(path) > 0
    connection = None
    try:
        connection = open_connection(path, Access.WRITE, busy_timeout=busy_timeout, keep_log=left)
        if connection.readonly("main"):
            connection.close()
            return None
        with border(path, connection):
            birth = _checked(path, connection, components)
            use_wal(connection, path)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
    except (apsw.CantOpenError, apsw.ReadOnlyError, StorageUnwritable):
        if connection is not None:
            connection.close()
        if os.access(path.parent, os.W_OK) and os.access(path, os.W_OK):
            raise
        return None
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    return connection, birth


def _checked(path: Path, connection: apsw.Connection, components: Sequence[Component]) -> Birth:
    check_header(path, connection.pragma("application_id"), connection.pragma("user_version"))
    birth = read_birth(connection, path)
    found = versions(connection)
    for component in components:
        check_known(path, found, component)
    return birth


def _for_reading(path: Path, components: Sequence[Component], busy_timeout: float) -> tuple[Access, Birth]:
    access = Access.READ_ONLY if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK) else Access.FROZEN
    connection = open_connection(path, now_for_reading(path, access), busy_timeout=busy_timeout)
    try:
        with border(path, connection):
            return access, _checked(path, connection, components)
    finally:
        connection.close()


def now_for_reading(path: Path, access: Access) -> Access:
    """Return how to read a file that this user cannot write: through its log if it has one, else as frozen.

    An index made beside another user's file would be ours, and in that user's way.
    """
    if access is Access.FROZEN and (path.with_name(path.name + "-shm").exists() or _log_size(path)):
        return Access.READ_ONLY
    return access


def _log_size(path: Path) -> int:
    try:
        return path.with_name(path.name + "-wal").stat().st_size
    except FileNotFoundError:
        return 0
