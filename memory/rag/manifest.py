"""The manifest: which documents a collection holds, and what they were made from. Holds no word of them.

A record names a document's chunks in order, and an ingest can tell by it what changed. Titles and texts are
in the chunks alone, where forgetting reaches them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from memory.codec import from_entry
from vectorstore import VectorStore


@dataclass(frozen=True, slots=True)
class Record:
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


class Manifest(Protocol):
    """The records of one collection. Writes inside the store's transaction are part of it."""

    def get(self, source: str) -> Record | None:
        """Return the document called *source*."""
        ...

    def at(self, location: str) -> Record | None:
        """Return the document that was read at *location*."""
        ...

    def all(self) -> list[Record]:
        """Return every document, in order of source."""
        ...

    def put(self, record: Record) -> None:
        """Write a document's record, in the place of one of the same source."""
        ...

    def remove(self, source: str) -> bool:
        """Take a document out; say whether it was there."""
        ...


class MemoryManifest:
    """A manifest that lives as long as the object, for stores that keep nothing either. Thread safe."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._records = {record.source: record for record in records}
        self._lock = threading.Lock()

    def get(self, source: str) -> Record | None:
        """As ``Manifest.get``."""
        with self._lock:
            return self._records.get(source)

    def at(self, location: str) -> Record | None:
        """As ``Manifest.at``."""
        with self._lock:
            return next((record for record in self._records.values() if record.location == location), None)

    def all(self) -> list[Record]:
        """As ``Manifest.all``."""
        with self._lock:
            return [record for _, record in sorted(self._records.items())]

    def put(self, record: Record) -> None:
        """As ``Manifest.put``."""
        with self._lock:
            self._records[record.source] = record

    def remove(self, source: str) -> bool:
        """As ``Manifest.remove``."""
        with self._lock:
            return self._records.pop(source, None) is not None


def recovered(store: VectorStore, store_namespace: str) -> MemoryManifest:
    """Return a manifest read back from the chunks of a store that keeps none.

    Where the documents came from and what they were made from is not known any more; an ingest finds that out
    again by reading them, and embeds nothing that is already there.
    """
    places: dict[str, list[tuple[int, str]]] = {}
    for entry in store.scan(namespace=store_namespace):
        source = from_entry(entry).source
        if source is not None and source.document is not None:
            places.setdefault(source.document, []).append((source.start or 0, entry.id))
    return MemoryManifest(
        Record(document, "", "", "", tuple(one for _, one in sorted(chunks))) for document, chunks in places.items()
    )
