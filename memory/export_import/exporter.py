"""Exporter: one state of a namespace as lines, in an order that is always the same, in bounded memory.

A revision means something in its own file alone, so an export numbers the versions of a memory.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from memory.erasure.external_copies import EXPORT_KIND, export_change
from memory.errors import ArgumentError
from memory.export_import.codec import (
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
from memory.export_import.report import ExportItem, ExportReport
from memory.models import Actor, MemoryChange
from memory.partitions import ARCHIVE, CONVERSATION, DOCUMENTS, parse_store_namespace, store_namespace
from memory.scopes import Scopes, scope_filter
from memory.tables.operation_log import IMPORT_KIND
from memory.validation import checked_actor, checked_labels
from memory.write.context import WriteContext
from vectorstore import Filter, Space
from vectorstore.sqlite import atomic_write


@dataclass(frozen=True, slots=True)
class VersionNumbers:
    """The archived revisions of each memory that has some, in order; the first is version 1."""

    revisions: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, context: WriteContext, namespace: str) -> VersionNumbers:
        """Return those of a namespace."""
        found: dict[str, list[int]] = {}
        for entry in context.store.scan(namespace=store_namespace(namespace, ARCHIVE)):
            owner, _, revision = entry.id.rpartition("@")
            found.setdefault(owner, []).append(int(revision))
        return cls({owner: sorted(revisions) for owner, revisions in found.items()})

    def owners(self) -> Iterator[tuple[str, Sequence[int]]]:
        """Yield each memory with its archived revisions, in order."""
        for owner in sorted(self.revisions):
            yield owner, self.revisions[owner]

    def portable(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return a memory's fields with versions by number where they name one."""
        if "supersedes" in fields:
            fields["supersedes"] = self._named(fields["supersedes"])
        if "derived_from" in fields:
            fields["derived_from"] = [self._named(one) for one in fields["derived_from"]]
        return fields

    def changes(self, changes: Sequence[MemoryChange]) -> tuple[MemoryChange, ...]:
        """Return *changes* with the number of the version that each found."""
        return tuple(
            one if one.before is None else replace(one, before=self._number(one.id, one.before)) for one in changes
        )

    def _named(self, reference: str) -> str:
        owner, at, revision = reference.rpartition("@")
        if not at or not revision.isdecimal() or int(revision) not in self.revisions.get(owner, ()):
            return reference
        return f"{owner}@{self._number(owner, int(revision))}"

    def _number(self, owner: str, revision: int) -> int:
        return bisect_left(self.revisions.get(owner, ()), revision) + 1


_PAGE_SIZE: Final = 256
_BUFFER_BYTES: Final = 1 << 20


def export_namespace(
    context: WriteContext,
    path: str | os.PathLike[str],
    namespace: str,
    *,
    vectors: bool,
    where: Filter | None,
    scopes: Scopes | None,
    tags: Sequence[str],
    actor: Actor,
    on_progress: Callable[[int], object] | None,
) -> ExportReport:
    """Write *namespace* to *path*, where nothing may be; the file is there whole or not at all."""
    checked_actor(actor, "actor")
    target = Path(os.fsdecode(path)).absolute()
    if os.path.lexists(target):
        raise ArgumentError("path", str(path), "a path where nothing is yet is needed")
    chosen = scope_filter(scopes, checked_labels(tags, "tags"), where)
    space = context.store.space if vectors else None
    kinds = [*(item.value for item in ExportItem), *(part.line for part in context.carried)]
    selection = _selection_fields(where, scopes, tags) if chosen is not None else None
    manifest = ExportManifest(
        space, vectors, dict.fromkeys(kinds, 0), selection=selection, probes=_probe_texts(context, space)
    )
    counts: Counter[str] = Counter()
    digest = lines_hasher()
    with _whole_file(target) as private:
        with private.open("r+b", buffering=_BUFFER_BYTES) as file, _consistent_view(context):
            file.write(manifest.line())
            for item in _export_items(context, namespace, chosen, vectors=vectors):
                line = item_line(item)
                digest.update(line)
                file.write(line)
                counts[item["type"]] += 1
                if on_progress is not None and not counts.total() % _PAGE_SIZE:
                    on_progress(counts.total())
            manifest = replace(manifest, counts={**manifest.counts, **counts}, hash=digest.hexdigest())
            file.seek(0)
            file.write(manifest.line())
        if on_progress is not None:
            on_progress(counts.total())
        operation = _record_export(
            context, namespace, str(target), manifest, actor
        )  # before it is there, so never unknown
    return ExportReport(str(target), manifest.counts, manifest.hash, vectors, operation)


