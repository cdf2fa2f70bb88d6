"""Manifests as a part of the memory's file: erased and restored with their passages, and carried by an export."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from memory.documents.document_ids import document_mark
from memory.documents.manifest import DocumentRecord, SqliteManifest, collections_with_documents
from memory.errors import ArgumentError
from memory.long_term import LongTermMemory
from memory.partitions import DOCUMENTS, parse_store_namespace, store_namespace
from memory.tables.erasers import ErasedItems
from memory.validation import check_known_fields, checked_label, checked_labels, checked_text
from vectorstore import Database, lifecycle_of

_TEXT_FIELDS: Final = ("location", "digest", "recipe")
_TIME_FIELDS: Final = ("modified", "ingested")
_FIELDS: Final = ("type", "collection", "source", *_TEXT_FIELDS, "chunks", *_TIME_FIELDS)


def attach_documents(memory: LongTermMemory) -> None:
    """Let *memory* forget and export the lists of its documents, where it has a file; again is harmless."""
    store = lifecycle_of(memory.store)
    database = None if store is None else store.database
    if database is None or any(eraser.name == _DocumentsComponent.name for eraser in memory.erasers):
        return
    part = _DocumentsComponent(memory, database)
    memory.erasers.append(part)
    memory.carried.append(part)


class _DocumentsComponent:
    """An ``Eraser`` that is ``RestorableEraser`` and ``ExportedPart``. A document goes with the last of its
    passages."""

    name = "documents"
    line = "document"

    def __init__(self, memory: LongTermMemory, database: Database) -> None:
        self._memory = memory
        self._database = database

    def erase(self, gone: ErasedItems) -> int:
        """Remove the records of documents that have no passage left, and keep an ingest from taking them in again."""
        removed = 0
        for lane, manifest, record in self._emptied(gone):
            manifest.remove(record.source)
            if not gone.everything:
                self._memory.tombstones.add(lane, [self._mark(lane, record)], gone.at)
            removed += 1
        return removed

    def put_away(self, gone: ErasedItems) -> str | None:
        """As ``RestorableEraser.put_away``; asked before the passages go, so it is their ids that count."""
        ids = {lane: set(ids) for lane, ids in gone.entries.items()}
        kept = [
            {**_record_fields(record), "collection": parse_store_namespace(lane)[2]}
            for lane, manifest in self._manifests(gone.namespace)
            for record in manifest.all()
            if record.chunks
            and set(self._there(lane, record)) <= ids.get(lane, set())
            and set(record.chunks) & ids.get(lane, set())
        ]
        return json.dumps(kept, ensure_ascii=False) if kept else None

    def put_back(self, namespace: str, kept: str) -> None:
        """As ``RestorableEraser.put_back``."""
        for fields in json.loads(kept):
            lane, record = self._read(namespace, fields)
            SqliteManifest(self._database, lane).put(record)
            self._memory.tombstones.lift(lane, [self._mark(lane, record)])

    def lines(self, namespace: str) -> Iterator[dict[str, Any]]:
        """As ``ExportedPart.lines``: by collection and source."""
        for lane, manifest in self._manifests(namespace):
            for record in manifest.all():
                yield {"collection": parse_store_namespace(lane)[2], **_record_fields(record)}

    def named(self, namespace: str, fields: Mapping[str, Any]) -> tuple[str, ...]:
        """As ``ExportedPart.named``: by collection and source."""
        lane, record = self._read(namespace, fields)
        return lane, record.source

    def take(self, namespace: str, fields: Mapping[str, Any], *, write: bool, emptied: bool) -> bool:
        """As ``ExportedPart.take``; a document that is here already stays as it is."""
        lane, record = self._read(namespace, fields)
        manifest = SqliteManifest(self._database, lane)
        if not emptied and (manifest.get(record.source) or manifest.at(record.location)):
            return False
        if self._memory.tombstones.which(lane, [self._mark(lane, record)]):
            return False
        if write:
            manifest.put(record)
        return True

    def _manifests(self, namespace: str) -> Iterator[tuple[str, SqliteManifest]]:
        for lane in collections_with_documents(self._database):
            if parse_store_namespace(lane)[0] == namespace:
                yield lane, SqliteManifest(self._database, lane)

    def _emptied(self, gone: ErasedItems) -> list[tuple[str, SqliteManifest, DocumentRecord]]:
        return [
            (lane, manifest, record)
            for lane, manifest in self._manifests(gone.namespace)
            if gone.everything or lane in gone.entries
            for record in manifest.all()
            if gone.everything or (self._touched(record, lane, gone) and not self._there(lane, record))
        ]

    def _touched(self, record: DocumentRecord, lane: str, gone: ErasedItems) -> bool:
        return not set(record.chunks).isdisjoint(gone.entries[lane])

    def _there(self, lane: str, record: DocumentRecord) -> list[str]:
        entries = self._memory.store.get(record.chunks, namespace=lane)
        return [entry.id for entry in entries if entry is not None]

    def _mark(self, lane: str, record: DocumentRecord) -> str:
        return document_mark(self._memory.tombstones.key, "location", lane, record.location)

    def _read(self, namespace: str, fields: Mapping[str, Any]) -> tuple[str, DocumentRecord]:
        check_known_fields(fields, _FIELDS)
        lane = store_namespace(namespace, DOCUMENTS, checked_label(fields.get("collection"), "item.collection"))
        chunks = fields.get("chunks")
        if not isinstance(chunks, list):
            raise ArgumentError("item.chunks", chunks, "a list of ids is needed")
        values: dict[str, Any] = {key: checked_text(fields.get(key, ""), f"item.{key}") for key in _TEXT_FIELDS}
        values |= {key: _parse_moment(fields.get(key), f"item.{key}") for key in _TIME_FIELDS}
        source = checked_label(fields.get("source"), "item.source")
        return lane, DocumentRecord(source=source, chunks=checked_labels(chunks, "item.chunks"), **values)


def _record_fields(record: DocumentRecord) -> dict[str, Any]:
    found: dict[str, Any] = {"source": record.source, **{key: getattr(record, key) for key in _TEXT_FIELDS}}
    found["chunks"] = list(record.chunks)
    return found | {key: at.isoformat() for key in _TIME_FIELDS if (at := getattr(record, key)) is not None}


def _parse_moment(value: Any, argument: str) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(checked_text(value, argument))
    except ValueError as error:
        raise ArgumentError(argument, value, "a time in ISO 8601 is needed") from error
    if moment.tzinfo is None:
        raise ArgumentError(argument, value, "a time with its offset from UTC is needed")
    return moment
