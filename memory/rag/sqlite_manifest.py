"""The manifest in the memory's file: a component of the same database as the store.

documents    collection, source, where it was read, keyed hash of its bytes, recipe, chunk ids, checksum
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Final

import apsw

from memory.rag.manifest import Record
from memory.times import from_text, to_text
from vectorstore import DamageError, Database, Finding

_COLUMNS: Final = "source, location, digest, recipe, chunks, modified, ingested"


class ManifestTables:
    """The tables of all collections as a component of a database."""

    name = "documents"

    @property
    def migrations(self) -> Sequence[Callable[[apsw.Connection], None]]:
        """What has been done to the tables, in order."""
        return (m001_tables,)

    def verify(self, connection: apsw.Connection) -> list[Finding]:
        """Compare every record with its checksum."""
        return [
            Finding("documents", "a record is not what was written", f"{row[0]}: {row[1]}")
            for row in connection.execute(f"SELECT collection, {_COLUMNS}, checksum FROM documents")
            if _checksum(row[:-1]) != row[-1]
        ]

    def rebuild(self, connection: apsw.Connection) -> None:
        """Nothing here is derived."""

    def salvage(self, source: apsw.Connection, target: apsw.Connection) -> int:
        """Copy every record that is what was written."""
        copied = 0
        for row in source.execute(f"SELECT collection, {_COLUMNS}, checksum FROM documents"):
            if _checksum(row[:-1]) == row[-1]:
                _insert(target, row)
                copied += 1
        return copied


def m001_tables(connection: apsw.Connection) -> None:
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
    """``Manifest`` of one collection (its store namespace) in a database's file."""

    def __init__(self, database: Database, collection: str) -> None:
        self._database = database
        self._collection = collection
        database.attach(ManifestTables())

    def get(self, source: str) -> Record | None:
        """As ``Manifest.get``."""
        return next(iter(self._select("AND source = ?", source)), None)

    def at(self, location: str) -> Record | None:
        """As ``Manifest.at``."""
        return next(iter(self._select("AND location = ? ORDER BY source", location)), None)

    def all(self) -> list[Record]:
        """As ``Manifest.all``."""
        return self._select("ORDER BY source")

    def put(self, record: Record) -> None:
        """As ``Manifest.put``."""
        row = (
            self._collection,
            record.source,
            record.location,
            record.digest,
            record.recipe,
            json.dumps(record.chunks),
            None if record.modified is None else to_text(record.modified),
            None if record.ingested is None else to_text(record.ingested),
        )
        with self._database.write() as connection:
            connection.execute(
                "DELETE FROM documents WHERE collection = ? AND source = ?", (self._collection, record.source)
            )
            _insert(connection, (*row, _checksum(row)))

    def remove(self, source: str) -> bool:
        """As ``Manifest.remove``."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM documents WHERE collection = ? AND source = ?", (self._collection, source))
            return bool(connection.changes())

    def _select(self, rest: str, *bound: str) -> list[Record]:
        sql = f"SELECT {_COLUMNS}, checksum FROM documents WHERE collection = ? {rest}"
        with self._database.read() as connection:
            return [_record(self._collection, row) for row in connection.execute(sql, (self._collection, *bound))]


def lanes_with_documents(database: Database) -> list[str]:
    """Return the collections (their store namespaces) that have a document, sorted."""
    with database.read() as connection:
        if not connection.table_exists("main", "documents"):
            return []
        return sorted(lane for (lane,) in connection.execute("SELECT DISTINCT collection FROM documents"))


def _insert(connection: apsw.Connection, row: tuple[Any, ...]) -> None:
    connection.execute(
        f"INSERT INTO documents (collection, {_COLUMNS}, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )


def _record(collection: str, row: tuple[Any, ...]) -> Record:
    source, location, digest, recipe, chunks, modified, ingested, checksum = row
    if _checksum((collection, *row[:-1])) != checksum:
        raise DamageError([Finding("documents", "a record is not what was written", source)])
    return Record(
        source=source,
        location=location,
        digest=digest,
        recipe=recipe,
        chunks=tuple(json.loads(chunks)),
        modified=None if modified is None else from_text(modified),
        ingested=None if ingested is None else from_text(ingested),
    )


def _checksum(row: Sequence[str | None]) -> int:
    parts = json.dumps(list(row), ensure_ascii=True).encode("ascii")
    return int.from_bytes(blake2b(parts, digest_size=8).digest(), "little", signed=True)
