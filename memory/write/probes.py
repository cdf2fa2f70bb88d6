"""What each embedder answered to the probes when a memory was filled with it: by that it is known again."""

from __future__ import annotations

import threading
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]


class Probes(Protocol):
    """The probes' vectors by the name of a space. Any thread may call."""

    def get(self, name: str) -> Rows | None:
        """Return what is recorded for the space *name*, None where nothing is."""
        ...

    def first(self, name: str, rows: Rows) -> Rows:
        """Record *rows* unless something is recorded; return what is recorded then."""
        ...

    def put(self, name: str, rows: Rows) -> None:
        """Record *rows* in the place of whatever was."""
        ...


class InMemoryProbes:
    """``Probes`` for a store without a file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, Rows] = {}

    def get(self, name: str) -> Rows | None:
        """As ``Probes.get``."""
        with self._lock:
            return self._rows.get(name)

    def first(self, name: str, rows: Rows) -> Rows:
        """As ``Probes.first``."""
        with self._lock:
            return self._rows.setdefault(name, rows.copy())

    def put(self, name: str, rows: Rows) -> None:
        """As ``Probes.put``."""
        with self._lock:
            self._rows[name] = rows.copy()
