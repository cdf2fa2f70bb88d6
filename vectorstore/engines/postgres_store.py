"""The store on a PostgreSQL server: the tables of the store in a file, with vectors in columns of pgvector.

Each worker searches with the same index in memory, filled from the server when a namespace is first asked and kept
fresh by its change log. A namespace's writers take turns, so its write numbers become visible in their order.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from tellback.vectorstore.analyzer import Analyzer
from tellback.vectorstore.call_hints import with_hints
from tellback.vectorstore.engines.sqlite_store import checked_matrix_limit
from tellback.vectorstore.engines.table_store import TableStore, agree_settings
from tellback.vectorstore.postgres import PostgresDatabase
from tellback.vectorstore.sqlite.schema import StoreTables
from tellback.vectorstore.types import SearchMode, Space
from tellback.vectorstore.validation import check_fields, check_search_mode


@with_hints
class PostgresStore(TableStore[PostgresDatabase]):
    """Implements ``LifecycleStore`` on a server, at an *address* as of ``PostgresDatabase``.

    None takes what the server has recorded; what is given is recorded.
    """

    def __init__(
        self,
        address: str,
        *,
        space: Space | None = None,
        analyzer: Analyzer | None = None,
        fields: Sequence[str] | None = None,
        matrix_limit: int | None = None,
        search: SearchMode | str = SearchMode.EXACT,
    ) -> None:
        mode, limit = check_search_mode(search), checked_matrix_limit(matrix_limit)
        tables = StoreTables(analyzer or Analyzer())
        declared = None if fields is None else check_fields(fields)
        database = PostgresDatabase(address, components=(tables,))
        try:
            settings = agree_settings(database, space, analyzer, declared)
        except BaseException:
            database.close()
            raise
        tables.analyzer = settings.analyzer
        super().__init__(database, settings, lock=threading.RLock(), search=mode, matrix_limit=limit)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """As ``LifecycleStore.backup``, over every component: a file, which a ``SqliteStore`` opens."""
        self.database.backup(path)

    def save(self) -> None:
        """Do nothing, since each write is kept when its call returns."""
