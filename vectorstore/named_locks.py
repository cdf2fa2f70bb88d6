"""Locks by name in one process: what a database holds that only one process uses at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tellback.vectorstore.errors import BusyError

HELD_BY_ANOTHER: Final = "somebody else holds it; try again"


@dataclass(slots=True)
class _Lock:
    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0


class NamedLocks:
    """One lock for each name that is held or waited for. Any thread may take one, and another give it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, _Lock] = {}

    @contextmanager
    def hold(self, name: str, wait: float) -> Iterator[None]:
        """Hold *name*; who waited *wait* seconds for it gets ``BusyError``."""
        with self._lock:
            named = self._locks.setdefault(name, _Lock())
            named.users += 1
        try:
            if not named.lock.acquire(timeout=wait):
                raise BusyError(f"{name}: {HELD_BY_ANOTHER}")
            try:
                yield
            finally:
                named.lock.release()
        finally:
            with self._lock:
                named.users -= 1
                if not named.users:
                    del self._locks[name]
