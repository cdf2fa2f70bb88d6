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
from tellback.vectorstore.database import Connection
from tellback.vectorstore.engines.sqlite_store import checked_matrix_limit
from tellback.vectorstore.engines.table_store import TableStore, agree_settings
from tellback.vectorstore.index.view import NamespaceReader
from tellback.vectorstore.postgres import PostgresDatabase
from tellback.vectorstore.postgres.connection import PostgresConnection
from tellback.vectorstore.postgres.search_index import (
    IndexKind,
    SearchIndex,
    SearchIndexReader,
    build_search_index,
    drop_search_index,
    drop_vector_indexes,
    search_indexes,
    verify_postings,
)
from tellback.vectorstore.sqlite.index_cache import NamespaceHead, NamespaceIndexCache
from tellback.vectorstore.sqlite.schema import StoreTables
from tellback.vectorstore.types import Finding, SearchMode, Space
from tellback.vectorstore.validation import check_fields, check_namespace, check_search_mode


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

    def build_index(self, namespace: str = "", *, kind: IndexKind = "vector") -> SearchIndex:
        """Build indexes on the server for a namespace that is too large for the memory of a worker.

        From then on ``search`` and ``view`` ask the server for candidates: by HNSW for vectors, which may miss some
        (``search_many`` reads all), and by postings for words, with the same scores and order. Nothing of the
        namespace is loaded by any worker. *kind* "halfvec" keeps vectors in half of the room, under cosine only.
        Writers of the namespace wait while the postings are written, nobody while HNSW is built; it needs the role
        that owns the tables. Again builds them anew.
        """
        return build_search_index(self.database, check_namespace(namespace), kind)

    def drop_index(self, namespace: str = "") -> bool:
        """Drop what ``build_index`` built; return whether there was anything."""
        return drop_search_index(self.database, check_namespace(namespace))

    def indexes(self) -> list[SearchIndex]:
        """Return the indexes that ``build_index`` built, by namespace."""
        return search_indexes(self.database)

    def verify(self) -> list[Finding]:
        """As ``LifecycleStore.verify``, over every component of the database and the postings."""
        with self.database.read() as connection:
            return [*super().verify(), *verify_postings(connection)]

    def commit_space(self, space: Space) -> None:
        """As ``LifecycleStore.commit_space``; indexes of vectors are dropped, and have to be built again."""
        with self.database.write() as connection:
            drop_vector_indexes(connection)
            super().commit_space(space)

    def _open_reader(
        self, connection: Connection, indexes: NamespaceIndexCache, name: str, head: NamespaceHead
    ) -> NamespaceReader:
        if head.index is None:
            return super()._open_reader(connection, indexes, name, head)
        assert isinstance(connection, PostgresConnection), "a server's database has a server's connections"
        return SearchIndexReader(connection, indexes.space, head, head.index)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """As ``LifecycleStore.backup``, over every component: a file, which a ``SqliteStore`` opens."""
        self.database.backup(path)

    def save(self) -> None:
        """Do nothing, since each write is kept when its call returns."""
