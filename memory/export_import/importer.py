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
from memory.erasure.external_copies import exports
from memory.errors import ArgumentError, NotTrusted
from memory.export_import.apply import place, replace_history, settle, take
from memory.export_import.import_job import Course, check_model, take_space
from memory.export_import.policy_check import Decided, Deciding, Given
from memory.export_import.reader import Checked, checked_file
from memory.export_import.report import ImportReport, Item, Mode
from memory.models import Actor, Trust
from memory.partitions import CONVERSATION, prefix_of, store_namespace
from memory.tables.erasers import Gone
from memory.tables.operation_log import replaced_all
from memory.timestamps import aware
from memory.write.access_control import check_may_change, trust_of
from memory.write.context import WriteContext
from vectorstore import Entry


def ceiling_of(context: WriteContext, checked: Checked, namespace: str, trust: Trust | None) -> Trust | None:
    """Return the most trust that anything in the file may have: what the caller says, else its own word if the
    memory itself recorded that it wrote this very file, else that of a document."""
    if trust is not None:
        return trust
    own = {change.new.get("hash") for one in exports(context, namespace) for change in one.changes}
    return None if checked.manifest.hash in own else Trust.DOCUMENT


def check_mode(mode: object, checked: Checked) -> None:
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
_BATCH: Final = 1000


def make_room(context: WriteContext, namespace: str, *, dry_run: bool) -> int:
    """Remove all that a namespace holds; return how many entries. Inside the transaction of the import.

    What was forgotten, and which files are the owner's own, stays known.
    """
    store = context.lifecycle("import")
    lanes = [lane for lane in store.namespaces() if lane.startswith(prefix_of(namespace))]
    removed = sum(store.count(namespace=lane) for lane in lanes)
    if dry_run:
        return removed
    own, now = list(exports(context, namespace)), aware(context.clock(), context.zone)
    for lane in lanes:
        while page := list(islice(store.scan(namespace=lane), _PAGE)):
            ids = [entry.id for entry in page]
            _ask(context, Gone(namespace, now, {lane: ids}, frozenset(entry.text for entry in page)))
            store.erase(ids, namespace=lane)
    _ask(context, Gone(namespace, now, {}, frozenset(), everything=True))
    if not context.apart:  # else it comes after the commit, with what takes its place
        context.rows.erase_namespace(namespace)
    context.operations.clear(namespace)
    for one in reversed(own):
        context.operations.add(namespace, one)
    return removed


def raise_revisions(context: WriteContext, namespace: str, versions: int, token: str) -> None:
    """Lift the write number above *versions*: what is written then is newer than every version of that number."""
    store, lane = context.lifecycle("import"), store_namespace(namespace, CONVERSATION)
    for start in range(0, versions, _BATCH):
        ids = [f"import {token} {at}" for at in range(start, min(start + _BATCH, versions))]
        store.upsert((Entry(id) for id in ids), namespace=lane)
        store.erase(ids, namespace=lane)


def _ask(context: WriteContext, gone: Gone) -> None:
    for eraser in context.erasers:
        eraser.erase(gone)


Progress = Callable[[int, int], object] | None


