"""Plans and writes of an ingest: each document is replaced whole or not at all.

A chunk that is already there is left alone: if its words stay, it keeps its id, its vector, and everything that a user
has set on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tellback.memory.chunking.protocol import Chunk, Chunker
from tellback.memory.codec import entry_embedding_text, from_entry, to_entry
from tellback.memory.documents.collection import DocumentCollection, StaleIntent
from tellback.memory.documents.discovery import DocumentFile, GivenDocument
from tellback.memory.documents.document import ANCHOR, LINE, PAGE_BREAKS, Document
from tellback.memory.documents.ingest_report import IngestAction, IngestLine
from tellback.memory.documents.manifest import DocumentIntent, DocumentRecord
from tellback.memory.models import Memory, Source, Trust
from tellback.memory.write.embedding_service import EmbeddedText
from tellback.vectorstore import Entry, Metadata, RevisionConflict, Vector, lifecycle_of

_TITLE_LIMIT = 200
_MIN_SECTION = 80
"""Characters of the shortest section that is cut apart from what follows."""


@dataclass(frozen=True, slots=True)
class DocumentDraft:
    """Document as it is to be stored: its *record*, and a memory for each chunk; *before* is the stored record.

    *renamed* is the record of the document of the same content whose file is gone, if there is one.
    """

    file: DocumentFile | GivenDocument
    document: Document
    record: DocumentRecord
    memories: tuple[Memory, ...]
    before: DocumentRecord | None
    renamed: DocumentRecord | None = None


@dataclass(frozen=True, slots=True)
class DocumentPlan:
    """The writes that a draft needs.

    *new* chunks are not there yet; *carried* entries are those of a renamed document under its new name. *rewritten*
    entries have another context, *patched* ones other metadata only; *vectorless* ones stay as they are and wait for a
    vector. *gone* ids are no longer of the document. *expect* holds the revision of everything that the plan was made
    from.
    """

    draft: DocumentDraft
    new: tuple[Memory, ...]
    carried: tuple[Entry, ...]
    vectorless: tuple[Entry, ...]
    rewritten: tuple[Entry, ...]
    patched: Mapping[str, Metadata]
    gone: tuple[str, ...]
    forgotten: int
    expect: Mapping[str, int]

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
        places = {PAGE_BREAKS: breaks, LINE: document.line_at(start), ANCHOR: document.anchor_at(start)}
        memory = Memory(
            text=chunk.text,
            id=id,
            kind="document",
            source=source,
            tags=document.tags,
            trust=Trust.DOCUMENT,
            actor="document",
            recorded_at=recorded_at,
            metadata={**document.metadata, **{key: place for key, place in places.items() if place}},
        )
        memories.append(memory)
    return tuple(memories)


def chunk_document(document: Document, chunker: Chunker) -> list[Chunk]:
    """Return the chunks of the document's body, each within one section of its outline; offsets count from the body.

    A section of next to nothing, such as a heading alone, goes with the one below it.
    """
    body = document.text[document.body :]
    if not document.outline:
        return chunker.chunk(body)
    borders = [(max(0, start - document.body), path) for start, path in document.outline if start < len(document.text)]
    sections: list[tuple[int, tuple[str, ...]]] = [(0, ())]
    for start, path in borders:
        if start - sections[-1][0] < _MIN_SECTION:
            sections[-1] = (sections[-1][0], path)
        else:
            sections.append((start, path))
    chunks: list[Chunk] = []
    for (start, path), end in zip(sections, [start for start, _ in sections[1:]] + [len(body)], strict=True):
        for chunk in chunker.chunk(body[start:end]):
            heading = path + chunk.heading
            chunks.append(replace(chunk, start=chunk.start + start, end=chunk.end + start, heading=heading))
    return chunks


def plan_document(collection: DocumentCollection, draft: DocumentDraft, *, again: bool) -> DocumentPlan:
    """Return the writes that *draft* needs as things stand; forgotten chunks are brought back only *again*."""
    entries = collection.memory.store.get([memory.id for memory in draft.memories], namespace=collection.partition)
    existing = {entry.id: entry for entry in entries if entry is not None}
    renamed = _stored_chunks(collection, draft.renamed)
    carried: list[Entry] = []
    left_out = 0
    forgotten = () if again else collection.forgotten(draft.memories)
    new: list[Memory] = []
    vectorless: list[Entry] = []
    rewritten: list[Entry] = []
    patched: dict[str, Metadata] = {}
    for memory in draft.memories:
        entry = existing.get(memory.id)
        if entry is None:
            if same := renamed.get(memory.text):
                carried.append(_moved_entry(same.pop(0), memory))
            elif memory.id in forgotten or draft.renamed is not None:
                left_out += 1
            else:
                new.append(memory)
            continue
        if entry.text != memory.text:
            continue  # somebody corrected it, and the document has not changed there
        renewed = _moved_entry(entry, memory)
        if renewed.context != entry.context:
            rewritten.append(renewed)
        elif dict(renewed.metadata) != dict(entry.metadata):
            patched[entry.id] = renewed.metadata
        if entry.vector is None and entry.no_vector is None and renewed.context == entry.context:
            vectorless.append(entry)
    kept = {memory.id for memory in draft.memories}
    before = [id for record in (draft.before, draft.renamed) if record is not None for id in record.chunks]
    return DocumentPlan(
        draft=draft,
        new=tuple(new),
        carried=tuple(carried),
        vectorless=tuple(vectorless),
        rewritten=tuple(rewritten),
        patched=patched,
        gone=tuple(id for id in before if id not in kept),
        forgotten=left_out,
        expect={memory.id: existing[memory.id].revision if memory.id in existing else 0 for memory in draft.memories},
    )


def _stored_chunks(collection: DocumentCollection, record: DocumentRecord | None) -> dict[str, list[Entry]]:
    """Return the stored chunks of the document of *record*, in order, by their text; none without a record."""
    chunks: dict[str, list[Entry]] = {}
    for entry in [] if record is None else collection.memory.store.get(record.chunks, namespace=collection.partition):
        if entry is not None:
            chunks.setdefault(entry.text, []).append(entry)
    return chunks


def _moved_entry(entry: Entry, memory: Memory) -> Entry:
    """Return *entry*, with all that was set on it and its vector, at the place that *memory* has now."""
    moved = replace(from_entry(entry), id=memory.id, source=memory.source, tags=memory.tags, metadata=memory.metadata)
    return to_entry(moved, vector=entry.vector, no_vector=entry.no_vector)


class StalePlan(Exception):
    """Raised where somebody else has written the document since the plan was made."""


@dataclass(frozen=True, slots=True)
class EmbeddedPlan:
    """Plan with the vectors of its texts, in their order."""

    plan: DocumentPlan
    embedded: Sequence[EmbeddedText]


def write_plans(collection: DocumentCollection, works: Sequence[EmbeddedPlan]) -> list[IngestLine | None]:
    """Write all *works* and return their lines, None where the plan had become stale.

    On a store with transactions they are written in one, elsewhere each document by itself.
    """
    store = lifecycle_of(collection.memory.store)
    if store is None:
        return [_write_under_intent(collection, work) for work in works]

    def write(several: Sequence[EmbeddedPlan]) -> list[IngestLine | None]:
        try:
            with store.transaction(lock=collection.partition):
                return [*_write_together(collection, several)]
        except (StalePlan, RevisionConflict):
            return [None] if len(several) == 1 else [line for work in several for line in write([work])]

    with store.transaction(lock=collection.partition):
        return write(works)


def _write_under_intent(collection: DocumentCollection, work: EmbeddedPlan) -> IngestLine | None:
    """Write *work* under an intent that names every chunk that it writes."""
    draft = work.plan.draft
    written = tuple(entry.id for entry in _entries_to_write(work))
    renamed = "" if draft.renamed is None else draft.renamed.source
    try:
        with collection.changing(DocumentIntent(draft.record.source, written, renamed)):
            return _write_together(collection, [work])[0]
    except (StalePlan, StaleIntent, RevisionConflict):
        return None


def erase_document(collection: DocumentCollection, record: DocumentRecord, *, ban: bool) -> int | None:
    """Erase a document's chunks and its record; return how many there were, None if it was written meanwhile.

    *ban* keeps an ingest from taking it in again by itself.
    """
    intent = DocumentIntent(record.source, record.chunks, removes=True, bans=ban)
    with collection.changing(intent):
        if collection.manifest.get(record.source) != record:
            return None
        entries = collection.memory.store.get(record.chunks, namespace=collection.partition)
        collection.memory.embedding.forget([entry_embedding_text(entry) for entry in entries if entry])
        erased = _erase_chunks(collection, record.chunks)
        collection.complete_removal(intent)
    return erased


def _write_together(collection: DocumentCollection, works: Sequence[EmbeddedPlan]) -> list[IngestLine]:
    """Write *works* and return their lines; if one of the plans is stale, nothing is written and it raises."""
    store, partition, manifest = collection.memory.store, collection.partition, collection.manifest
    works = [replace(work, embedded=collection.memory.embedding.still(work.embedded)) for work in works]
    plans = [work.plan for work in works]
    for plan in plans:
        record, before, renamed = plan.draft.record, plan.draft.before, plan.draft.renamed
        if manifest.get(record.source) != before or manifest.at(record.location) not in (None, before):
            raise StalePlan
        if renamed is not None and manifest.get(renamed.source) != renamed:
            raise StalePlan
    entries = [entry for work in works for entry in _entries_to_write(work)]
    filled = {id: vector for work in works for id, vector in _late_vectors(work).items()}
    patched = {id: metadata for plan in plans for id, metadata in plan.patched.items()}
    expect = {id: revision for plan in plans for id, revision in plan.expect.items()}
    if entries:
        collection.memory.entries.add(entries, partition, {entry.id: expect[entry.id] for entry in entries})
    if filled:  # before the patches, which give another revision
        store.put_vectors(filled, namespace=partition, expect={id: expect[id] for id in filled})
    if patched:
        store.patch(patched, namespace=partition, expect={id: expect[id] for id in patched})
    gone = [set(plan.gone) for plan in plans]
    stored = store.get([id for ids in gone for id in ids], namespace=partition) if any(gone) else []
    still_stored = {entry.id for entry in stored if entry is not None}
    _erase_chunks(collection, [*still_stored])
    collection.memory.tombstones.lift(partition, [collection.mark_of(plan.draft.record.location) for plan in plans])
    for plan in plans:
        if plan.draft.renamed is not None:
            manifest.remove(plan.draft.renamed.source)
    manifest.put(*(plan.draft.record for plan in plans))
    return [_line(work, erased=len(ids & still_stored)) for work, ids in zip(works, gone, strict=True)]


def _entries_to_write(work: EmbeddedPlan) -> list[Entry]:
    """Return the entries of a plan that are written whole."""
    plan = work.plan
    new = [
        to_entry(memory, vector=text.vector, no_vector=text.no_vector)
        for memory, text in zip(plan.new, work.embedded, strict=False)
    ]
    return [*new, *plan.carried, *plan.rewritten]


def _late_vectors(work: EmbeddedPlan) -> dict[str, Vector]:
    """Return the vectors of the entries of a plan that waited for one, by id."""
    waiting = zip(work.plan.vectorless, work.embedded[len(work.plan.new) :], strict=True)
    return {entry.id: text.vector for entry, text in waiting if text.vector is not None}


def _line(work: EmbeddedPlan, *, erased: int) -> IngestLine:
    plan, record, embedded = work.plan, work.plan.draft.record, work.embedded[: len(work.plan.new)]
    pending = sum(text.vector is None and text.no_vector is None for text in embedded)
    notes = plan.draft.document.notes
    if cut := sum(text.truncated is not None for text in work.embedded):
        longer = "1 chunk is" if cut == 1 else f"{cut} chunks are"
        notes += (f"{longer} longer than the embedder reads: the beginning alone is in the vector",)
    reason = next((text.deferred for text in work.embedded if text.deferred is not None), "") if pending else ""
    renamed = plan.draft.renamed
    if renamed is not None:
        reason = f"renamed from {renamed.source}" + (f", {reason}" if reason else "")
    return IngestLine(
        record.source,
        _ingest_action(plan),
        reason=reason,
        chunks=len(plan.draft.memories) - plan.forgotten,
        embedded=sum(text.vector is not None for text in embedded) + len(_late_vectors(work)),
        pending=pending,
        forgotten=plan.forgotten,
        erased=erased if renamed is None else 0,
        notes=notes,
    )


def _erase_chunks(collection: DocumentCollection, ids: Sequence[str]) -> int:
    """Erase chunks, and what recall derived of them; return how many there were."""
    if not ids:
        return 0
    if (store := lifecycle_of(collection.memory.store)) is None:
        return collection.memory.store.delete(ids, namespace=collection.partition)
    count = store.erase(ids, namespace=collection.partition).removed
    if collection.memory.index_cache is not None:
        collection.memory.index_cache.erase_removed([collection.partition])
    return count


def _ingest_action(plan: DocumentPlan) -> IngestAction:
    before, record = plan.draft.before, plan.draft.record
    if plan.draft.renamed is not None:
        return IngestAction.UPDATED
    if before is None:
        return IngestAction.ADDED
    changes = plan.new or plan.rewritten or plan.patched or plan.gone
    if not changes and before.digest in ("", record.digest) and before.chunks == record.chunks:
        return IngestAction.UNCHANGED
    return IngestAction.UPDATED
