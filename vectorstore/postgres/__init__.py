"""The database on a PostgreSQL server with pgvector (extra ``postgres``), and indexes of large namespaces there."""

from tellback.vectorstore.postgres.database import PostgresDatabase
from tellback.vectorstore.postgres.search_index import (
    IndexKind,
    SearchIndex,
    build_search_index,
    drop_search_index,
    search_indexes,
)

__all__ = [
    "IndexKind",
    "PostgresDatabase",
    "SearchIndex",
    "build_search_index",
    "drop_search_index",
    "search_indexes",
]
