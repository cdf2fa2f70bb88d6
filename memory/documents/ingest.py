"""Ingest of files and folders: a collection is brought to their present state.

Idempotent: of an unchanged file only size and times are looked at, or where these changed its bytes, and only chunks
with new words are embedded. Each document is replaced whole or not at all. An interrupted ingest is completed by
repeating it.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from tellback.memory.chunking.protocol import Chunker
from tellback.memory.documents.collection import DocumentCollection
from tellback.memory.documents.discovery import (
    DocumentFile,
    FileSelection,
    GivenDocument,
    Paths,
    check_paths,
    discover_files,
    failure_line,
)
from tellback.memory.documents.document import Document, chunk_ids, content_hash, document_mark
from tellback.memory.documents.document_writer import (
    DocumentDraft,
    EmbeddedPlan,
    chunk_document,
    chunk_memories,
    erase_document,
    plan_document,
    write_plans,
)
from tellback.memory.documents.ingest_report import (
    IngestAction,
    IngestLine,
    IngestProgress,
    IngestReport,
    OnIngestProgress,
)
from tellback.memory.documents.known_documents import KnownDocuments, is_file_gone
from tellback.memory.documents.loaders.base import LoadedDocument, Loader, read_file
from tellback.memory.documents.loaders.registry import LoaderRegistry
from tellback.memory.documents.manifest import DocumentRecord
from tellback.memory.errors import LoadError
from tellback.memory.partitions import DOCUMENTS
from tellback.memory.timestamps import to_aware
from tellback.memory.write.draft import Draft
from tellback.memory.write.policy_runner import PolicyRules, apply_policies_apart, redacted_text, redaction_policies

EMPTY_DOCUMENT_NOTE = "nothing to find in it"

_REFUSED_NAME_REASON = "its name, or that of a folder above it, looks like a secret; rename it"
_BATCH_FILES = 64
_BATCH_CHUNKS = 512
_ATTEMPTS = 3
_JUDGED_CHUNKS = 256
"""Chunks that are judged by the write policies before other tasks get their turn."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """Document that is to be read: it will be called *source*, and has the record *before* now."""

    found: DocumentFile | GivenDocument
    source: str
    before: DocumentRecord | None

    @property
    def size(self) -> int:
        """Bytes to read."""
        return self.found.size if isinstance(self.found, DocumentFile) else len(self.found.content)


@dataclass(frozen=True, slots=True)
class _Renewal:
    """Unchanged document whose *record* is to be written in the place of *before*."""

    line: IngestLine
    record: DocumentRecord
    before: DocumentRecord


_Prepared: TypeAlias = DocumentDraft | _Renewal | IngestLine


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
    _known: KnownDocuments = field(init=False)
    _lines: list[IngestLine] = field(default_factory=list)
    _total: int = 0
    _bytes_done: int = 0
    _bytes_total: int = 0

    async def run(self, paths: Paths) -> IngestReport:
        """Bring the collection to the present state of *paths*."""
        roots = await asyncio.to_thread(lambda: check_paths(paths, missing_allowed=self.retire_missing))
        present = [root for root in roots if not is_file_gone(str(root.absolute()))]
        await self._ingest(lambda: discover_files(present, self.loaders, self.selection))
        self._report(await asyncio.to_thread(self._retire, roots))
        return IngestReport(tuple(self._lines))

    async def run_given(self, given: GivenDocument) -> IngestReport:
        """Ingest a document that is given as a value."""
        await self._ingest(lambda: [given])
        return IngestReport(tuple(self._lines))

    async def _ingest(self, discover: Callable[[], Iterable[DocumentFile | GivenDocument | IngestLine]]) -> None:
        """Read what is to be read, as many files at once as there are parsers, and write it in waves, in its order."""
        items = await asyncio.to_thread(lambda: self._sort_out(discover()))
        sizes = [item.size if isinstance(item, _Reading) else 0 for item in items]
        self._total, self._bytes_total = len(items), sum(sizes)
        pool = ThreadPoolExecutor(self.loaders.parallel, thread_name_prefix="tellback-ingest")
        loop, upcoming = asyncio.get_running_loop(), iter(items)
        reading: deque[IngestLine | asyncio.Future[_Prepared]] = deque()
        wave: list[_Prepared] = []
        done = chunks = 0
        try:
            while True:
                for item in islice(upcoming, self.loaders.parallel + 1 - len(reading)):
                    reading.append(
                        item if isinstance(item, IngestLine) else loop.run_in_executor(pool, self._read, item)
                    )
                if not reading:
                    break
                first = reading.popleft()
                prepared = first if isinstance(first, IngestLine) else await self._judged(await first)
                wave.append(prepared)
                if isinstance(prepared, DocumentDraft):
                    chunks += len(prepared.memories)
                if chunks >= _BATCH_CHUNKS or len(wave) >= _BATCH_FILES:
                    self._report(await self._settle(wave), sizes[done : done + len(wave)])
                    done, chunks, wave = done + len(wave), 0, []
            self._report(await self._settle(wave), sizes[done:])
        finally:  # of an interrupted ingest, too: nobody waits for what is still being parsed
            pool.shutdown(wait=False, cancel_futures=True)
            self.loaders.close()

    def _report(self, lines: Sequence[IngestLine], sizes: Sequence[int] = ()) -> None:
        """Add *lines* to the report; *sizes* are the bytes that were read for each."""
        for line, size in zip(lines, sizes or [0] * len(lines), strict=True):
            self._lines.append(line)
            self._bytes_done += size
            if self.on_progress is not None:
                done = min(len(self._lines), self._total)
                self.on_progress(IngestProgress(done, self._total, line, self._bytes_done, self._bytes_total))

    def _sort_out(self, items: Iterable[DocumentFile | GivenDocument | IngestLine]) -> list[_Reading | IngestLine]:
        """Return what is to be read of *items*, each with its name, and a line for all else."""
        self._known = KnownDocuments(self.collection)
        return [item if isinstance(item, IngestLine) else self._reading(item) for item in items]

    def _reading(self, found: DocumentFile | GivenDocument) -> _Reading | IngestLine:
        location = str(found.location)
        source, before = self._known.resolve(found)
        if before is not None and before.location == location and not self.again and self._is_same_file(found, before):
            self._known.claim(source, location)
            return IngestLine(source, IngestAction.UNCHANGED)
        redactions = redaction_policies(self.collection.memory.policies)
        name, secrets = redacted_text(source, redactions)
        if secrets or redacted_text(location, redactions)[1]:
            return IngestLine(name, IngestAction.SKIPPED, _REFUSED_NAME_REASON)
        if isinstance(found, GivenDocument) and before is not None and before.location not in ("", location):
            return IngestLine(source, IngestAction.FAILED, "another document has this name; give it another source")
        self._known.claim(source, location)
        mark = self.collection.mark_of(location)
        if not self.again and mark in self.collection.memory.tombstones.which(self.collection.partition, [mark]):
            reason = "removed from the memory earlier; --again (again=True) brings it back"
            return IngestLine(source, IngestAction.SKIPPED, reason)
        return _Reading(found, source, before)

    def _is_same_file(self, found: DocumentFile | GivenDocument, before: DocumentRecord) -> bool:
        """Return whether the file is certainly the one of the record, and would be cut in the same way."""
        if isinstance(found, GivenDocument) or not before.file_state or found.loader is None:
            return False
        same = before.file_state == _state_with_loader(found, found.loader)
        return same and before.recipe == self.chunker_for(found.loader.media_type).fingerprint

    def _read(self, reading: _Reading) -> _Prepared:
        """Return the draft of a document, before policies, or the line that says why nothing is done."""
        try:
            return self._loaded(reading)
        except Exception as error:  # whatever a loader or chunker of anybody's raises, the other files are to be read
            return failure_line(reading.source, error)

    def _loaded(self, reading: _Reading) -> _Prepared:
        """As ``_read``; what cannot be read raises."""
        found, source, before = reading.found, reading.source, reading.before
        location = str(found.location)
        data, modified, fields_given = self._content(found, source)
        loader = self.loaders.for_content(found.loader, data, source)
        plain_digest = content_hash(data, f"{loader.name}{fields_given}")
        digest = document_mark(self.collection.memory.tombstones.key, "content", plain_digest)
        recipe = self.chunker_for(loader.media_type).fingerprint
        state = _state_with_loader(found, loader) if loader is found.loader else ""
        if before is not None and (before.digest, before.recipe) == (digest, recipe) and not self.again:
            line = IngestLine(before.source, IngestAction.UNCHANGED, "moved" * (before.location != location))
            record = replace(before, location=location, file_state=state)
            return line if record == before else _Renewal(line, record, before)
        loaded = loader.load(data, source)
        if isinstance(found, GivenDocument):
            loaded = replace(
                loaded,
                title=found.title or loaded.title,
                tags=tuple(dict.fromkeys((*found.tags, *loaded.tags))),
                metadata={**loaded.metadata, **found.metadata},
            )
        content = {part.name: getattr(loaded, part.name) for part in fields(LoadedDocument)}
        content["title"] = loaded.title.strip() or PurePosixPath(source).name
        document = Document(source=source, media_type=loader.media_type, **content)
        record = DocumentRecord(source, location, digest, recipe, (), modified, file_state=state)
        is_new = before is None and isinstance(found, DocumentFile) and not self.again
        renamed = self._known.take_renamed(digest, recipe) if is_new else None
        return self._draft(DocumentDraft(found, document, record, (), before, renamed))

    def _content(self, found: DocumentFile | GivenDocument, source: str) -> tuple[bytes, datetime | None, str]:
        """Return the bytes of *found*, when they changed, and the fields that were given beside them, as text."""
        limit = self.loaders.limits.size
        if isinstance(found, DocumentFile):
            return *read_file(found.location, source, limit=limit), ""
        if len(found.content) > limit:
            raise LoadError(source, f"more than the {limit / 1e6:.0f} MB that are read of one file")
        fields = [found.title, found.tags, dict(found.metadata)]
        return found.content, found.modified, json.dumps(fields, sort_keys=True) if any(fields) else ""

    def _draft(self, draft: DocumentDraft) -> DocumentDraft:
        """Return *draft* with its document cut into chunks, each with its id."""
        memory, document = self.collection.memory, draft.document
        chunks = chunk_document(document, self.chunker_for(document.media_type))
        texts = [chunk.text for chunk in chunks]
        ids = chunk_ids(memory.tombstones.key, self.collection.partition, document.source, texts)
        now = to_aware(memory.clock(), memory.zone)
        return replace(
            draft,
            record=replace(draft.record, chunks=tuple(ids), ingested=now),
            memories=chunk_memories(document, chunks, ids, recorded_at=now),
        )

    async def _judged(self, prepared: _Prepared) -> _Prepared:
        """Return a draft as the write policies leave its chunks; anything else as it is."""
        if not isinstance(prepared, DocumentDraft):
            return prepared
        memory, document = self.collection.memory, prepared.document
        rules = PolicyRules(memory.policies, memory.on_policy_failure, making=False)
        passages = [Draft.new(passage, origin=place, turn=place) for place, passage in enumerate(prepared.memories)]
        judged: list[Draft] = []
        for start in range(0, len(passages), _JUDGED_CHUNKS):
            judged += await apply_policies_apart(passages[start : start + _JUDGED_CHUNKS], rules)
        notes = list(document.notes)
        if rejected := sum(draft.settled is not None for draft in judged):
            notes.append(f"{rejected} chunks rejected by a write policy")
        if removed := sum(draft.spans for draft in judged):
            notes.append(f"{removed} part{'s' * (removed != 1)} taken out by a write policy")
        if not passages:
            notes.append(EMPTY_DOCUMENT_NOTE)
        memories = tuple(draft.memory for draft in judged if draft.settled is None)
        return replace(prepared, document=replace(document, notes=tuple(notes)), memories=memories)

    async def _settle(self, wave: Sequence[_Prepared]) -> list[IngestLine]:
        """Embed and write the drafts of *wave* together; return a line for each of its items, in order."""
        items = list(wave)
        renewals = [item for item in items if isinstance(item, _Renewal)]
        if renewals:
            await asyncio.to_thread(self._renew, renewals)
        for _ in range(_ATTEMPTS):
            drafts = {index: item for index, item in enumerate(items) if isinstance(item, DocumentDraft)}
            if not drafts:
                break
            written = await self._write_apart(list(drafts.values()))
            for (index, draft), line in zip(drafts.items(), written, strict=True):
                if line is None:  # written by somebody else: look again
                    items[index] = await self._judged(await asyncio.to_thread(self._read_again, draft))
                else:
                    items[index] = line
        lines = []
        for item in items:
            if isinstance(item, DocumentDraft):
                reason = "another process keeps writing it; ingest it again"
                lines.append(IngestLine(item.record.source, IngestAction.FAILED, reason))
            else:
                lines.append(item.line if isinstance(item, _Renewal) else item)
        return lines

    def _renew(self, renewals: Sequence[_Renewal]) -> None:
        """Write the records of *renewals*, but for those that somebody else has written meanwhile."""
        manifest = self.collection.manifest
        with self.collection.memory.database.write(lock=self.collection.partition):
            manifest.put(*(item.record for item in renewals if manifest.get(item.before.source) == item.before))

    def _read_again(self, draft: DocumentDraft) -> _Prepared:
        self._known.renew(draft.record.source, draft.record.location)
        reading = self._reading(draft.file)
        return reading if isinstance(reading, IngestLine) else self._read(reading)

    async def _write_apart(self, drafts: Sequence[DocumentDraft]) -> list[IngestLine | None]:
        """As ``_write``; where that raises, each draft is written by itself, and one that raises again has failed."""
        try:
            return await self._write(drafts)
        except Exception as error:
            failed = failure_line(drafts[0].record.source, error)
            return [failed] if len(drafts) == 1 else [line for one in drafts for line in await self._write_apart([one])]

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


def _state_with_loader(found: DocumentFile | GivenDocument, loader: Loader) -> str:
    """Return the state of a file with what reads it; "" where it is not known."""
    return f"{loader.name} {found.state}" if isinstance(found, DocumentFile) and found.state else ""
