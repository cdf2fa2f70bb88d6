"""Transactions on one file from many threads: each block is one transaction, which nested blocks join.

The connections are owned here: one writer, which threads use in turn, and one reader for each thread that reads, kept
in a pool. A file that this user cannot write, and that nobody seems to write, is read without files beside it. Such a
connection serves one transaction, which raises at its end if the file was written meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final, TypeAlias

import apsw

from tellback.vectorstore.errors import BusyError, StorageUnwritable, UnsupportedError, VectorStoreError
from tellback.vectorstore.sqlite import secure_delete
from tellback.vectorstore.sqlite.connection import (
    Access,
    ForkGuard,
    check_same_file,
    milliseconds,
    open_connection,
    reading_access,
    translate_errors,
)
from tellback.vectorstore.sqlite.dialect import SqliteConnection
from tellback.vectorstore.sqlite.files import OpenedFile
from tellback.vectorstore.sqlite.secure_delete import truncate_log, vacuum

TRANSACTION_LOST: Final = "an error inside the transaction was caught, but had undone all of it; nothing was written"
"""Why a block that ended without an error has failed."""


class WriteTransaction:
    """The outermost ``write()`` of a thread on the writing connection."""

    def __init__(self, connection: SqliteConnection) -> None:
        self.connection = connection
        self.callbacks: list[Callable[[], object]] = []
        self._depth = 0
        self._committing = False

    @contextmanager
    def outer(self) -> Iterator[None]:
        """Take the write lock, run the block and commit; nothing else can commit on this connection."""
        self.connection.set_commit_hook(lambda: not self._committing)
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            yield
            if not self.connection.in_transaction:
                raise VectorStoreError(TRANSACTION_LOST)
            self._committing = True
            self.connection.execute("COMMIT")
        finally:
            self.connection.set_commit_hook(None)
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")

    @contextmanager
    def inner(self) -> Iterator[None]:
        """Run the block in a savepoint; if it fails, it is undone alone and its callbacks are dropped."""
        self._depth += 1
        name, mark = f"inner_{self._depth}", len(self.callbacks)
        self.connection.execute(f"SAVEPOINT {name}")
        try:
            yield
            self.connection.execute(f"RELEASE {name}")
        except BaseException:
            del self.callbacks[mark:]
            if self.connection.in_transaction:  # a full disk has ended the whole of it already
                self.connection.execute(f"ROLLBACK TO {name}")
                self.connection.execute(f"RELEASE {name}")
            raise
        finally:
            self._depth -= 1


def run_callbacks(callbacks: list[Callable[[], object]]) -> None:
    """Run the callbacks of a commit, all of them, and raise the first error at the end."""
    errors: list[BaseException] = []
    for callback in callbacks:
        try:
            callback()
        except BaseException as error:  # raised below, after the others ran
            errors.append(error)
    if errors:
        errors[0].add_note("the transaction was committed; this came from a callback after it")
        raise errors[0]


_IDLE_CONNECTIONS: Final = 8
"""Idle connections kept open; more are opened while more threads read."""
_FileStamp: TypeAlias = tuple[int, int, bool]


class ReadPool:
    """The reading connections of one database."""

    def __init__(self, path: Path, access: Access, *, busy_timeout: float) -> None:
        self._path = path
        self._access = access
        self._busy_timeout = busy_timeout
        self._lock = threading.Lock()
        self._idle: list[SqliteConnection] = []
        self._lent: list[SqliteConnection] = []

    @contextmanager
    def transaction(self, *, fresh: bool = False) -> Iterator[SqliteConnection]:
        """Yield a connection inside a transaction for reading; its state is fixed by the first read.

        A *fresh* connection has no pages in memory yet, so it sees what is on the disk.
        """
        access = reading_access(self._path, self._access)
        before = _file_stamp(self._path) if access is Access.FROZEN else None
        with translate_errors(self._path):
            connection = self._take(access, fresh)
        try:
            with translate_errors(self._path, connection):
                connection.execute("BEGIN")
                yield connection
        finally:
            self._give_back(connection)
        if before is not None and _file_stamp(self._path) != before:
            raise BusyError(f"{self._path}: another user wrote while it was read; try again")

    def connections(self) -> list[SqliteConnection]:
        """Return every open connection."""
        return [*self._idle, *self._lent]

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self, access: Access, fresh: bool) -> SqliteConnection:
        with self._lock:
            if self._idle and not fresh:
                self._lent.append(self._idle.pop())
                return self._lent[-1]
        connection = open_connection(self._path, access, busy_timeout=self._busy_timeout)
        with self._lock:
            self._lent.append(connection)
        return connection

    def _give_back(self, connection: SqliteConnection) -> None:
        keep = _end_transaction(connection) and self._access is not Access.FROZEN
        with self._lock:
            self._lent.remove(connection)
            if keep and len(self._idle) < _IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close(True)


def _end_transaction(connection: SqliteConnection) -> bool:
    """Roll back, which aborts cursors left half read; return whether the connection can be used again."""
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except apsw.Error:  # the caller closes it
        return False
    return connection.txn_state("main") == apsw.SQLITE_TXN_NONE


def _file_stamp(path: Path) -> _FileStamp:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, path.with_name(path.name + "-wal").exists()


class _ThreadBlocks(threading.local):
    """Outermost blocks that one thread has open."""

    writing: WriteTransaction | None = None
    reading: Sequence[SqliteConnection] = ()
    """Connection of the thread's read; emptied when the block ends, even if another thread ends it."""


