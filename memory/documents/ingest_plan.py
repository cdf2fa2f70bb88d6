"""The plan of an ingest: the writes that bring a collection to a document's present state, by comparison of values.

A chunk that is already there is left alone: if its words stay, it keeps its id, its vector, and everything that a user
has set on it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memory.chunking.protocol import Chunk
from memory.codec import from_entry, to_entry
from memory.documents.document import PAGE_BREAKS, Document
from memory.documents.manifest import DocumentRecord
from memory.models import Memory, Source, Trust
from memory.write.embedding_service import EmbeddedText
from vectorstore import Entry, Metadata

_TITLE_LIMIT = 200


@dataclass(frozen=True, slots=True)
class DocumentDraft:
    """Document as it is to be stored: its *record*, and a memory for each chunk; *before* is the stored record."""

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
        """Whether any chunk is written or removed."""
        return bool(self.new or self.rewritten or self.patched or self.gone)

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts to embed: first those of the new chunks, then those that wait for their vector."""
        return (*(memory.text for memory in self.new), *(entry.text for entry in self.vectorless))


def chunk_memories(
    document: Document, chunks: Sequence[Chunk], ids: Sequence[str], *, recorded_at: datetime
) -> tuple[Memory, ...]:
    """Return a memory for each of *chunks*, whose offsets count from the document's body."""
    return tuple(_chunk_memory(document, chunk, id, recorded_at) for chunk, id in zip(chunks, ids, strict=True))


def plan_document(draft: DocumentDraft, existing: Mapping[str, Entry], forgotten: Collection[str]) -> DocumentPlan:
    """Return the writes that turn *existing* entries into *draft*; those *forgotten* are not brought back."""
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
        renewed = _renew_entry(memory, entry)
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


def planned_entries(plan: DocumentPlan, embedded: Sequence[EmbeddedText]) -> list[Entry]:
    """Return the entries to write: new ones as they were *embedded*, and rewritten."""
    new = [
        to_entry(memory, vector=text.vector, no_vector=text.no_vector)
        for memory, text in zip(plan.new, embedded, strict=True)
    ]
    return [*new, *plan.rewritten]


def _chunk_memory(document: Document, chunk: Chunk, name: str, recorded_at: datetime) -> Memory:
    start, end = chunk.start + document.body, chunk.end + document.body
    breaks = [[offset - start, page] for offset, page in document.page_breaks(start, end)]
    return Memory(
        text=chunk.text,
        id=name,
        kind="document",
        source=Source(
            document=document.source,
            title=document.title[:_TITLE_LIMIT],
            page=document.page_at(start),
            heading=chunk.heading,
            start=start,
            end=end,
        ),
        tags=document.tags,
        trust=Trust.DOCUMENT,
        actor="document",
        recorded_at=recorded_at,
        metadata={**document.metadata, **({PAGE_BREAKS: breaks} if breaks else {})},
    )


def _renew_entry(memory: Memory, entry: Entry) -> Entry:
    """Return *entry* with what the document says of it now, and with everything else as it is."""
    kept = from_entry(entry)
    renewed = replace(kept, source=memory.source, tags=memory.tags, metadata=memory.metadata)
    return to_entry(renewed, vector=entry.vector, no_vector=entry.no_vector)
