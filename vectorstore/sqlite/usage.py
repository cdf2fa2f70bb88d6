"""Who uses a database at the moment: closing waits for them, and a forked child is never one of them."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakSet

import apsw

from vectorstore.errors import ForkedError, StoreClosed

_open: WeakSet[Usage] = WeakSet()
# Of the whole process, since the system's locks are: SQLite takes what it inherits over a fork for locks it holds.


class Usage:
    """Counts the transactions under way. *shut* runs once, when it is closed and nobody is inside.

    *place* is the file (device and inode), *connections* gives those that are open.
    """

    def __init__(
        self,
        place: tuple[int, int],
        shut: Callable[[], None],
        connections: Callable[[], list[apsw.Connection]],
    ) -> None:
        self.place = place
        self._shut = shut
        self._connections = connections
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._inside = 0
        self._closed = False
        self._shut_down = False
        _open.add(self)

    def check_process(self) -> None:
        """Raise in a forked child, before any lock is touched: a thread that is not there may hold it."""
        if self.forked():
            raise ForkedError

    def forked(self) -> bool:
        """Whether this process is not the one that opened the database."""
        return os.getpid() != self._pid

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Count the caller in until the block ends."""
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
        """Let nobody in any more, wait for those inside; after *wait* seconds the last one out shuts down."""
        self.check_process()
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._inside, timeout=wait)
            self._settle()

    def _settle(self) -> None:
        if self._inside == 0 and not self._shut_down:
            self._shut_down = True
            _open.discard(self)
            self._shut()
        self._changed.notify_all()

    def keep_if_forked(self) -> None:
        """In a forked child, see to it that connections are never closed, not even when the interpreter ends."""
        if self.forked() and not self._shut_down:
            for connection in self._connections():
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))

    def let_go(self) -> None:
        """In a forked child, close the parent's connections without touching the file or the parent's locks."""
        if self._inside:
            raise ForkedError(
                "the file was being read or written while this process was forked from another; "
                "start it with 'spawn', or fork while nothing is under way"
            )
        self._shut_down = True
        _open.discard(self)
        for connection in self._connections():
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.close()


def let_go_inherited(place: tuple[int, int]) -> None:
    """In a forked child, forget the parent's connections to a file before it is opened anew.

    Else SQLite takes the parent's locks for its own, locks nothing, and loses the child's writes when the parent
    closes the file.
    """
    for usage in list(_open):
        if usage.place == place and usage.forked():
            usage.let_go()