def _record_export(
    context: WriteContext, namespace: str, path: str, manifest: ExportManifest, actor: Actor
) -> str | None:
    if context.database is not None and context.database.read_only:
        return None
    operation = context.operation_ids()
    facts = {"path": path, "hash": manifest.hash, "items": sum(manifest.counts.values())}
    with context.transaction():
        context.log(namespace, operation, EXPORT_KIND, actor, [export_change(facts)])
    return operation


def _export_items(
    context: WriteContext, namespace: str, chosen: Filter | None, *, vectors: bool
) -> Iterator[dict[str, Any]]:
    numbers = VersionNumbers.of(context, namespace)
    ids: set[str] | None = None if chosen is None else set()
    for lane in (store_namespace(namespace, CONVERSATION), *sorted(context.document_lanes(namespace))):
        collection = parse_store_namespace(lane)[2]
        kind = {"type": ExportItem.MEMORY.value} if collection is None else _passage_fields(collection)
        for entry in context.store.scan(namespace=lane, where=chosen):
            if ids is not None:
                ids.add(entry.id)
            yield {**kind, **numbers.portable(memory_fields(entry, vectors=vectors))}
    yield from _version_items(context, namespace, numbers, ids, vectors=vectors)
    yield from _message_items(context, namespace, ids)
    yield from _operation_items(context, namespace, numbers, ids)
    if ids is None:
        for part in context.carried:
            for fields in part.lines(namespace):
                yield {"type": part.line, **fields}
        yield from _tombstone_items(context, namespace)


def _version_items(
    context: WriteContext, namespace: str, numbers: VersionNumbers, ids: set[str] | None, *, vectors: bool
) -> Iterator[dict[str, Any]]:
    archive = store_namespace(namespace, ARCHIVE)
    for owner, revisions in numbers.owners():
        if ids is not None and owner not in ids:
            continue
        archived = [f"{owner}@{revision}" for revision in revisions]
        for number, entry in enumerate(context.store.get(archived, namespace=archive), start=1):
            if entry is not None:
                fields = numbers.portable(memory_fields(entry, vectors=vectors))
                yield {"type": ExportItem.VERSION.value, **fields, "id": owner, "version": number}


def _message_items(context: WriteContext, namespace: str, ids: set[str] | None) -> Iterator[dict[str, Any]]:
    """Yield messages, those too that a retention has hidden and not taken; and sessions whose numbers went on.

    That no number is given twice holds in the other file too, where the last messages of a session are gone.
    """
    follows: dict[str, int] = {}
    for row in context.rows.kept(namespace=namespace):
        if ids is None or row.memory in ids:
            follows[row.session] = row.sequence + 1
            yield message_fields(row)
    if ids is None:
        for session, number in context.rows.next_numbers(namespace=namespace):
            if number > follows.get(session, 1):
                yield session_fields(session, number)


def _operation_items(
    context: WriteContext, namespace: str, numbers: VersionNumbers, ids: set[str] | None
) -> Iterator[dict[str, Any]]:
    # the log is read from its end, and written from its beginning: the ids are held, the operations are not
    order: list[str] = []
    before: str | None = None
    while page := context.operations.list(namespace, before=before, limit=_PAGE_SIZE):
        order += [one.id for one in page if one.kind not in (EXPORT_KIND, IMPORT_KIND)]
        before = page[-1].id
    for one in reversed(order):
        operation = context.operations.get(namespace, one)
        if operation is not None:
            changes = tuple(change for change in operation.changes if ids is None or change.id in ids)
            if changes:
                yield operation_fields(operation, numbers.changes(changes))


def _tombstone_items(context: WriteContext, namespace: str) -> Iterator[dict[str, Any]]:
    for lane in context.tombstones.lanes():
        owner, kind, collection = parse_store_namespace(lane)
        if owner != namespace or kind not in (CONVERSATION, DOCUMENTS):
            continue
        after = ""
        while page := context.tombstones.ids(lane, after=after, limit=_PAGE_SIZE):
            for id, at in page:
                yield tombstone_fields(collection, id, at)
            after = page[-1][0]


def _probe_texts(context: WriteContext, space: Space | None) -> tuple[str, ...] | None:
    rows = None if space is None else context.embedding.probes.get(space.fingerprint)
    return None if rows is None else tuple(map(vector_to_text, rows))


def _passage_fields(collection: str) -> dict[str, Any]:
    return {"type": ExportItem.PASSAGE.value, "collection": collection}


def _selection_fields(where: Filter | None, scopes: Scopes | None, tags: Sequence[str]) -> dict[str, Any]:
    return {"where": where, "scopes": scopes, "tags": list(tags)}


def _consistent_view(context: WriteContext) -> AbstractContextManager[Any]:
    """All that is read is one state of the file; a store without one is read as it is."""
    database = context.database
    state: AbstractContextManager[Any] = nullcontext() if database is None else database.read()
    return state


def _whole_file(target: Path) -> AbstractContextManager[Path]:
    return atomic_write(target, token=os.urandom)
