"""Secure deletion: erased bytes leave the log and the file, and a removed copy leaves the disk.

- Erasure: a durable mark, the checkpoint that empties the log, and the clearing of what SQLite left between the rows of
  pages (``page_gaps``). A step that a reader prevents is tried again.
- Compaction: the file's pages rewritten without the free ones. SQLite does it as one transaction through the log
  (``VACUUM``), so a crash leaves the file as it was, and readers keep their state meanwhile. The file itself shrinks
  when the log is moved into it, which needs a moment without readers.
- Wiping of a copy: marked, overwritten, unlinked, so that its freed blocks hold nothing of it. After a crash the first
  bytes of the file name the original, so that the copy can be removed again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw

from tellback.vectorstore.errors import StorageFull
from tellback.vectorstore.persisted_names import WIPED_COPY_MARK
from tellback.vectorstore.sqlite.connection import log_size
from tellback.vectorstore.sqlite.dialect import SqliteConnection
from tellback.vectorstore.sqlite.files import SIDE_FILE_SUFFIXES, flush_folder, read_fact, write_fact
from tellback.vectorstore.sqlite.page_gaps import clear_page_gaps

_ZERO_BLOCK: Final = bytes(1 << 20)
_OPEN_FLAGS: Final = os.O_RDWR | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))


def wipe_file(path: Path, *, of: str) -> None:
    """Overwrite and remove the file at *path*, a copy of the file with the identity *of*, and SQLite's files beside it.

    A file with another hard link is not overwritten: only this name is removed. Where the disk cannot overwrite (it is
    full, and writes elsewhere), the file is removed all the same.
    """
    for file in (path, *(path.with_name(path.name + end) for end in SIDE_FILE_SUFFIXES)):
        with suppress(OSError):
            _overwrite(file, _wiped_copy_mark(of))
        file.unlink(missing_ok=True)
    flush_folder(path.parent)


def is_half_wiped(path: Path, *, of: str) -> bool:
    """Return whether the file at *path* was left by a crash during ``wipe_file``."""
    mark = _wiped_copy_mark(of)
    with path.open("rb") as file:
        return file.read(len(mark)) == mark


def _wiped_copy_mark(of: str) -> bytes:
    return WIPED_COPY_MARK + of.encode() + b"\n"


def _overwrite(path: Path, mark: bytes) -> None:
    descriptor = os.open(path, _OPEN_FLAGS)
    try:
        status = os.fstat(descriptor)
        if status.st_nlink != 1:
            return
        _write_all(descriptor, mark)
        os.fsync(descriptor)
        remaining = status.st_size - len(mark)
        while remaining > 0:
            remaining -= _write_all(descriptor, _ZERO_BLOCK[:remaining])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> int:
    written = 0
    while written < len(data):
        written += os.write(descriptor, data[written:])
    return written


_ERASURE_FACT = "erasure"
_FINISHED = ""
"""Value of the mark when nothing is pending. The row stays: deleting it would leave a gap in its page."""
_MAX_TRIES: Final = 5
"""Checkpoints tried in one call while another process keeps writing."""


def set_erasure_mark(connection: SqliteConnection, value: str) -> None:
    """Mark the file, in the transaction that deletes. *value* is new each time."""
    write_fact(connection, _ERASURE_FACT, value)


def erasure_mark(connection: SqliteConnection) -> str | None:
    """Return the mark of an unfinished erasure, None where there is none."""
    return read_fact(connection, _ERASURE_FACT) or None


def finish_erasure(connection: SqliteConnection, path: Path) -> bool:
    """Empty the log, clear the gaps of pages, and remove the mark; False when a reader or a full disk prevents it.

    Gaps are cleared under the write lock and with an empty log, so nobody changes the file meanwhile. Other connections
    hold old pages in memory until they see the commit that removes the mark; none can write before that.
    """
    try:
        if erasure_mark(connection) is None:
            return True
        for _ in range(_MAX_TRIES):
            if not truncate_log(connection):
                return False
            connection.execute("BEGIN IMMEDIATE")
            try:
                if log_size(path):  # another process wrote after the checkpoint
                    continue
                clear_page_gaps(connection)
                connection.release_memory()  # this connection's own old pages
                write_fact(connection, _ERASURE_FACT, _FINISHED)
                connection.execute("COMMIT")
                return True
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
    except (apsw.BusyError, apsw.FullError, apsw.IOError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.TooBigError):
        pass  # the deletion is committed and the mark durable: a later call tries again
    return False


def truncate_log(connection: SqliteConnection) -> bool:
    """Move the log into the file and truncate it; False when a reader prevents it for the busy timeout."""
    try:
        # A busy file is reported in the first column, not as an error.
        ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return not busy
    except apsw.BusyError:  # another connection is truncating it
        return False


def size_on_disk(path: Path) -> int:
    """Return the bytes of the file and of its log."""
    return path.stat().st_size + log_size(path)


def vacuum(connection: SqliteConnection, path: Path) -> None:
    """Rewrite the pages, through the log, in one transaction."""
    try:
        connection.execute("VACUUM")
    except apsw.NoMemError as error:
        raise StorageFull(f"{path}: memory is too small for the copy that compacting makes") from error
