"""Import job: the options, the progress and the report of one import."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TypeAlias

from tellback.memory.entry_store import EntryStore
from tellback.memory.export_import.reader import CheckedExport
from tellback.memory.export_import.report import ImportLine, ImportMode, ImportReport
from tellback.memory.models import Memory, MemoryChange, Trust
from tellback.memory.partitions import CONVERSATION, DOCUMENTS, store_namespace
from tellback.memory.tables.embedder_probes import ProbeVectors
from tellback.memory.tables.operation_log import IMPORT_KIND, OperationLog
from tellback.memory.tables.tombstones import Tombstones
from tellback.memory.write.access_control import Caller
from tellback.memory.write.policies.base import NEAR_DUPLICATE_KEY
from tellback.vectorstore import Entry

OnImportProgress: TypeAlias = Callable[[int, int], object] | None
"""Called with the number of items done so far, and of all."""


@dataclass(slots=True)
class ImportJob:
    """One import of a *checked* file by a *caller*; its changes are the log's *operation*.

    *ceiling* is the highest trust that an item can have; None for the memory's own export, whose word is taken.
    """

    entries: EntryStore
    operations: OperationLog
    tombstones: Tombstones
    checked: CheckedExport
    caller: Caller
    mode: ImportMode
    ceiling: Trust | None
    dry_run: bool
    operation: str
    on_progress: OnImportProgress = None
    comparable: bool = False
    """True if the file has vectors, and no probe says that they are of another model."""
    probes: ProbeVectors | None = None
    """The file's answers to the probes, to be recorded with the first of its vectors."""
    vectors: bool = False
    """True if the file's vectors are taken."""
    lines: list[ImportLine] = field(default_factory=list)
    taken: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    changes: list[MemoryChange] = field(default_factory=list)
    """Changes that are not in the log yet."""
    logged: bool = False
    done: int = 0
    added: set[str] = field(default_factory=set)
    """The ids of new memories, passages and facts."""
    renamed: dict[str, str] = field(default_factory=dict)
    """By an id of the file, the id that the same idempotency key has here."""
    settled: set[tuple[str, str]] = field(default_factory=set)
    """Collection and id of passages whose document is here already, or was removed here."""

    @property
    def namespace(self) -> str:
        """The user's namespace that is imported into."""
        return self.caller.namespace

    @property
    def is_trusted(self) -> bool:
        """True if the file's own word is taken for who said, did and forgot something."""
        return self.ceiling in (None, Trust.USER)

    def received(self, memory: Memory) -> Memory:
        """Return *memory* with at most the trust of the ceiling, and with the ids that are used here.

        A memory whose trust is lowered is not pinned; an idempotency key of an untrusted file is dropped.
        """
        if not self.is_trusted and memory.key is not None:
            memory = replace(memory, key=None)
        if self.renamed and not self.renamed.keys().isdisjoint((*memory.derived_from, *memory.replaces)):
            memory = replace(
                memory,
                derived_from=tuple(self.renamed.get(id, id) for id in memory.derived_from),
                replaces=tuple(self.renamed.get(id, id) for id in memory.replaces),
            )
        if self.ceiling is None or memory.trust.rank >= self.ceiling.rank:
            return memory
        return replace(memory, trust=self.ceiling, pinned=False)

    def partition(self, collection: str | None) -> str:
        """Return the partition of memories, or of the passages of a *collection*."""
        return store_namespace(self.namespace, CONVERSATION if collection is None else DOCUMENTS, collection)

    def existing(self, partition: str, ids: Sequence[str]) -> dict[str, Entry]:
        """Return by the file's id the entry that has this id here, or the same idempotency key."""
        entries = self.entries.store.get([self.renamed.get(id, id) for id in ids], namespace=partition)
        return {id: entry for id, entry in zip(ids, entries, strict=True) if entry is not None}

    def archived_only(self, partition: str, ids: Sequence[str]) -> set[str]:
        """Return those of *ids* of which only earlier versions are here."""
        if partition != self.partition(None):
            return set()
        owners = {version.id.rpartition("@")[0] for version in self.entries.versions(ids, self.namespace)}
        return owners - self.existing(partition, sorted(owners)).keys()

    def is_forgotten(self, partition: str, id: str | None) -> bool:
        """Return whether *id* has a tombstone in a partition."""
        return bool(id and self.tombstones.which(partition, [id]))

    def log(self) -> None:
        """Record the changes since the last call, in the transaction that made them; all are one operation."""
        changes, self.changes = self.changes, []
        if self.dry_run or not changes:
            return
        if self.logged:
            self.operations.extend(self.namespace, self.operation, changes)
        else:
            self.operations.record(self.namespace, IMPORT_KIND, self.caller.actor, changes, id=self.operation)
            self.logged = True

    def advance(self, count: int) -> None:
        """Report the progress after *count* more items."""
        self.done += count
        if self.on_progress is not None:
            self.on_progress(self.done, self.checked.total)

    def report(self) -> ImportReport:
        """Return the report of the finished import."""
        notes = list(self.notes)
        if self.comparable and not self.vectors:
            space = self.checked.manifest.space
            notes.append(f"its vectors are of {space}, not of this memory's space: they are made anew")
        if not self.is_trusted and any(self.left.values()):
            notes.append(
                "history, log and tombstones were not taken: the file is not known as this memory's own export; "
                "say trust=user if it is yours"
            )
        return ImportReport(
            lines=tuple(sorted(self.lines, key=lambda line: line.line)),
            taken=dict(self.taken),
            left=dict(self.left),
            trusted=self.is_trusted,
            dry_run=self.dry_run,
            operation=self.operation if self.logged else None,
            notes=tuple(notes),
        )


_content = attrgetter("text", "caption", "about", "kind", "tags", "valid_from", "valid_to", "importance", "expires_at")


def comparable_content(memory: Memory) -> tuple[object, ...]:
    """Return the fields in which two memories of one id must agree to be the same."""
    return *_content(memory), {name: value for name, value in memory.metadata.items() if name != NEAR_DUPLICATE_KEY}
