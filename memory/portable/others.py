"""Messages, operations, tombstones and what other parts keep, taken out of an export. Inside a transaction.

What was said, done and forgotten is told by the owner's own file alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from memory.erasure.unreached import EXPORT
from memory.forgotten.message_marks import history_lane, marks_of
from memory.lanes import CONVERSATION, store_namespace
from memory.portable.course import Course
from memory.portable.items import forgotten_of, message_of, operation_of, session_of
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
        if not part.take(course.namespace, given, write=False, emptied=course.mode == "replace"):
            course.settled.update((given["collection"], one) for one in given["chunks"])


def _take(course: Course, kind: str, given: Mapping[str, Any]) -> bool:
    context, namespace = course.context, course.namespace
    if kind == Item.MESSAGE:
        return _message(course, given)
    if kind == Item.OPERATION:
        operation = operation_of(given)
        there = context.operations.get(namespace, operation.id)
        if there is not None and (course.mode != "replace" or there.kind == EXPORT):  # all the others go, or went
            return False
        if not course.dry_run:
            context.operations.add(namespace, operation)
        return True
    if kind == Item.SESSION:
        return _session(course, *session_of(given))
    if kind == Item.FORGOTTEN:
        return _forget(course, *forgotten_of(given))
    part = next(one for one in context.carried if one.line == kind)
    return part.take(namespace, given, write=not course.dry_run, emptied=course.mode == "replace")


def replace_history(course: Course) -> None:
    """Put what the file has of history in the place of what was said here, where that is kept elsewhere.

    After the commit of all else, so that an error before it loses nothing.
    """
    course.context.rows.erase_namespace(course.namespace)
    for numbers in course.checked.batches(course.checked.others):
        for _, given in course.checked.lines(numbers):
            if course.believed and given["type"] == Item.MESSAGE and (row := _row(course, given)) is not None:
                course.context.rows.place([row])
            elif course.believed and given["type"] == Item.SESSION:
                session, number = session_of(given)
                course.context.rows.count_from(session, number, namespace=course.namespace)


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


def _session(course: Course, session: str, number: int) -> bool:
    rows, namespace = course.context.rows, course.namespace
    there = {} if course.mode == "replace" else dict(rows.next_numbers(session, namespace=namespace))
    if there.get(session, 1) >= number:
        return False
    if not (course.dry_run or (course.mode == "replace" and course.context.apart)):
        rows.count_from(session, number, namespace=namespace)
    return True


def _forget(course: Course, collection: str | None, id: str, at: datetime) -> bool:
    lane = course.lane(collection)
    if id in course.added or course.there(lane, [id]) or course.is_forgotten(lane, id):
        return False
    if not course.dry_run:
        course.context.tombstones.add(lane, [id], at)
    return True