async def import_file(
    context: WriteContext,
    path: Path,
    namespace: str,
    *,
    mode: Mode,
    trust: Trust | None,
    dry_run: bool,
    actor: Actor,
    on_progress: Progress,
) -> ImportReport:
    """Take the file in; return what became of each item."""
    context.lifecycle("import")
    checked = await asyncio.to_thread(checked_file, context, path, namespace, None)
    check_mode(mode, checked)
    ceiling = await asyncio.to_thread(ceiling_of, context, checked, namespace, trust)
    if (word := trust_of(actor)) is not Trust.USER:
        ceiling = Trust.least([ceiling or Trust.USER, word])
        if mode == "replace":
            await asyncio.to_thread(check_may_replace, context, namespace, actor)
    course = Course(context, namespace, mode, checked, ceiling, dry_run, actor, context.operation_ids())
    deciding = Deciding(course)
    await check_model(course)
    await asyncio.to_thread(_look_around, course)
    if mode == "replace":
        decided: dict[int, Decided] = {}
        for batch in _memories(checked):
            decided |= await deciding.of(batch)
        await asyncio.to_thread(_replace, course, decided, on_progress)
    else:
        await asyncio.to_thread(_in_one, course, _begin)
        done = 0
        for numbers in checked.batches(checked.operations):
            done += await asyncio.to_thread(_take, course, numbers)
            _tell(on_progress, done, checked)
        for batch in _memories(checked):
            verdicts = await deciding.of(batch)
            done += await asyncio.to_thread(_place, course, batch, verdicts)
            _tell(on_progress, done, checked)
        for numbers in checked.batches(checked.others):
            done += await asyncio.to_thread(_take, course, numbers)
            _tell(on_progress, done, checked)
    _tell(on_progress, checked.total, checked)
    return _report(course)


def _replace(course: Course, decided: Mapping[int, Decided], on_progress: Progress) -> None:
    """Put the file in the place of what is here, in one transaction."""
    checked = course.checked
    with _transaction(course):
        course.removed = make_room(course.context, course.namespace, dry_run=course.dry_run)
        course.changes += [replaced_all(course.removed)] if course.removed else []
        for numbers in checked.batches(checked.others):
            settle(course, list(checked.lines(numbers)))
        _begin(course)
        done = 0
        for numbers in checked.batches(checked.operations):
            done += _take(course, numbers)
            _tell(on_progress, done, checked)
        for batch in _memories(checked):
            done += _place(course, batch, decided)
            _tell(on_progress, done, checked)
        course.log()
        for numbers in checked.batches(checked.others):
            done += _take(course, numbers)
            _tell(on_progress, done, checked)
    if course.context.apart and not course.dry_run:
        replace_history(course)


def _look_around(course: Course) -> None:
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
        settle(course, list(checked.lines(numbers)))


def _begin(course: Course) -> None:
    if not course.dry_run:
        raise_revisions(course.context, course.namespace, course.checked.versions, course.operation)
    course.vectors = take_space(course)


def _take(course: Course, numbers: Sequence[int]) -> int:
    batch = list(course.checked.lines(numbers))
    _in_one(course, lambda one: take(one, batch))
    return len(batch)


def _place(course: Course, batch: Sequence[Given], decided: Mapping[int, Decided]) -> int:
    def write(course: Course) -> None:
        course.vectors = take_space(course)  # the memory may have been switched to other vectors since the last batch
        place(course, batch, decided)
        course.log()

    _in_one(course, write)
    return len(batch)


def _in_one(course: Course, work: Callable[[Course], object]) -> None:
    with _transaction(course):
        work(course)


def _transaction(course: Course) -> AbstractContextManager[object]:
    return nullcontext() if course.dry_run else course.context.lifecycle("import").transaction()


def _memories(checked: Checked) -> Iterator[list[Given]]:
    """Yield memories and passages, each memory with its earlier versions; then what has earlier versions alone."""
    for numbers in checked.batches(checked.memories):
        batch = list(checked.lines(numbers))
        owners = (given["id"] for _, given in batch if given["type"] == Item.MEMORY)
        yield batch + list(checked.lines(_versions(checked, owners)))
    alone: list[int] = []
    for owner in checked.by_owner:
        if owner not in checked.owners:
            alone += checked.by_owner[owner]
            if len(alone) >= 1000:
                yield list(checked.lines(alone))
                alone = []
    if alone:
        yield list(checked.lines(alone))


def _versions(checked: Checked, owners: Iterable[str]) -> list[int]:
    return [number for owner in owners if owner in checked.by_owner for number in checked.by_owner[owner]]


def _tell(on_progress: Progress, done: int, checked: Checked) -> None:
    if on_progress is not None:
        on_progress(done, checked.total)


def _report(course: Course) -> ImportReport:
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
