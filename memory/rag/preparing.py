"""One file made ready: read, hashed, and, if it changed, cut into chunks. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from memory.chunking.protocol import Chunker
from memory.errors import LoadError
from memory.rag.collection import Collection
from memory.rag.discover import Found
from memory.rag.documents import Document, content_hash
from memory.rag.identity import chunk_ids, mark
from memory.rag.loaders.reading import SIZE_LIMIT, read_file
from memory.rag.manifest import Record
from memory.rag.naming import name_for
from memory.rag.plan import Draft, memories_of
from memory.rag.report import IngestAction, IngestLine
from memory.runtime import run_sync
from memory.times import aware
from memory.write.judging import Rules, judge_each
from vectorstore import MissingExtra

NOTHING_IN_IT = "nothing to find in it"


@dataclass(slots=True)
class Preparer:
    """Makes drafts of files for one collection; made for one run of an ingest."""

    collection: Collection
    chunker_for: Callable[[str], Chunker]
    again: bool = False
    size_limit: int = SIZE_LIMIT
    _claimed: dict[str, str] = field(default_factory=dict)

    def prepare(self, found: Found) -> Draft | IngestLine:
        """Return what the file at *found* should be kept as, or the line that says why nothing is done."""
        source, before = name_for(found, self.collection.manifest, self._claimed)
        location = str(found.location)
        self._claimed[source] = location
        if not self.again and self.collection.removed_before(location):
            reason = "removed from the memory earlier; ingest it with again=True to bring it back"
            return IngestLine(source, IngestAction.SKIPPED, reason)
        try:
            data, modified = read_file(found.location, source, limit=self.size_limit)
            digest = content_hash(data, found.loader.name)
            chunker = self.chunker_for(found.loader.media_type)
            if before is not None and self._same(before, digest, chunker) and not self.again:
                return self._unchanged(before, location)
            loaded = found.loader.load(data, source)
        except (LoadError, MissingExtra) as error:
            return IngestLine(source, IngestAction.FAILED, _without(str(error), source))
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

    def draft(self, document: Document, location: str, before: Record | None) -> Draft:
        """Return *document* cut into chunks, each with its id, judged by the write policies."""
        memory, chunker = self.collection.memory, self.chunker_for(document.media_type)
        chunks = chunker.chunk(document.text[document.body :])
        ids = chunk_ids(self._key, self.collection.lane, document.source, (chunk.text for chunk in chunks))
        now = aware(memory.clock(), memory.zone)
        rules = Rules(memory.policies, memory.on_policy_failure, making=False)
        passages = memories_of(document, chunks, ids, recorded_at=now)
        judged = [verdict for verdict, _ in run_sync(judge_each(passages, rules))]
        rejected = sum(verdict.memory is None for verdict in judged)
        notes = list(document.notes)
        if rejected:
            notes.append(f"{rejected} chunks rejected by a write policy")
        if taken := sum(verdict.spans for verdict in judged):
            notes.append(f"{taken} part{'s' * (taken != 1)} taken out by a write policy")
        if not chunks:
            notes.append(NOTHING_IN_IT)
        record = Record(
            source=document.source,
            location=location,
            digest=self._digest(document.content_hash),
            recipe=chunker.fingerprint,
            chunks=tuple(ids),
            modified=document.modified,
            ingested=now,
        )
        memories = tuple(
            replace(verdict.memory, id=name)
            for verdict, name in zip(judged, ids, strict=True)
            if verdict.memory is not None
        )
        return Draft(replace(document, notes=tuple(notes)), record, memories, before)

    @property
    def _key(self) -> bytes:
        return self.collection.memory.tombstones.key

    def _digest(self, plain: str) -> str:
        return mark(self._key, "content", plain)

    def _same(self, record: Record, digest: str, chunker: Chunker) -> bool:
        return record.digest == self._digest(digest) and record.recipe == chunker.fingerprint

    def _unchanged(self, record: Record, location: str) -> IngestLine:
        if record.location == location:
            return IngestLine(record.source, IngestAction.UNCHANGED)
        self.collection.manifest.put(replace(record, location=location))
        return IngestLine(record.source, IngestAction.UNCHANGED, "moved")


def _without(message: str, source: str) -> str:
    return message.removeprefix(f"{source}: ")