class Transactions:
    """Transactions of an opened file. *check* is the first read of each; its error ends the transaction."""

    def __init__(
        self, path: Path, opened: OpenedFile, *, check: Callable[[SqliteConnection], None], busy_timeout: float
    ) -> None:
        self._path, self._place, self._writer = path, opened.place, opened.writer
        self._readers = ReadPool(path, opened.reading, busy_timeout=busy_timeout)
        self._check = check
        self._busy_timeout = busy_timeout
        self._writer_lock = threading.Lock()
        self._notes: list[Callable[[SqliteConnection], object]] = []
        self._local = _ThreadBlocks()
        self._unfinished = False
        self._usage = ForkGuard(opened.place, self._shut, self._connections)

    @property
    def read_only(self) -> bool:
        """Return whether the file can only be read."""
        return self._writer is None

    @property
    def writing(self) -> WriteTransaction | None:
        """Return this thread's write transaction, None outside ``write``."""
        self._usage.check_process()
        return self._local.writing

    @property
    def reading(self) -> bool:
        """Return whether this thread has a read transaction of its own."""
        self._usage.check_process()
        return bool(self._local.reading)

    @contextmanager
    def read(self) -> Iterator[SqliteConnection]:
        """As ``Database.read``."""
        writing, reading = self.writing, self._local.reading
        if writing is not None or reading:
            shared = reading[0] if writing is None else writing.connection
            with translate_errors(self._path, shared):
                yield shared
        else:
            with self.read_fresh(fresh=False) as connection:
                block = self._local.reading = [connection]
                try:
                    yield connection
                finally:
                    block.clear()

    @contextmanager
    def read_fresh(self, *, fresh: bool = True) -> Iterator[SqliteConnection]:
        """Begin a separate read transaction; on a *fresh* connection it sees the disk, not cached pages."""
        with self.inside():
            check_same_file(self._path, self._place)
            with self._readers.transaction(fresh=fresh) as connection:
                self._check(connection)
                yield connection
            if self._unfinished:
                self._erase_if_idle()

    @contextmanager
    def write(self, *, wait: bool = True) -> Iterator[SqliteConnection]:
        """As ``Database.write``."""
        if (writing := self.writing) is not None:
            with translate_errors(self._path, writing.connection), writing.inner():
                yield writing.connection
            return
        with self.inside():
            with self._writer_turn(wait=wait) as connection:
                check_same_file(self._path, self._place)
                writing = WriteTransaction(connection)
                try:
                    with writing.outer():
                        self._local.writing = writing
                        self._check(connection)
                        yield connection
                        note_count = self._run_notes(connection)
                        marked = secure_delete.erasure_mark(connection) is not None
                    del self._notes[:note_count]
                finally:
                    self._local.writing = None
                if marked:
                    self._erase_quietly(connection)
            run_callbacks(writing.callbacks)

    def write_soon(self, note: Callable[[SqliteConnection], object]) -> None:
        """Run *note* in a transaction, without waiting: at once, or with the next commit, or on closing."""
        self._notes.append(note)
        if self._writer is not None and not self._writer_lock.locked():
            with suppress(BusyError), self.write(wait=False):
                pass

    def present_write(self, operation: str) -> WriteTransaction:
        """Return this thread's write transaction; outside ``write`` *operation* is refused."""
        if (writing := self.writing) is None:
            raise UnsupportedError(operation, "it belongs inside write()")
        return writing

    def finish_erasure(self, *, wait: float) -> bool:
        """Try to finish an erasure; wait *wait* seconds for readers, not at all inside this thread's own read."""
        with self.inside(), self._writer_turn() as connection, self._waiting(0.0 if self.reading else wait):
            return secure_delete.finish_erasure(connection, self._path)

    def empty_log(self, *, wait: float) -> None:
        """Move the log into the file; raise ``BusyError`` when a reader prevents it for more than *wait* seconds."""
        with self.inside(), self._writer_turn() as connection, self._waiting(wait):
            check_same_file(self._path, self._place)
            if not truncate_log(connection):
                raise BusyError(f"{self._path}: somebody reads it, so it cannot be made smaller now; try again")

    def compact(self, *, wait: float, mark: str) -> bool:
        """Rewrite the pages, then move the log into the file; False when a reader prevents that for now.

        In that case *mark* is recorded, so that it is tried again. Not inside ``write`` or ``read`` of this thread.
        """
        with self.inside():
            with self._writer_turn() as connection:
                check_same_file(self._path, self._place)
                self._check(connection)
                vacuum(connection, self._path)
                with self._waiting(wait):
                    if truncate_log(connection):
                        return True
            with self.write() as connection:
                secure_delete.set_erasure_mark(connection, mark)
            return False

    def inside(self) -> AbstractContextManager[None]:
        """Keep the file open until the block ends."""
        return self._usage.inside()

    def close(self) -> None:
        """As ``Database.close``."""
        inside = self.writing is not None or self.reading
        self._usage.close(0.0 if inside else self._busy_timeout)

    @contextmanager
    def _writer_turn(self, *, wait: bool = True) -> Iterator[SqliteConnection]:
        if self._writer is None:
            raise StorageUnwritable(f"{self._path}: the file can only be read")
        if not self._writer_lock.acquire(timeout=self._busy_timeout if wait else 0):
            raise BusyError(f"{self._path}: another thread is writing for too long; try again")
        try:
            with translate_errors(self._path, self._writer), nullcontext() if wait else self._waiting(0.0):
                yield self._writer
        finally:
            self._writer_lock.release()

    @contextmanager
    def _waiting(self, seconds: float) -> Iterator[None]:
        """Set the writer's busy timeout to *seconds* for the block, in which this thread has the writer."""
        assert self._writer is not None
        self._writer.set_busy_timeout(milliseconds(seconds))
        try:
            yield
        finally:
            self._writer.set_busy_timeout(milliseconds(self._busy_timeout))

    def _run_notes(self, connection: SqliteConnection) -> int:
        count = len(self._notes)
        for note in self._notes[:count]:
            note(connection)
        return count

    def _erase_quietly(self, connection: SqliteConnection) -> None:
        self._unfinished = True
        # The commit and the mark are durable, so an error here is none of the commit.
        with suppress(apsw.Error), self._waiting(0.0):
            self._unfinished = not secure_delete.finish_erasure(connection, self._path)

    def _erase_if_idle(self) -> None:
        """Retry an erasure that a reader prevented, unless a thread is writing."""
        if self._writer is not None and self._writer_lock.acquire(blocking=False):
            try:
                self._erase_quietly(self._writer)
            finally:
                self._writer_lock.release()

    def _connections(self) -> list[SqliteConnection]:
        return [*([] if self._writer is None else [self._writer]), *self._readers.connections()]

    def _shut(self) -> None:
        self._readers.close()
        if self._writer is not None:
            if self._notes and not self._writer.in_transaction:
                with suppress(apsw.Error), self._writer:
                    self._run_notes(self._writer)
            self._erase_quietly(self._writer)
            with translate_errors(self._path, self._writer):
                self._writer.close(True)
