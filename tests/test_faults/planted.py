"""Stores with a fault planted, by name: each must be caught by the tool that is there for it. "sound" has none.

Inner parts, on no face: ``tellback.vectorstore.sqlite.index_cache``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from tellback.vectorstore import DamageError, SqliteStore, StorageFull, StorageUnwritable, VectorStoreError
from tellback.vectorstore.sqlite import (
    connection as usage,
)
from tellback.vectorstore.sqlite import (
    database,
    entry_reader,
    entry_writer,
    files,
    secure_delete,
)
from tellback.vectorstore.sqlite.index_cache import NamespaceIndexCache


class Splitting(SqliteStore):
    """Commits a batch in two parts."""

    def upsert(self, entries: Any, **options: Any) -> int:
        batch = list(entries)
        half = len(batch) // 2
        first = super().upsert(batch[:half], **options)
        time.sleep(0.02)  # so that it is met
        return first + super().upsert(batch[half:], **options)


class Hurrying(SqliteStore):
    """Acknowledges a deletion before it is made: it is made with the next call."""

    late: Callable[[], object] | None = None

    def delete(self, *arguments: Any, **options: Any) -> int:
        self._late_now()
        self.late = lambda: super(Hurrying, self).delete(*arguments, **options)
        return 0

    def upsert(self, *arguments: Any, **options: Any) -> int:
        self._late_now()
        return super().upsert(*arguments, **options)

    def _late_now(self) -> None:
        late, self.late = self.late, None
        if late is not None:
            late()


class HalfSwitching(SqliteStore):
    """Drops the old vectors before it switches to the new ones."""

    def commit_space(self, space: Any) -> None:
        with self.database.write() as connection:
            connection.execute("DELETE FROM vectors")
        time.sleep(0.5)  # so that it is met
        super().commit_space(space)


class Rewriting(SqliteStore):
    """Compacts by deleting everything and writing it again."""

    def compact(self) -> None:
        for namespace in self.namespaces():
            entries = list(self.scan(namespace=namespace))
            self.delete([entry.id for entry in entries], namespace=namespace)
            time.sleep(0.2)  # so that it is met
            self.upsert(entries, namespace=namespace)


class Swallowing(SqliteStore):
    """Hides errors of the disk."""

    def _tried(self, call: Callable[[], int]) -> int:
        try:
            return call()
        except (StorageFull, StorageUnwritable):
            return 0

    def upsert(self, *arguments: Any, **options: Any) -> int:
        return self._tried(lambda: super(Swallowing, self).upsert(*arguments, **options))


class Untyped(SqliteStore):
    """Raises ``DamageError`` for every error of the store."""

    def upsert(self, *arguments: Any, **options: Any) -> int:
        try:
            return super().upsert(*arguments, **options)
        except VectorStoreError as error:
            raise DamageError(str(error)) from error


class Deaf(SqliteStore):
    """Searches the state of its first read."""

    def _shared_indexes(self, space: Any) -> Any:
        indexes = super()._shared_indexes(space)
        indexes.fresh = lambda connection, name: (
            indexes._loaded.get(name) or NamespaceIndexCache.fresh(indexes, connection, name)
        )
        return indexes


class OneForAllThreads(SqliteStore):
    """Mixes up the answers of threads."""

    last: Any = None

    def get(self, *arguments: Any, **options: Any) -> Any:
        self.last = super().get(*arguments, **options)
        time.sleep(0.05)  # so that another one comes in between
        return self.last


def _unchecked() -> None:
    """A store that does not look at the checksums of what it reads."""
    entry_reader.entry_checksum = lambda *content, has_vector: _Any()
    entry_reader.vector_checksum = lambda *content: _Any()


class _Any:
    """Value equal to everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def _blind() -> None:
    """A store whose ``verify`` finds nothing."""
    database.verify_file = lambda *_: []


DAMAGE_PLANTS: Mapping[str, Callable[[], None]] = {
    "": lambda: None,
    "checksums are not looked at": _unchecked,
    "verify finds nothing": _blind,
}


def _uncleared() -> None:
    """A store that frees pages without overwriting them."""
    real = files.open_connection

    def opened(*arguments: Any, **options: Any) -> Any:
        connection = real(*arguments, **options)
        connection.pragma("secure_delete", False)
        return connection

    files.open_connection = opened


def _log_kept() -> None:
    """A store that forgets the log, and says that nothing is pending."""
    secure_delete.finish_erasure = lambda *_, **__: True
    secure_delete.erasure_mark = lambda _: None


def _terms_kept() -> None:
    """A store that leaves the words in its dictionary."""
    entry_writer.remove_unused_terms = lambda *_: None


def leave_page_gaps() -> None:
    """Let erasing leave the copies of rows that SQLite keeps between the rows of a page."""
    secure_delete.clear_page_gaps = lambda _: 0


ERASURE_PLANTS: Mapping[str, Callable[[], None]] = {
    "": lambda: None,
    "pages are freed as they are": _uncleared,
    "the log is left": _log_kept,
    "the dictionary is left": _terms_kept,
}


def _not_asked() -> None:
    """A store that does not notice that it was carried over a fork."""
    usage.ForkGuard.forked = lambda _: False


FORK_PLANTS: Mapping[str, Callable[[], None]] = {"": lambda: None, "the process is not asked": _not_asked}
STORES: Mapping[str, Callable[..., SqliteStore]] = {
    "sound": SqliteStore,
    "splitting": Splitting,
    "hurrying": Hurrying,
    "swallowing": Swallowing,
    "untyped": Untyped,
    "deaf": Deaf,
    "one for all threads": OneForAllThreads,
    "half switching": HalfSwitching,
    "rewriting": Rewriting,
    "stepwise": SqliteStore,
    "overwriting": SqliteStore,
}
