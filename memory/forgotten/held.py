"""What is forgotten but has a time of grace: put aside, in no answer, until its bytes go or it is taken back."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from memory.storage.rows import HistoryRow
from vectorstore import Entry


@dataclass(frozen=True, slots=True)
class Package:
    """All that one forgetting put aside. *parts* is what other parts need to come back, by their name.

    *entries* are by lane (a namespace of the store). *space* names the vectors; those of another are of no use.
    *words* are the texts by which a tombstone knows it again.
    """

    operation: str
    namespace: str
    due: datetime
    space: str
    entries: tuple[tuple[str, Entry], ...]
    messages: tuple[HistoryRow, ...]
    words: tuple[str, ...] = ()
    parts: tuple[tuple[str, str], ...] = ()


class Held(Protocol):
    """Packages by the operation that put them aside. Each call is one transaction, or part of its thread's."""

    def put(self, package: Package) -> None:
        """Put a package aside."""
        ...

    def get(self, namespace: str, operation: str) -> Package | None:
        """Return a package; None where there is none (any more)."""
        ...

    def due(self, at: datetime) -> Sequence[tuple[str, str]]:
        """Return (namespace, operation) of those whose time is over *at* a moment, the first due first."""
        ...

    def next_due(self) -> datetime | None:
        """Return when the next one is due; None where nothing is held."""
        ...

    def of(self, namespace: str) -> Sequence[str]:
        """Return the operations of a namespace that hold something, the first due first."""
        ...

    def erase(self, namespace: str, operation: str) -> bool:
        """Remove a package with its bytes; say whether it was there."""
        ...


class InMemoryHeld:
    """``Held`` for a store without a file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._packages: dict[tuple[str, str], Package] = {}

    def put(self, package: Package) -> None:
        """As ``Held.put``."""
        with self._lock:
            self._packages[package.namespace, package.operation] = package

    def get(self, namespace: str, operation: str) -> Package | None:
        """As ``Held.get``."""
        with self._lock:
            return self._packages.get((namespace, operation))

    def due(self, at: datetime) -> Sequence[tuple[str, str]]:
        """As ``Held.due``."""
        return [(one.namespace, one.operation) for one in self._sorted() if one.due <= at]

    def next_due(self) -> datetime | None:
        """As ``Held.next_due``."""
        return next((one.due for one in self._sorted()), None)

    def of(self, namespace: str) -> Sequence[str]:
        """As ``Held.of``."""
        return [one.operation for one in self._sorted() if one.namespace == namespace]

    def erase(self, namespace: str, operation: str) -> bool:
        """As ``Held.erase``."""
        with self._lock:
            return self._packages.pop((namespace, operation), None) is not None

    def _sorted(self) -> list[Package]:
        with self._lock:
            return sorted(self._packages.values(), key=lambda one: (one.due, one.operation))
