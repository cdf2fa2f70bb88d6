"""Exporter: one state of a namespace as lines, in an order that is always the same, in bounded memory.

A revision means something in its own file alone, so an export numbers the versions of a memory.
"""

from __future__ import annotations

import os
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, Any, Final

from tellback.memory.codec import from_entry
from tellback.memory.entry_store import EntryStore
from tellback.memory.erasure.external_copies import EXPORT_KIND, STREAM_PATH
from tellback.memory.errors import ArgumentError
from tellback.memory.export_import.codec import (
    ExportManifest,
    item_line,
    lines_hasher,
    memory_fields,
    message_fields,
    operation_fields,
    session_fields,
    tombstone_fields,
    vector_to_text,
)
from tellback.memory.export_import.markdown_notes import write_notes
from tellback.memory.export_import.report import ExportItem, ExportReport
from tellback.memory.models import MemoryChange
from tellback.memory.partitions import ARCHIVE, CONVERSATION, DOCUMENTS, parse_store_namespace, store_namespace
from tellback.memory.scopes import Scopes, scope_filter
from tellback.memory.tables.erasers import ExportedPart
from tellback.memory.tables.operation_log import IMPORT_KIND, NO_MEMORY, OperationLog
from tellback.memory.tables.tombstones import Tombstones
from tellback.memory.write.access_control import Caller
from tellback.memory.write.embedding_service import EmbeddingService
from tellback.vectorstore import Filter, Finding
from tellback.vectorstore.sqlite import atomic_write, remove_abandoned_files

_PAGE_SIZE: Final = 256
_BUFFER_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """Filters that limit an export; without any it is complete."""

    where: Filter | None = None
    scopes: Scopes | None = None
    tags: Sequence[str] = ()

    @property
    def filter(self) -> Filter | None:
        """The filters as one; None for a complete export."""
        return scope_filter(self.scopes, self.tags, self.where)

    def fields(self) -> dict[str, Any] | None:
        """Return the filters as the manifest holds them; None for a complete export."""
        if self.filter is None:
            return None
        return {"where": self.where, "scopes": self.scopes, "tags": list(self.tags)}


