"""Database in the memory of the process: components keep their tables in it as in a file, and lose them with it.

One connection, which threads take turns on, since a ``:memory:`` database is private to its connection. It is opened by
the first block that asks for it; a store in the process keeps its transactions here whether or not tables are used.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import apsw

from vectorstore.database import SQLITE, Component, Connection, Dialect
from vectorstore.errors import ArgumentError, BusyError, StoreClosed, UnsupportedError, VectorStoreError
from vectorstore.sqlite.connection import open_memory_connection, translate_errors
from vectorstore.sqlite.files import FileIdentity, RandomBytes, utc_now, write_header
from vectorstore.sqlite.integrity import rebuild_components, verify_file
from vectorstore.sqlite.migrations import is_attached, run_migrations
from vectorstore.sqlite.transactions import TRANSACTION_LOST, run_callbacks
from vectorstore.types import Finding

_MEMORY: Final = Path(":memory:")
"""The name of such a database in errors."""


class InMemoryDatabase:
    """Implements ``Database`` in the memory of the process.

    A block of one thread keeps the others waiting until it ends, one that reads too. Inside a ``read()`` of the same
    thread a ``write()`` is seen at once. *lock* may be shared with a store, so that both have one order of blocks.
    """

    def __init__(
        self,
        *,
        components: Sequence[Component] = (),
        lock: threading.RLock | None = None,
        clock: Callable[[], datetime] = utc_now,
        token: RandomBytes = os.urandom,
    ) -> None:
        self.journal: list[Callable[[], object]] = []
        """Undoes of what the present ``write()`` changed outside of the tables; run backwards where it is undone."""
        self._lock = lock or threading.RLock()
        self._birth = FileIdentity(token(16).hex(), clock().isoformat())
        self._connection: apsw.Connection | None = None
        self._components: dict[str, Component] = {}
        self._callbacks: list[Callable[[], object]] = []
        self._depth = 0
        self._writer: int | None = None
        self._closed = False
        self._committing = threading.Event()
        for component in components:
            self.attach(component)

    @property
    def path(self) -> Path | None:
        """None: it is in no file."""
        return None

    @property
    def identity(self) -> str:
        """As ``Database.identity``."""
        return self._birth.identity

    @property
    def read_only(self) -> bool:
        """False: it can always be written."""
        return False

    @property
    def dialect(self) -> Dialect:
        """As ``Database.dialect``."""
        return SQLITE

    def attach(self, component: Component) -> None:
        """As ``Database.attach``."""
        with self.inside():
            if is_attached(component, self._components):
                return
            with self.write() as connection:
                run_migrations(connection, component, _MEMORY)
                self.on_commit(lambda: self._components.setdefault(component.name, component))

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """As ``Database.read``."""
        with self.inside():
            connection = self._opened()
            with translate_errors(_MEMORY, connection):
                yield connection

    @contextmanager
    def write(self, *, wait: bool = True) -> Iterator[Connection]:
        """As ``Database.write``; waiting has no end."""
        with self.transaction(wait=wait):
            connection = self._opened()
            with translate_errors(_MEMORY, connection):
                yield connection

    @contextmanager
    def transaction(self, *, wait: bool = True) -> Iterator[None]:
        """``write`` without its connection, which is not opened for it: what is undone is *journal* and the tables."""
        callbacks: list[Callable[[], object]] = []
        with self.inside(wait=wait):
            marks = len(self.journal), len(self._callbacks)
            self._begin()
            try:
                yield
                self._release()
            except BaseException:
                self._roll_back(*marks)
                raise
            finally:
                self._depth -= 1
                if not self._depth:
                    callbacks, self._callbacks, self._writer = self._callbacks, [], None
                    self.journal.clear()
                    self._shut_if_closed()
        run_callbacks(callbacks)

    @contextmanager
    def inside(self, *, wait: bool = True) -> Iterator[None]:
        """Keep other threads out until the block ends."""
        if not self._lock.acquire(blocking=wait):
            raise BusyError("another thread is writing; try again")
        try:
            if self._closed:
                raise StoreClosed("the database")
            yield
        finally:
            self._lock.release()

    def in_write(self) -> bool:
        """As ``Database.in_write``."""
        return self._writer == threading.get_ident()

    def on_commit(self, callback: Callable[[], object]) -> None:
        """As ``Database.on_commit``."""
        self._check_writing("on_commit")
        self._callbacks.append(callback)

    def mark_erasure(self, connection: Connection) -> None:
        """As ``Database.mark_erasure``: nothing of it is on a disk, and freed pages are zeroed at once."""
        self._check_writing("mark_erasure")
        if connection is not self._connection:
            raise ArgumentError("connection", connection, "the connection of this thread's write() is needed")

    def finish_erasure(self) -> bool:
        """True: nothing is ever pending."""
        return not self.pending_erasure()

    def pending_erasure(self) -> bool:
        """False: nothing is ever pending."""
        with self.inside():
            return False

    def empty_log(self) -> bool:
        """True: it has no log."""
        with self.inside():
            return True

    def backups(self) -> dict[str, str]:
        """Return nothing: no copies of it are made."""
        with self.inside():
            return {}

    def remove_backup(self, path: str) -> bool:
        """As ``Database.remove_backup``; it has none, so every path is wrong."""
        raise ArgumentError("path", path, "the path of a recorded backup is needed; this database has none")

    def verify(self) -> list[Finding]:
        """As ``Database.verify``."""
        with self.inside():
            if self._connection is None:
                return []
            return verify_file(self._connection, [*self._components.values()])

    def rebuild(self) -> None:
        """Make indexes and every component's derived tables again, in one transaction."""
        with self.write():
            rebuild_components(self._opened(), [*self._components.values()])

    def close(self) -> None:
        """As ``Database.close``; what was in it is gone."""
        with self._lock:
            self._closed = True
            self._shut_if_closed()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self) -> apsw.Connection:
        """Return the connection, with a transaction and savepoints for the blocks that are open already."""
        if self._connection is None:
            connection, committing = open_memory_connection(), self._committing
            write_header(connection, self._birth)
            connection.set_commit_hook(lambda: not committing.is_set())  # only ``_release`` commits
            for depth in range(1, self._depth + 1):
                _begin_level(connection, depth)
            self._connection = connection
        return self._connection

    def _begin(self) -> None:
        if self._connection is not None:
            _begin_level(self._connection, self._depth + 1)
        self._depth += 1
        self._writer = threading.get_ident()

    def _release(self) -> None:
        if self._connection is None:
            return
        if not self._connection.in_transaction:
            raise VectorStoreError(TRANSACTION_LOST)
        if self._depth > 1:
            self._connection.execute(f"RELEASE inner_{self._depth}")
            return
        self._committing.set()
        try:
            self._connection.execute("COMMIT")
        finally:
            self._committing.clear()

    def _roll_back(self, journal: int, callbacks: int) -> None:
        del self._callbacks[callbacks:]
        if self._connection is not None and self._connection.in_transaction:
            if self._depth > 1:
                self._connection.execute(f"ROLLBACK TO inner_{self._depth}")
                self._connection.execute(f"RELEASE inner_{self._depth}")
            else:
                self._connection.execute("ROLLBACK")
        while len(self.journal) > journal:
            self.journal.pop()()

    def _shut_if_closed(self) -> None:
        if self._closed and not self._depth and self._connection is not None:
            self._connection.close(True)
            self._connection = None

    def _check_writing(self, operation: str) -> None:
        if not self.in_write():
            raise UnsupportedError(operation, "it belongs inside write()")


def _begin_level(connection: apsw.Connection, depth: int) -> None:
    connection.execute(f"SAVEPOINT inner_{depth}" if depth > 1 else "BEGIN IMMEDIATE")
