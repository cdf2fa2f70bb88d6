"""Taking an export in: one transaction, so that a process that is killed has taken nothing, and may begin again.

Policies decide as they do for what is remembered. What was forgotten here does not come back, a file's word on trust
is taken only where the owner's own file or the caller stands for it, and nothing goes to another namespace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Final

from memory.codec import from_entry, to_entry, to_metadata
from memory.errors import UnreadableExport
from memory.forgotten.message_marks import history_lane, marks_of
from memory.lanes import ARCHIVE, CONVERSATION, DOCUMENTS, archived_id, store_namespace
from memory.portable.deciding import MEMORIES, lowered
from memory.portable.items import beside_of, forgotten_of, memory_of, message_of, operation_of, vector_of
from memory.portable.reading import Checked, lines_of
from memory.portable.report import ImportLine, ImportReport, Item, Mode
from memory.portable.room import make_room, raise_revisions
from memory.records import Actor, Change, Memory, Outcome, Trust
from memory.times import aware
from memory.write.cleaning import cleaned_message, cleaners
from memory.write.context import WriteContext
from memory.write.judging import Judged
from memory.write.marking import hide
from memory.write.operations import IMPORT, replaced_all
from memory.write.versions import begun, remarked, retired
from vectorstore import Entry, Space, Vector

_BATCH: Final = 256
_RANK: Final = tuple(Trust)
_KEPT: Final = "what is here was said otherwise, and stays as it is"


@dataclass(frozen=True, slots=True)
class _Drafted:
    """A memory of the file, ready to be written: where it is from, and what the policies made of it."""

    line: int
    lane: str
    memory: Memory
    outcome: Outcome
    reason: str
    beside: Mapping[str, Any]
    vector: Vector | None
    no_vector: str | None
    version: int | None = None


@dataclass(slots=True)
class Taking:
    """One import under way; *ceiling* is the most trust that anything in the file can have, None: its own word."""

    context: WriteContext
    namespace: str
    mode: Mode
    checked: Checked
    ceiling: Trust | None
    dry_run: bool
    actor: Actor
    operation: str
    decisions: Mapping[int, Judged]
    lines: list[ImportLine] = field(default_factory=list)
    taken: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    changes: list[Change] = field(default_factory=list)
    added: set[str] = field(default_factory=set)
    waiting: list[_Drafted] = field(default_factory=list)
    vectors: bool = False
    loners: set[str] = field(default_factory=set)
    """Memories of which this file gave earlier versions alone."""

    def run(self, on_progress: Callable[[int, int], object] | None) -> ImportReport:
        """Take the file in; return what became of each item."""
        store = self.context.lifecycle("import")
        self.vectors = self._same_space()
        total, removed = sum(self.checked.manifest.counts.values()), 0
        with nullcontext() if self.dry_run else store.transaction():
            if self.mode == "replace":
                removed = make_room(self.context, self.namespace, dry_run=self.dry_run)
                self.changes += [replaced_all(removed)] if removed else []
            if not self.dry_run:
                raise_revisions(self.context, self.namespace, self.checked.versions, self.operation)
            hash_now = None
            for number, given in lines_of(self.checked.path):
                if number == 1:
                    hash_now = given.hash
                    continue
                self._take(number, given)
                if on_progress is not None and not number % _BATCH:
                    on_progress(number - 1, total)
            self._flush()
            if hash_now != self.checked.manifest.hash:
                raise UnreadableExport(str(self.checked.path), 1, "the file was changed while it was read")
            done = self._log()
        if on_progress is not None:
            on_progress(total, total)
        return ImportReport(
            lines=tuple(self.lines),
            taken=dict(self.taken),
            left=dict(self.left),
            trusted=self.ceiling is None or self.ceiling is Trust.USER,
            removed=removed,
            dry_run=self.dry_run,
            operation=done,
            notes=tuple(self._notes()),
        )

    def _take(self, number: int, given: Mapping[str, Any]) -> None:
        kind = given["type"]
        if kind in MEMORIES:
            self._draft(number, given)
            return
        self._flush()
        if self.ceiling not in (None, Trust.USER):
            self.left[kind] += 1  # what was said, done and forgotten is told by the owner's own file alone
            return
        took = self._take_other(kind, given)
        (self.taken if took else self.left)[kind] += 1

    def _take_other(self, kind: str, given: Mapping[str, Any]) -> bool:
        context, namespace = self.context, self.namespace
        if kind == Item.MESSAGE:
            row = message_of(given, namespace)
            there = self.mode != "replace" and context.rows.at([(row.session, row.sequence)], namespace=namespace)
            if there or self._is_forgotten(store_namespace(namespace, CONVERSATION), row.memory):
                return False
            if context.tombstones.which(history_lane(namespace), marks_of(context.tombstones.key, [row])):
                return False
            clean, _ = cleaned_message(row.message, cleaners(context.rules.policies))
            return self.dry_run or bool(context.rows.place([replace(row, message=clean)]))
        if kind == Item.OPERATION:
            operation = operation_of(given)
            if context.operations.get(namespace, operation.id) is not None and not (
                self.dry_run and self.mode == "replace"
            ):
                return False
            if not self.dry_run:
                context.operations.add(namespace, operation)
            return True
        if kind == Item.FORGOTTEN:
            return self._forget(*forgotten_of(given))
        part = next(one for one in context.carried if one.line == kind)
        return part.take(namespace, given, write=not self.dry_run) or (self.dry_run and self.mode == "replace")

    def _forget(self, collection: str | None, id: str, at: Any) -> bool:
        lane = self._lane(collection)
        there = id in self.added or self.context.store.get([id], namespace=lane)[0] is not None
        if there or self._is_forgotten(lane, id):
            return False
        if not self.dry_run:
            self.context.tombstones.add(lane, [id], at)
        return True

    def _draft(self, number: int, given: Mapping[str, Any]) -> None:
        told = memory_of(given)
        memory = lowered(told, self.ceiling)
        reasons = [f"trust lowered to {self.ceiling}"] if memory.trust is not told.trust else []
        version = given.get("version")
        lane = self._lane(given.get("collection"))
        judged = self.decisions.get(number) or Judged(memory, Outcome.STORED)
        if judged.memory is None:
            self._say(_Drafted(number, lane, memory, judged.outcome, judged.reason, {}, None, None, version))
            return
        if judged.reason:
            reasons.append(judged.reason)
        vector = vector_of(given, self._dimension()) if self.vectors and judged.memory.text == memory.text else None
        kept = replace(judged.memory, id=memory.id)
        if self.ceiling not in (None, Trust.USER):
            kept = replace(kept, operation=None if self.dry_run else self.operation)
        self.waiting.append(
            _Drafted(
                number,
                lane,
                kept,
                judged.outcome,
                "; ".join(reasons),
                beside_of(given),
                vector,
                given.get("no_vector"),
                version,
            )
        )
        if len(self.waiting) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        """Write what waits, lane by lane, in order."""
        waiting, self.waiting = self.waiting, []
        for lane in dict.fromkeys(one.lane for one in waiting):
            live = [one for one in waiting if one.lane == lane and one.version is None]
            self._write(lane, live)
        self._write_versions([one for one in waiting if one.version is not None])

    def _write(self, lane: str, drafts: Sequence[_Drafted]) -> None:
        if not drafts:
            return
        ids = [one.memory.id for one in drafts]
        gone = self.context.tombstones.which(lane, ids)
        archived = self._archived_only(lane, ids)
        fresh: list[Entry] = []
        for one, entry in zip(drafts, self._there(lane, ids), strict=True):
            id = one.memory.id
            if entry is not None:
                self._meet(one, entry)
            elif id in gone:
                self._say(replace(one, outcome=Outcome.REJECTED, reason="forgotten"))
            elif id in archived:
                reason = "its versions are in the archive here: it was undone, or merged into another"
                self._say(replace(one, outcome=Outcome.DUPLICATE, reason=reason))
            else:
                fresh.append(self._entry(one))
                self.added.add(id)
                self.changes.append(Change(id))
                self._say(one)
        if fresh and not self.dry_run:
            self.context.store.upsert(fresh, namespace=lane, expect={entry.id: 0 for entry in fresh})

    def _meet(self, one: _Drafted, entry: Entry) -> None:
        """Something of that id is here already."""
        here = from_entry(entry)
        if _content(here) == _content(one.memory):
            self._say(replace(one, outcome=Outcome.DUPLICATE, reason="known already"))
        elif self.mode != "upsert":
            self._say(replace(one, outcome=Outcome.DUPLICATE, reason=_KEPT))
        elif _RANK.index(one.memory.trust) > _RANK.index(here.trust):
            self._say(replace(one, outcome=Outcome.REJECTED, reason="what is here is trusted more"))
        else:
            self._correct(one, entry)

    def _correct(self, one: _Drafted, entry: Entry) -> None:
        change = Change(entry.id, entry.revision)
        if one.lane == store_namespace(self.namespace, CONVERSATION) and not self.dry_run:
            now = aware(self.context.clock(), self.context.zone)
            version = replace(
                one.memory,
                recorded_at=now,
                counts_from=None,
                supersedes=archived_id(entry.id, entry.revision),
                operation=self.operation,
            )
            archive = store_namespace(self.namespace, ARCHIVE)
            self.context.store.upsert([retired(entry, now, counts_to=begun(version))], namespace=archive)
            change = remarked(entry, to_metadata(version))
            hide(self.context, entry.id, entry.metadata, change.new, self.namespace)
            one = replace(one, memory=version)
        if not self.dry_run:
            expect = {entry.id: entry.revision}
            self.context.store.upsert([self._entry(one)], namespace=one.lane, expect=expect)
        self.changes.append(change)
        self._say(replace(one, reason="; ".join(part for part in (one.reason, "corrected by the file") if part)))

    def _write_versions(self, drafts: Sequence[_Drafted]) -> None:
        """Earlier versions come with their memory, or by themselves where the file has no present one."""
        archive, conversation = (store_namespace(self.namespace, lane) for lane in (ARCHIVE, CONVERSATION))
        entries = []
        for one in drafts:
            owner = one.memory.id
            alone = owner not in self.checked.owners and owner not in self.added
            if alone and (self._is_forgotten(conversation, owner) or self._archived_only(conversation, [owner])):
                alone = False
            elif alone:
                alone = self._there(conversation, [owner])[0] is None
            if owner not in self.added and not alone and owner not in self.loners:
                self.left[Item.VERSION] += 1
                continue
            if alone:
                self.loners.add(owner)
            memory = replace(one.memory, id=archived_id(owner, one.version or 0))
            entries.append(self._entry(replace(one, memory=memory)))
            self.taken[Item.VERSION] += 1
        if entries and not self.dry_run:
            self.context.store.upsert(entries, namespace=archive, expect={entry.id: 0 for entry in entries})

    def _entry(self, one: _Drafted) -> Entry:
        entry = to_entry(one.memory, vector=one.vector, no_vector=one.no_vector if one.vector is None else None)
        return replace(entry, metadata={**one.beside, **entry.metadata}) if one.beside else entry

    def _say(self, one: _Drafted) -> None:
        stored = one.outcome in (Outcome.STORED, Outcome.REDACTED)
        if one.version is not None:
            self.left[Item.VERSION] += not stored
            return
        pending = stored and one.vector is None and one.no_vector is None
        self.lines.append(ImportLine(one.line, one.memory.id, one.outcome, one.reason, pending))

    def _there(self, lane: str, ids: Sequence[str]) -> list[Entry | None]:
        if self.mode == "replace":  # what was here went, or would go
            return [None] * len(ids)
        return self.context.store.get(ids, namespace=lane)

    def _archived_only(self, lane: str, ids: Sequence[str]) -> set[str]:
        if self.mode == "replace" or lane != store_namespace(self.namespace, CONVERSATION):
            return set()
        found = self.context.versions([one for one in ids if one not in self.added], self.namespace)
        owners = {entry.id.rpartition("@")[0] for entry in found} - self.loners
        live = self.context.store.get(sorted(owners), namespace=lane)
        return owners - {entry.id for entry in live if entry is not None}

    def _is_forgotten(self, lane: str, id: str | None) -> bool:
        return bool(id) and id in self.context.tombstones.which(lane, [id or ""])

    def _lane(self, collection: str | None) -> str:
        lane = CONVERSATION if collection is None else DOCUMENTS
        return store_namespace(self.namespace, lane, collection)

    def _dimension(self) -> int | None:
        space = self.checked.manifest.space
        return None if space is None else space.dimension

    def _same_space(self) -> bool:
        """Whether the file's vectors are of the space in use; a memory without one takes that of its embedder."""
        theirs, store = self.checked.manifest.space, self.context.lifecycle("import")
        if theirs is None or not self.checked.manifest.vectors:
            return False
        embedder = self.context.embedding.embedder
        if store.space is None and embedder is not None and embedder.fingerprint == theirs.fingerprint:
            if not self.dry_run:
                store.set_space(Space(theirs.fingerprint, theirs.dimension, theirs.metric))
            return True
        return store.space == theirs

    def _log(self) -> str | None:
        if self.dry_run or not self.changes:
            return None
        self.context.log(self.namespace, self.operation, IMPORT, self.actor, self.changes)
        return self.operation

    def _notes(self) -> list[str]:
        notes = []
        if self.checked.manifest.vectors and not self.vectors and self.checked.manifest.space is not None:
            notes.append(
                f"its vectors are of {self.checked.manifest.space}, not of this memory's space: they are made anew"
            )
        if self.ceiling not in (None, Trust.USER) and any(self.left.values()):
            notes.append(
                "history, log and tombstones were not taken: the file is not known as this memory's own export; "
                "say trust=user if it is yours"
            )
        return notes


def _content(memory: Memory) -> tuple[object, ...]:
    return (
        memory.text,
        memory.caption,
        memory.kind,
        memory.tags,
        memory.valid_from,
        memory.valid_to,
        dict(memory.metadata),
        memory.importance,
        memory.expires_at,
    )
