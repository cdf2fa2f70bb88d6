"""History importer: messages, sessions, operations, tombstones and items of other parts of an export.

All of them are taken from a trusted file alone: the memory's own export, or one that the caller trusts as the user's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any

from tellback.memory.export_import.codec import (
    message_from_item,
    operation_from_item,
    session_from_item,
    tombstone_from_item,
)
from tellback.memory.export_import.import_job import ImportJob
from tellback.memory.export_import.reader import ExportLine
from tellback.memory.export_import.report import ExportItem
from tellback.memory.tables.erasers import ExportedPart
from tellback.memory.tables.tombstones import history_partition, message_hashes
from tellback.memory.write.policies.base import RedactionPolicy
from tellback.memory.write.policy_runner import redacted_message, redacted_text

_NAME_FIELDS = ("session", "source", "location", "collection")


@dataclass(frozen=True, slots=True)
class HistoryImporter:
    """Writes the items of a file that are no memories; messages are redacted by the *redactions*."""

    redactions: Sequence[RedactionPolicy]
    parts: Sequence[ExportedPart]

    def write(self, job: ImportJob, batch: Sequence[ExportLine]) -> None:
        """Write a batch inside the caller's transaction; count what is taken and what is left out."""
        for line in batch:
            is_written = job.is_trusted and self._write_item(job, line.kind, line.fields)
            (job.taken if is_written else job.left)[line.kind] += 1

    def note_settled_passages(self, job: ImportJob) -> None:
        """Note the passages of documents that will not be taken: they are here already, or were removed here."""
        for line in chain.from_iterable(job.checked.batches(job.checked.others)):
            part = next((part for part in self.parts if part.line == line.kind), None)
            if part is None or not isinstance(line.fields.get("chunks"), list):
                continue
            if not part.take(job.namespace, line.fields, write=False):
                job.settled.update((line.fields["collection"], id) for id in line.fields["chunks"])

    def _write_item(self, job: ImportJob, kind: str, fields: Mapping[str, Any]) -> bool:
        """Write one item; return whether it was taken. One that is named by a secret is not."""
        names = (value for name in _NAME_FIELDS if isinstance(value := fields.get(name), str))
        if any(redacted_text(name, self.redactions)[1] for name in names):
            return False
        if kind == ExportItem.MESSAGE:
            return self._write_message(job, fields)
        if kind == ExportItem.OPERATION:
            return self._write_operation(job, fields)
        if kind == ExportItem.SESSION:
            return self._write_session(job, *session_from_item(fields))
        if kind == ExportItem.FORGOTTEN:
            return self._write_tombstone(job, *tombstone_from_item(fields))
        part = next(part for part in self.parts if part.line == kind)
        return part.take(job.namespace, fields, write=not job.dry_run)

    def _write_operation(self, job: ImportJob, fields: Mapping[str, Any]) -> bool:
        operation = operation_from_item(fields)
        if job.operations.get(job.namespace, operation.id) is not None:
            return False
        if not job.dry_run:
            job.operations.add(job.namespace, operation)
        return True

    def _write_message(self, job: ImportJob, fields: Mapping[str, Any]) -> bool:
        row, rows = message_from_item(fields, job.namespace), job.entries.rows
        if rows.at([(row.session, row.sequence)], namespace=job.namespace):
            return False
        hashes = message_hashes(job.tombstones.key, [row])
        buried = job.tombstones.which(history_partition(job.namespace), hashes)
        if buried or job.is_forgotten(job.partition(None), row.memory):
            return False
        if job.dry_run:
            return True
        message, _ = redacted_message(row.message, self.redactions)
        memory = None if row.memory is None else job.renamed.get(row.memory, row.memory)
        return bool(rows.place([replace(row, message=message, memory=memory)]))

    def _write_session(self, job: ImportJob, session: str, number: int) -> bool:
        rows, namespace = job.entries.rows, job.namespace
        next_numbers = dict(rows.next_numbers(session, namespace=namespace))
        if next_numbers.get(session, 1) >= number:
            return False
        if not job.dry_run:
            rows.count_from(session, number, namespace=namespace)
        return True

    def _write_tombstone(self, job: ImportJob, collection: str | None, id: str, time: datetime) -> bool:
        partition = job.partition(collection)
        if id in job.added or job.existing(partition, [id]) or job.is_forgotten(partition, id):
            return False
        if not job.dry_run:
            job.tombstones.add(partition, [id], time)
        return True
