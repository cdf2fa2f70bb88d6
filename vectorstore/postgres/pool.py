"""Pool of connections to a server, made by the thread that needs one.

psycopg's own pool connects in the background and waits ever longer after each failure, so that it comes back minutes
after the server does, and says of a server that is down no more than that no connection was free.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg import pq

from tellback.vectorstore.errors import BusyError

_PAUSE: Final = 0.1
"""Seconds between two attempts to reach a server that is down."""


class ConnectionPool:
    """At most *size* connections at a time, each made by *connect*. Any thread may call."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], size: int) -> None:
        self._connect = connect
        self._size = size
        self._free = threading.Semaphore(size)
        self._lock = threading.Lock()
        self._idle: list[psycopg.Connection[Any]] = []
        self._closed = False
        weakref.finalize(self, _close_all, self._idle, os.getpid())  # of one that was never closed

    def take(self, end: float) -> psycopg.Connection[Any]:
        """Return a connection, which may have been lost since it was used last; ``give`` it back.

        *end* is the moment (``time.monotonic``) until which it waits: ``BusyError`` where all are in use, psycopg's
        error where the server cannot be reached.
        """
        if not self._free.acquire(timeout=max(end - time.monotonic(), 0)):
            raise BusyError(f"all {self._size} connections to the server are in use; try again, or give it more")
        try:
            with self._lock:
                if self._idle:
                    return self._idle.pop()
            while True:
                try:
                    return self._connect()
                except psycopg.OperationalError:
                    if time.monotonic() + _PAUSE > end:
                        raise
                time.sleep(_PAUSE)
        except BaseException:
            self._free.release()
            raise

    def give(self, connection: psycopg.Connection[Any]) -> None:
        """Take a connection back; one that is inside a transaction still, or was lost, is closed."""
        with self._lock:
            is_usable = not self._closed and connection.info.transaction_status == pq.TransactionStatus.IDLE
            if is_usable:
                self._idle.append(connection)
        if not is_usable:
            with suppress(psycopg.Error):
                connection.close()
        self._free.release()

    def drop_idle(self) -> None:
        """Close the connections that nobody uses."""
        with self._lock:
            idle = self._idle[:]
            self._idle.clear()
        _close_all(idle, os.getpid())

    def close(self) -> None:
        """Close those that nobody uses, and the others when they are given back."""
        self._closed = True
        self.drop_idle()


def _close_all(connections: list[psycopg.Connection[Any]], pid: int) -> None:
    """Close *connections* of the process *pid*; in a forked child they are the parent's, who goes on with them."""
    if os.getpid() == pid:
        for connection in connections:
            with suppress(psycopg.Error):
                connection.close()
