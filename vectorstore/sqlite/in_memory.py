"""Database in the memory of the process: components keep their tables in it as in a file, and lose them with it
unless a store saves a copy of them.

One connection, which threads use in turn, since a ``:memory:`` database is private to its connection.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, Self

from tellback.vectorstore.database import Component, Connection, Dialect
from tellback.vectorstore.errors import ArgumentError, BusyError, StoreClosed, UnsupportedError
from tellback.vectorstore.named_locks import NamedLocks
from tellback.vectorstore.sqlite.connection import Access, open_connection, translate_errors
from tellback.vectorstore.sqlite.dialect import SQLITE, SqliteConnection
from tellback.vectorstore.sqlite.files import FileIdentity, RandomBytes, read_fact, utc_now, write_header
from tellback.vectorstore.sqlite.integrity import rebuild_components, verify_file
from tellback.vectorstore.sqlite.migrations import is_attached, run_migrations
from tellback.vectorstore.sqlite.transactions import WriteTransaction, run_callbacks
from tellback.vectorstore.types import Compaction, Finding

_MEMORY: Final = Path(":memory:")
"""Path of such a database in messages of errors."""


class InMemoryDatabase:
    """Implements ``Database`` in the memory of the process.

    A block of one thread, ``read()`` too, keeps other threads waiting until it ends. Inside a ``read()`` of the same
    thread a ``write()`` is seen at once. *lock* may be shared with a store, so that both have one order of blocks.
    *image* has the tables that it begins with, of ``copy_tables``; it is closed.
    """

    lasting: Final = False  # unless a store saves a copy of it
    read_only: Final = False
    unreached: Final = ""
    dialect: Dialect = SQLITE

    def __init__(
        self,
        *,
        components: Sequence[Component] = (),
        lock: threading.RLock | None = None,
        clock: Callable[[], datetime] = utc_now,
        token: RandomBytes = os.urandom,
        image: SqliteConnection | None = None,
    ) -> None:
        self.on_rollback: Callable[[], object] = lambda: None
        """Called when a block that had written was undone: an owner forgets what it read in it."""
        self._lock = lock or threading.RLock()
        self._connection = open_connection(_MEMORY, Access.WRITE, busy_timeout=0)
        if image is None:
            write_header(self._connection, FileIdentity(token(16).hex(), clock().isoformat()))
        else:
            _copy(image, self._connection)
            image.close()
        self.identity = read_fact(self._connection, "identity") or ""
        self._connection.set_commit_hook(_refuse_commit)
        self._components: dict[str, Component] = {}
        self._held = NamedLocks()
        self._writing: WriteTransaction | None = None
        self._writer: int | None = None
        self._closed = False
        self._depth = 0
        self._erasures = 0
        self._saved_erasures = None if image is None else 0
        for component in components:
            self.attach(component)

    def attach(self, component: Component) -> None:
        """As ``Database.attach``."""
        with self.inside():
            if is_attached(component, self._components):
                return
            with self.write() as connection:
                run_migrations(connection, component, _MEMORY)
                self.on_commit(lambda: self._components.setdefault(component.name, component))

    @contextmanager
    def read(self) -> Iterator[SqliteConnection]:
        """As ``Database.read``."""
        with self.inside(), translate_errors(_MEMORY, self._connection):
            yield self._connection

    @contextmanager
    def write(self, *, lock: str | None = None, wait: bool = True) -> Iterator[SqliteConnection]:
        """As ``Database.write``, for any *lock*; waiting has no end."""
        with self.inside(wait=wait), translate_errors(_MEMORY, self._connection):
            if self._writing is not None:
                with self._noticing_rollback(), self._writing.inner():
                    yield self._connection
                return
            writing = WriteTransaction(self._connection)
            try:
                with self._noticing_rollback(), writing.outer():
                    self._writing, self._writer = writing, threading.get_ident()
                    yield self._connection
            finally:
                self._writing = self._writer = None
                self._connection.set_commit_hook(_refuse_commit)
        run_callbacks(writing.callbacks)

    @contextmanager
    def inside(self, *, wait: bool = True) -> Iterator[None]:
        """Keep other threads out until the block ends."""
        if not self._lock.acquire(blocking=wait):
            raise BusyError("another thread is writing; try again")
        try:
            if self._closed:
                raise StoreClosed("the database")
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                self._shut_if_unused()
        finally:
            self._lock.release()

    def hold(self, name: str, *, wait: float = 30.0) -> AbstractContextManager[None]:
        """As ``Database.hold``."""
        return self._held.hold(name, wait)

    def in_write(self) -> bool:
        """As ``Database.in_write``."""
        return self._writer == threading.get_ident()

    def present_write(self) -> object | None:
        """Return an object that identifies this thread's present outermost ``write()``; None outside."""
        return self._writing if self.in_write() else None

    def on_commit(self, callback: Callable[[], object]) -> None:
        """As ``Database.on_commit``."""
        self._present_write("on_commit").callbacks.append(callback)

    def mark_erasure(self, connection: Connection) -> None:
        """As ``Database.mark_erasure``: freed pages are zeroed at once, and a saved copy waits for the next one."""
        self._present_write("mark_erasure")
        if connection is not self._connection:
            raise ArgumentError("connection", connection, "the connection of this thread's write() is needed")
        self.on_commit(self._count_erasure)

    def finish_erasure(self) -> bool:
        """As ``Database.finish_erasure``: only saving the store does it."""
        return not self.pending_erasure()

    def pending_erasure(self) -> bool:
        """Return whether something was erased that a saved copy still has."""
        with self.inside():
            return self._saved_erasures not in (None, self._erasures)

    def copy_tables(self) -> tuple[SqliteConnection, Callable[[], None]]:
        """Return a copy of all tables, for a store that saves them, and what it calls when it has.

        The copy is the caller's to close. Saving it erases from the disk what was erased here before.
        """
        with self.inside():
            copy, erasures = SqliteConnection(":memory:"), self._erasures
            _copy(self._connection, copy)
            return copy, partial(setattr, self, "_saved_erasures", erasures)

    def _count_erasure(self) -> None:
        self._erasures += 1

    def verify(self) -> list[Finding]:
        """As ``Database.verify``."""
        with self.inside():
            return verify_file(self._connection, [*self._components.values()])

    def rebuild(self) -> None:
        """Rebuild indexes and every component's derived tables, in one transaction."""
        with self.write():
            rebuild_components(self._connection, [*self._components.values()])

    def compact(self, *, prepare: Callable[[], object] | None = None) -> Compaction:
        """Free the pages that are not used, after *prepare* has freed what it can; there is no file to get smaller."""
        with self.inside():
            if self.in_write():
                raise UnsupportedError("compact", "it cannot be done inside a transaction")
            if prepare is not None:
                prepare()
            self._connection.set_commit_hook(None)
            try:
                self._connection.execute("VACUUM")
            finally:
                self._connection.set_commit_hook(_refuse_commit)
        return Compaction(before=0, after=0, pending=False)

    def close(self) -> None:
        """As ``Database.close``; its tables are lost. Inside a block of this thread they last until it ends."""
        with self._lock:
            self._closed = True
            self._shut_if_unused()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextmanager
    def _noticing_rollback(self) -> Iterator[None]:
        before = self._connection.total_changes()
        try:
            yield
        except BaseException:
            if self._connection.total_changes() != before:
                self.on_rollback()
            raise

    def _shut_if_unused(self) -> None:
        if self._closed and not self._depth:
            self._connection.close(True)

    def _present_write(self, operation: str) -> WriteTransaction:
        if self._writing is None or not self.in_write():
            raise UnsupportedError(operation, "it belongs inside write()")
        return self._writing


def _copy(source: SqliteConnection, target: SqliteConnection) -> None:
    with target.backup("main", source, "main") as backup:
        backup.step()


def _refuse_commit() -> bool:
    """Commit hook outside of ``write()``: a statement that writes there is undone."""
    return True
