"""Ingest of files and folders: a collection is brought to their present state.

Idempotent: of an unchanged file only the bytes are read, and only chunks with new words are embedded. Each document is
replaced whole or not at all. An interrupted ingest is completed by repeating it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path, PurePosixPath

from memory.chunking.protocol import Chunker
from memory.documents.collection import DocumentCollection
from memory.documents.discovery import (
    DocumentFile,
    FileSelection,
    GivenDocument,
    Paths,
    check_paths,
    discover_files,
    failure_line,
)
from memory.documents.document import Document, chunk_ids, content_hash, document_mark
from memory.documents.document_writer import (
    DocumentDraft,
    EmbeddedPlan,
    chunk_document,
    chunk_memories,
    erase_document,
    plan_document,
    write_plans,
)
from memory.documents.ingest_report import IngestAction, IngestLine, IngestProgress, IngestReport, OnIngestProgress
from memory.documents.loaders.base import LoadedDocument, read_file
from memory.documents.loaders.registry import LoaderRegistry
from memory.documents.manifest import DocumentRecord
from memory.errors import LoadError
from memory.partitions import DOCUMENTS
from memory.runtime import run_sync
from memory.timestamps import to_aware
from memory.write.draft import Draft
from memory.write.policy_runner import PolicyRules, apply_policies_apart, redacted_text, redaction_policies
from vectorstore import MissingExtra

EMPTY_DOCUMENT_NOTE = "nothing to find in it"

_REFUSED_NAME_REASON = "its name, or that of a folder above it, looks like a secret; rename it"
_BATCH_FILES = 64
_BATCH_CHUNKS = 512
_ATTEMPTS = 3


@dataclass(slots=True)
class IngestRun:
    """One ingest of files into *collection*; the parameters are those of ``KnowledgeBase`` and its ``ingest``."""

    collection: DocumentCollection
    chunker_for: Callable[[str], Chunker]
    loaders: LoaderRegistry
    selection: FileSelection
    again: bool
    retire_missing: bool
    on_progress: OnIngestProgress | None
    _claimed: dict[str, str] = field(default_factory=dict)
    """Names given in this run, with their locations; they are not given twice."""
    _lines: list[IngestLine] = field(default_factory=list)

    async def run(self, paths: Paths) -> IngestReport:
        """Bring the collection to the present state of *paths*."""
        try:
            return await self._run(paths)
        finally:
            self.loaders.close()

    async def _run(self, paths: Paths) -> IngestReport:
        self.collection.lifecycle("ingest")
        roots = await asyncio.to_thread(lambda: check_paths(paths, missing_allowed=self.retire_missing))
        present = [root for root in roots if not is_file_gone(str(root.absolute()))]
        items = await asyncio.to_thread(lambda: list(discover_files(present, self.loaders, self.selection)))
        wave: list[DocumentDraft | IngestLine] = []
        chunks = 0
        for item in items:
            prepared = item if isinstance(item, IngestLine) else await asyncio.to_thread(self._prepare, item)
            wave.append(prepared)
            if isinstance(prepared, DocumentDraft):
                chunks += len(prepared.memories)
            if chunks >= _BATCH_CHUNKS or len(wave) >= _BATCH_FILES:
                self._report(await self._settle(wave), len(items))
                wave, chunks = [], 0
        self._report(await self._settle(wave), len(items))
        self._report(await asyncio.to_thread(self._retire, roots), len(items))
        return IngestReport(tuple(self._lines))

    async def run_given(self, given: GivenDocument) -> IngestReport:
        """Take in a document that is in hand."""
        self.collection.lifecycle("ingest")
        try:
            prepared = await asyncio.to_thread(self._prepare, given)
            self._report(await self._settle([prepared]), 1)
        finally:
            self.loaders.close()
        return IngestReport(tuple(self._lines))

    def _report(self, lines: Sequence[IngestLine], total: int) -> None:
        for line in lines:
            self._lines.append(line)
            if self.on_progress is not None:
                self.on_progress(IngestProgress(min(len(self._lines), total), total, line))

    def _prepare(self, found: DocumentFile | GivenDocument) -> DocumentDraft | IngestLine:
        """Return the draft of the document *found*, or the line that says why nothing is done."""
        source, before = self._resolve_source(found)
        location = str(found.location)
        redactions = redaction_policies(self.collection.memory.policies)
        shown, secrets = redacted_text(source, redactions)
        if secrets or redacted_text(location, redactions)[1]:
            return IngestLine(shown, IngestAction.SKIPPED, _REFUSED_NAME_REASON)
        if isinstance(found, GivenDocument) and before is not None and before.location not in ("", location):
            return IngestLine(source, IngestAction.FAILED, "another document has this name; give it another source")
        self._claimed[source] = location
        mark = self.collection.mark_of(location)
        if not self.again and mark in self.collection.memory.tombstones.which(self.collection.partition, [mark]):
            reason = "removed from the memory earlier; ingest it with again=True to bring it back"
            return IngestLine(source, IngestAction.SKIPPED, reason)
        try:
            data, modified, fields_given = self._content(found, source)
            loader = self.loaders.for_content(found.loader, data, source)
            digest = content_hash(data, f"{loader.name}{fields_given}")
            chunker = self.chunker_for(loader.media_type)
            recipe = (self._digest(digest), chunker.fingerprint)
            if before is not None and (before.digest, before.recipe) == recipe and not self.again:
                if before.location == location:
                    return IngestLine(before.source, IngestAction.UNCHANGED)
                self.collection.manifest.put(replace(before, location=location))
                return IngestLine(before.source, IngestAction.UNCHANGED, "moved")
            loaded = loader.load(data, source)
        except (LoadError, MissingExtra) as error:
            return failure_line(source, error)
        if isinstance(found, GivenDocument):
            loaded = replace(
                loaded,
                title=found.title or loaded.title,
                tags=tuple(dict.fromkeys((*found.tags, *loaded.tags))),
                metadata={**loaded.metadata, **found.metadata},
            )
        content = {part.name: getattr(loaded, part.name) for part in fields(LoadedDocument)}
        content["title"] = loaded.title.strip() or PurePosixPath(source).name
        document = Document(
            source=source, media_type=loader.media_type, content_hash=digest, modified=modified, **content
        )
        return self._draft(found, document, before)

    def _content(self, found: DocumentFile | GivenDocument, source: str) -> tuple[bytes, datetime | None, str]:
        """Return the bytes of *found*, when they changed, and the fields that were given beside them, as text."""
        limit = self.loaders.limits.size
        if isinstance(found, DocumentFile):
            return *read_file(found.location, source, limit=limit), ""
        if len(found.content) > limit:
            raise LoadError(source, f"more than the {limit / 1e6:.0f} MB that are read of one file")
        given = [found.title, found.tags, dict(found.metadata)]
        return found.content, found.modified, json.dumps(given, sort_keys=True) if any(given) else ""

    def _draft(
        self, file: DocumentFile | GivenDocument, document: Document, before: DocumentRecord | None
    ) -> DocumentDraft:
        """Return *document* cut into chunks, each with its id, judged by the write policies."""
        memory, chunker = self.collection.memory, self.chunker_for(document.media_type)
        chunks = chunk_document(document, chunker)
        texts = [chunk.text for chunk in chunks]
        ids = chunk_ids(memory.tombstones.key, self.collection.partition, document.source, texts)
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
            location=str(file.location),
            digest=self._digest(document.content_hash),
            recipe=chunker.fingerprint,
            chunks=tuple(ids),
            modified=document.modified,
            ingested=now,
        )
        memories = tuple(draft.memory for draft in judged if draft.settled is None)
        return DocumentDraft(file, replace(document, notes=tuple(notes)), record, memories, before)

    def _digest(self, plain: str) -> str:
        return document_mark(self.collection.memory.tombstones.key, "content", plain)

    def _resolve_source(self, found: DocumentFile | GivenDocument) -> tuple[str, DocumentRecord | None]:
        """Return the source of the document at *found*, and its record if it has one.

        A source is the path below the ingested folder. If another file has that name already, parent folders are put
        before it until it is unique; a file that was moved takes over the name of the one that is gone.
        """
        location, manifest = str(found.location), self.collection.manifest
        if isinstance(found, GivenDocument):
            return found.source, manifest.get(found.source)
        if (record := manifest.at(location)) is not None:
            return record.source, record
        for name in _candidate_names(found):
            if self._claimed.get(name, location) == location:
                record = manifest.get(name)
                if record is None or not record.location or is_file_gone(record.location):
                    return name, record
        return location, manifest.get(location)

    async def _settle(self, wave: Sequence[DocumentDraft | IngestLine]) -> list[IngestLine]:
        """Embed and write the drafts of *wave* together; return a line for each of its items, in order."""
        items = list(wave)
        for _ in range(_ATTEMPTS):
            drafts = {index: item for index, item in enumerate(items) if isinstance(item, DocumentDraft)}
            if not drafts:
                break
            written = await self._write(list(drafts.values()))
            for (index, draft), line in zip(drafts.items(), written, strict=True):
                if line is None:  # written by somebody else: look again
                    items[index] = await asyncio.to_thread(self._prepare, draft.file)
                else:
                    items[index] = line
        reason = "another process keeps writing it; ingest it again"
        return [
            item if isinstance(item, IngestLine) else IngestLine(item.record.source, IngestAction.FAILED, reason)
            for item in items
        ]

    async def _write(self, drafts: Sequence[DocumentDraft]) -> list[IngestLine | None]:
        plans = await asyncio.to_thread(
            lambda: [plan_document(self.collection, draft, again=self.again) for draft in drafts]
        )
        texts = list(dict.fromkeys(text for plan in plans for text in plan.texts))
        embedded = dict(
            zip(texts, await self.collection.memory.embedding.vectors(texts, partition=DOCUMENTS), strict=True)
        )
        works = [EmbeddedPlan(plan, [embedded[text] for text in plan.texts]) for plan in plans]
        return await asyncio.to_thread(write_plans, self.collection, works)

    def _retire(self, roots: Sequence[Path]) -> list[IngestLine]:
        """Erase the documents whose files are gone from the folders among *roots*, or with them."""
        resolved = [root.resolve() for root in roots]
        folders = [real for real in resolved if real.is_dir() or is_file_gone(str(real))]
        lines = []
        for record in self.collection.manifest.all():
            if not record.location or not any(Path(record.location).is_relative_to(folder) for folder in folders):
                continue
            if is_file_gone(record.location):
                erased = erase_document(self.collection, record, ban=False)
                if erased is not None:
                    reason = "its file is gone"
                    lines.append(IngestLine(record.source, IngestAction.REMOVED, reason, erased=erased))
        return lines


def is_file_gone(location: str) -> bool:
    """Return whether the file that was read at *location* certainly does not exist any more; a URI is no file."""
    if not Path(location).is_absolute():
        return False
    try:
        Path(location).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # it cannot be told: a folder that may not be entered, a disk that fails
        pass
    return False


def _candidate_names(found: DocumentFile) -> Iterator[str]:
    name = found.source
    yield name
    for folder in (found.root, *found.root.parents):
        if folder.name:
            name = f"{folder.name}/{name}"
            yield name
