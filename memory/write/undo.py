"""Undo: the exact inverse of an operation, as an operation of its own; undoing that does it again.

All of an operation is taken back or none of it, in one transaction. It is refused where a later operation that was not
undone changed the same memory or the same field, and where what it needs was erased. Of an import, passages of
documents stay, as messages do: they come and go by ingesting and forgetting, and have no versions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from memory.codec import from_entry
from memory.errors import CannotUndo
from memory.models import Actor, MemoryChange, Operation
from memory.partitions import ARCHIVE, CONVERSATION, archived_id, store_namespace
from memory.tables.operation_log import IMPORT_KIND, NO_MEMORY, unknown_operation_error
from memory.timestamps import to_aware
from memory.validation import checked_actor, checked_label
from memory.write.access_control import check_may_change, check_may_undo
from memory.write.context import WriteContext
from memory.write.corrections import ATTRIBUTE_KINDS, hide_versions, patch_attributes, patched_metadata
from memory.write.provenance import restored_entry, retired_entry, unversioned_values
from vectorstore import Entry, LifecycleStore

_ALL_FIELDS = "*"
_CONTENT_FIELD = "content"
FORGET_KIND = "forget"
_IRREVERSIBLE = {
    "restore": "what was brought back can be forgotten again",
    "export": "a file that was written elsewhere is not taken back",
}


def undo_operation(
    context: WriteContext, id: str, namespace: str, *, actor: Actor, approved_by: Actor | None = None
) -> Operation:
    """Take the operation *id* back; return the operation that did."""
    store = context.lifecycle("undo")
    checked_label(id, "operation")
    checked_actor(actor, "actor")
    with store.transaction():
        context.embedding.follow()
        operation = context.operations.get(namespace, id)
        if operation is None:
            raise unknown_operation_error(id)
        _check_undoable(operation)
        check_may_undo(actor, operation, approved_by=approved_by)
        log = _UndoLog(context, namespace)
        chain = log.chain(operation)
        wanted = _undoable_changes(context, operation, chain[-1], namespace)
        later = context.operations.later(namespace, id)
        for change in wanted:
            log.check_last(operation, change, later.get(change.id, ()))
        made, now = context.operation_ids(), to_aware(context.clock(), context.zone)
        inverse = _InverseOperation(context, store, namespace, chain, made, actor, approved_by, now)
        changes = tuple(inverse.of(change) for change in wanted)
        done = Operation(made, "undo", actor, now, changes, undoes=id)
        context.operations.add(namespace, done)
        by = [made, *(one.id for one in chain)]
        for place, one in enumerate(chain):  # what it took back stands again, what that took back does not, and so on
            context.operations.undone(namespace, one.id, None if place % 2 else by[place])
    return done


def _check_undoable(operation: Operation) -> None:
    if operation.kind in _IRREVERSIBLE:
        raise CannotUndo(operation.id, _IRREVERSIBLE[operation.kind])
    if operation.undone_by is not None:
        raise CannotUndo(operation.id, f"it was taken back by {operation.undone_by}; undo that to do it again")
    if operation.kind == FORGET_KIND:
        raise CannotUndo(operation.id, "what was forgotten is gone for good")
    if any(change.id == NO_MEMORY for change in operation.changes):
        raise CannotUndo(operation.id, "what was here before it is gone for good; what it brought can be forgotten")


def _undoable_changes(
    context: WriteContext, operation: Operation, root: Operation, namespace: str
) -> tuple[MemoryChange, ...]:
    """Return the changes that can be taken back: of an import, those of passages cannot."""
    if root.kind != IMPORT_KIND:
        return operation.changes
    lane = store_namespace(namespace, CONVERSATION)
    ids = [change.id for change in operation.changes if not change.gone]
    passages = {one for one, entry in zip(ids, context.store.get(ids, namespace=lane), strict=True) if entry is None}
    passages -= context.tombstones.which(lane, passages)
    unknown = sorted(
        passages - {*context.find(sorted(passages), namespace)}
    )  # taken back since, or a passage that went
    passages -= {entry.id.rpartition("@")[0] for entry in context.versions(unknown, namespace)}
    wanted = tuple(change for change in operation.changes if change.id not in passages)
    if not wanted:
        raise CannotUndo(operation.id, "it brought passages of documents alone; forget the documents")
    return wanted


class _UndoLog:
    """What the log says of one namespace's memories; what undone operations took back is looked up once."""

    def __init__(self, context: WriteContext, namespace: str) -> None:
        self._context = context
        self._namespace = namespace
        self._chains: dict[str, tuple[Operation, ...]] = {}

    def chain(self, operation: Operation) -> tuple[Operation, ...]:
        """Return *operation*, what it takes back, what that took back, and so on to the one that did neither."""
        if operation.id not in self._chains:
            before = operation.undoes and self._context.operations.get(self._namespace, operation.undoes)
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
            root = self.root(later).id
            if standing.pop(root, None) is None:  # an operation and its undoing cancel out, whichever came first
                standing[root] = later
        for later in standing.values():
            others = self._touched(later, later.changes[0])
            if _ALL_FIELDS in touched | others or touched & others:
                reason = f"memory {change.id} was changed since, by {later.kind} {later.id}; undo that first"
                raise CannotUndo(operation.id, reason, later.id)

    def _touched(self, operation: Operation, change: MemoryChange) -> frozenset[str]:
        if change.gone or change.before is None:
            return frozenset({_ALL_FIELDS})
        return frozenset({*change.old, *(() if self.root(operation).kind in ATTRIBUTE_KINDS else (_CONTENT_FIELD,))})


