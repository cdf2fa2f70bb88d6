"""Importer: an export is checked whole, then imported batch by batch, so that others can write between.

A batch is one transaction, and a memory comes with its earlier versions in it. A process that is killed has imported
some batches whole; importing again imports the rest and nothing twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tellback.memory.entry_store import EntryStore
from tellback.memory.erasure.external_copies import ExternalCopies
from tellback.memory.export_import.history_importer import HistoryImporter
from tellback.memory.export_import.import_job import ImportJob, OnImportProgress
from tellback.memory.export_import.memory_importer import MemoryImporter
from tellback.memory.export_import.policy_check import ImportPolicyCheck
from tellback.memory.export_import.reader import ExportLine, check_export
from tellback.memory.export_import.report import ImportMode, ImportReport
from tellback.memory.export_import.vector_adoption import adopt_vectors, check_model
from tellback.memory.models import Trust
from tellback.memory.partitions import CONVERSATION, store_namespace
from tellback.memory.tables.erasers import Eraser, ExportedPart
from tellback.memory.tables.idempotency_keys import IdempotencyKeys
from tellback.memory.tables.operation_log import OperationLog
from tellback.memory.tables.tombstones import Tombstones
from tellback.memory.timestamps import Clock
from tellback.memory.write.access_control import Caller
from tellback.memory.write.draft import Draft
from tellback.memory.write.embedding_service import EmbeddingService
from tellback.memory.write.policy_runner import PolicyRules, redaction_policies
from tellback.vectorstore import Entry

_REVISION_BATCH: Final = 1000


@dataclass(frozen=True, slots=True)
class Importer:
    """Imports exports. *erasers* and *parts* are the lists to which other parts of the memory add themselves."""

    entries: EntryStore
    operations: OperationLog
    keys: IdempotencyKeys
    tombstones: Tombstones
    embedding: EmbeddingService
    rules: PolicyRules
    erasers: Sequence[Eraser]
    parts: Sequence[ExportedPart]
    clock: Clock

    def open_job(
        self,
        path: Path,
        caller: Caller,
        mode: ImportMode,
        trust: Trust | None,
        dry_run: bool,
        on_progress: OnImportProgress,
    ) -> ImportJob:
        """Check the file at *path* and what the caller may do with it; return its import. Blocks.

        *trust* is the most that an item can have.
        """
        self.entries.lifecycle("import")
        checked = check_export(path, caller.namespace, self.parts)
        exports = ExternalCopies(self.entries, self.operations)
        if trust is None and checked.manifest.hash not in exports.export_hashes(caller.namespace):
            trust = Trust.DOCUMENT
        if caller.trust != Trust.USER:
            trust = Trust.least([trust or Trust.USER, caller.trust])
        return ImportJob(
            entries=self.entries,
            operations=self.operations,
            tombstones=self.tombstones,
            checked=checked,
            caller=caller,
            mode=mode,
            ceiling=trust,
            dry_run=dry_run,
            operation=self.operations.new_id(),
            on_progress=on_progress,
        )

    async def run(self, job: ImportJob) -> ImportReport:
        """Import the file of *job*; return the outcome of each item."""
        policies = ImportPolicyCheck(job, self.embedding, self.rules, self.clock)
        await check_model(job, self.embedding)
        await asyncio.to_thread(self._begin, job)
        for batch, are_memories in _batches(job):
            drafts = await policies.judge(batch) if are_memories else None
            await asyncio.to_thread(self._merge, job, batch, drafts)
        job.advance(job.checked.total - job.done)
        return job.report()

    @property
    def _history(self) -> HistoryImporter:
        return HistoryImporter(redaction_policies(self.rules.policies), self.parts)

    def _begin(self, job: ImportJob) -> None:
        """Find what of the file is here under another id, and begin."""
        checked, namespace = job.checked, job.namespace
        ids = {id: self.keys.id_of_key(namespace, key) for id, key in checked.keys.items()}
        entries = self.entries.store.get(list(ids.values()), namespace=job.partition(None))
        stored_ids = {entry.id for entry in entries if entry is not None}
        job.renamed = {id: local for id, local in ids.items() if local in stored_ids and local != id}
        self._history.note_settled_passages(job)
        with self._transaction(job):
            if not job.dry_run:
                self._raise_revisions(job.namespace, job.checked.versions, job.operation)
            adopt_vectors(job, self.embedding)

    def _merge(self, job: ImportJob, batch: Sequence[ExportLine], judged: Mapping[int, Draft] | None) -> None:
        with self._transaction(job):
            if judged is not None:  # another process may have switched the space since the last batch
                adopt_vectors(job, self.embedding)
                MemoryImporter(self.keys, self.clock).write(job, batch, judged)
                job.log()
            else:
                self._history.write(job, batch)
        job.advance(len(batch))

    def _raise_revisions(self, namespace: str, versions: int, token: str) -> None:
        """Raise the store's write counter above *versions*: new revisions are then above every imported version."""
        store, partition = self.entries.store, store_namespace(namespace, CONVERSATION)
        for start in range(0, versions, _REVISION_BATCH):
            ids = [f"import {token} {number}" for number in range(start, min(start + _REVISION_BATCH, versions))]
            store.upsert((Entry(id) for id in ids), namespace=partition)
            self.entries.lifecycle("import").erase(ids, namespace=partition)

    def _transaction(self, job: ImportJob) -> AbstractContextManager[object]:
        return nullcontext() if job.dry_run else self.entries.lifecycle("import").transaction(lock=job.namespace)


def _batches(job: ImportJob) -> Iterator[tuple[list[ExportLine], bool]]:
    """Yield the batches of a file in the order of writing, each with whether it is of memories."""
    checked = job.checked
    yield from ((batch, False) for batch in checked.batches(checked.operations))
    yield from ((batch, True) for batch in checked.memory_batches())
    yield from ((batch, False) for batch in checked.batches(checked.others))
