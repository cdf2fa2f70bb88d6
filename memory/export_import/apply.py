"""Application of an export's items: memories, passages, versions, messages, operations and tombstones.

A batch at a time, inside a transaction. Messages, operations and tombstones are taken from the owner's own file alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from memory.codec import from_entry, to_entry, to_metadata
from memory.erasure.external_copies import EXPORT_KIND
from memory.export_import.codec import (
    extra_fields,
    memory_from_item,
    message_from_item,
    operation_from_item,
    session_from_item,
    tombstone_from_item,
    vector_from_item,
    version_fields,
)
from memory.export_import.import_job import ImportJob, comparable_content
from memory.export_import.policy_check import ItemDecision, NumberedItem
from memory.export_import.report import ExportItem, ImportLine
from memory.history.protocol import HistoryRow
from memory.models import Memory, MemoryChange, Trust
from memory.partitions import ARCHIVE, CONVERSATION, archived_id, store_namespace
from memory.results import Outcome, Report
from memory.tables.idempotency_keys import keyed_id
from memory.tables.tombstones import history_partition, message_hashes
from memory.timestamps import to_aware
from memory.write.corrections import hide_versions
from memory.write.embedding_service import EmbeddingResult
from memory.write.policy_runner import PolicyResult, redacted_message, redaction_policies
from memory.write.provenance import counts_since, replacement_change, retired_entry
from vectorstore import Entry, Vector

_TRUST_ORDER: Final = tuple(Trust)
_KEPT_REASON: Final = "what is here was said otherwise, and stays as it is"
_PENDING_REASON: Final = "made when the memory embeds again"


@dataclass(frozen=True, slots=True)
class _ImportDraft:
    """A memory of the file, ready to be written: where it is from, and what the policies made of it."""

    line: int
    lane: str
    memory: Memory
    judged: PolicyResult
    reason: str
    beside: Mapping[str, Any]
    vector: Vector | None
    no_vector: str | None
    collection: str | None = None
    version: int | None = None
    facts: tuple[tuple[PolicyResult, tuple[str, ...]], ...] = ()
    of: str | None = None
    made: tuple[Report, ...] = ()

    @property
    def outcome(self) -> Outcome:
        return self.judged.outcome

    def so(self, outcome: Outcome, reason: str, of: str | None = None) -> _ImportDraft:
        return replace(self, judged=replace(self.judged, outcome=outcome), reason=reason, of=of)


def apply_memories(course: ImportJob, batch: Sequence[NumberedItem], decided: Mapping[int, ItemDecision]) -> None:
    """Put a batch into its lanes: memories and passages, and the earlier versions of these memories.

    Versions come with their memory, or by themselves where the file has no present one. Inside a transaction.
    """
    drafts = [_make_import_draft(course, number, given, decided.get(number)) for number, given in batch]
    fresh: set[str] = set()
    for lane in dict.fromkeys(one.lane for one in drafts):
        fresh |= _write_drafts(course, lane, [one for one in drafts if one.lane == lane and one.version is None])
    _write_versions(course, [one for one in drafts if one.version is not None], fresh)


def _make_import_draft(
    course: ImportJob, number: int, given: Mapping[str, Any], decided: ItemDecision | None
) -> _ImportDraft:
    told = memory_from_item(given)
    memory = course.read(told)
    judged = PolicyResult(memory, Outcome.STORED) if decided is None else decided.judged
    reasons = [f"trust lowered to {course.ceiling}"] if memory.trust is not told.trust else []
    reasons += [judged.reason] if judged.reason else []
    kept = memory if judged.memory is None else replace(judged.memory, id=memory.id, **version_fields(memory))
    if not course.believed:
        kept = replace(kept, operation=None if course.dry_run else course.operation)
    collection = given.get("collection")
    return _ImportDraft(
        line=number,
        lane=course.lane(collection),
        memory=kept,
        judged=judged,
        reason="; ".join(reasons) if judged.memory is not None else judged.reason,
        beside=extra_fields(given),
        vector=_draft_vector(course, given, kept.text == told.text, None if decided is None else decided.embedded),
        no_vector=given.get("no_vector") if kept.text == told.text else None,
        collection=collection,
        version=given.get("version"),
        facts=() if decided is None else decided.made,
        of=judged.of,
    )


def _draft_vector(
    course: ImportJob, given: Mapping[str, Any], same: bool, embedded: EmbeddingResult | None
) -> Vector | None:
    if course.vectors and same and given.get("vector") is not None:
        return vector_from_item(given, course.checked.manifest.space)
    return None if embedded is None else course.context.embedding.still(embedded).vectors[0]


def _write_drafts(course: ImportJob, lane: str, drafts: Sequence[_ImportDraft]) -> set[str]:
    """Write what is new, and correct what is to be; return the ids of what is new."""
    ids = [one.memory.id for one in drafts]
    gone, there = course.context.tombstones.which(lane, ids), course.there(lane, ids)
    archived = _archived_only_ids(course, lane, ids)
    fresh: list[_ImportDraft] = []
    for one in drafts:
        id = one.memory.id
        if one.judged.memory is None:
            rejected = replace(one, made=_store_facts(course, one))  # its words may be kept as facts alone
            _report_draft(course, rejected)
        elif id in there:
            _meet_existing(course, one, there[id])
        elif id in gone:
            _report_draft(course, one.so(Outcome.REJECTED, "forgotten"))
        elif id in archived:
            reason = "its versions are in the archive here: it was undone, or merged into another"
            _report_draft(course, one.so(Outcome.DUPLICATE, reason))
        elif one.collection is not None and (one.collection, id) in course.settled:
            _report_draft(course, one.so(Outcome.DUPLICATE, "its document is here already, or was taken out"))
        else:
            fresh.append(one)
            course.added.add(id)
            course.changes.append(MemoryChange(id))
    if fresh and not course.dry_run:
        entries = [_draft_entry(one) for one in fresh]
        course.context.store.upsert(entries, namespace=lane, expect={entry.id: 0 for entry in entries})
        for one in fresh:
            if one.memory.key is not None:
                course.context.name_key(course.namespace, one.memory.key, one.memory.id)
    for one in fresh:
        _report_draft(course, replace(one, made=_store_facts(course, one)))
    return {one.memory.id for one in fresh}


def _meet_existing(course: ImportJob, one: _ImportDraft, entry: Entry) -> None:
    """Something of that id, or of its key, is here already."""
    here = from_entry(entry)
    of = here.id if here.id != one.memory.id else None
    if comparable_content(here) == comparable_content(one.memory):
        _report_draft(course, one.so(Outcome.DUPLICATE, "known already", of))
    elif course.mode != "upsert":
        _report_draft(course, one.so(Outcome.DUPLICATE, _KEPT_REASON, of))
    elif _TRUST_ORDER.index(one.memory.trust) > _TRUST_ORDER.index(here.trust):
        _report_draft(course, one.so(Outcome.REJECTED, "what is here is trusted more", of))
    else:
        _correct_existing(course, replace(one, of=of), entry)


def _correct_existing(course: ImportJob, one: _ImportDraft, entry: Entry) -> None:
    context, memory, change = course.context, replace(one.memory, id=entry.id), MemoryChange(entry.id, entry.revision)
    if not course.dry_run:
        if one.lane == store_namespace(course.namespace, CONVERSATION):
            now, old = to_aware(context.clock(), context.zone), archived_id(entry.id, entry.revision)
            key = from_entry(entry).key  # a caller finds it by the key that it has here
            memory = replace(
                memory, recorded_at=now, counts_from=None, supersedes=old, operation=course.operation, key=key
            )
            archive = store_namespace(course.namespace, ARCHIVE)
            context.store.upsert([retired_entry(entry, now, counts_to=counts_since(memory))], namespace=archive)
            change = replacement_change(entry, to_metadata(memory))
            hide_versions(context, entry.id, change.new, course.namespace)
        written = [_draft_entry(replace(one, memory=memory))]
        context.store.upsert(written, namespace=one.lane, expect={entry.id: entry.revision})
    course.changes.append(change)
    reason = "; ".join(part for part in (one.reason, "corrected by the file") if part)
    _report_draft(course, replace(one, reason=reason))


def _store_facts(course: ImportJob, one: _ImportDraft) -> tuple[Report, ...]:
    """Store what was made of *one*; the same facts of it get the same ids, so that none is there twice."""
    context, lane = course.context, course.lane(None)
    lines = []
    for judged, sources in one.facts:
        if judged.memory is None:
            lines.append(Report(judged.outcome, judged.of or "", judged.reason, of=judged.of))
            continue
        fact = judged.memory
        named = "\0".join((*sources, fact.kind, fact.text))
        id = keyed_id(context.tombstones.key, course.namespace, named)
        there = (
            [] if course.mode == "replace" else [entry for entry in context.store.get([id], namespace=lane) if entry]
        )
        if course.is_forgotten(lane, id):
            lines.append(Report(Outcome.REJECTED, id, "forgotten"))
        elif there or id in course.added:
            lines.append(Report(Outcome.DUPLICATE, id, "known already", of=id))
        else:
            kept = tuple(one for one in sources if one in course.added)
            recorded_at = to_aware(context.clock(), context.zone)
            parents = tuple(dict.fromkeys((*fact.derived_from, *kept)))
            operation = None if course.dry_run else course.operation
            fact = replace(fact, id=id, derived_from=parents, recorded_at=recorded_at, operation=operation)
            if not course.dry_run:
                context.store.upsert([to_entry(fact)], namespace=lane, expect={id: 0})
            course.added.add(id)
            course.changes.append(MemoryChange(id))
            lines.append(
                Report(judged.outcome, id, judged.reason, _PENDING_REASON, operation, of=judged.of, spans=judged.spans)
            )
    return tuple(lines)


def _write_versions(course: ImportJob, drafts: Sequence[_ImportDraft], fresh: set[str]) -> None:
    archive, conversation = (store_namespace(course.namespace, lane) for lane in (ARCHIVE, CONVERSATION))
    alone = list({one.memory.id for one in drafts} - course.checked.owners)
    wanted = fresh | (
        set(alone)
        - course.context.tombstones.which(conversation, alone)
        - _archived_only_ids(course, conversation, alone)
        - course.there(conversation, alone).keys()
    )
    entries = []
    for one in drafts:
        if one.memory.id not in wanted or one.judged.memory is None:
            course.left[ExportItem.VERSION] += 1
            continue
        memory = replace(one.memory, id=archived_id(one.memory.id, one.version or 0))
        entries.append(_draft_entry(replace(one, memory=memory)))
        course.taken[ExportItem.VERSION] += 1
    if entries and not course.dry_run:
        course.context.store.upsert(entries, namespace=archive, expect={entry.id: 0 for entry in entries})


def _draft_entry(one: _ImportDraft) -> Entry:
    entry = to_entry(one.memory, vector=one.vector, no_vector=one.no_vector if one.vector is None else None)
    return replace(entry, metadata={**one.beside, **entry.metadata}) if one.beside else entry


def _report_draft(course: ImportJob, one: _ImportDraft) -> None:
    stored = one.outcome in (Outcome.STORED, Outcome.REDACTED)
    pending = stored and one.vector is None and one.no_vector is None
    course.lines.append(
        ImportLine(one.line, one.memory.id, one.outcome, one.reason, pending, one.of, one.judged.spans, one.made)
    )


def _archived_only_ids(course: ImportJob, lane: str, ids: Sequence[str]) -> set[str]:
    """Return those of *ids* of which only earlier versions are here."""
    if course.mode == "replace" or lane != store_namespace(course.namespace, CONVERSATION):
        return set()
    found = course.context.versions(ids, course.namespace)
    owners = {entry.id.rpartition("@")[0] for entry in found}
    return owners - course.there(lane, sorted(owners)).keys()


def apply_items(course: ImportJob, batch: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
    """Take a batch, and count what was taken and what was left."""
    for _, given in batch:
        kind = given["type"]
        took = course.believed and _apply_item(course, kind, given)
        (course.taken if took else course.left)[kind] += 1


def note_settled_passages(course: ImportJob, batch: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
    """Note the passages of documents that will not be taken: these are here already, or were taken out."""
    for _, given in batch:
        part = next((one for one in course.context.carried if one.line == given["type"]), None)
        if part is None or not isinstance(given.get("chunks"), list):
            continue
        if not part.take(course.namespace, given, write=False, emptied=course.mode == "replace"):
            course.settled.update((given["collection"], one) for one in given["chunks"])


def _apply_item(course: ImportJob, kind: str, given: Mapping[str, Any]) -> bool:
    context, namespace = course.context, course.namespace
    if kind == ExportItem.MESSAGE:
        return _apply_message(course, given)
    if kind == ExportItem.OPERATION:
        operation = operation_from_item(given)
        there = context.operations.get(namespace, operation.id)
        if there is not None and (course.mode != "replace" or there.kind == EXPORT_KIND):  # all the others go, or went
            return False
        if not course.dry_run:
            context.operations.add(namespace, operation)
        return True
    if kind == ExportItem.SESSION:
        return _apply_session(course, *session_from_item(given))
    if kind == ExportItem.FORGOTTEN:
        return _apply_tombstone(course, *tombstone_from_item(given))
    part = next(one for one in context.carried if one.line == kind)
    return part.take(namespace, given, write=not course.dry_run, emptied=course.mode == "replace")


def replace_history(course: ImportJob) -> None:
    """Put what the file has of history in the place of what was said here, where that is kept elsewhere.

    After the commit of all else, so that an error before it loses nothing.
    """
    course.context.rows.erase_namespace(course.namespace)
    for numbers in course.checked.batches(course.checked.others):
        for _, given in course.checked.lines(numbers):
            if (
                course.believed
                and given["type"] == ExportItem.MESSAGE
                and (row := _message_row(course, given)) is not None
            ):
                course.context.rows.place([row])
            elif course.believed and given["type"] == ExportItem.SESSION:
                session, number = session_from_item(given)
                course.context.rows.count_from(session, number, namespace=course.namespace)


def _apply_message(course: ImportJob, given: Mapping[str, Any]) -> bool:
    row = _message_row(course, given)
    if row is None or course.dry_run or (course.mode == "replace" and course.context.apart):
        return row is not None
    return bool(course.context.rows.place([row]))


def _message_row(course: ImportJob, given: Mapping[str, Any]) -> HistoryRow | None:
    """Return the message as it is to be kept; None where it is here, or was forgotten."""
    context, namespace = course.context, course.namespace
    row = message_from_item(given, namespace)
    there = course.mode != "replace" and context.rows.at([(row.session, row.sequence)], namespace=namespace)
    if there or course.is_forgotten(store_namespace(namespace, CONVERSATION), row.memory):
        return None
    if context.tombstones.which(history_partition(namespace), message_hashes(context.tombstones.key, [row])):
        return None
    clean, _ = redacted_message(row.message, redaction_policies(context.rules.policies))
    memory = None if row.memory is None else course.here.get(row.memory, row.memory)
    return replace(row, message=clean, memory=memory)


def _apply_session(course: ImportJob, session: str, number: int) -> bool:
    rows, namespace = course.context.rows, course.namespace
    there = {} if course.mode == "replace" else dict(rows.next_numbers(session, namespace=namespace))
    if there.get(session, 1) >= number:
        return False
    if not (course.dry_run or (course.mode == "replace" and course.context.apart)):
        rows.count_from(session, number, namespace=namespace)
    return True


def _apply_tombstone(course: ImportJob, collection: str | None, id: str, at: datetime) -> bool:
    lane = course.lane(collection)
    if id in course.added or course.there(lane, [id]) or course.is_forgotten(lane, id):
        return False
    if not course.dry_run:
        course.context.tombstones.add(lane, [id], at)
    return True
