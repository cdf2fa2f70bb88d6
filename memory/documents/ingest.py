"""Ingest of files and folders: a collection is brought to their present state.

Idempotent: of an unchanged file only the bytes are read, and only chunks with new words are embedded. Each document is
replaced whole or not at all. An interrupted ingest is completed by repeating it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from memory.chunking.protocol import Chunker
from memory.documents.collection import DocumentCollection
from memory.documents.discovery import DocumentFile, SkippedPath, check_paths, discover_files
from memory.documents.document import Document, content_hash
from memory.documents.document_ids import chunk_ids, document_mark
from memory.documents.document_writer import EmbeddedPlan, erase_document, plan_draft, write_plans
from memory.documents.ingest_plan import DocumentDraft, chunk_memories
from memory.documents.ingest_report import IngestAction, IngestLine, IngestProgress, IngestReport, OnIngestProgress
from memory.documents.loaders.base import SIZE_LIMIT, read_file
from memory.documents.loaders.registry import LoaderRegistry
from memory.documents.manifest import DocumentManifest, DocumentRecord
from memory.errors import LoadError
from memory.runtime import run_sync
from memory.timestamps import to_aware
from memory.write.draft import Draft
from memory.write.policy_runner import PolicyRules, apply_policies_apart
from vectorstore import MissingExtra

EMPTY_DOCUMENT_NOTE = "nothing to find in it"


@dataclass(slots=True)
class DocumentPreparer:
    """Makes drafts of files for one collection; made for one run of an ingest."""

    collection: DocumentCollection
    chunker_for: Callable[[str], Chunker]
    again: bool = False
    size_limit: int = SIZE_LIMIT
    _claimed: dict[str, str] = field(default_factory=dict)

    def prepare(self, found: DocumentFile) -> DocumentDraft | IngestLine:
        """Return the draft of the file at *found*, or the line that says why nothing is done."""
        source, before = resolve_source(found, self.collection.manifest, self._claimed)
        location = str(found.location)
        self._claimed[source] = location
        if not self.again and self.collection.removed_before(location):
            reason = "removed from the memory earlier; ingest it with again=True to bring it back"
            return IngestLine(source, IngestAction.SKIPPED, reason)
        try:
            data, modified = read_file(found.location, source, limit=self.size_limit)
            digest = content_hash(data, found.loader.name)
            chunker = self.chunker_for(found.loader.media_type)
            if before is not None and self._is_unchanged(before, digest, chunker) and not self.again:
                return self._unchanged_line(before, location)
            loaded = found.loader.load(data, source)
        except (LoadError, MissingExtra) as error:
            return IngestLine(source, IngestAction.FAILED, _strip_source(str(error), source))
        document = Document(
            source=source,
            title=loaded.title.strip() or PurePosixPath(source).name,
            media_type=found.loader.media_type,
            content_hash=digest,
            modified=modified,
            text=loaded.text,
            body=loaded.body,
            pages=loaded.pages,
            tags=loaded.tags,
            metadata=loaded.metadata,
            notes=loaded.notes,
        )
        return self.draft(document, location, before)

    def draft(self, document: Document, location: str, before: DocumentRecord | None) -> DocumentDraft:
        """Return *document* cut into chunks, each with its id, judged by the write policies."""
        memory, chunker = self.collection.memory, self.chunker_for(document.media_type)
        chunks = chunker.chunk(document.text[document.body :])
        ids = chunk_ids(self._key, self.collection.partition, document.source, (chunk.text for chunk in chunks))
        now = to_aware(memory.clock(), memory.zone)
        rules = PolicyRules(memory.policies, memory.on_policy_failure, making=False)
        passages = chunk_memories(document, chunks, ids, recorded_at=now)
        drafts = [Draft.new(passage, origin=place, turn=place) for place, passage in enumerate(passages)]
        judged = run_sync(apply_policies_apart(drafts, rules))
        rejected = sum(draft.settled is not None for draft in judged)
        notes = list(document.notes)
        if rejected:
            notes.append(f"{rejected} chunks rejected by a write policy")
        if taken := sum(draft.spans for draft in judged):
            notes.append(f"{taken} part{'s' * (taken != 1)} taken out by a write policy")
        if not chunks:
            notes.append(EMPTY_DOCUMENT_NOTE)
        record = DocumentRecord(
            source=document.source,
            location=location,
            digest=self._digest(document.content_hash),
            recipe=chunker.fingerprint,
            chunks=tuple(ids),
            modified=document.modified,
            ingested=now,
        )
        memories = tuple(draft.memory for draft in judged if draft.settled is None)
        return DocumentDraft(replace(document, notes=tuple(notes)), record, memories, before)

    @property
    def _key(self) -> bytes:
        return self.collection.memory.tombstones.key

    def _digest(self, plain: str) -> str:
        return document_mark(self._key, "content", plain)

    def _is_unchanged(self, record: DocumentRecord, digest: str, chunker: Chunker) -> bool:
        return record.digest == self._digest(digest) and record.recipe == chunker.fingerprint

    def _unchanged_line(self, record: DocumentRecord, location: str) -> IngestLine:
        if record.location == location:
            return IngestLine(record.source, IngestAction.UNCHANGED)
        self.collection.manifest.put(replace(record, location=location))
        return IngestLine(record.source, IngestAction.UNCHANGED, "moved")


def _strip_source(message: str, source: str) -> str:
    return message.removeprefix(f"{source}: ")


_BATCH_FILES = 64
_BATCH_CHUNKS = 512
_ATTEMPTS = 3


class Ingester:
    """Ingests files into one collection. One object may be used by many tasks; documents never mix."""

    def __init__(
        self,
        collection: DocumentCollection,
        *,
        chunker_for: Callable[[str], Chunker],
        loaders: LoaderRegistry,
        size_limit: int = SIZE_LIMIT,
    ) -> None:
        self._collection = collection
        self._chunker_for = chunker_for
        self._loaders = loaders
        self._size_limit = size_limit

    async def ingest(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        again: bool,
        on_progress: OnIngestProgress | None,
    ) -> IngestReport:
        """As ``KnowledgeBase.ingest``."""
        self._collection.lifecycle("ingest")
        roots = await asyncio.to_thread(check_paths, paths)
        items = await asyncio.to_thread(lambda: list(discover_files(roots, self._loaders)))
        preparer = DocumentPreparer(self._collection, self._chunker_for, again=again, size_limit=self._size_limit)
        run = _IngestRun(len(items), on_progress)
        wave: list[tuple[DocumentFile, DocumentDraft] | IngestLine] = []
        chunks = 0
        for item in items:
            if isinstance(item, SkippedPath):
                prepared: DocumentDraft | IngestLine = IngestLine(item.name, IngestAction.SKIPPED, item.reason)
            else:
                prepared = await asyncio.to_thread(preparer.prepare, item)
            if isinstance(prepared, DocumentDraft) and isinstance(item, DocumentFile):
                wave.append((item, prepared))
                chunks += len(prepared.memories)
            elif isinstance(prepared, IngestLine):
                wave.append(prepared)
            if chunks >= _BATCH_CHUNKS or len(wave) >= _BATCH_FILES:
                run.add(await self._settle(preparer, wave))
                wave, chunks = [], 0
        run.add(await self._settle(preparer, wave))
        run.add(await asyncio.to_thread(self._retire, roots), counted=False)
        return IngestReport(tuple(run.lines))

    async def _settle(
        self, preparer: DocumentPreparer, wave: Sequence[tuple[DocumentFile, DocumentDraft] | IngestLine]
    ) -> list[IngestLine]:
        """Embed and write the drafts of *wave* together; return a line for each of its items, in order."""
        lines: list[IngestLine | None] = [item if isinstance(item, IngestLine) else None for item in wave]
        todo = {index: item for index, item in enumerate(wave) if not isinstance(item, IngestLine)}
        for _ in range(_ATTEMPTS):
            if not todo:
                break
            written = await self._write([draft for _, draft in todo.values()], again=preparer.again)
            for (index, (found, _)), line in zip(list(todo.items()), written, strict=True):
                if line is not None:
                    lines[index] = line
                    del todo[index]
                    continue
                prepared = await asyncio.to_thread(preparer.prepare, found)  # written by somebody else: look again
                if isinstance(prepared, IngestLine):
                    lines[index] = prepared
                    del todo[index]
                else:
                    todo[index] = (found, prepared)
        for index, (_, draft) in todo.items():
            reason = "another process keeps writing it; ingest it again"
            lines[index] = IngestLine(draft.record.source, IngestAction.FAILED, reason)
        return [line for line in lines if line is not None]

    async def _write(self, drafts: Sequence[DocumentDraft], *, again: bool) -> list[IngestLine | None]:
        plans = await asyncio.to_thread(lambda: [plan_draft(self._collection, draft, again=again) for draft in drafts])
        texts = list(dict.fromkeys(text for plan in plans for text in plan.texts))
        embedded = dict(zip(texts, await self._collection.memory.embedding.vectors(texts), strict=True))
        works = [EmbeddedPlan(plan, [embedded[text] for text in plan.texts]) for plan in plans]
        return await asyncio.to_thread(write_plans, self._collection, works)

    def _retire(self, roots: Sequence[Path]) -> list[IngestLine]:
        """Erase the documents whose files are gone from the folders among *roots*."""
        folders = [real for real in (root.resolve() for root in roots) if real.is_dir()]
        lines = []
        for record in self._collection.manifest.all():
            if not record.location or not any(Path(record.location).is_relative_to(folder) for folder in folders):
                continue
            if is_file_gone(record.location):
                erased = erase_document(self._collection, record, ban=False)
                if erased is not None:
                    reason = "its file is gone"
                    lines.append(IngestLine(record.source, IngestAction.REMOVED, reason, erased=erased))
        return lines


class _IngestRun:
    """Lines of an ingest so far; each is reported to the caller as it comes."""

    def __init__(self, total: int, on_progress: OnIngestProgress | None) -> None:
        self.lines: list[IngestLine] = []
        self._total = total
        self._done = 0
        self._on_progress = on_progress

    def add(self, lines: Sequence[IngestLine], *, counted: bool = True) -> None:
        for line in lines:
            self.lines.append(line)
            self._done += counted
            if self._on_progress is not None:
                self._on_progress(IngestProgress(self._done, self._total, line))


def resolve_source(
    found: DocumentFile, manifest: DocumentManifest, claimed: Mapping[str, str]
) -> tuple[str, DocumentRecord | None]:
    """Return the source of the document at *found*, and its record if it has one.

    A source is the path below the ingested folder. If another file has that name already, parent folders are put
    before it until it is unique; a file that was moved takes over the name of the one that is gone.

    *claimed* maps names given in this run to their locations; they are not given twice.
    """
    location = str(found.location)
    record = manifest.at(location)
    if record is not None:
        return record.source, record
    for name in _candidate_names(found):
        if claimed.get(name, location) != location:
            continue
        record = manifest.get(name)
        if record is None or not record.location or is_file_gone(record.location):
            return name, record
    return location, manifest.get(location)


def is_file_gone(location: str) -> bool:
    """Whether the file that was read at *location* certainly does not exist any more."""
    try:
        Path(location).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # it cannot be told: a folder that may not be entered, a disk that fails
        return False
    return False


def _candidate_names(found: DocumentFile) -> Iterator[str]:
    name = found.name
    yield name
    for folder in (found.root, *found.root.parents):
        if folder.name:
            name = f"{folder.name}/{name}"
            yield name
