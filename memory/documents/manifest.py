"""The manifest of a collection: a record of each document and its chunks, in memory or in the memory's file.

A record names a document's chunks in order, so that an ingest can tell what changed; it holds no word of them. Titles
and texts are in the chunks alone, where forgetting reaches them. In the file it is a component of the store's database:

documents    collection, source, where it was read, keyed hash of its bytes, recipe, chunk ids, checksum
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final, Protocol

from memory.codec import from_entry
from memory.timestamps import timestamp_from_text, timestamp_to_text
from vectorstore import Connection, DamageError, Database, Finding, VectorStore


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """One document of a collection.

    *location* is where it was read (an absolute path, or its URI). *digest* is a keyed hash of its bytes,
    *recipe* names the chunker and its settings. *chunks* are the ids of its chunks in order, forgotten ones
    included.
    """

    source: str
    location: str
    digest: str
    recipe: str
    chunks: tuple[str, ...]
    modified: datetime | None = None
    ingested: datetime | None = None


class DocumentManifest(Protocol):
    """The records of one collection. Writes inside the store's transaction are part of it."""

    def get(self, source: str) -> DocumentRecord | None:
        """Return the document called *source*."""
        ...

    def at(self, location: str) -> DocumentRecord | None:
        """Return the document that was read at *location*."""
        ...

    def all(self) -> list[DocumentRecord]:
        """Return every document, in order of source."""
        ...

    def put(self, record: DocumentRecord) -> None:
        """Write a document's record, in the place of one of the same source."""
        ...

    def remove(self, source: str) -> bool:
        """Take a document out; say whether it was there."""
        ...


class InMemoryManifest:
    """A manifest that lives as long as the object, for stores that keep nothing either. Thread safe."""

    def __init__(self, records: Iterable[DocumentRecord] = ()) -> None:
        self._records = {record.source: record for record in records}
        self._lock = threading.Lock()

    def get(self, source: str) -> DocumentRecord | None:
        """As ``Manifest.get``."""
        with self._lock:
            return self._records.get(source)

    def at(self, location: str) -> DocumentRecord | None:
        """As ``Manifest.at``."""
        with self._lock:
            return next((record for record in self._records.values() if record.location == location), None)

    def all(self) -> list[DocumentRecord]:
        """As ``Manifest.all``."""
        with self._lock:
            return [record for _, record in sorted(self._records.items())]

    def put(self, record: DocumentRecord) -> None:
        """As ``Manifest.put``."""
        with self._lock:
            self._records[record.source] = record

    def remove(self, source: str) -> bool:
        """As ``Manifest.remove``."""
        with self._lock:
            return self._records.pop(source, None) is not None


def recover_manifest(store: VectorStore, store_namespace: str) -> InMemoryManifest:
    """Return a manifest read back from the chunks of a store that keeps none.

    Where the documents came from and what they were made from is not known any more; an ingest finds that out
    again by reading them, and embeds nothing that is already there.
    """
    places: dict[str, list[tuple[int, str]]] = {}
    for entry in store.scan(namespace=store_namespace):
        source = from_entry(entry).source
        if source is not None and source.document is not None:
            places.setdefault(source.document, []).append((source.start or 0, entry.id))
    return InMemoryManifest(
        DocumentRecord(document, "", "", "", tuple(one for _, one in sorted(chunks)))
        for document, chunks in places.items()
    )


_COLUMNS: Final = "source, location, digest, recipe, chunks, modified, ingested"


class ManifestTables:
    """The tables of all collections as a component of a database."""

    name = "documents"

    @property
    def migrations(self) -> Sequence[Callable[[Connection], None]]:
        """What has been done to the tables, in order."""
        return (m001_documents,)

    def verify(self, connection: Connection) -> list[Finding]:
        """Compare every record with its checksum."""
        return [
            Finding("documents", "a record is not what was written", f"{row[0]}: {row[1]}")
            for row in connection.execute(f"SELECT collection, {_COLUMNS}, checksum FROM documents")
            if _checksum(row[:-1]) != row[-1]
        ]

    def rebuild(self, connection: Connection) -> None:
        """Nothing here is derived."""

    def salvage(self, source: Connection, target: Connection) -> int:
        """Copy every record that is what was written."""
        copied = 0
        for row in source.execute(f"SELECT collection, {_COLUMNS}, checksum FROM documents"):
            if _checksum(row[:-1]) == row[-1]:
                _insert_record(target, row)
                copied += 1
        return copied