@dataclass(frozen=True, slots=True)
class VersionNumbers:
    """The archived *revisions* of each memory that has some, in order; the first is version 1.

    *names* are the ids of the versions in an export, by their ids in the archive.
    """

    revisions: Mapping[str, Sequence[int]]
    names: Mapping[str, str]

    @classmethod
    def of(cls, entries: EntryStore, namespace: str) -> VersionNumbers:
        """Return those of a namespace."""
        revisions: dict[str, list[int]] = {}
        for entry in entries.store.scan(namespace=store_namespace(namespace, ARCHIVE)):
            owner, _, revision = entry.id.rpartition("@")
            insort(revisions.setdefault(owner, []), int(revision))
        numbered = ((owner, *pair) for owner, numbers in revisions.items() for pair in enumerate(numbers, start=1))
        return cls(revisions, {f"{owner}@{revision}": f"{owner}@{number}" for owner, number, revision in numbered})

    def portable(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return a memory's fields with version numbers in the place of revisions."""
        if (superseded := fields.get("supersedes")) is not None:
            fields["supersedes"] = self.names.get(superseded, superseded)
        if "derived_from" in fields:
            fields["derived_from"] = [self.names.get(id, id) for id in fields["derived_from"]]
        return fields

    def changes(self, changes: Sequence[MemoryChange]) -> tuple[MemoryChange, ...]:
        """Return *changes* with version numbers in the place of revisions."""
        return tuple(
            change
            if change.before is None
            else replace(change, before=bisect_left(self.revisions.get(change.id, ()), change.before) + 1)
            for change in changes
        )


@contextmanager
def _opened_target(path: str | os.PathLike[str] | IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the name under which an export is recorded, and the private file to write it into."""
    if not isinstance(path, str | os.PathLike):
        with TemporaryFile() as file:
            yield STREAM_PATH, file
            file.seek(0)
            copyfileobj(file, path, _BUFFER_BYTES)
        return
    target = Path(os.fsdecode(path)).absolute()
    if os.path.lexists(target):
        raise ArgumentError("path", str(path), "a path where nothing is yet is needed")
    remove_abandoned_files(target.parent)
    with atomic_write(target, token=os.urandom) as private, private.open("r+b", buffering=_BUFFER_BYTES) as file:
        yield str(target), file


@dataclass(frozen=True, slots=True)
class Exporter:
    """Writes namespaces to files. *parts* is the list to which other parts of the memory add themselves."""

    entries: EntryStore
    operations: OperationLog
    tombstones: Tombstones
    embedding: EmbeddingService
    parts: Sequence[ExportedPart]

    def export(
        self,
        path: str | os.PathLike[str] | IO[bytes],
        caller: Caller,
        selection: ExportSelection,
        *,
        vectors: bool,
        on_progress: Callable[[int], object] | None,
    ) -> ExportReport:
        """Write the caller's namespace to *path*, where no file may be yet; it is written whole or not at all. Blocks.

        The export is recorded in the operation log before its file is in place, so that no file is unknown. A stream
        gets it once it is whole, from a temporary file.
        """
        space, database = self.entries.store.space if vectors else None, self.entries.database
        answers = None if space is None else self.embedding.probes.get(space.fingerprint)
        probes = None if answers is None else tuple(map(vector_to_text, answers))
        kinds = [*map(str, ExportItem), *(part.line for part in self.parts)]
        manifest = ExportManifest(space, vectors, probes, selection.fields(), dict.fromkeys(kinds, 0))
        counts: Counter[str] = Counter()
        damaged: list[Finding] = []
        digest = lines_hasher()
        with _opened_target(path) as (target, file):
            view: AbstractContextManager[Any] = nullcontext() if database is None else database.read()
            with view:
                file.write(manifest.line())
                for item in self._items(caller.namespace, selection.filter, damaged.append, vectors=vectors):
                    line = item_line(item)
                    digest.update(line)
                    file.write(line)
                    counts[item["type"]] += 1
                    if on_progress is not None and not counts.total() % _PAGE_SIZE:
                        on_progress(counts.total())
                manifest = replace(manifest, counts={**manifest.counts, **counts}, hash=digest.hexdigest())
                file.seek(0)
                file.write(manifest.line())
                file.flush()
            if on_progress is not None:
                on_progress(counts.total())
            operation = None
            if database is None or not database.read_only:
                facts = {"path": target, "hash": manifest.hash, "items": counts.total()}
                change = MemoryChange(NO_MEMORY, new=facts)
                with self.entries.transaction(caller.namespace):
                    operation = self.operations.record(caller.namespace, EXPORT_KIND, caller.actor, [change]).id
        return ExportReport(target, manifest.counts, manifest.hash, vectors, operation, tuple(damaged))

    def export_notes(self, folder: Path, caller: Caller, selection: ExportSelection) -> ExportReport:
        """Write the caller's memories, conversations apart, as notes into the new *folder*, and record it. Blocks."""
        partition = store_namespace(caller.namespace, CONVERSATION)
        where: Filter = {"$and": [{"kind": {"$ne": "turn"}}, *([selection.filter] if selection.filter else [])]}
        entries = self.entries.store.scan(namespace=partition, where=where)
        folder = folder.absolute()
        count, digest = write_notes(folder, map(from_entry, entries))
        change = MemoryChange(NO_MEMORY, new={"path": str(folder), "hash": digest, "items": count})
        with self.entries.transaction(caller.namespace):
            operation = self.operations.record(caller.namespace, EXPORT_KIND, caller.actor, [change]).id
        return ExportReport(str(folder), {ExportItem.MEMORY: count}, digest, False, operation)

    def _items(
        self, namespace: str, where: Filter | None, on_damage: Callable[[Finding], object], *, vectors: bool
    ) -> Iterator[dict[str, Any]]:
        """Yield every item as a JSON object; of a selection, memories and what belongs to them."""
        numbers = VersionNumbers.of(self.entries, namespace)
        ids: set[str] | None = None if where is None else set()
        documents = sorted(self.entries.document_partitions(namespace))
        for partition in (store_namespace(namespace, CONVERSATION), *documents):
            collection = parse_store_namespace(partition)[2]
            place = {} if collection is None else {"collection": collection}
            kind = ExportItem.PASSAGE if place else ExportItem.MEMORY
            for entry in self.entries.store.scan(namespace=partition, where=where):
                if ids is not None:
                    ids.add(entry.id)
                yield {"type": kind, **place, **numbers.portable(memory_fields(entry, vectors=vectors))}
        yield from self._version_items(namespace, numbers, ids, vectors=vectors)
        yield from self._message_items(namespace, ids, on_damage)
        yield from self._operation_items(namespace, numbers, ids)
        if ids is None:
            for part in self.parts:
                for fields in part.lines(namespace):
                    yield {"type": part.line, **fields}
            yield from self._tombstone_items(namespace)

    def _version_items(
        self, namespace: str, numbers: VersionNumbers, ids: set[str] | None, *, vectors: bool
    ) -> Iterator[dict[str, Any]]:
        archive = store_namespace(namespace, ARCHIVE)
        for owner, revisions in sorted(numbers.revisions.items()):
            if ids is not None and owner not in ids:
                continue
            versions = self.entries.store.get([f"{owner}@{number}" for number in revisions], namespace=archive)
            for number, entry in enumerate(versions, start=1):
                if entry is not None:
                    fields = numbers.portable(memory_fields(entry, vectors=vectors))
                    yield {"type": ExportItem.VERSION, **fields, "id": owner, "version": number}

    def _message_items(
        self, namespace: str, ids: set[str] | None, on_damage: Callable[[Finding], object]
    ) -> Iterator[dict[str, Any]]:
        """Yield messages, hidden by a retention or not, and sessions whose numbers went on behind their last message.

        Thereby no number is given twice in the other file either. Damaged messages are passed over.
        """
        next_numbers: dict[str, int] = {}
        for row in self.entries.rows.kept(namespace=namespace, on_damage=on_damage):
            if ids is None or row.memory in ids:
                next_numbers[row.session] = row.sequence + 1
                yield message_fields(row)
        if ids is None:
            for session, number in self.entries.rows.next_numbers(namespace=namespace):
                if number > next_numbers.get(session, 1):
                    yield session_fields(session, number)

    def _operation_items(
        self, namespace: str, numbers: VersionNumbers, ids: set[str] | None
    ) -> Iterator[dict[str, Any]]:
        # the log is read from its end, and written from its beginning: the ids are kept, the operations are not
        newest_first: list[str] = []
        before: str | None = None
        while page := self.operations.list(namespace, before=before, limit=_PAGE_SIZE):
            newest_first += [operation.id for operation in page if operation.kind not in (EXPORT_KIND, IMPORT_KIND)]
            before = page[-1].id
        for id in reversed(newest_first):
            if operation := self.operations.get(namespace, id):
                changes = [change for change in operation.changes if ids is None or change.id in ids]
                if changes:
                    yield operation_fields(operation, numbers.changes(changes))

    def _tombstone_items(self, namespace: str) -> Iterator[dict[str, Any]]:
        for partition in self.tombstones.partitions():
            owner, kind, collection = parse_store_namespace(partition)
            if owner != namespace or kind not in (CONVERSATION, DOCUMENTS):
                continue
            after = ""
            while page := self.tombstones.ids(partition, after=after, limit=_PAGE_SIZE):
                for id, time in page:
                    yield tombstone_fields(collection, id, time)
                after = page[-1][0]
