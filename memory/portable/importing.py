"""Taking an export in: every line is checked first, then it is taken batch by batch, so that others can write between.

A batch is one transaction, and a memory comes with its earlier versions in it. A process that is killed has taken some
batches whole; importing again takes the rest and nothing twice. Mode "replace" is one transaction from the first line
to the last: what was here is gone when all of the file is there, and not before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from memory.lanes import CONVERSATION, store_namespace
from memory.portable.believing import ceiling_of, check_may_replace, check_mode
from memory.portable.course import Course
from memory.portable.deciding import Decided, Deciding, Given
from memory.portable.others import replace_history, settle, take
from memory.portable.placing import place
from memory.portable.reading import Checked, checked_file
from memory.portable.report import ImportReport, Item, Mode
from memory.portable.room import make_room, raise_revisions
from memory.portable.same_model import check_model, take_space
from memory.records import Actor, Trust
from memory.write.context import WriteContext
from memory.write.operations import replaced_all
from memory.write.trust import trust_of

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