def m001_documents(connection: Connection) -> None:
    """Make the first tables."""
    for statement in (
        """
        CREATE TABLE documents (
            key INTEGER PRIMARY KEY,
            collection TEXT NOT NULL,
            source TEXT NOT NULL,
            location TEXT NOT NULL,
            digest TEXT NOT NULL,
            recipe TEXT NOT NULL,
            chunks TEXT NOT NULL,
            modified TEXT,
            ingested TEXT,
            checksum INTEGER NOT NULL,
            UNIQUE (collection, source)
        ) STRICT
        """,
        "CREATE INDEX documents_by_location ON documents (collection, location)",
    ):
        connection.execute(statement)


class SqliteManifest:
    """``DocumentManifest`` of one collection (its store namespace) in a database's file."""

    def __init__(self, database: Database, collection: str) -> None:
        self._database = database
        self._collection = collection
        database.attach(ManifestTables())

    def get(self, source: str) -> DocumentRecord | None:
        """As ``Manifest.get``."""
        return next(iter(self._select("AND source = ?", source)), None)

    def at(self, location: str) -> DocumentRecord | None:
        """As ``Manifest.at``."""
        return next(iter(self._select("AND location = ? ORDER BY source", location)), None)

    def all(self) -> list[DocumentRecord]:
        """As ``Manifest.all``."""
        return self._select("ORDER BY source")

    def put(self, record: DocumentRecord) -> None:
        """As ``Manifest.put``."""
        row = (
            self._collection,
            record.source,
            record.location,
            record.digest,
            record.recipe,
            json.dumps(record.chunks),
            None if record.modified is None else timestamp_to_text(record.modified),
            None if record.ingested is None else timestamp_to_text(record.ingested),
        )
        with self._database.write() as connection:
            connection.execute(
                "DELETE FROM documents WHERE collection = ? AND source = ?", (self._collection, record.source)
            )
            _insert_record(connection, (*row, _checksum(row)))

    def remove(self, source: str) -> bool:
        """As ``Manifest.remove``."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM documents WHERE collection = ? AND source = ?", (self._collection, source))
            return bool(connection.changes())

    def _select(self, rest: str, *bound: str) -> list[DocumentRecord]:
        sql = f"SELECT {_COLUMNS}, checksum FROM documents WHERE collection = ? {rest}"
        with self._database.read() as connection:
            return [_parse_record(self._collection, row) for row in connection.execute(sql, (self._collection, *bound))]


def collections_with_documents(database: Database) -> list[str]:
    """Return the collections (their store namespaces) that have a document, sorted."""
    with database.read() as connection:
        if connection.execute(database.dialect.table_exists, ("documents",)).fetchone() is None:
            return []
        return sorted(lane for (lane,) in connection.execute("SELECT DISTINCT collection FROM documents"))


def _insert_record(connection: Connection, row: tuple[Any, ...]) -> None:
    connection.execute(
        f"INSERT INTO documents (collection, {_COLUMNS}, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )


def _parse_record(collection: str, row: tuple[Any, ...]) -> DocumentRecord:
    source, location, digest, recipe, chunks, modified, ingested, checksum = row
    if _checksum((collection, *row[:-1])) != checksum:
        raise DamageError([Finding("documents", "a record is not what was written", source)])
    return DocumentRecord(
        source=source,
        location=location,
        digest=digest,
        recipe=recipe,
        chunks=tuple(json.loads(chunks)),
        modified=None if modified is None else timestamp_from_text(modified),
        ingested=None if ingested is None else timestamp_from_text(ingested),
    )


def _checksum(row: Sequence[str | None]) -> int:
    parts = json.dumps(list(row), ensure_ascii=True).encode("ascii")
    return int.from_bytes(blake2b(parts, digest_size=8).digest(), "little", signed=True)
