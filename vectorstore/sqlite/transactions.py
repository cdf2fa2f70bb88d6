"""Reading and writing one file from many threads: each block one transaction, blocks inside blocks joined.

It owns the connections, whose turn it is, and closing; what is stored is not its business.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import apsw

from vectorstore.errors import BusyError, StorageUnwritable, UnsupportedError
from vectorstore.sqlite import erasure
from vectorstore.sqlite.border import border
from vectorstore.sqlite.compaction import emptied, vacuum
from vectorstore.sqlite.connection import milliseconds
from vectorstore.sqlite.opening import Opened, check_place
from vectorstore.sqlite.read_pool import ReadPool
from vectorstore.sqlite.transaction import Reading, Writing, run_all
from vectorstore.sqlite.usage import Usage


class _Here(threading.local):
    """What one thread has open."""

    writing: Writing | None = None
    reading: Reading | None = None


class Transactions:
    """The transactions of an opened file. *check* is the first read of each; what it raises refuses it."""

    def __init__(
        self, path: Path, opened: Opened, *, check: Callable[[apsw.Connection], None], busy_timeout: float
    ) -> None:
        self._path = path
        self._place = opened.place
        self._writer = opened.writer
        self._readers = ReadPool(path, opened.reading, busy_timeout=busy_timeout)
        self._check = check
        self._busy_timeout = busy_timeout
        self._turn_of = threading.Lock()
        self._notes: list[Callable[[apsw.Connection], object]] = []
        self._here = _Here()
        self._unfinished = False
        self._usage = Usage(opened.place, self._shut, self._connections)

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written."""
        return self._writer is None

    @property
    def writing(self) -> Writing | None:
        """This thread's present transaction that writes."""
        self._usage.check_process()
        return self._here.writing

    @property
    def reading(self) -> bool:
        """Whether this thread is inside ``read``, on a state of its own."""
        self._usage.check_process()
        return self._here.reading is not None and self._here.reading.depth > 0

    @contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """As ``Database.read``."""
        writing, reading = self.writing, self._here.reading
        if writing is not None:
            with border(self._path, writing.connection):
                yield writing.connection
        elif reading is not None and reading.depth:
            with reading.inner(), border(self._path, reading.connection):
                yield reading.connection
        else:
            with self.read_fresh(fresh=False) as connection:
                self._here.reading = reading = Reading(connection)
                try:
                    yield connection
                finally:
                    reading.depth = 0

    @contextmanager
    def read_fresh(self, *, fresh: bool = True) -> Iterator[apsw.Connection]:
        """A transaction of its own; on a *fresh* connection it sees the disk, not pages kept in memory."""
        with self.inside():
            check_place(self._path, self._place)
            with self._readers.transaction(fresh=fresh) as connection:
                self._check(connection)
                yield connection
            if self._unfinished:
                self._erase_if_idle()

    @contextmanager
    def write(self, *, wait: bool = True) -> Iterator[apsw.Connection]:
        """As ``Database.write``."""
        if (writing := self.writing) is not None:
            with border(self._path, writing.connection), writing.inner():
                yield writing.connection
            return
        with self.inside():
            with self._turn(wait=wait) as connection:
                check_place(self._path, self._place)
                writing = Writing(connection)
                with border(self._path, connection):
                    try:
                        writing.begin()
                        self._here.writing = writing
                        self._check(connection)
                        yield connection
                        noted = self._note(connection)
                        marked = erasure.mark(connection) is not None
                        writing.commit()
                        del self._notes[:noted]
                    finally:
                        self._here.writing = None
                        writing.end()
                if marked:
                    self._erase_quietly(connection)
            run_all(writing.callbacks)

    def write_soon(self, note: Callable[[apsw.Connection], object]) -> None:
        """Write *note* at once where nobody else writes, else with the next commit, or on closing; never wait."""
        self._notes.append(note)
        if not self._turn_of.locked():
            self._write_notes()

    def present_write(self, operation: str) -> Writing:
        """Return this thread's present transaction that writes; *operation* makes no sense without one."""
        if (writing := self.writing) is None:
            raise UnsupportedError(operation, "it belongs inside write()")
        return writing

    def finish_erasure(self, *, wait: float) -> bool:
        """Try to empty the log; *wait* seconds for readers, though never for this thread's own."""
        with self.inside(), self._turn() as connection, border(self._path, connection):
            return erasure.finish(connection, wait=0.0 if self.reading else wait, busy_timeout=self._busy_timeout)

    def empty_log(self, *, wait: float) -> None:
        """Move the log into the file; raise ``BusyError`` when a reader prevents it for more than *wait* seconds."""
        with self.inside(), self._turn() as connection, border(self._path, connection):
            check_place(self._path, self._place)
            if not emptied(connection, wait=wait, busy_timeout=self._busy_timeout):
                raise BusyError(f"{self._path}: somebody reads it, so it cannot be made smaller now; try again")

    def compact(self, *, wait: float, mark: str) -> bool:
        """Write the pages anew, then move the log into the file; False when a reader prevents that for now.

        Then *mark* is left, so that it is tried again. Not inside ``write`` or ``read`` of this thread.
        """
        with self.inside():
            with self._turn() as connection, border(self._path, connection):
                check_place(self._path, self._place)
                self._check(connection)
                vacuum(connection, self._path)
                if emptied(connection, wait=wait, busy_timeout=self._busy_timeout):
                    return True
            with self.write() as connection:
                erasure.set_mark(connection, mark)
            return False

    def inside(self) -> AbstractContextManager[None]:
        """Keep the file open until the block ends."""
        return self._usage.inside()

    def close(self) -> None:
        """As ``Database.close``."""
        own = self.writing is not None or self.reading
        self._usage.close(0.0 if own else self._busy_timeout)

    def keep_if_forked(self) -> None:
        """Before this is deallocated: a forked child must not close what is the parent's."""
        self._usage.keep_if_forked()

    @contextmanager
    def _turn(self, *, wait: bool = True) -> Iterator[apsw.Connection]:
        if self._writer is None:
            raise StorageUnwritable(f"{self._path}: the file can only be read")
        if not self._turn_of.acquire(timeout=self._busy_timeout if wait else 0):
            raise BusyError(f"{self._path}: another thread is writing for too long; try again")
        try:
            if not wait:
                self._writer.set_busy_timeout(0)
            yield self._writer
        finally:
            if not wait:
                self._writer.set_busy_timeout(milliseconds(self._busy_timeout))
            self._turn_of.release()

    def _note(self, connection: apsw.Connection) -> int:
        count = len(self._notes)
        for note in self._notes[:count]:
            note(connection)
        return count

    def _write_notes(self) -> None:
        if self._writer is not None:
            with suppress(BusyError), self.write(wait=False):
                pass

    def _erase_quietly(self, connection: apsw.Connection) -> None:
        self._unfinished = True
        with suppress(apsw.Error):  # the commit stands, and so does the mark: whatever ails the file is not its error
            self._unfinished = not erasure.finish(connection, wait=0.0, busy_timeout=self._busy_timeout)

    def _erase_if_idle(self) -> None:
        """Try again what a reader prevented, now that one has left; not while somebody writes."""
        if self._writer is not None and self._turn_of.acquire(blocking=False):
            try:
                self._erase_quietly(self._writer)
            finally:
                self._turn_of.release()

    def _last_notes(self, connection: apsw.Connection) -> None:
        if self._notes and not connection.in_transaction:
            with suppress(apsw.Error), connection:
                self._note(connection)

    def _connections(self) -> list[apsw.Connection]:
        return [*([] if self._writer is None else [self._writer]), *self._readers.connections()]

    def _shut(self) -> None:
        self._readers.close()
        if self._writer is not None:
            self._last_notes(self._writer)
            self._erase_quietly(self._writer)
            with border(self._path, self._writer):
                self._writer.close(True)
