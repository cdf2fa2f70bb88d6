"""Collection of documents in a memory: its store namespace, its manifest and its tombstones."""

from __future__ import annotations

from collections.abc import Collection as Names
from collections.abc import Sequence
from dataclasses import dataclass

from tellback.memory.documents.document import document_mark
from tellback.memory.documents.manifest import DocumentManifest, attach_documents
from tellback.memory.long_term import LongTermMemory
from tellback.memory.models import Memory
from tellback.memory.partitions import DOCUMENTS, store_namespace
from tellback.vectorstore import LifecycleStore, UnsupportedError, lifecycle_of


@dataclass(frozen=True, slots=True)
class DocumentCollection:
    """Documents of one collection, for reading, writing and searching; *partition* is its store namespace."""

    memory: LongTermMemory
    namespace: str
    name: str
    partition: str
    manifest: DocumentManifest

    def lifecycle(self, operation: str) -> LifecycleStore:
        """Return the store if it can replace a document whole, else raise ``UnsupportedError``."""
        store = lifecycle_of(self.memory.store)
        if store is None:
            reason = f"{type(self.memory.store).__name__} has no transactions, so a document could be left half-written"
            raise UnsupportedError(operation, reason)
        return store

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
    return DocumentCollection(memory, namespace, name, partition, DocumentManifest(memory.database, partition))
