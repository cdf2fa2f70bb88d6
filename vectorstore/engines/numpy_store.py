"""The store in the process: the tables of the store in a file, in a database in memory, searched by the same index.

On disk only when saved, in a snapshot of that database, which is written whole or not at all, has the tables of other
components too, and is checked when it is read.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from tellback.vectorstore.analyzer import Analyzer
from tellback.vectorstore.call_hints import with_hints
from tellback.vectorstore.engines.snapshot import PREAMBLE_SIZE, check_preamble, decode_snapshot, encode_snapshot
from tellback.vectorstore.engines.table_store import ReadState, TableStore, agree_settings
from tellback.vectorstore.errors import ArgumentError, UnsupportedError
from tellback.vectorstore.sqlite.connection import translate_system_errors
from tellback.vectorstore.sqlite.dialect import SqliteConnection
from tellback.vectorstore.sqlite.entry_reader import read_space
from tellback.vectorstore.sqlite.files import atomic_write, check_path, is_missing
from tellback.vectorstore.sqlite.in_memory import InMemoryDatabase
from tellback.vectorstore.sqlite.schema import StoreTables
from tellback.vectorstore.types import SearchMode, Space
from tellback.vectorstore.validation import check_fields, check_search_mode


@with_hints
class NumpyStore(TableStore[InMemoryDatabase]):
    """Implements ``LifecycleStore`` in memory. *fields* become columns, for fast filters; *search*: ``SearchMode``."""

    def __init__(
        self,
        *,
        space: Space | None = None,
        analyzer: Analyzer | None = None,
        fields: Sequence[str] = (),
        search: SearchMode | str = SearchMode.EXACT,
    ) -> None:
        self._begin(None, None, space, analyzer, check_fields(fields), search)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        space: Space | None = None,
        analyzer: Analyzer | None = None,
        fields: Sequence[str] | None = None,
        search: SearchMode | str = SearchMode.EXACT,
    ) -> Self:
        """Return the store of the snapshot at *path*, or an empty one where nothing is; ``save`` writes it back.

        None takes what the snapshot has recorded, a different setting raises. Each byte is checked: damage raises
        ``DamageError``; a foreign or newer file ``NotAStore`` or ``NewerFile``. The file is not stored open.
        """
        declared = None if fields is None else check_fields(fields)
        store = cls.__new__(cls)
        store._begin(read_snapshot(path), path, space, analyzer, declared, search)
        return store

    def _begin(
        self,
        image: SqliteConnection | None,
        path: str | os.PathLike[str] | None,
        space: Space | None,
        analyzer: Analyzer | None,
        fields: tuple[str, ...] | None,
        search: SearchMode | str,
    ) -> None:
        mode, lock, tables = check_search_mode(search), threading.RLock(), StoreTables(analyzer or Analyzer())
        database = InMemoryDatabase(components=(tables,), lock=lock, image=image)
        settings = agree_settings(database, space, analyzer, fields)
        tables.analyzer = settings.analyzer
        super().__init__(database, settings, lock=lock, search=mode, matrix_limit=sys.maxsize, resident=True)
        self._path = path
        self._state: ReadState | None = None
        database.on_rollback = self._forget_index

    def backup(self, path: str | os.PathLike[str]) -> None:
        """As ``LifecycleStore.backup``: a snapshot, which ``open`` reads."""
        self._write_snapshot("backup", path, replace=False)

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Write a snapshot of everything to *path* (None: the path given to ``open``), in place of an earlier one.

        Everything is also what others keep in ``database``, such as conversations, the operation log and tombstones.
        It is written whole or not at all: beside its place, flushed to disk (mode 0600), then put there in one
        step. What is there and is no snapshot of a numpy store is left untouched: ``NotAStore``, ``NewerFile``.
        """
        target = self._path if path is None else path
        if target is None:
            raise ArgumentError("path", path, "a path is needed: this store was not opened with one")
        self._write_snapshot("save", target, replace=True)

    @contextmanager
    def _read_state(self) -> Iterator[ReadState]:
        """Yield the state of the database, kept until something is written; so a search that repeats asks no SQL.

        Threads take turns at the one connection, so what a transaction wrote may be in the shared indexes, too; a
        rollback drops them.
        """
        with self.database.read() as connection:
            state = self._state
            if state is None or state.changes != connection.total_changes() or not self._are_current(state.indexes):
                recorded = read_space(connection)
                state = ReadState(connection, recorded, self._shared_indexes(recorded), self._open_reader)
                self._state = state
            yield state

    def _forget_index(self, name: str | None = None) -> None:
        with self._lock:
            self._state = None
            super()._forget_index(name)

    def _write_snapshot(self, operation: str, path: str | os.PathLike[str], *, replace: bool) -> None:
        """Put a snapshot at *path*; an earlier one there stays as it is until the new one is whole.

        Anything but a snapshot is left untouched and refused; so is a snapshot too, unless *replace*.
        """
        target = check_path(path)
        if self.database.in_write():
            raise UnsupportedError(operation, "it cannot be made inside transaction()")
        image, note_saved = self.database.copy_tables()
        with translate_system_errors(target):
            try:
                if not is_missing(target):
                    if not replace:
                        raise FileExistsError
                    with target.open("rb") as file:
                        check_preamble(file.read(PREAMBLE_SIZE), str(target))
                with atomic_write(target, token=os.urandom, replace=replace) as private, private.open("wb") as file:
                    file.writelines(encode_snapshot(image, self.analyzer.fingerprint))
                if replace:
                    note_saved()
            except FileExistsError as error:
                raise ArgumentError("path", os.fspath(path), "a path where nothing is yet is needed") from error


def read_snapshot(path: str | os.PathLike[str]) -> SqliteConnection | None:
    """Return the database of the snapshot at *path*; None where nothing is."""
    target = check_path(path)
    with translate_system_errors(target):
        if is_missing(target):
            return None
        data = target.read_bytes()
    return decode_snapshot(data, str(target))