@dataclass(frozen=True, slots=True)
class _InverseOperation:
    """How each change of the first operation of *chain* is taken back."""

    context: WriteContext
    store: LifecycleStore
    namespace: str
    chain: Sequence[Operation]
    made: str
    actor: Actor
    approved_by: Actor | None
    now: datetime
    _brought: Mapping[str, Sequence[str]] = field(init=False, repr=False)
    _before: Mapping[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        brought: defaultdict[str, list[str]] = defaultdict(list)
        if self.root.kind == IMPORT_KIND:
            ids = [change.id for change in self.operation.changes if change.before is None]
            for version in self.context.each_version(ids, self.namespace):
                if not version.metadata.get("withdrawn"):
                    brought[version.id.rpartition("@")[0]].append(version.id)
        before = {change.id: change.before for change in self.root.changes if change.before is not None}
        for field_name, value in (("_brought", brought), ("_before", before)):
            object.__setattr__(self, field_name, value)

    @property
    def operation(self) -> Operation:
        """What is taken back."""
        return self.chain[0]

    @property
    def root(self) -> Operation:
        """What was done first of all."""
        return self.chain[-1]

    def of(self, change: MemoryChange) -> MemoryChange:
        """Take *change* back; return what that changes."""
        here = self._here(change.id)
        if here is not None:
            self._check_trust(here)
        if change.gone:
            return self._returned(change, here)
        if here is None:
            raise CannotUndo(self.operation.id, f"memory {change.id} is not there any more")
        if change.before is None:
            return self._gone(here)
        if self.root.kind in ATTRIBUTE_KINDS:
            return self._unmarked(change, here)
        return self._replaced(change, here)

    def _here(self, id: str) -> Entry | None:
        return self.store.get([id], namespace=store_namespace(self.namespace, CONVERSATION))[0]

    def _check_trust(self, entry: Entry) -> None:
        check_may_change(self.actor, [from_entry(entry)], "undo", approved_by=self.approved_by)

    def _gone(self, here: Entry) -> MemoryChange:
        """A memory that was made: into the archive, and with it what an import brought of its past."""
        brought = self._brought.get(here.id, [])
        self._withdraw(brought, withdrawn=True)
        self._archive(here)
        self.store.delete([here.id], namespace=store_namespace(self.namespace, CONVERSATION))
        self._flag(here.id)
        return MemoryChange(here.id, here.revision, gone=True, new={"withdrawn": brought} if brought else {})

    def _returned(self, change: MemoryChange, here: Entry | None) -> MemoryChange:
        """A memory that went to the archive: back again."""
        if here is not None:
            raise CannotUndo(self.operation.id, f"there is another memory {change.id} now")
        version = self._version(change)
        self._check_trust(version)
        self._write(restored_entry(version, change.id, **self._written()), 0)
        self._withdraw(change.new.get("withdrawn", ()), withdrawn=False)
        self._flag(change.id)
        return MemoryChange(change.id)

    def _replaced(self, change: MemoryChange, here: Entry) -> MemoryChange:
        """A version that was replaced: the present one again; marks that were set since stay."""
        version = self._version(change)
        back = restored_entry(version, change.id, **unversioned_values(from_entry(here)), **self._written())
        self._archive(here)
        self._write(replace(back, metadata=patched_metadata(back.metadata, change.old)), here.revision)
        hide_versions(self.context, here.id, change.old, self.namespace)
        self._flag(change.id)
        return MemoryChange(change.id, here.revision, old=change.new, new=change.old)

    def _unmarked(self, change: MemoryChange, here: Entry) -> MemoryChange:
        if not change.old:
            raise CannotUndo(self.operation.id, f"what memory {change.id} had before was erased")
        differs = [name for name, value in change.new.items() if here.metadata.get(name) != value]
        if differs:
            raise CannotUndo(self.operation.id, f"{', '.join(differs)} of memory {change.id} changed beside the log")
        (done,) = patch_attributes(self.context, here, change.old, self.namespace)
        return done

    def _version(self, change: MemoryChange) -> Entry:
        found = (
            None if change.before is None else self.context.entries.archived(change.id, change.before, self.namespace)
        )
        if found is None:
            raise CannotUndo(self.operation.id, f"the earlier version of memory {change.id} was erased")
        return found

    def _written(self) -> dict[str, object]:
        return {"recorded_at": self.now, "operation": self.made, "actor": self.actor}

    def _archive(self, here: Entry) -> None:
        lane = store_namespace(self.namespace, ARCHIVE)
        self.store.upsert([retired_entry(here, self.now, withdrawn=True)], namespace=lane)

    def _write(self, entry: Entry, revision: int) -> None:
        lane = store_namespace(self.namespace, CONVERSATION)
        self.store.upsert([entry], namespace=lane, expect={entry.id: revision})

    def _flag(self, id: str) -> None:
        """Let the version that the root operation replaced count for its time, or not, now that it is back."""
        if (before := self._before.get(id)) is not None:
            taken_back = len(self.chain) % 2 == 1  # and not done again
            self._withdraw([archived_id(id, before)], withdrawn=taken_back)

    def _withdraw(self, versions: Sequence[str], *, withdrawn: bool) -> None:
        """Let archived versions count for their time, or not."""
        lane, fields = store_namespace(self.namespace, ARCHIVE), {"withdrawn": withdrawn or None}
        found = (one for one in self.store.get(list(versions), namespace=lane) if one is not None)
        if changed := {one.id: patched_metadata(one.metadata, fields) for one in found}:
            self.store.patch(changed, namespace=lane)
