"""Writes of ingest plans: each document is replaced whole or not at all. Runs in a worker thread."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from memory.documents.collection import DocumentCollection
from memory.documents.ingest_plan import DocumentDraft, DocumentPlan, plan_document, planned_entries
from memory.documents.ingest_report import IngestAction, IngestLine
from memory.documents.manifest import DocumentRecord
from memory.timestamps import to_aware
from memory.write.embedding_service import EmbeddedText
from vectorstore import Entry, RevisionConflict, Vector


class StalePlan(Exception):
    """Somebody else has written the document since the plan was made."""


@dataclass(frozen=True, slots=True)
class EmbeddedPlan:
    """Plan with the vectors of its texts, in their order."""

    plan: DocumentPlan
    embedded: Sequence[EmbeddedText]


def plan_draft(collection: DocumentCollection, draft: DocumentDraft, *, again: bool) -> DocumentPlan:
    """Return the writes that *draft* needs as things stand."""
    ids = [memory.id for memory in draft.memories]
    entries = collection.memory.store.get(ids, namespace=collection.partition)
    existing = {entry.id: entry for entry in entries if entry is not None}
    return plan_document(draft, existing, () if again else collection.forgotten(draft.memories))


def write_plans(collection: DocumentCollection, works: Sequence[EmbeddedPlan]) -> list[IngestLine | None]:
    """Write all *works* in one transaction; return their lines, None where the plan had become stale."""
    store = collection.lifecycle("ingest")
    lines: list[IngestLine | None] = []
    with store.transaction():
        for work in works:
            try:
                with store.transaction():
                    lines.append(_write_plan(collection, work))
            except (StalePlan, RevisionConflict):
                lines.append(None)
    return lines


def erase_document(collection: DocumentCollection, record: DocumentRecord, *, ban: bool) -> int | None:
    """Erase a document's chunks and its record; return how many there were, None if it was written meanwhile.

    *ban* keeps an ingest from taking it in again by itself.
    """
    store = collection.lifecycle("remove")
    memory = collection.memory
    with store.transaction():
        if collection.manifest.get(record.source) != record:
            return None
        memory.embedding.forget(
            [entry.text for entry in store.get(record.chunks, namespace=collection.partition) if entry]
        )
        erased = _erase_chunks(collection, record.chunks)
        if ban:
            memory.tombstones.add(
                collection.partition, [collection.mark_of(record.location)], to_aware(memory.clock(), memory.zone)
            )
        collection.manifest.remove(record.source)
    return erased


def _write_plan(collection: DocumentCollection, work: EmbeddedPlan) -> IngestLine:
    plan, record = work.plan, work.plan.draft.record
    before, manifest = plan.draft.before, collection.manifest
    if manifest.get(record.source) != before or manifest.at(record.location) not in (None, before):
        raise StalePlan
    new = len(plan.new)
    embedded = collection.memory.embedding.still(work.embedded)
    late = zip(plan.vectorless, embedded[new:], strict=True)
    filled = {entry.id: text.vector for entry, text in late if text.vector is not None}
    erased = _store_chunks(collection, plan, planned_entries(plan, embedded[:new]), filled)
    collection.memory.tombstones.lift(collection.partition, [collection.mark_of(record.location)])
    manifest.put(record)
    pending = sum(text.vector is None and text.no_vector is None for text in embedded[:new])
    return IngestLine(
        record.source,
        _ingest_action(plan),
        reason=next((text.deferred for text in embedded if text.deferred is not None), "") if pending else "",
        chunks=len(plan.draft.memories) - plan.forgotten,
        embedded=sum(text.vector is not None for text in embedded[:new]) + len(filled),
        pending=pending,
        forgotten=plan.forgotten,
        erased=erased,
        notes=(*plan.draft.document.notes, *_truncation_notes(sum(text.truncated is not None for text in embedded))),
    )


def _truncation_notes(count: int) -> tuple[str, ...]:
    """Return a note with the number of chunks of which the embedder read only the beginning."""
    longer = "1 chunk is" if count == 1 else f"{count} chunks are"
    return (f"{longer} longer than the embedder reads: the beginning alone is in the vector",) if count else ()


def _store_chunks(
    collection: DocumentCollection, plan: DocumentPlan, entries: Sequence[Entry], filled: Mapping[str, Vector]
) -> int:
    """Write a plan's chunks; return how many were erased. A revision that is not the plan's conflicts."""
    store, partition = collection.lifecycle("ingest"), collection.partition
    if entries:
        expect = _revisions_of(plan.expect, {entry.id for entry in entries})
        store.upsert(entries, namespace=partition, expect=expect)
    if filled:  # before the patches, which give another revision
        store.put_vectors(filled, namespace=partition, expect=_revisions_of(plan.expect, filled))
    if plan.patched:
        store.patch(plan.patched, namespace=partition, expect=_revisions_of(plan.expect, plan.patched))
    return _erase_chunks(collection, plan.gone)


def _erase_chunks(collection: DocumentCollection, ids: Sequence[str]) -> int:
    """Erase chunks, and what recall derived of them; return how many there were."""
    if not ids:
        return 0
    count = collection.lifecycle("erase").erase(ids, namespace=collection.partition).removed
    if collection.memory.index_cache is not None:
        collection.memory.index_cache.erase_removed([collection.partition])
    return count


def _ingest_action(plan: DocumentPlan) -> IngestAction:
    before, record = plan.draft.before, plan.draft.record
    if before is None:
        return IngestAction.ADDED
    if not plan.changes and before.digest in ("", record.digest) and before.chunks == record.chunks:
        return IngestAction.UNCHANGED
    return IngestAction.UPDATED


def _revisions_of(revisions: Mapping[str, int], ids: Container[str]) -> dict[str, int]:
    return {id: revision for id, revision in revisions.items() if id in ids}
