"""Collection of documents in a memory: its store namespace, its manifest and its tombstones."""

from __future__ import annotations

from collections.abc import Collection as Names
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from tellback.memory.documents.document import document_mark
from tellback.memory.documents.manifest import DocumentIntent, DocumentManifest, attach_documents
from tellback.memory.long_term import LongTermMemory
from tellback.memory.models import Memory
from tellback.memory.partitions import DOCUMENTS, store_namespace
from tellback.memory.timestamps import to_aware
from tellback.vectorstore import VectorStoreError, lifecycle_of


class StaleIntent(Exception):
    """Raised where an intent was ended by somebody else before its change began."""


@dataclass(frozen=True, slots=True)
class DocumentCollection:
    """Documents of one collection, for reading, writing and searching; *partition* is its store namespace."""

    memory: LongTermMemory
    namespace: str
    name: str
    partition: str
    manifest: DocumentManifest

    @contextmanager
    def changing(self, intent: DocumentIntent) -> Iterator[None]:
        """Open a block that changes the chunks of a document and its record, whole or not at all.

        Where the store has transactions it is one. Else *intent* is recorded first, and goes with the change of the
        record: where the block fails or the process is killed, it is ended here or at the next opening.
        """
        if (store := lifecycle_of(self.memory.store)) is not None:
            with store.transaction(lock=self.partition):
                yield
            return
        self.end_intents()
        self.manifest.intents.put(intent)
        try:
            with self.memory.database.write(lock=self.partition):
                if intent not in self.manifest.intents.all():
                    raise StaleIntent  # another process has opened the collection and ended it
                yield
                self.manifest.intents.remove(intent)
        except BaseException:
            with suppress(VectorStoreError):  # such as a server that is down: then at the next opening
                self.end_intents()
            raise

    def end_intents(self) -> None:
        """End what a process that was killed has begun: a removal is completed, a write taken back.

        What a write has changed is read again by the next ingest, since its record tells of no content.
        """
        if lifecycle_of(self.memory.store) is not None or not self.manifest.intents.all():
            return
        with self.memory.database.write(lock=self.partition):
            for intent in self.manifest.intents.all():
                record = self.manifest.get(intent.source)
                kept = set() if record is None or intent.removes else set(record.chunks)
                if gone := [id for id in intent.chunks if id not in kept]:
                    self.memory.store.delete(gone, namespace=self.partition)
                if intent.removes:
                    self.complete_removal(intent)
                for source in () if intent.removes else (intent.source, intent.renamed):
                    if (touched := self.manifest.get(source)) is not None:
                        self.manifest.put(replace(touched, digest="", file_state=""))
                self.manifest.intents.remove(intent)

    def complete_removal(self, intent: DocumentIntent) -> None:
        """Remove the record of a document whose chunks are gone; an intent that bans keeps ingests from it."""
        record = self.manifest.get(intent.source)
        if record is not None and intent.bans:
            now = to_aware(self.memory.clock(), self.memory.zone)
            self.memory.tombstones.add(self.partition, [self.mark_of(record.location)], now)
        self.manifest.remove(intent.source)

    def mark_of(self, location: str) -> str:
        """Return the mark of *location* among the tombstones."""
        return document_mark(self.memory.tombstones.key, "location", self.partition, location)

    def forgotten(self, memories: Sequence[Memory]) -> Names[str]:
        """Return the ids of those *memories* that were forgotten, by themselves or by their very words."""
        tombstones = self.memory.tombstones
        tombstone_ids = tombstones.which(self.partition, [memory.id for memory in memories])
        words = {memory.id for memory in memories if tombstones.words_at(self.namespace, memory.text) is not None}
        return tombstone_ids | words


def open_collection(memory: LongTermMemory, name: str, namespace: str) -> DocumentCollection:
    """Return the collection called *name* of the user's *namespace*; a new one is empty.

    Its records are in the memory's database.
    """
    partition = store_namespace(namespace, DOCUMENTS, name)
    attach_documents(memory)
    collection = DocumentCollection(memory, namespace, name, partition, DocumentManifest(memory.database, partition))
    collection.end_intents()
    return collection
