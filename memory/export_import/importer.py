"""Importer: every line is checked first, then taken batch by batch, so that others can write between.

A batch is one transaction, and a memory comes with its earlier versions in it. A process that is killed has taken some
batches whole; importing again takes the rest and nothing twice. Mode "replace" is one transaction from the first line
to the last: what was here is gone when all of the file is there, and not before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Final

from memory.codec import from_entry
from memory.erasure.external_copies import ExternalCopies
from memory.errors import ArgumentError, NotTrusted
from memory.export_import.apply import apply_items, apply_memories, note_settled_passages, replace_history
from memory.export_import.import_job import ImportJob, adopt_space, check_vector_model
from memory.export_import.policy_check import ExportPolicyCheck, ItemDecision, NumberedItem
from memory.export_import.reader import CheckedExport, check_export
from memory.export_import.report import ExportItem, ImportMode, ImportReport
from memory.models import Actor, Trust
from memory.partitions import CONVERSATION, prefix_of, store_namespace
from memory.tables.erasers import ErasedItems
from memory.tables.operation_log import namespace_replaced
from memory.timestamps import to_aware
from memory.write.access_control import actor_trust, check_may_change
from memory.write.context import WriteContext
from vectorstore import Entry


def trust_ceiling(context: WriteContext, checked: CheckedExport, namespace: str, trust: Trust | None) -> Trust | None:
    """Return the most trust that anything in the file may have: what the caller says, else its own word if the
    memory itself recorded that it wrote this very file, else that of a document."""
    if trust is not None:
        return trust
    own = {
        change.new.get("hash")
        for one in ExternalCopies(context.entries, context.operations).exports(namespace)
        for change in one.changes
    }
    return None if checked.manifest.hash in own else Trust.DOCUMENT


def check_import_mode(mode: object, checked: CheckedExport) -> None:
    """Refuse to replace everything by a part."""
    if mode == "replace" and checked.manifest.selection is not None:
        raise ArgumentError(
            "mode", mode, "merge or upsert: the file holds a selection, and would replace all that is here"
        )


def check_may_replace(context: WriteContext, namespace: str, actor: Actor) -> None:
    """Raise ``NotTrusted`` where a namespace holds what is trusted more than *actor*, who would replace all of it."""
    for lane in context.store.namespaces():
        if lane.startswith(prefix_of(namespace)):
            check_may_change(actor, map(from_entry, context.store.scan(namespace=lane)), "replace")
    for session in context.rows.sessions(namespace=namespace, limit=1):
        raise NotTrusted(session.session, "replace", actor, Trust.USER, "session")


_PAGE: Final = 256
_REVISION_BATCH: Final = 1000


def clear_namespace(context: WriteContext, namespace: str, *, dry_run: bool) -> int:
    """Remove all that a namespace holds; return how many entries. Inside the transaction of the import.

    What was forgotten, and which files are the owner's own, stays known.
    """
    store = context.lifecycle("import")
    lanes = [lane for lane in store.namespaces() if lane.startswith(prefix_of(namespace))]
    removed = sum(store.count(namespace=lane) for lane in lanes)
    if dry_run:
        return removed
    own, now = (
        list(ExternalCopies(context.entries, context.operations).exports(namespace)),
        to_aware(context.clock(), context.zone),
    )
    for lane in lanes:
        while page := list(islice(store.scan(namespace=lane), _PAGE)):
            ids = [entry.id for entry in page]
            _run_erasers(context, ErasedItems(namespace, now, {lane: ids}, frozenset(entry.text for entry in page)))
            store.erase(ids, namespace=lane)
    _run_erasers(context, ErasedItems(namespace, now, {}, frozenset(), everything=True))
    if not context.apart:  # else it comes after the commit, with what takes its place
        context.rows.erase_namespace(namespace)
    context.operations.clear(namespace)
    for one in reversed(own):
        context.operations.add(namespace, one)
    return removed


def raise_revisions(context: WriteContext, namespace: str, versions: int, token: str) -> None:
    """Lift the write number above *versions*: what is written then is newer than every version of that number."""
    store, lane = context.lifecycle("import"), store_namespace(namespace, CONVERSATION)
    for start in range(0, versions, _REVISION_BATCH):
        ids = [f"import {token} {at}" for at in range(start, min(start + _REVISION_BATCH, versions))]
        store.upsert((Entry(id) for id in ids), namespace=lane)
        store.erase(ids, namespace=lane)


def _run_erasers(context: WriteContext, gone: ErasedItems) -> None:
    for eraser in context.erasers:
        eraser.erase(gone)


OnImportProgress = Callable[[int, int], object] | None


async def import_file(
    context: WriteContext,
    path: Path,
    namespace: str,
    *,
    mode: ImportMode,
    trust: Trust | None,
    dry_run: bool,
    actor: Actor,
    on_progress: OnImportProgress,
) -> ImportReport:
    """Take the file in; return what became of each item."""
    context.lifecycle("import")
    checked = await asyncio.to_thread(check_export, context, path, namespace, None)
    check_import_mode(mode, checked)
    ceiling = await asyncio.to_thread(trust_ceiling, context, checked, namespace, trust)
    if (word := actor_trust(actor)) is not Trust.USER:
        ceiling = Trust.least([ceiling or Trust.USER, word])
        if mode == "replace":
            await asyncio.to_thread(check_may_replace, context, namespace, actor)
    course = ImportJob(context, namespace, mode, checked, ceiling, dry_run, actor, context.operation_ids())
    deciding = ExportPolicyCheck(course)
    await check_vector_model(course)
    await asyncio.to_thread(_find_existing, course)
    if mode == "replace":
        decided: dict[int, ItemDecision] = {}
        for batch in _memory_batches(checked):
            decided |= await deciding.of(batch)
        await asyncio.to_thread(_replace_namespace, course, decided, on_progress)
    else:
        await asyncio.to_thread(_in_transaction, course, _begin_import)
        done = 0
        for numbers in checked.batches(checked.operations):
            done += await asyncio.to_thread(_apply_other_items, course, numbers)
            _report_progress(on_progress, done, checked)
        for batch in _memory_batches(checked):
            verdicts = await deciding.of(batch)
            done += await asyncio.to_thread(_apply_memory_batch, course, batch, verdicts)
            _report_progress(on_progress, done, checked)
        for numbers in checked.batches(checked.others):
            done += await asyncio.to_thread(_apply_other_items, course, numbers)
            _report_progress(on_progress, done, checked)
    _report_progress(on_progress, checked.total, checked)
    return _import_report(course)


def _replace_namespace(course: ImportJob, decided: Mapping[int, ItemDecision], on_progress: OnImportProgress) -> None:
    """Put the file in the place of what is here, in one transaction."""
    checked = course.checked
    with _import_transaction(course):
        course.removed = clear_namespace(course.context, course.namespace, dry_run=course.dry_run)
        course.changes += [namespace_replaced(course.removed)] if course.removed else []
        for numbers in checked.batches(checked.others):
            note_settled_passages(course, list(checked.lines(numbers)))
        _begin_import(course)
        done = 0
        for numbers in checked.batches(checked.operations):
            done += _apply_other_items(course, numbers)
            _report_progress(on_progress, done, checked)
        for batch in _memory_batches(checked):
            done += _apply_memory_batch(course, batch, decided)
            _report_progress(on_progress, done, checked)
        course.log()
        for numbers in checked.batches(checked.others):
            done += _apply_other_items(course, numbers)
            _report_progress(on_progress, done, checked)
    if course.context.apart and not course.dry_run:
        replace_history(course)


def _find_existing(course: ImportJob) -> None:
    """See what of the file is here under another name."""
    context, namespace, checked = course.context, course.namespace, course.checked
    if course.mode == "replace":
        return
    lane = store_namespace(namespace, CONVERSATION)
    names = {id: context.id_of_key(namespace, key) for id, key in checked.keys.items()}
    there = context.store.get(list(names.values()), namespace=lane)
    for (id, here), entry in zip(names.items(), there, strict=True):
        if entry is not None and id != here:
            course.here[id] = here
    for numbers in checked.batches(checked.others):
        note_settled_passages(course, list(checked.lines(numbers)))


def _begin_import(course: ImportJob) -> None:
    if not course.dry_run:
        raise_revisions(course.context, course.namespace, course.checked.versions, course.operation)
    course.vectors = adopt_space(course)


def _apply_other_items(course: ImportJob, numbers: Sequence[int]) -> int:
    batch = list(course.checked.lines(numbers))
    _in_transaction(course, lambda one: apply_items(one, batch))
    return len(batch)


def _apply_memory_batch(course: ImportJob, batch: Sequence[NumberedItem], decided: Mapping[int, ItemDecision]) -> int:
    def write(course: ImportJob) -> None:
        course.vectors = adopt_space(course)  # the memory may have been switched to other vectors since the last batch
        apply_memories(course, batch, decided)
        course.log()

    _in_transaction(course, write)
    return len(batch)


def _in_transaction(course: ImportJob, work: Callable[[ImportJob], object]) -> None:
    with _import_transaction(course):
        work(course)


def _import_transaction(course: ImportJob) -> AbstractContextManager[object]:
    return nullcontext() if course.dry_run else course.context.lifecycle("import").transaction()


def _memory_batches(checked: CheckedExport) -> Iterator[list[NumberedItem]]:
    """Yield memories and passages, each memory with its earlier versions; then what has earlier versions alone."""
    for numbers in checked.batches(checked.memories):
        batch = list(checked.lines(numbers))
        owners = (given["id"] for _, given in batch if given["type"] == ExportItem.MEMORY)
        yield batch + list(checked.lines(_version_lines(checked, owners)))
    alone: list[int] = []
    for owner in checked.by_owner:
        if owner not in checked.owners:
            alone += checked.by_owner[owner]
            if len(alone) >= 1000:
                yield list(checked.lines(alone))
                alone = []
    if alone:
        yield list(checked.lines(alone))


def _version_lines(checked: CheckedExport, owners: Iterable[str]) -> list[int]:
    return [number for owner in owners if owner in checked.by_owner for number in checked.by_owner[owner]]


def _report_progress(on_progress: OnImportProgress, done: int, checked: CheckedExport) -> None:
    if on_progress is not None:
        on_progress(done, checked.total)


def _import_report(course: ImportJob) -> ImportReport:
    manifest, notes = course.checked.manifest, list(course.notes)
    if course.comparable and not course.vectors:
        notes.append(f"its vectors are of {manifest.space}, not of this memory's space: they are made anew")
    if not course.believed and any(course.left.values()):
        notes.append(
            "history, log and tombstones were not taken: the file is not known as this memory's own export; "
            "say trust=user if it is yours"
        )
    return ImportReport(
        lines=tuple(sorted(course.lines, key=lambda one: one.line)),
        taken=dict(course.taken),
        left=dict(course.left),
        trusted=course.believed,
        removed=course.removed,
        dry_run=course.dry_run,
        operation=course.operation if course.logged else None,
        notes=tuple(notes),
    )
