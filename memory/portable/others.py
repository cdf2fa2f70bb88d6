"""Messages, operations, tombstones and what other parts keep, taken out of an export. Inside a transaction.

What was said, done and forgotten is told by the owner's own file alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from memory.forgotten.message_marks import history_lane, marks_of
from memory.lanes import CONVERSATION, store_namespace
from memory.portable.course import Course
from memory.portable.items import forgotten_of, message_of, operation_of
from memory.portable.report import Item
from memory.storage.rows import HistoryRow
from memory.write.cleaning import cleaned_message, cleaners


def take(course: Course, batch: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
    """Take a batch, and count what was taken and what was left."""
    for _, given in batch:
        kind = given["type"]
        took = course.believed and _take(course, kind, given)
        (course.taken if took else course.left)[kind] += 1


def settle(course: Course, batch: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
    """Note the passages of documents that will not be taken: these are here already, or were taken out."""
    for _, given in batch:
        part = next((one for one in course.context.carried if one.line == given["type"]), None)
        if part is None or not isinstance(given.get("chunks"), list):
            continue
        if not part.take(course.namespace, given, write=False):
            course.settled.update((given["collection"], one) for one in given["chunks"])


def _take(course: Course, kind: str, given: Mapping[str, Any]) -> bool:
    context, namespace = course.context, course.namespace
    if kind == Item.MESSAGE:
        return _message(course, given)
    if kind == Item.OPERATION:
        operation = operation_of(given)
        replaced = course.dry_run and course.mode == "replace"  # what is here would be gone
        if context.operations.get(namespace, operation.id) is not None and not replaced:
            return False
        if not course.dry_run:
            context.operations.add(namespace, operation)
        return True
    if kind == Item.FORGOTTEN:
        return _forget(course, *forgotten_of(given))
    part = next(one for one in context.carried if one.line == kind)
    took = part.take(namespace, given, write=not course.dry_run)
    return took or (course.dry_run and course.mode == "replace")


def replace_history(course: Course) -> None:
    """Put what the file has of history in the place of what was said here, where that is kept elsewhere.

    After the commit of all else, so that an error before it loses nothing.
    """
    course.context.rows.erase_namespace(course.namespace)
    for numbers in course.checked.batches(course.checked.others):
        for _, given in course.checked.lines(numbers):
            if course.believed and given["type"] == Item.MESSAGE and (row := _row(course, given)) is not None:
                course.context.rows.place([row])


def _message(course: Course, given: Mapping[str, Any]) -> bool:
    row = _row(course, given)
    if row is None or course.dry_run or (course.mode == "replace" and course.context.apart):
        return row is not None
    return bool(course.context.rows.place([row]))


def _row(course: Course, given: Mapping[str, Any]) -> HistoryRow | None:
    """Return the message as it is to be kept; None where it is here, or was forgotten."""
    context, namespace = course.context, course.namespace
    row = message_of(given, namespace)
    there = course.mode != "replace" and context.rows.at([(row.session, row.sequence)], namespace=namespace)
    if there or course.is_forgotten(store_namespace(namespace, CONVERSATION), row.memory):
        return None
    if context.tombstones.which(history_lane(namespace), marks_of(context.tombstones.key, [row])):
        return None
    clean, _ = cleaned_message(row.message, cleaners(context.rules.policies))
    memory = None if row.memory is None else course.here.get(row.memory, row.memory)
    return replace(row, message=clean, memory=memory)


def _forget(course: Course, collection: str | None, id: str, at: datetime) -> bool:
    lane = course.lane(collection)
    there = id in course.added or course.context.store.get([id], namespace=lane)[0] is not None
    if there or course.is_forgotten(lane, id):
        return False
    if not course.dry_run:
        course.context.tombstones.add(lane, [id], at)
    return True
