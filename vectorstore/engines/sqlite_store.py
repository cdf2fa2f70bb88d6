"""The store in a file: one SQLite file, searched by the index in memory, or by sqlite-vec in SQL."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from tellback.vectorstore.analyzer import Analyzer
from tellback.vectorstore.call_hints import with_hints
from tellback.vectorstore.engines.table_store import TableStore, agree_settings
from tellback.vectorstore.errors import ArgumentError
from tellback.vectorstore.sqlite.database import SqliteDatabase
from tellback.vectorstore.sqlite.schema import StoreTables
from tellback.vectorstore.types import SearchMode, Space
from tellback.vectorstore.validation import check_fields, check_search_mode

MATRIX_LIMIT = 2 << 30
"""Bytes of vectors kept in memory unless another limit is given."""


@with_hints
class SqliteStore(TableStore[SqliteDatabase]):
    """Implements ``LifecycleStore`` on a file. None takes what the file has recorded; what is given is recorded."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        space: Space | None = None,
        analyzer: Analyzer | None = None,
        fields: Sequence[str] | None = None,
        matrix_limit: int | None = None,
        search: SearchMode | str = SearchMode.EXACT,
        create: bool = True,
    ) -> None:
        mode = check_search_mode(search)
        limit = checked_matrix_limit(matrix_limit)
        tables = StoreTables(analyzer or Analyzer())
        declared = None if fields is None else check_fields(fields)
        database = SqliteDatabase(path, components=(tables,), create=create)
        try:
            settings = agree_settings(database, space, analyzer, declared)
        except BaseException:
            database.close()
            raise
        tables.analyzer = settings.analyzer
        super().__init__(database, settings, lock=threading.RLock(), search=mode, matrix_limit=limit)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """As ``LifecycleStore.backup``, over every component of the file."""
        self.database.backup(path)

    def save(self) -> None:
        """Do nothing, since each write is kept when its call returns; so either kind of store can be saved."""


def checked_matrix_limit(limit: int | None) -> int:
    """Return how many bytes of vectors are kept in memory."""
    if limit is None:
        return MATRIX_LIMIT
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise ArgumentError("matrix_limit", limit, "a number of bytes, 0 or more, is needed")
    return limit
