"""The manifest of a collection: a record of each document and its chunks; and its part in forgetting and exporting.

A record names a document's chunks in order, so that an ingest can tell what changed; it holds no word of them. Titles
and texts are in the chunks alone, where forgetting reaches them. It is a component of the memory's database:

documents  collection, source, where it was read, keyed hash of its bytes, recipe, chunk ids, file state, checksum
document_intents  what is under way in a store without transactions: collection, source, what is done, chunk ids
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from tellback.memory.errors import ArgumentError
from tellback.memory.long_term import LongTermMemory
from tellback.memory.partitions import DOCUMENTS, parse_store_namespace, store_namespace
from tellback.memory.tables.erasers import ErasedItems
from tellback.memory.timestamps import timestamp_from_text, timestamp_to_text
from tellback.memory.validation import check_known_fields, checked_label, checked_labels, checked_text
from tellback.vectorstore import Connection, DamageError, Database, Finding, TableComponent

if TYPE_CHECKING:
    from tellback.vectorstore.sqlite import SalvageSource


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """Record of one document of a collection.

    *location* is where it was read (an absolute path, or its URI). *digest* is a keyed hash of its bytes,
    *recipe* names the chunker and its settings. *chunks* are the ids of its chunks in order, forgotten ones
    included. *file_state* is the loader with size and times of the file: where it is still the same, the file is not
    read again; "" where that cannot be told.
    """

    source: str
    location: str
    digest: str
    recipe: str
    chunks: tuple[str, ...]
    modified: datetime | None = None
    ingested: datetime | None = None
    file_state: str = ""


_COLUMNS: Final = "source, location, digest, recipe, chunks, modified, ingested, file_state"
_ALL_ROWS: Final = f"SELECT collection, {_COLUMNS}, checksum FROM documents"


class ManifestTables(TableComponent):
    """The records of all collections as a component of a database."""

    def __init__(self) -> None:
        super().__init__("documents", (m001_documents, m002_file_state, m003_intents), ("documents",))

    def verify(self, connection: Connection) -> list[Finding]:
        """Compare every record with its checksum."""
        return [
            Finding("documents", "a record is not what was written", f"{row[0]}: {row[1]}")
            for row in connection.execute(_ALL_ROWS)
            if _checksum(row[:-1]) != row[-1]
        ]

    def salvage(self, source: SalvageSource, target: Connection) -> None:
        """Copy every record that is what was written."""
        columns = ("collection", *_COLUMNS.split(", "))

        def check(row: Mapping[str, Any]) -> str | None:
            whole = _checksum([row.get(name) for name in columns]) == row["checksum"]
            return None if whole else "a record is not what was written"

        source.copy(target, "documents", check)


def m001_documents(connection: Connection) -> None:
    """Create the first tables."""
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


def m002_file_state(connection: Connection) -> None:
    """Add the state of the file, NULL where it is not known."""
    connection.execute("ALTER TABLE documents ADD COLUMN file_state TEXT")


def m003_intents(connection: Connection) -> None:
    """Create the table of intents, for stores without transactions."""
    connection.execute(
        "CREATE TABLE document_intents (collection TEXT NOT NULL, source TEXT NOT NULL, chunks TEXT NOT NULL,"
        " renamed TEXT NOT NULL, removes INTEGER NOT NULL, bans INTEGER NOT NULL,"
        " PRIMARY KEY (collection, source)) STRICT"
    )


@dataclass(frozen=True, slots=True)
class DocumentIntent:
    """Intent: the change about to be made to the document called *source* in a store without transactions.

    *chunks* are the ids that are written, or removed where it *removes* the document. *renamed* is the document whose
    place it takes, "" for none. It *bans* a removed document from being taken in again by an ingest.
    """

    source: str
    chunks: tuple[str, ...]
    renamed: str = ""
    removes: bool = False
    bans: bool = False


class DocumentIntents:
    """Intents of one collection, in a table of *database*."""

    def __init__(self, database: Database, collection: str) -> None:
        self._database = database
        self._collection = collection

    def all(self) -> list[DocumentIntent]:
        """Return what is under way, or was broken off."""
        sql = "SELECT source, chunks, renamed, removes, bans FROM document_intents WHERE collection = ? ORDER BY source"
        with self._database.read() as connection:
            rows = connection.execute(sql, (self._collection,)).fetchall()
        return [
            DocumentIntent(source, tuple(json.loads(chunks)), renamed, bool(removes), bool(bans))
            for source, chunks, renamed, removes, bans in rows
        ]

    def put(self, intent: DocumentIntent) -> None:
        """Record what is about to be done."""
        row = (intent.source, intent.renamed, int(intent.removes), int(intent.bans), json.dumps(intent.chunks))
        with self._database.write(lock=self._collection) as connection:
            connection.execute(
                "INSERT INTO document_intents (collection, source, renamed, removes, bans, chunks)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (self._collection, *row),
            )

    def remove(self, intent: DocumentIntent) -> None:
        """Remove what was done."""
        with self._database.write(lock=self._collection) as connection:
            connection.execute(
                "DELETE FROM document_intents WHERE collection = ? AND source = ?", (self._collection, intent.source)
            )


class DocumentManifest:
    """Records of one collection (its store namespace), in a table of *database*.

    Writes inside the store's transaction are part of it.
    """

    def __init__(self, database: Database, collection: str) -> None:
        self._database = database
        self.collection = collection
        self.intents = DocumentIntents(database, collection)
        database.attach(ManifestTables())

    def get(self, source: str) -> DocumentRecord | None:
        """Return the document called *source*."""
        return next(iter(self._select("AND source = ?", source)), None)

    def at(self, location: str) -> DocumentRecord | None:
        """Return the document that was read at *location*."""
        return next(iter(self._select("AND location = ? ORDER BY source", location)), None)

    def all(self) -> list[DocumentRecord]:
        """Return every document, in order of source."""
        return self._select("ORDER BY source")

    def put(self, *records: DocumentRecord) -> None:
        """Write the records of documents, each in the place of an earlier one of the same source."""
        rows = []
        for record in records:
            texts = (record.source, record.location, record.digest, record.recipe, json.dumps(record.chunks))
            times = (None if time is None else timestamp_to_text(time) for time in (record.modified, record.ingested))
            row = (self.collection, *texts, *times, record.file_state or None)
            rows.append((*row, _checksum(row)))
        marks = ", ".join("?" * (len(_COLUMNS.split(", ")) + 2))
        with self._database.write(lock=self.collection) as connection:
            connection.executemany(
                "DELETE FROM documents WHERE collection = ? AND source = ?", [row[:2] for row in rows]
            )
            connection.executemany(f"INSERT INTO documents (collection, {_COLUMNS}, checksum) VALUES ({marks})", rows)

    def remove(self, source: str) -> bool:
        """Remove a document; return whether there was one."""
        with self._database.write(lock=self.collection) as connection:
            connection.execute("DELETE FROM documents WHERE collection = ? AND source = ?", (self.collection, source))
            return bool(connection.changes())

    def _select(self, rest: str, *bound: str) -> list[DocumentRecord]:
        sql = f"{_ALL_ROWS} WHERE collection = ? {rest}"
        with self._database.read() as connection:
            return [_parse_record(row) for row in connection.execute(sql, (self.collection, *bound))]


def _parse_record(row: tuple[Any, ...]) -> DocumentRecord:
    _, source, location, digest, recipe, chunks, *times, state, checksum = row
    if _checksum(row[:-1]) != checksum:
        raise DamageError([Finding("documents", "a record is not what was written", source)])
    modified, ingested = (None if time is None else timestamp_from_text(time) for time in times)
    return DocumentRecord(source, location, digest, recipe, tuple(json.loads(chunks)), modified, ingested, state or "")


def _checksum(row: Sequence[str | None]) -> int:
    """Return the checksum of *row*, whose last field, the state of the file, early rows have not."""
    fields = row if row[-1] is not None else row[:-1]
    parts = json.dumps(list(fields), ensure_ascii=True).encode("ascii")
    return int.from_bytes(blake2b(parts, digest_size=8).digest(), "little", signed=True)


_TEXT_FIELDS: Final = ("location", "digest", "recipe")
_TIME_FIELDS: Final = ("modified", "ingested")
_FIELDS: Final = ("type", "collection", "source", *_TEXT_FIELDS, "chunks", *_TIME_FIELDS)


def attach_documents(memory: LongTermMemory) -> None:
    """Let *memory* forget and export the lists of its documents; again is harmless."""
    if any(eraser.name == ManifestEraser.name for eraser in memory.erasers):
        return
    if _has_table(memory.database):
        memory.database.attach(ManifestTables())  # here, since tables of an older Tellback are changed outside of reads
    part = ManifestEraser(memory)
    memory.erasers.append(part)
    memory.carried.append(part)


class ManifestEraser:
    """Manifests as ``RestorableEraser`` and ``ExportedPart``: a record goes with the last passage of its document."""

    name = "documents"
    line = "document"

    def __init__(self, memory: LongTermMemory) -> None:
        self._memory = memory

    def erase(self, gone: ErasedItems) -> int:
        """Remove the records of documents that have no passage left, and keep an ingest from taking them in again."""
        removed = 0
        for manifest, record in self._records(gone.namespace):
            lost = _loses_chunks(manifest, record, gone)
            if not (gone.everything or (lost and not self._stored(manifest, record))):
                continue
            manifest.remove(record.source)
            if not gone.everything:
                self._memory.tombstones.add(manifest.collection, [self._mark(manifest, record)], gone.at)
            removed += 1
        return removed

    def put_away(self, gone: ErasedItems) -> str | None:
        """As ``RestorableEraser.put_away``; asked before the passages go, so it is their ids that count."""
        kept = [
            _record_fields(manifest, record)
            for manifest, record in self._records(gone.namespace)
            if _loses_chunks(manifest, record, gone)
            and self._stored(manifest, record) <= set(gone.entries[manifest.collection])
        ]
        return json.dumps(kept, ensure_ascii=False) if kept else None

    def put_back(self, namespace: str, kept: str) -> None:
        """As ``RestorableEraser.put_back``."""
        for fields in json.loads(kept):
            manifest, record = self._read(namespace, fields)
            manifest.put(record)
            self._memory.tombstones.lift(manifest.collection, [self._mark(manifest, record)])

    def lines(self, namespace: str) -> Iterator[dict[str, Any]]:
        """As ``ExportedPart.lines``: by collection and source."""
        for manifest, record in self._records(namespace):
            yield _record_fields(manifest, record)

    def named(self, namespace: str, fields: Mapping[str, Any]) -> tuple[str, ...]:
        """As ``ExportedPart.named``: by collection and source."""
        manifest, record = self._read(namespace, fields)
        return manifest.collection, record.source

    def take(self, namespace: str, fields: Mapping[str, Any], *, write: bool) -> bool:
        """As ``ExportedPart.take``; a document that is here already stays as it is."""
        manifest, record = self._read(namespace, fields)
        if manifest.get(record.source) or manifest.at(record.location):
            return False
        if self._memory.tombstones.which(manifest.collection, [self._mark(manifest, record)]):
            return False
        if write:
            manifest.put(record)
        return True

    def _records(self, namespace: str) -> Iterator[tuple[DocumentManifest, DocumentRecord]]:
        """Yield every record of the user's *namespace* with its manifest, by store namespace."""
        database = self._memory.database
        exists = _has_table(database)
        with database.read() as connection:
            rows = connection.execute("SELECT DISTINCT collection FROM documents").fetchall() if exists else []
        for partition in sorted(partition for (partition,) in rows):
            if parse_store_namespace(partition)[0] == namespace:
                manifest = DocumentManifest(database, partition)
                yield from ((manifest, record) for record in manifest.all())

    def _stored(self, manifest: DocumentManifest, record: DocumentRecord) -> set[str]:
        """Return the ids of the document's chunks that are in the store."""
        entries = self._memory.store.get(record.chunks, namespace=manifest.collection)
        return {entry.id for entry in entries if entry is not None}

    def _mark(self, manifest: DocumentManifest, record: DocumentRecord) -> str:
        from tellback.memory.documents.document import document_mark

        return document_mark(self._memory.tombstones.key, "location", manifest.collection, record.location)

    def _read(self, namespace: str, fields: Mapping[str, Any]) -> tuple[DocumentManifest, DocumentRecord]:
        from tellback.memory.export_import.codec import read_time

        check_known_fields(fields, _FIELDS)
        partition = store_namespace(namespace, DOCUMENTS, checked_label(fields.get("collection"), "item.collection"))
        chunks = fields.get("chunks")
        if not isinstance(chunks, list):
            raise ArgumentError("item.chunks", chunks, "a list of ids is needed")
        values: dict[str, Any] = {key: checked_text(fields.get(key, ""), f"item.{key}") for key in _TEXT_FIELDS}
        times = {key: fields[key] for key in _TIME_FIELDS if fields.get(key) is not None}
        values |= {key: read_time(time, f"item.{key}") for key, time in times.items()}
        source = checked_label(fields.get("source"), "item.source")
        manifest = DocumentManifest(self._memory.database, partition)
        return manifest, DocumentRecord(source=source, chunks=checked_labels(chunks, "item.chunks"), **values)


def _has_table(database: Database) -> bool:
    with database.read() as connection:
        return connection.execute(database.dialect.table_exists, ("documents",)).fetchone() is not None


def _loses_chunks(manifest: DocumentManifest, record: DocumentRecord, gone: ErasedItems) -> bool:
    return not set(record.chunks).isdisjoint(gone.entries.get(manifest.collection, ()))


def _record_fields(manifest: DocumentManifest, record: DocumentRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {"collection": parse_store_namespace(manifest.collection)[2], "source": record.source}
    fields |= {key: getattr(record, key) for key in _TEXT_FIELDS} | {"chunks": list(record.chunks)}
    return fields | {key: time.isoformat() for key in _TIME_FIELDS if (time := getattr(record, key)) is not None}
