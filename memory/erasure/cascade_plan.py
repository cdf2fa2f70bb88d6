"""Cascade plan: what goes with a forgotten memory, so that nothing derived from it and no copy of its words stays.

With a memory go its earlier versions, the memories merged into it, those derived from it alone, the message it comes
from with the tool calls behind it, and every memory, passage and message that holds its words verbatim. An entry that
was derived from more than what goes stays, without the backreference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tellback.memory.codec import from_entry
from tellback.memory.entry_store import EntryStore
from tellback.memory.erasure.backreferences import DERIVED_FROM, SOURCE_FIELDS, ids_in_field, referenced_ids
from tellback.memory.erasure.verbatim_match import VerbatimTexts
from tellback.memory.history.protocol import HistoryRow
from tellback.memory.messages import ToolCallBlock, calls_by_message
from tellback.memory.models import Memory
from tellback.memory.partitions import ARCHIVE, CONVERSATION, parse_store_namespace, store_namespace
from tellback.memory.tables.operation_log import OperationLog
from tellback.memory.write.crash_recovery import message_calls
from tellback.memory.write.memory_writer import memory_from_message, quoted_ids
from tellback.vectorstore import Entry
from tellback.vectorstore.internals import scan_holding

MERGE_KIND: Final = "merge"
_MAX_SEARCHED_TEXTS: Final = 64
"""Up to so many texts and ids, the searches of history and store find the messages and entries that may hold them."""
_CALL_DISTANCE: Final = 16
"""Messages before a tool result that are searched for its call."""


@dataclass(slots=True)
class CascadePlan:
    """The items that a forgetting removes, and the entries that stay and refer to them.

    *targets* were selected; *derived* were made from them alone; *also* hold the same words, or were merged into them;
    *named* are answers that used a target and stay, *spared* counts the pinned memories that were selected and stay.
    """

    targets: list[str]
    entries: dict[str, list[str]] = field(default_factory=dict)
    """The ids that go, by partition; archived versions among them."""
    derived: list[str] = field(default_factory=list)
    also: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    referring: dict[str, list[str]] = field(default_factory=dict)
    """The ids that stay and have a backreference to what goes, by partition."""
    texts: VerbatimTexts = field(default_factory=VerbatimTexts)
    messages: list[HistoryRow] = field(default_factory=list)
    spared: int = 0

    @property
    def memories(self) -> list[str]:
        """The memories that go, without their earlier versions."""
        return list(dict.fromkeys([*self.targets, *self.derived, *self.also, *self._live_ids()]))

    @property
    def archived_only(self) -> list[str]:
        """The memories that go and are in the archive alone: undone, or merged into another."""
        live = set(self._live_ids())
        return [id for id in self.memories if id not in live]

    @property
    def versions(self) -> int:
        """The number of earlier versions that go."""
        return sum(len(ids) for partition, ids in self.entries.items() if is_archive(partition))

    def _live_ids(self) -> list[str]:
        return [id for partition, ids in self.entries.items() if not is_archive(partition) for id in ids]


def is_archive(partition: str) -> bool:
    """Return whether *partition* holds earlier versions."""
    return parse_store_namespace(partition)[1] == ARCHIVE


def owner_of(partition: str, entry: Entry) -> str:
    """Return the id of the memory that *entry* is, or is an earlier version of."""
    return entry.id.rpartition("@")[0] if is_archive(partition) else entry.id


@dataclass(frozen=True, slots=True)
class _RelatedEntry:
    """An entry that holds the forgotten words (*copy*), or refers to other memories."""

    partition: str
    id: str
    copy: bool
    parents: frozenset[str]
    used: frozenset[str]
    """The *parents*, from which it was derived, and the memories that an answer was made with."""
    references: frozenset[str]
    """The memories that it used, and those that it replaced."""


@dataclass(frozen=True, slots=True)
class CascadePlanner:
    """Plans what goes with the selected memories and messages. Reads alone: the plan is made inside the transaction
    that carries it out."""

    entries: EntryStore
    operations: OperationLog

    def plan(
        self,
        targets: Sequence[str],
        messages: Sequence[HistoryRow],
        namespace: str,
        *,
        soft_deleted: Sequence[Entry] = (),
    ) -> CascadePlan:
        """Return the plan for the memories *targets*, and for *messages* whether remembered or not.

        *soft_deleted* are the entries of targets that wait in a grace period; they are in no partition any more.
        """
        plan = CascadePlan(list(targets), messages=list(messages))
        if not targets and not messages:
            return plan
        conversation, archive = (store_namespace(namespace, name) for name in (CONVERSATION, ARCHIVE))
        documents = self.entries.document_partitions(namespace)
        located = self.entries.find(targets, namespace)
        live_roots = (entry for _, entry in located.values())
        roots = [*live_roots, *self.entries.versions(targets, namespace), *soft_deleted]
        merged = self._merged_memories(roots, namespace)
        roots += self.entries.versions(merged, namespace)
        plan.texts = VerbatimTexts(from_entry(entry).text.strip() for entry in roots)
        live: dict[str, set[str]] = {partition: set() for partition in (conversation, *documents)}
        for id, (partition, _) in located.items():
            live[partition].add(id)
        names = {*targets, DERIVED_FROM}
        related = self._related_entries(live, plan.texts, names)
        derivations = [*related, *self._archived_derivations(archive, conversation)]
        plan.derived = _derived_only_from(derivations, set(targets))
        derived = set(plan.derived)
        for entry in related:
            if entry.copy or entry.id in derived:
                live[entry.partition].add(entry.id)
        chosen = {*targets, *merged, *derived}.union(*live.values())  # the memories in the archive alone, too
        plan.messages = self._source_messages(plan, roots, chosen, namespace)
        live[conversation].update(self._remembered_in(plan.messages, conversation))
        chosen |= live[conversation]
        plan.also = sorted(chosen - set(targets) - derived)
        further = chosen.difference(targets)
        if further and _is_searched_for(plan.texts, names):  # entries that refer to these alone were not read
            referring = self._related_entries(live, VerbatimTexts(), further)
            related = list({(entry.partition, entry.id): entry for entry in (*referring, *related)}.values())
        staying = [entry for entry in related if not (entry.id in chosen or chosen.isdisjoint(entry.references))]
        plan.named = sorted(entry.id for entry in staying if not entry.used.isdisjoint(targets))
        for entry in staying:
            plan.referring.setdefault(entry.partition, []).append(entry.id)
        owners = chosen.difference(*(live[partition] for partition in documents))
        versions = {version.id for version in self.entries.each_version(sorted(owners), namespace)}
        for version in self._entries_holding(archive, plan.texts, chosen):
            if version.id.rpartition("@")[0] in owners or plan.texts.in_entry(version):
                versions.add(version.id)
            elif not chosen.isdisjoint(referenced_ids(version)):
                plan.referring.setdefault(archive, []).append(version.id)
        plan.entries = {partition: sorted(ids) for partition, ids in {**live, archive: versions}.items() if ids}
        return plan

    def _remembered_in(self, rows: Sequence[HistoryRow], conversation: str) -> Iterator[str]:
        """Yield the memories of messages; not of those that a fork copied, which belong to the first session."""
        sessions: dict[str, set[str | None]] = {}
        for row in rows:
            if row.memory:
                sessions.setdefault(row.memory, {None}).add(row.session)
        for entry in self.entries.store.get(list(sessions), namespace=conversation):
            if entry is not None:
                memory = from_entry(entry)
                told = {memory.session, *(repetition.session for repetition in memory.repeated)}
                if not told.isdisjoint(sessions[entry.id]):
                    yield entry.id

    def _entries_holding(self, partition: str, texts: VerbatimTexts, names: Collection[str]) -> Iterator[Entry]:
        """Return an iterator of the entries that may hold one of *texts*, or one of *names* in their metadata."""
        if _is_searched_for(texts, names):
            return scan_holding(self.entries.store, texts.longest_words(), names=sorted(names), namespace=partition)
        return self.entries.store.scan(namespace=partition)

    def _related_entries(
        self, partitions: Iterable[str], texts: VerbatimTexts, names: Collection[str]
    ) -> list[_RelatedEntry]:
        """Return the entries that hold one of *texts*, or may refer to other memories and hold one of *names*."""
        related = []
        for partition in partitions:
            for entry in self._entries_holding(partition, texts, names):
                parents, references = frozenset(ids_in_field(entry, DERIVED_FROM)), frozenset(referenced_ids(entry))
                used = frozenset(referenced_ids(entry, SOURCE_FIELDS))
                copy = texts.in_entry(entry)
                if copy or references:
                    related.append(_RelatedEntry(partition, entry.id, copy, parents, used, references))
        return related

    def _archived_derivations(self, archive: str, conversation: str) -> list[_RelatedEntry]:
        """Return the memories that only the archive has and that were derived from others: corrected, or undone."""
        store = self.entries.store
        parents: dict[str, set[str]] = {}
        for version in store.scan(namespace=archive, where={DERIVED_FROM: {"$exists": True}}):
            owner = version.id.rpartition("@")[0]
            parents.setdefault(owner, set()).update(ids_in_field(version, DERIVED_FROM))
        live = {entry.id for entry in store.get(sorted(parents), namespace=conversation) if entry is not None}
        return [
            _RelatedEntry(archive, id, copy=False, parents=frozenset(ids), used=frozenset(), references=frozenset())
            for id, ids in parents.items()
            if id not in live
        ]

    def _merged_memories(self, roots: Sequence[Entry], namespace: str) -> list[str]:
        """Return the memories that were merged into *roots*, and into these; only the archive has them."""
        merged: dict[str, None] = {}
        seen: set[str] = set()
        waiting = list(roots)
        while waiting:
            operation_id = waiting.pop().metadata.get("operation")
            if not isinstance(operation_id, str) or operation_id in seen:
                continue
            seen.add(operation_id)
            operation = self.operations.get(namespace, operation_id)
            if operation is not None and operation.kind == MERGE_KIND:
                retired = [change.id for change in operation.changes if change.gone and change.id not in merged]
                live = self.entries.find(retired, namespace)
                for id in retired:
                    if id not in live:
                        merged[id] = None
                        waiting += self.entries.versions([id], namespace)
        return list(merged)

    def _source_messages(
        self, plan: CascadePlan, roots: Sequence[Entry], chosen: set[str], namespace: str
    ) -> list[HistoryRow]:
        """Return the messages that go: the selected ones, sources of memories, copies of their words, tool calls."""
        places = self._matching_places(plan, namespace)
        for entry in roots:
            source = from_entry(entry).source
            if source is not None and source.session is not None and source.sequence is not None:
                places.append((source.session, source.sequence))
        rows = [*plan.messages, *self.entries.rows.at(places, namespace=namespace)]
        rows += self.entries.rows.of_memories(sorted(chosen), namespace=namespace)
        rows += self._calling_messages(rows, namespace)
        return list({(row.session, row.sequence): row for row in rows}.values())

    def _matching_places(self, plan: CascadePlan, namespace: str) -> list[tuple[str, int]]:
        """Return the session and sequence of each message that holds the words, or quotes a memory that goes."""
        targets = set(plan.targets)

        def matches(row: HistoryRow) -> bool:
            if plan.texts.in_message(row.message) or not targets.isdisjoint(quoted_ids(row.message)):
                return True
            return not row.memory and row.message.role == "tool" and plan.texts.held_by(self._tool_message_text(row))

        rows: Iterable[HistoryRow] = self.entries.rows.kept(namespace=namespace)
        if len(plan.texts.texts) + len(targets) <= _MAX_SEARCHED_TEXTS:
            rows = self.entries.rows.holding([*plan.texts.longest_words(), *targets], namespace=namespace)
        return [(row.session, row.sequence) for row in rows if matches(row)]

    def _tool_message_text(self, row: HistoryRow) -> str:
        """Return the text that a memory of a tool message would have; "" where it would have none."""
        if isinstance(memory_from_message(row.message, row.session, row.at), str):  # then its calls do not matter
            return ""
        calls = message_calls(self.entries.rows, row)
        memory = memory_from_message(row.message, row.session, row.at, calls=calls)
        return memory.text if isinstance(memory, Memory) else ""

    def _calling_messages(self, rows: Sequence[HistoryRow], namespace: str) -> list[HistoryRow]:
        """Return the assistant messages whose tool calls produced the tool results among *rows*."""
        results: dict[str, set[int]] = {}
        for row in rows:
            if row.message.role == "tool":
                results.setdefault(row.session, set()).add(row.sequence)
        calling = []
        for session, sequences in results.items():
            nearby = {number for result in sequences for number in range(result - _CALL_DISTANCE, result + 1)}
            found = self.entries.rows.at([(session, number) for number in nearby], namespace=namespace)
            around = sorted(found, key=lambda row: row.sequence)
            calls = calls_by_message([row.message for row in around])
            answered: dict[str, list[ToolCallBlock]] = {}
            for row, row_calls in zip(around, calls, strict=True):
                for call in row_calls if row.sequence in sequences else ():
                    answered.setdefault(call.id, []).append(call)
            calling += [
                row for row in around if any(call in answered.get(call.id, ()) for call in row.message.tool_calls)
            ]
        return calling


def _is_searched_for(texts: VerbatimTexts, names: Collection[str]) -> bool:
    return len(texts.texts) + len(names) <= _MAX_SEARCHED_TEXTS


def _derived_only_from(related: Sequence[_RelatedEntry], targets: set[str]) -> list[str]:
    """Return the memories derived from *targets* alone, directly or through one another."""
    gone = set(targets)
    while True:
        orphans = {entry.id for entry in related if entry.parents and entry.parents <= gone and entry.id not in gone}
        if not orphans:
            return sorted(gone - targets)
        gone |= orphans
