"""The plan of an ingest: the writes that bring a collection to a document's present state.

A chunk that is already there is left alone: if its words stay, it keeps its id, its vector, and everything that a user
has set on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memory.chunking.protocol import Chunk
from memory.codec import from_entry, to_entry
from memory.documents.collection import DocumentCollection
from memory.documents.discovery import DocumentFile
from memory.documents.document import PAGE_BREAKS, Document
from memory.documents.manifest import DocumentRecord
from memory.models import Memory, Source, Trust
from vectorstore import Entry, Metadata

_TITLE_LIMIT = 200


@dataclass(frozen=True, slots=True)
class DocumentDraft:
    """Document as it is to be stored: its *record*, and a memory for each chunk; *before* is the stored record."""

    file: DocumentFile
    document: Document
    record: DocumentRecord
    memories: tuple[Memory, ...]
    before: DocumentRecord | None


@dataclass(frozen=True, slots=True)
class DocumentPlan:
    """The writes that a draft needs.

    *new* chunks are not there yet. *rewritten* entries have another context, *patched* ones other metadata
    only; *vectorless* ones stay as they are and wait for a vector. *gone* ids are no longer of the document.
    *expect* holds the revision of everything that the plan was made from.
    """

    draft: DocumentDraft
    new: tuple[Memory, ...]
    vectorless: tuple[Entry, ...]
    rewritten: tuple[Entry, ...]
    patched: Mapping[str, Metadata]
    gone: tuple[str, ...]
    forgotten: int
    expect: Mapping[str, int]

    @property
    def changes(self) -> bool:
        """True if any chunk is written or removed."""
        return bool(self.new or self.rewritten or self.patched or self.gone)

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts to embed: first those of the new chunks, then those that wait for their vector."""
        return (*(memory.text for memory in self.new), *(entry.text for entry in self.vectorless))


def chunk_memories(
    document: Document, chunks: Sequence[Chunk], ids: Sequence[str], *, recorded_at: datetime
) -> tuple[Memory, ...]:
    """Return a memory for each of *chunks*, whose offsets count from the document's body."""
    memories = []
    for chunk, id in zip(chunks, ids, strict=True):
        start, end = chunk.start + document.body, chunk.end + document.body
        source = Source(
            document=document.source,
            title=document.title[:_TITLE_LIMIT],
            page=document.page_at(start),
            heading=chunk.heading,
            start=start,
            end=end,
        )
        breaks = [[offset - start, page] for offset, page in document.page_breaks(start, end)]
        memory = Memory(
            text=chunk.text,
            id=id,
            kind="document",
            source=source,
            tags=document.tags,
            trust=Trust.DOCUMENT,
            actor="document",
            recorded_at=recorded_at,
            metadata={**document.metadata, **({PAGE_BREAKS: breaks} if breaks else {})},
        )
        memories.append(memory)
    return tuple(memories)


def plan_document(collection: DocumentCollection, draft: DocumentDraft, *, again: bool) -> DocumentPlan:
    """Return the writes that *draft* needs as things stand; forgotten chunks are brought back only *again*."""
    entries = collection.memory.store.get([memory.id for memory in draft.memories], namespace=collection.partition)
    existing = {entry.id: entry for entry in entries if entry is not None}
    forgotten = () if again else collection.forgotten(draft.memories)
    new: list[Memory] = []
    vectorless: list[Entry] = []
    rewritten: list[Entry] = []
    patched: dict[str, Metadata] = {}
    for memory in draft.memories:
        entry = existing.get(memory.id)
        if entry is None:
            if memory.id not in forgotten:
                new.append(memory)
            continue
        if entry.text != memory.text:
            continue  # somebody corrected it, and the document has not changed there
        kept_fields = replace(from_entry(entry), source=memory.source, tags=memory.tags, metadata=memory.metadata)
        renewed = to_entry(kept_fields, vector=entry.vector, no_vector=entry.no_vector)
        if renewed.context != entry.context:
            rewritten.append(renewed)
        elif dict(renewed.metadata) != dict(entry.metadata):
            patched[entry.id] = renewed.metadata
        if entry.vector is None and entry.no_vector is None and renewed.context == entry.context:
            vectorless.append(entry)
    kept = {memory.id for memory in draft.memories}
    before = draft.before.chunks if draft.before is not None else ()
    return DocumentPlan(
        draft=draft,
        new=tuple(new),
        vectorless=tuple(vectorless),
        rewritten=tuple(rewritten),
        patched=patched,
        gone=tuple(id for id in before if id not in kept),
        forgotten=sum(memory.id in forgotten and memory.id not in existing for memory in draft.memories),
        expect={memory.id: existing[memory.id].revision if memory.id in existing else 0 for memory in draft.memories},
    )
