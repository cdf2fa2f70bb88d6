"""Undo: the exact inverse of an operation, as an operation of its own; undoing that does it again.

All of an operation is taken back or none of it, in one transaction. It is refused where a later operation that was not
undone changed the same memory or the same field, and where what it needs was erased. Lines about memories that the
system wrote meanwhile refuse nothing: they go with the memory. Of an import, passages of documents stay, as messages
do: they come and go by ingesting and forgetting, and have no versions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from tellback.memory.codec import from_entry, with_metadata, without_stale_vector
from tellback.memory.entry_store import EntryStore, patched_metadata
from tellback.memory.errors import CannotUndo
from tellback.memory.models import MemoryChange, Operation
from tellback.memory.partitions import ARCHIVE, CONVERSATION, archived_id, store_namespace
from tellback.memory.tables.operation_log import IMPORT_KIND, OperationLog, unknown_operation_error
from tellback.memory.tables.tombstones import Tombstones
from tellback.memory.timestamps import Clock
from tellback.memory.validation import checked_label
from tellback.memory.write.access_control import Caller
from tellback.memory.write.attributes import ATTRIBUTE_KINDS, Attributes
from tellback.memory.write.provenance import restored_entry, retired_entry, unversioned_values
from tellback.vectorstore import Entry

_ALL_FIELDS = "*"
_CONTENT_FIELD = "content"
FORGET_KIND = "forget"
_IRREVERSIBLE = {
    FORGET_KIND: "what was forgotten is gone for good",
    "restore": "what was brought back can be forgotten again",
    "export": "a file that was written elsewhere is not taken back",
}


@dataclass(frozen=True, slots=True)
class Undo:
    """Takes operations of the *log* back; *clock* gives aware times."""

    entries: EntryStore
    log: OperationLog
    tombstones: Tombstones
    attributes: Attributes
    clock: Clock

    def undo(self, id: str, caller: Caller) -> Operation:
        """Take the operation *id* back; return the operation that did. In a thread."""
        store, namespace = self.entries.lifecycle("undo"), caller.namespace
        checked_label(id, "operation")
        with store.transaction(lock=namespace):
            self.entries.follow_space()
            operation = self.log.get(namespace, id)
            if operation is None:
                raise unknown_operation_error(id)
            _check_undoable(operation)
            caller.check_may_undo(operation)
            chains = _UndoChains(self.log, namespace)
            chain = chains.chain(operation)
            wanted = self._undoable_changes(operation, chain[-1], namespace)
            later = self.log.later(namespace, id)
            for change in wanted:
                chains.check_last(operation, change, later.get(change.id, ()))
            undo_id, now = self.log.new_id(), self.clock()
            inverse = _InverseOperation(self.entries, self.attributes, chain, undo_id, caller, now)
            changes = [inverse.of(change) for change in wanted]
            undoing = self.log.record(namespace, "undo", caller.actor, changes, id=undo_id, at=now, undoes=id)
            undone_by = [undo_id, *(undone.id for undone in chain)]
            for depth, undone in enumerate(chain):  # what it took back stands again, what that took back does not, ...
                self.log.undone(namespace, undone.id, None if depth % 2 else undone_by[depth])
        return undoing

    def _undoable_changes(self, operation: Operation, root: Operation, namespace: str) -> tuple[MemoryChange, ...]:
        """Return the changes that can be taken back: of an import, those of passages cannot."""
        if root.kind != IMPORT_KIND:
            return operation.changes
        partition = store_namespace(namespace, CONVERSATION)
        ids = [change.id for change in operation.changes if not change.gone]
        stored = self.entries.store.get(ids, namespace=partition)
        missing = {*ids} - {entry.id for entry in stored if entry is not None}
        missing -= self.tombstones.which(partition, missing)
        # a passage that is there or went, or a memory that was taken back since and has a version in the archive
        unknown = sorted(missing - {*self.entries.find(sorted(missing), namespace)})
        passages = missing - {entry.id.rpartition("@")[0] for entry in self.entries.versions(unknown, namespace)}
        wanted = tuple(change for change in operation.changes if change.id not in passages)
        if not wanted:
            raise CannotUndo(operation.id, "it brought passages of documents alone; forget the documents")
        return wanted


def _check_undoable(operation: Operation) -> None:
    if operation.undone_by is not None:
        raise CannotUndo(operation.id, f"it was taken back by {operation.undone_by}; undo that to do it again")
    if (reason := irreversible_reason(operation)) is not None:
        raise CannotUndo(operation.id, reason)


def irreversible_reason(operation: Operation) -> str | None:
    """Return why an operation can never be undone, whatever came after it; None for one that may be."""
    return _IRREVERSIBLE.get(operation.kind)


class _UndoChains:
    """The operations of one namespace with what they take back, and what that took back; looked up once."""

    def __init__(self, log: OperationLog, namespace: str) -> None:
        self._log = log
        self._namespace = namespace
        self._chains: dict[str, tuple[Operation, ...]] = {}

    def chain(self, operation: Operation) -> tuple[Operation, ...]:
        """Return *operation*, what it takes back, what that took back, and so on to the one that did neither."""
        if operation.id not in self._chains:
            before = operation.undoes and self._log.get(self._namespace, operation.undoes)
            self._chains[operation.id] = (operation, *(self.chain(before) if before else ()))
        return self._chains[operation.id]

    def root(self, operation: Operation) -> Operation:
        """Return the operation that *operation* takes back or does again in the end; itself if it does neither."""
        return self.chain(operation)[-1]

    def check_last(self, operation: Operation, change: MemoryChange, after: Sequence[Operation]) -> None:
        """Raise unless nothing of what came *after* it (newest first) and still stands touches what *change* did."""
        touched = self._touched(operation, change)
        standing: dict[str, Operation] = {}
        for later in reversed(after):
            if later.kind == FORGET_KIND and later.undone_by is None:
                raise CannotUndo(operation.id, f"memory {change.id} was forgotten since, by {later.id}", later.id)
            root = self.root(later)
            if root.kind == "describe" and root.actor == "system":  # derived from the memory, in the background
                continue
            if standing.pop(root.id, None) is None:  # an operation and its undoing cancel out, whichever came first
                standing[root.id] = later
        for later in standing.values():
            others = self._touched(later, later.changes[0])
            if _ALL_FIELDS in touched | others or touched & others:
                reason = f"memory {change.id} was changed since, by {later.kind} {later.id}; undo that first"
                raise CannotUndo(operation.id, reason, later.id)

    def _touched(self, operation: Operation, change: MemoryChange) -> frozenset[str]:
        if change.gone or change.before is None:
            return frozenset({_ALL_FIELDS})
        return frozenset({*change.old, *(() if self.root(operation).kind in ATTRIBUTE_KINDS else (_CONTENT_FIELD,))})


@dataclass(frozen=True)
class _InverseOperation:
    """Inverse of each change of the first operation of *chain*."""

    entries: EntryStore
    attributes: Attributes
    chain: Sequence[Operation]
    undo_id: str
    caller: Caller
    now: datetime

    @cached_property
    def partition(self) -> str:
        """Partition of the memories."""
        return store_namespace(self.caller.namespace, CONVERSATION)

    @cached_property
    def archive(self) -> str:
        """Partition of their earlier versions."""
        return store_namespace(self.caller.namespace, ARCHIVE)

    @property
    def operation(self) -> Operation:
        """The operation that is taken back."""
        return self.chain[0]

    @property
    def root(self) -> Operation:
        """The operation at the end of the chain, which takes nothing back."""
        return self.chain[-1]

    @cached_property
    def _brought(self) -> Mapping[str, Sequence[str]]:
        """Versions that an import brought, by the memory that it made."""
        brought: defaultdict[str, list[str]] = defaultdict(list)
        if self.root.kind == IMPORT_KIND:
            ids = [change.id for change in self.operation.changes if change.before is None]
            for version in self.entries.each_version(ids, self.caller.namespace):
                if not version.metadata.get("withdrawn"):
                    brought[version.id.rpartition("@")[0]].append(version.id)
        return brought

    @cached_property
    def _before(self) -> Mapping[str, int]:
        """Revisions that the root operation replaced, by memory."""
        return {change.id: change.before for change in self.root.changes if change.before is not None}

    def of(self, change: MemoryChange) -> MemoryChange:
        """Take *change* back; return what that changes."""
        live = self.entries.store.get([change.id], namespace=self.partition)[0]
        if live is not None:
            self._check_trust(live)
        if change.gone:
            return self._returned(change, live)
        if live is None:
            raise CannotUndo(self.operation.id, f"memory {change.id} is not there any more")
        if change.before is None:
            return self._gone(live)
        if self.root.kind in ATTRIBUTE_KINDS:
            return self._unmarked(change, live)
        return self._replaced(change, live)

    def _check_trust(self, entry: Entry) -> None:
        self.caller.check_may_change([from_entry(entry)], "undo")

    def _gone(self, live: Entry) -> MemoryChange:
        """A memory that was made: into the archive, and with it what an import brought of its past."""
        brought = self._brought.get(live.id, [])
        self._withdraw(brought, withdrawn=True)
        self._archive(live)
        self.entries.store.delete([live.id], namespace=self.partition)
        self._flag(live.id)
        return MemoryChange(live.id, live.revision, gone=True, new={"withdrawn": brought} if brought else {})

    def _returned(self, change: MemoryChange, live: Entry | None) -> MemoryChange:
        """A memory that went to the archive: back again."""
        if live is not None:
            raise CannotUndo(self.operation.id, f"there is another memory {change.id} now")
        version = self._version(change)
        self._check_trust(version)
        self._write(restored_entry(version, change.id, **self._written()), 0)
        self._withdraw(change.new.get("withdrawn", ()), withdrawn=False)
        self._flag(change.id)
        return MemoryChange(change.id)

    def _replaced(self, change: MemoryChange, live: Entry) -> MemoryChange:
        """A version that was replaced: the present one again; marks that were set since stay."""
        version = self._version(change)
        back = restored_entry(version, change.id, **unversioned_values(from_entry(live)), **self._written())
        self._archive(live)
        back = with_metadata(back, patched_metadata(back.metadata, change.old))
        back = replace(back, vector=version.vector, no_vector=version.no_vector)
        self._write(without_stale_vector(back, version), live.revision)
        self.entries.hide_versions(live.id, change.old, self.caller.namespace)
        self._flag(change.id)
        return MemoryChange(change.id, live.revision, old=change.new, new=change.old)

    def _unmarked(self, change: MemoryChange, live: Entry) -> MemoryChange:
        if not change.old:
            raise CannotUndo(self.operation.id, f"what memory {change.id} had before was erased")
        differs = [name for name, value in change.new.items() if live.metadata.get(name) != value]
        if differs:
            raise CannotUndo(self.operation.id, f"{', '.join(differs)} of memory {change.id} changed beside the log")
        (restored,) = self.attributes.patch(live, change.old, self.caller.namespace)
        return restored

    def _version(self, change: MemoryChange) -> Entry:
        version = change.before and self.entries.archived(change.id, change.before, self.caller.namespace)
        if not version:
            raise CannotUndo(self.operation.id, f"the earlier version of memory {change.id} was erased")
        return version

    def _written(self) -> dict[str, object]:
        return {"recorded_at": self.now, "operation": self.undo_id, "actor": self.caller.actor}

    def _archive(self, live: Entry) -> None:
        self.entries.store.upsert([retired_entry(live, self.now, withdrawn=True)], namespace=self.archive)

    def _write(self, entry: Entry, revision: int) -> None:
        self.entries.store.upsert([entry], namespace=self.partition, expect={entry.id: revision})

    def _flag(self, id: str) -> None:
        """Let the version that the root operation replaced count for its time, or not, now that it is back."""
        if (before := self._before.get(id)) is not None:
            taken_back = len(self.chain) % 2 == 1  # and not done again
            self._withdraw([archived_id(id, before)], withdrawn=taken_back)

    def _withdraw(self, versions: Sequence[str], *, withdrawn: bool) -> None:
        """Let archived versions count for their time, or not."""
        stored = self.entries.store.get(list(versions), namespace=self.archive)
        fields = {"withdrawn": withdrawn or None}
        if changed := {entry.id: patched_metadata(entry.metadata, fields) for entry in stored if entry is not None}:
            self.entries.store.patch(changed, namespace=self.archive)
