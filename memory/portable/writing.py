"""Writing an export: one state of a namespace as lines, in an order that is always the same, in bounded memory."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from memory.erasure.unreached import EXPORT, export_recorded
from memory.errors import ArgumentError
from memory.lanes import ARCHIVE, CONVERSATION, DOCUMENTS, lane_of, store_namespace
from memory.portable.items import (
    forgotten_fields,
    line_of,
    memory_fields,
    message_fields,
    operation_fields,
    session_fields,
)
from memory.portable.manifest import Manifest, hasher, text_of
from memory.portable.report import ExportReport, Item
from memory.portable.versions import Numbers
from memory.records import Actor
from memory.scopes import Scopes, filter_of
from memory.write.checking import actor_named, names
from memory.write.context import WriteContext
from memory.write.operations import IMPORT
from vectorstore import Filter, Space
from vectorstore.sqlite import placed_whole

_PAGE: Final = 256
_BUFFER: Final = 1 << 20


def export(
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
    actor_named(actor, "actor")
    target = Path(os.fsdecode(path)).absolute()
    if os.path.lexists(target):
        raise ArgumentError("path", str(path), "a path where nothing is yet is needed")
    chosen = filter_of(scopes, names(tags, "tags"), where)
    space = context.store.space if vectors else None
    kinds = [*(item.value for item in Item), *(part.line for part in context.carried)]
    selection = _selection(where, scopes, tags) if chosen is not None else None
    manifest = Manifest(space, vectors, dict.fromkeys(kinds, 0), selection=selection, probes=_probes(context, space))
    counts: Counter[str] = Counter()
    digest = hasher()
    with _placed(target) as private:
        with private.open("r+b", buffering=_BUFFER) as file, _one_state(context):
            file.write(manifest.line())
            for item in _items(context, namespace, chosen, vectors=vectors):
                line = line_of(item)
                digest.update(line)
                file.write(line)
                counts[item["type"]] += 1
                if on_progress is not None and not counts.total() % _PAGE:
                    on_progress(counts.total())
            manifest = replace(manifest, counts={**manifest.counts, **counts}, hash=digest.hexdigest())
            file.seek(0)
            file.write(manifest.line())
        if on_progress is not None:
            on_progress(counts.total())
        operation = _record(context, namespace, str(target), manifest, actor)  # before it is there, so never unknown
    return ExportReport(str(target), manifest.counts, manifest.hash, vectors, operation)


def _record(context: WriteContext, namespace: str, path: str, manifest: Manifest, actor: Actor) -> str | None:
    if context.database is not None and context.database.read_only:
        return None
    operation = context.operation_ids()
    facts = {"path": path, "hash": manifest.hash, "items": sum(manifest.counts.values())}
    with context.transaction():
        context.log(namespace, operation, EXPORT, actor, [export_recorded(facts)])
    return operation


def _items(context: WriteContext, namespace: str, chosen: Filter | None, *, vectors: bool) -> Iterator[dict[str, Any]]:
    numbers = Numbers.of(context, namespace)
    ids: set[str] | None = None if chosen is None else set()
    for lane in (store_namespace(namespace, CONVERSATION), *sorted(context.document_lanes(namespace))):
        collection = lane_of(lane)[2]
        kind = {"type": Item.MEMORY.value} if collection is None else _passage(collection)
        for entry in context.store.scan(namespace=lane, where=chosen):
            if ids is not None:
                ids.add(entry.id)
            yield {**kind, **numbers.portable(memory_fields(entry, vectors=vectors))}
    yield from _versions(context, namespace, numbers, ids, vectors=vectors)
    yield from _messages(context, namespace, ids)
    yield from _operations(context, namespace, numbers, ids)
    if ids is None:
        for part in context.carried:
            for fields in part.lines(namespace):
                yield {"type": part.line, **fields}
        yield from _forgotten(context, namespace)


def _versions(
    context: WriteContext, namespace: str, numbers: Numbers, ids: set[str] | None, *, vectors: bool
) -> Iterator[dict[str, Any]]:
    archive = store_namespace(namespace, ARCHIVE)
    for owner, revisions in numbers.owners():
        if ids is not None and owner not in ids:
            continue
        archived = [f"{owner}@{revision}" for revision in revisions]
        for number, entry in enumerate(context.store.get(archived, namespace=archive), start=1):
            if entry is not None:
                fields = numbers.portable(memory_fields(entry, vectors=vectors))
                yield {"type": Item.VERSION.value, **fields, "id": owner, "version": number}


def _messages(context: WriteContext, namespace: str, ids: set[str] | None) -> Iterator[dict[str, Any]]:
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


def _operations(
    context: WriteContext, namespace: str, numbers: Numbers, ids: set[str] | None
) -> Iterator[dict[str, Any]]:
    # the log is read from its end, and written from its beginning: the ids are held, the operations are not
    order: list[str] = []
    before: str | None = None
    while page := context.operations.list(namespace, before=before, limit=_PAGE):
        order += [one.id for one in page if one.kind not in (EXPORT, IMPORT)]
        before = page[-1].id
    for one in reversed(order):
        operation = context.operations.get(namespace, one)
        if operation is not None:
            changes = tuple(change for change in operation.changes if ids is None or change.id in ids)
            if changes:
                yield operation_fields(operation, numbers.changes(changes))


def _forgotten(context: WriteContext, namespace: str) -> Iterator[dict[str, Any]]:
    for lane in context.tombstones.lanes():
        owner, kind, collection = lane_of(lane)
        if owner != namespace or kind not in (CONVERSATION, DOCUMENTS):
            continue
        after = ""
        while page := context.tombstones.ids(lane, after=after, limit=_PAGE):
            for id, at in page:
                yield forgotten_fields(collection, id, at)
            after = page[-1][0]


def _probes(context: WriteContext, space: Space | None) -> tuple[str, ...] | None:
    rows = None if space is None else context.embedding.probes.get(space.fingerprint)
    return None if rows is None else tuple(map(text_of, rows))


def _passage(collection: str) -> dict[str, Any]:
    return {"type": Item.PASSAGE.value, "collection": collection}


def _selection(where: Filter | None, scopes: Scopes | None, tags: Sequence[str]) -> dict[str, Any]:
    return {"where": where, "scopes": scopes, "tags": list(tags)}


def _one_state(context: WriteContext) -> AbstractContextManager[Any]:
    """All that is read is one state of the file; a store without one is read as it is."""
    database = context.database
    state: AbstractContextManager[Any] = nullcontext() if database is None else database.read()
    return state


def _placed(target: Path) -> AbstractContextManager[Path]:
    return placed_whole(target, token=os.urandom)
