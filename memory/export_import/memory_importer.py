"""Memory importer: memories, passages and earlier versions of an export into their partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tellback.memory.codec import embedding_text, from_entry, to_entry, to_metadata
from tellback.memory.export_import.codec import extra_fields, memory_from_item, vector_from_item, version_fields
from tellback.memory.export_import.import_job import ImportJob, comparable_content
from tellback.memory.export_import.reader import ExportLine
from tellback.memory.export_import.report import ExportItem, ImportLine
from tellback.memory.models import Memory, MemoryChange
from tellback.memory.partitions import ARCHIVE, archived_id, store_namespace
from tellback.memory.results import KNOWN, Outcome, Report
from tellback.memory.tables.idempotency_keys import IdempotencyKeys, keyed_id
from tellback.memory.timestamps import Clock
from tellback.memory.write.draft import Draft
from tellback.memory.write.embedding_service import EmbeddedText
from tellback.memory.write.provenance import counts_since, replacement_change, retired_entry
from tellback.vectorstore import Entry

_KEPT_REASON: Final = "what is here was said otherwise, and stays as it is"
_PENDING_REASON: Final = "made when the memory embeds again"


@dataclass(frozen=True, slots=True)
class ImportDraft:
    """A memory, passage or version of a file, by the *fields* of its line; *draft* is what was decided about it."""

    fields: Mapping[str, Any]
    draft: Draft

    @property
    def memory(self) -> Memory:
        """The memory as it is to be stored."""
        return self.draft.memory

    @property
    def collection(self) -> str | None:
        """The collection of a passage."""
        return self.fields.get("collection")

    @property
    def version(self) -> int | None:
        """The number of an earlier version."""
        return self.fields.get("version")

    def changed(self, **changes: Any) -> ImportDraft:
        """Return it with *changes* of its draft."""
        return replace(self, draft=replace(self.draft, **changes))

    def settle(self, outcome: Outcome, reason: str, of: str | None = None) -> ImportDraft:
        """Return it as not to be stored."""
        return self.changed(settled=Report(outcome, self.memory.id, reason, of=of), of=of)

    def entry(self) -> Entry:
        """Return the entry that is stored for it, with the metadata that other parts keep with the memory."""
        entry, extra = self.draft.entry(), extra_fields(self.fields)
        return replace(entry, metadata={**extra, **entry.metadata}) if extra else entry

    def report(self, facts: tuple[Report, ...] = ()) -> ImportLine:
        """Return its line of the report; *facts* are the reports of its facts."""
        draft = self.draft
        decided = draft.settled or Report(draft.outcome, "", draft.reason)
        return ImportLine(
            line=draft.origin,
            id=self.memory.id,
            outcome=decided.outcome,
            reason=decided.reason,
            pending=draft.settled is None and draft.embedded.vector is None and draft.embedded.no_vector is None,
            of=draft.of,
            spans=draft.spans,
            made=facts,
        )


@dataclass(frozen=True, slots=True)
class MemoryImporter:
    """Writes memories, passages and versions; each batch inside the caller's transaction."""

    keys: IdempotencyKeys
    clock: Clock

    def write(self, job: ImportJob, batch: Sequence[ExportLine], judged: Mapping[int, Draft]) -> None:
        """Write a batch; *judged* has by line the drafts that the policies changed.

        Versions come with their memory, or by themselves where the file has no present one.
        """
        present: dict[str, list[ImportDraft]] = {}
        versions = []
        for line in batch:
            draft = self._draft(job, line, judged.get(line.number))
            if draft.version is None:
                present.setdefault(job.partition(draft.collection), []).append(draft)
            else:
                versions.append(draft)
        new: set[str] = set()
        for partition, drafts in present.items():
            new |= self._write_present(job, partition, drafts)
        self._write_versions(job, versions, new)

    def _draft(self, job: ImportJob, line: ExportLine, judged: Draft | None) -> ImportDraft:
        original = memory_from_item(line.fields)
        received = job.received(original)
        draft = Draft.new(received, origin=line.number) if judged is None else judged
        memory = received
        if draft.settled is None:
            memory = replace(draft.memory, id=received.id, replaces=received.replaces, **version_fields(received))
            if received.trust != original.trust:
                draft = replace(draft, reasons=(f"trust lowered to {job.ceiling}", *draft.reasons))
        if not job.is_trusted:
            memory = replace(memory, operation=None if job.dry_run else job.operation)
        vector, no_vector = draft.embedded.vector, None
        if vector is not None and draft.embedded.space != job.entries.follow_space():
            vector = None  # it was made to compare the draft, in a space that is not used any more
        if embedding_text(memory) == embedding_text(original):
            if job.vectors and line.fields.get("vector") is not None:
                vector = vector_from_item(line.fields, job.checked.manifest.space)
            no_vector = line.fields.get("no_vector") if vector is None else None
        return ImportDraft(line.fields, replace(draft, memory=memory, embedded=EmbeddedText(vector, no_vector)))

    def _write_present(self, job: ImportJob, partition: str, drafts: Sequence[ImportDraft]) -> set[str]:
        """Write new memories and corrections of existing ones; return the ids of the new ones."""
        ids = [draft.memory.id for draft in drafts]
        forgotten, existing = job.tombstones.which(partition, ids), job.existing(partition, ids)
        archived = job.archived_only(partition, ids)
        new: list[ImportDraft] = []
        for draft in drafts:
            id = draft.memory.id
            if draft.draft.settled is not None:  # rejected, but its words may be kept as facts
                job.lines.append(draft.report(self._write_facts(job, draft, drafts)))
            elif id in existing:
                job.lines.append(self._meet_existing(job, draft, existing[id]).report())
            elif id in forgotten:
                job.lines.append(draft.settle(Outcome.REJECTED, "forgotten").report())
            elif id in archived:
                reason = "its versions are in the archive here: it was undone, or merged into another"
                job.lines.append(draft.settle(Outcome.DUPLICATE, reason).report())
            elif draft.collection is not None and (draft.collection, id) in job.settled:
                reason = "its document is here already, or was taken out"
                job.lines.append(draft.settle(Outcome.DUPLICATE, reason).report())
            else:
                new.append(draft)
                job.added.add(id)
                job.changes.append(MemoryChange(id))
        if new and not job.dry_run:
            entries = [draft.entry() for draft in new]
            job.entries.add(entries, partition, expect={entry.id: 0 for entry in entries})
            for draft in new:
                if draft.memory.key is not None:
                    self.keys.name_key(job.namespace, draft.memory.key, draft.memory.id)
        for draft in new:
            job.lines.append(draft.report(self._write_facts(job, draft, drafts)))
        return {draft.memory.id for draft in new}

    def _meet_existing(self, job: ImportJob, draft: ImportDraft, entry: Entry) -> ImportDraft:
        """Return *draft* beside the *entry* that has its id, or its idempotency key: a duplicate, or a correction."""
        existing = from_entry(entry)
        of = existing.id if existing.id != draft.memory.id else None
        if comparable_content(existing) == comparable_content(draft.memory):
            return draft.settle(Outcome.DUPLICATE, KNOWN, of)
        if job.mode != "upsert":
            return draft.settle(Outcome.DUPLICATE, _KEPT_REASON, of)
        if draft.memory.trust.rank > existing.trust.rank:
            return draft.settle(Outcome.REJECTED, "what is here is trusted more", of)
        self._correct(job, draft, entry)
        return draft.changed(of=of, reasons=(*draft.draft.reasons, "corrected by the file"))

    def _correct(self, job: ImportJob, draft: ImportDraft, entry: Entry) -> None:
        """Replace *entry* by *draft*; an earlier version of a memory goes to the archive."""
        memory, change = replace(draft.memory, id=entry.id), MemoryChange(entry.id, entry.revision)
        if not job.dry_run:
            if draft.collection is None:
                now, superseded = self.clock(), archived_id(entry.id, entry.revision)
                memory = replace(
                    memory,
                    recorded_at=now,
                    counts_from=None,
                    supersedes=superseded,
                    operation=job.operation,
                    key=from_entry(entry).key,  # a caller finds it by the key that it has here
                )
                archive = store_namespace(job.namespace, ARCHIVE)
                version = retired_entry(entry, now, counts_to=counts_since(memory))
                job.entries.store.upsert([version], namespace=archive)
                change = replacement_change(entry, to_metadata(memory))
                job.entries.hide_versions(entry.id, change.new, job.namespace)
            corrected = draft.changed(memory=memory).entry()
            partition = job.partition(draft.collection)
            job.entries.store.upsert([corrected], namespace=partition, expect={entry.id: entry.revision})
        job.changes.append(change)

    def _write_facts(self, job: ImportJob, draft: ImportDraft, batch: Sequence[ImportDraft]) -> tuple[Report, ...]:
        """Write the facts made of *draft* and others of the *batch*; the same fact of the same memories gets one id."""
        if not draft.draft.facts:
            return ()
        ids = {other.draft.origin: other.memory.id for other in batch}
        return tuple(self._write_fact(job, fact, [ids[line] for line in fact.origins]) for fact in draft.draft.facts)

    def _write_fact(self, job: ImportJob, fact: Draft, sources: Sequence[str]) -> Report:
        if fact.settled is not None:
            return fact.settled
        memory, partition = fact.memory, job.partition(None)
        id = keyed_id(job.tombstones.key, job.namespace, "\0".join((*sources, memory.kind, memory.text)))
        if job.is_forgotten(partition, id):
            return Report(Outcome.REJECTED, id, "forgotten")
        if id in job.added or job.existing(partition, [id]):
            return Report(Outcome.DUPLICATE, id, KNOWN, of=id)
        added_sources = (source for source in sources if source in job.added)
        memory = replace(
            memory,
            id=id,
            derived_from=tuple(dict.fromkeys((*memory.derived_from, *added_sources))),
            replaces=(),
            recorded_at=self.clock(),
            operation=None if job.dry_run else job.operation,
        )
        if not job.dry_run:
            job.entries.store.upsert([to_entry(memory)], namespace=partition, expect={id: 0})
        job.added.add(id)
        job.changes.append(MemoryChange(id))
        return replace(fact, memory=memory, embedded=EmbeddedText(deferred=_PENDING_REASON)).report()

    def _write_versions(self, job: ImportJob, drafts: Sequence[ImportDraft], new: set[str]) -> None:
        """Write the versions of *new* memories, and those whose memory is neither in the file nor known here."""
        conversation = job.partition(None)
        orphans = list({draft.memory.id for draft in drafts} - job.checked.owners)
        owners = new | (
            set(orphans)
            - job.tombstones.which(conversation, orphans)
            - job.archived_only(conversation, orphans)
            - job.existing(conversation, orphans).keys()
        )
        entries = []
        for draft in drafts:
            if draft.memory.id not in owners or draft.draft.settled is not None:
                job.left[ExportItem.VERSION] += 1
                continue
            version = replace(draft.memory, id=archived_id(draft.memory.id, draft.version or 0))
            entries.append(draft.changed(memory=version).entry())
            job.taken[ExportItem.VERSION] += 1
        if entries and not job.dry_run:
            archive = store_namespace(job.namespace, ARCHIVE)
            job.entries.store.upsert(entries, namespace=archive, expect={entry.id: 0 for entry in entries})
