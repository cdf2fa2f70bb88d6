"""Indexes of a memory's namespace on a PostgreSQL server, for one that is too large for the memory of a worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from tellback.memory.errors import ArgumentError, store_errors
from tellback.memory.partitions import ARCHIVE, parse_store_namespace, prefix_of
from tellback.vectorstore import VectorStore, open_store

if TYPE_CHECKING:
    from tellback.vectorstore.postgres import IndexKind, PostgresDatabase, SearchIndex

SMALLEST_INDEXED: Final = 50_000
"""Entries from which on an index is built: the memory of a worker has fewer soon enough, and searches them exactly."""


@dataclass(frozen=True, slots=True)
class ServerIndex:
    """Index of a part of *namespace*: its conversations, or a *collection* of documents.

    *vectors* is the type that HNSW keeps vectors as, None where there is none, and *bytes* what it takes.
    """

    namespace: str
    collection: str | None
    entries: int
    vectors: str | None
    bytes: int


class ServerIndexes:
    """Builds, drops and lists the indexes of the memory at *address*. Its calls block."""

    def __init__(self, address: str) -> None:
        if not isinstance(address, str) or not address.startswith(("postgresql://", "postgres://")):
            needed = "postgresql://HOST/NAME is needed: a memory in a file is searched in the memory of the process"
            raise ArgumentError("address", address, needed)
        self._address = address

    @store_errors()
    def build(
        self, *, namespace: str = "", kind: IndexKind = "vector", smallest: int = SMALLEST_INDEXED
    ) -> list[ServerIndex]:
        """Build an index of each part of *namespace* that has *smallest* entries or more; return them.

        From then on every worker asks the server for what is near to a question, and has nothing of the part in its own
        memory. *kind* "halfvec" takes half of the room.
        """
        from tellback.vectorstore.postgres import build_search_index

        with self._opened() as (store, database):
            names = store.namespaces(prefix=prefix_of(namespace))
            parts = [name for name in names if parse_store_namespace(name)[1] != ARCHIVE]
            large = [name for name in parts if store.count(namespace=name) >= smallest]
            return [_index_of(build_search_index(database, name, kind)) for name in large]

    @store_errors()
    def drop(self, *, namespace: str = "") -> list[ServerIndex]:
        """Drop all indexes of *namespace*; return what they were."""
        from tellback.vectorstore.postgres import drop_search_index, search_indexes

        with self._opened() as (_, database):
            known = [index for index in search_indexes(database) if index.namespace.startswith(prefix_of(namespace))]
            return [_index_of(index) for index in known if drop_search_index(database, index.namespace)]

    @store_errors()
    def all(self) -> list[ServerIndex]:
        """Return the indexes of all namespaces."""
        from tellback.vectorstore.postgres import search_indexes

        with self._opened() as (_, database):
            return list(map(_index_of, search_indexes(database)))

    @contextmanager
    def _opened(self) -> Iterator[tuple[VectorStore, PostgresDatabase]]:
        with closing(open_store(self._address)) as store:
            yield store, cast("PostgresDatabase", store.database)


def _index_of(index: SearchIndex) -> ServerIndex:
    namespace, _, collection = parse_store_namespace(index.namespace)
    return ServerIndex(namespace, collection, index.entries, index.vectors, index.bytes)
