"""Cascade plan of a forgetting: every version and copy, what was derived from it alone, its source messages.

The plan only reads. A memory that was made of more than what is forgotten stays, is named, and loses the
backreference; the backreference comes back when a forgetting is taken back.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from memory.codec import from_entry
from memory.erasure.verbatim_match import VerbatimTexts
from memory.history.protocol import HistoryRow
from memory.messages import USED, ToolCallBlock, calls_by_message
from memory.models import Memory, MemoryChange
from memory.partitions import ARCHIVE, CONVERSATION, parse_store_namespace, store_namespace
from memory.write.context import WriteContext
from memory.write.crash_recovery import message_calls
from memory.write.turn_writer import memory_from_message, quoted_ids
from vectorstore import Entry

PAGE_SIZE: Final = 256
BACKREFERENCES: Final = "mentions"
"""The name under which a package keeps them."""
BACKREFERENCE_FIELDS: Final = ("derived_from", f"meta.{USED}")


def entry_pages(context: WriteContext, lane: str, ids: Sequence[str]) -> Iterator[list[Entry]]:
    """Yield the entries *ids* of a lane, a page at a time."""
    for start in range(0, len(ids), PAGE_SIZE):
        yield [one for one in context.store.get(ids[start : start + PAGE_SIZE], namespace=lane) if one is not None]


def remove_backreferences(
    context: WriteContext, leaning: Mapping[str, Sequence[str]], gone: Collection[str]
) -> str | None:
    """Take the mention of what is *gone* out of the entries *leaning* (ids by lane); return as text what they said."""
    store, said = context.lifecycle("forget"), []
    for lane, ids in leaning.items():
        for page in entry_pages(context, lane, ids):
            said += [[lane, entry.id, _backreferences(entry)] for entry in page]
            store.patch(
                {entry.id: _with_backreferences(entry, _without_ids(_backreferences(entry), gone)) for entry in page},
                namespace=lane,
            )
    return json.dumps(said, ensure_ascii=False) if said else None


def restore_backreferences(context: WriteContext, said: str, back: Collection[str]) -> None:
    """Let the entries mention again what they *said* (as ``remove_backreferences`` returned it) of those that are
    *back*."""
    store = context.lifecycle("restore_forgotten")
    for lane, id, before in json.loads(said):
        for entry in store.get([id], namespace=lane):
            if entry is not None:
                now = _backreferences(entry)
                joined = {name: _restored_ids(ids, now.get(name, ()), back) for name, ids in before.items()}
                store.patch({id: _with_backreferences(entry, joined)}, namespace=lane)


def _backreferences(entry: Entry) -> dict[str, list[Any]]:
    return {name: list(entry.metadata[name]) for name in BACKREFERENCE_FIELDS if name in entry.metadata}


def _without_ids(mentions: Mapping[str, list[Any]], gone: Collection[str]) -> dict[str, list[Any]]:
    return {name: [one for one in ids if one not in gone] for name, ids in mentions.items()}


def _restored_ids(before: Sequence[Any], now: Sequence[Any], back: Collection[str]) -> list[Any]:
    """Return what is mentioned *now* and what was *before* and is *back*, in the order from before."""
    joined, place = list(now), len(now)
    for one in reversed(before):
        if one in joined:
            place = joined.index(one)
        elif one in back:
            joined.insert(place, one)
    return joined


def _with_backreferences(entry: Entry, mentions: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return the metadata of *entry* with other *mentions*; a list that is empty is left out."""
    kept = {name: value for name, value in entry.metadata.items() if name not in mentions}
    return kept | {name: ids for name, ids in mentions.items() if ids}


_CALL_DISTANCE: Final = 16
"""So many messages before an answer are looked through."""


def calling_messages(context: WriteContext, rows: Sequence[HistoryRow], namespace: str) -> list[HistoryRow]:
    """Return the messages whose calls the tool messages among *rows* answer."""
    answers: dict[str, set[int]] = {}
    for row in rows:
        if row.message.role == "tool":
            answers.setdefault(row.session, set()).add(row.sequence)
    return [
        row for session, places in answers.items() for row in _callers_in_session(context, session, places, namespace)
    ]


def _callers_in_session(context: WriteContext, session: str, answers: set[int], namespace: str) -> list[HistoryRow]:
    near = sorted({place for answer in answers for place in range(answer - _CALL_DISTANCE, answer + 1)})
    beside = context.rows.at([(session, place) for place in near], namespace=namespace)
    beside = sorted(beside, key=lambda row: row.sequence)
    asked: dict[str, list[ToolCallBlock]] = {}
    for row, calls in zip(beside, calls_by_message([row.message for row in beside]), strict=True):
        for call in calls if row.sequence in answers else ():
            asked.setdefault(call.id, []).append(call)
    return [row for row in beside if any(call in asked.get(call.id, ()) for call in row.message.tool_calls)]


MERGE_KIND: Final = "merge"
_MAX_SEARCHED_TEXTS: Final = 64


@dataclass(slots=True)
class ErasurePlan:
    """What goes: *targets* were named, the others follow from them. *gone* has the ids by lane."""

    targets: list[str]
    gone: dict[str, list[str]] = field(default_factory=dict)
    derived: list[str] = field(default_factory=list)
    also: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    leaning: dict[str, list[str]] = field(default_factory=dict)
    """By lane, what stays and mentions what goes."""
    words: VerbatimTexts = field(default_factory=VerbatimTexts)
    messages: list[HistoryRow] = field(default_factory=list)

    @property
    def live(self) -> list[str]:
        """The memories that go, without their old versions: as the receipt lists them."""
        there = (one for lane, ids in self.gone.items() if parse_store_namespace(lane)[1] != ARCHIVE for one in ids)
        return list(dict.fromkeys([*self.targets, *self.derived, *self.also, *there]))

    @property
    def archived_only(self) -> list[str]:
        """Those of them that are in the archive alone: undone, or merged into another."""
        there = {one for lane, ids in self.gone.items() if parse_store_namespace(lane)[1] != ARCHIVE for one in ids}
        return [one for one in self.live if one not in there]

    @property
    def versions(self) -> int:
        """How many old versions go."""
        return sum(len(ids) for lane, ids in self.gone.items() if parse_store_namespace(lane)[1] == ARCHIVE)

    def changes(self) -> list[MemoryChange]:
        """Return what the log says of it."""
        return [MemoryChange(one, gone=True) for one in self.live]


def plan_erasure(
    context: WriteContext,
    targets: Sequence[str],
    messages: Sequence[HistoryRow],
    namespace: str,
    *,
    aside: Sequence[Entry] = (),
) -> ErasurePlan:
    """Return the plan for forgetting the memories *targets*, and *messages* whether remembered or not.

    *aside* is what is put aside of the targets; they are in no lane any more.
    """
    conversation, archive = (store_namespace(namespace, lane) for lane in (CONVERSATION, ARCHIVE))
    lanes = [conversation, *context.document_lanes(namespace)]
    plan = ErasurePlan(list(targets), messages=list(messages))
    if not targets and not messages:
        return plan
    found = context.find(targets, namespace)
    roots = [*(entry for _, entry in found.values()), *context.versions(targets, namespace), *aside]
    merged = _merged_memories(context, roots, namespace)
    roots += context.versions(merged, namespace)
    plan.words = VerbatimTexts(from_entry(entry).text.strip() for entry in roots)
    live = {lane: {one for one, (at, _) in found.items() if at == lane} for lane in lanes}
    survey = _survey_entries(context, lanes, plan.words)
    plan.derived = _derived_only_from([*survey, *_archived_derivations(context, archive, conversation)], set(targets))
    derived = set(plan.derived)
    for one in survey:
        if one.copy or one.id in derived:
            live[one.lane].add(one.id)
    chosen: set[str] = set().union(*live.values())
    chosen |= {*targets, *merged, *derived}  # those that are in the archive alone, too
    rows = [*messages, *_source_messages(context, plan, roots, namespace)]
    rows += context.rows.of_memories(sorted(chosen), namespace=namespace)
    plan.messages = _unique_rows([*rows, *calling_messages(context, rows, namespace)])
    recorded = [row.memory for row in plan.messages if row.memory]
    there = {entry.id for entry in context.store.get(recorded, namespace=conversation) if entry is not None}
    live[conversation] |= there
    chosen |= there
    plan.also = sorted(chosen - set(targets) - derived)
    plan.named = sorted(one.id for one in survey if one.id not in chosen and one.leans_on(set(targets)))
    for one in survey:
        if one.id not in chosen and one.leans_on(chosen):
            plan.leaning.setdefault(one.lane, []).append(one.id)
    old = set()
    owners = chosen - set().union(*(live[lane] for lane in lanes[1:]))
    for entry in context.store.scan(namespace=archive):
        if entry.id.rpartition("@")[0] in owners or plan.words.in_entry(entry):
            old.add(entry.id)
        elif not chosen.isdisjoint(_source_ids(entry)):
            plan.leaning.setdefault(archive, []).append(entry.id)
    plan.gone = {lane: sorted(gone) for lane, gone in {**live, archive: old}.items() if gone}
    return plan


@dataclass(frozen=True, slots=True)
class _SurveyedEntry:
    """An entry that has to do with what is forgotten, and how."""

    lane: str
    id: str
    copy: bool
    parents: frozenset[str]
    used: frozenset[str]

    def leans_on(self, ids: set[str]) -> bool:
        return not (self.parents.isdisjoint(ids) and self.used.isdisjoint(ids))


def _survey_entries(context: WriteContext, lanes: Sequence[str], words: VerbatimTexts) -> list[_SurveyedEntry]:
    found = []
    for lane in lanes:
        for entry in context.store.scan(namespace=lane):
            parents, used = (frozenset(_text_ids(entry.metadata.get(name))) for name in BACKREFERENCE_FIELDS)
            copy = words.in_entry(entry)
            if copy or parents or used:
                found.append(_SurveyedEntry(lane, entry.id, copy, parents, used))
    return found


def _archived_derivations(context: WriteContext, archive: str, conversation: str) -> list[_SurveyedEntry]:
    """Return the memories that only the archive has, and that were made of others: by a correction, or undone."""
    parents: dict[str, set[str]] = {}
    for entry in context.store.scan(namespace=archive, where={"derived_from": {"$exists": True}}):
        parents.setdefault(entry.id.rpartition("@")[0], set()).update(_text_ids(entry.metadata["derived_from"]))
    live = {entry.id for entry in context.store.get(sorted(parents), namespace=conversation) if entry is not None}
    return [
        _SurveyedEntry(archive, one, False, frozenset(of), frozenset())
        for one, of in parents.items()
        if one not in live
    ]


def _derived_only_from(survey: Sequence[_SurveyedEntry], targets: set[str]) -> list[str]:
    """Return what was made from *targets* alone, and from that alone, until nothing more follows."""
    gone = set(targets)
    while True:
        more = {one.id for one in survey if one.parents and one.parents <= gone and one.id not in gone}
        if not more:
            return sorted(gone - targets)
        gone |= more


def _merged_memories(context: WriteContext, roots: Sequence[Entry], namespace: str) -> list[str]:
    """Return the memories that were merged into those of *roots*, and into these; only the archive has them."""
    found: dict[str, None] = {}
    asked: set[str] = set()
    left = list(roots)
    while left:
        operation = left.pop().metadata.get("operation")
        if not isinstance(operation, str) or operation in asked:
            continue
        asked.add(operation)
        done = context.operations.get(namespace, operation)
        if done is not None and done.kind == MERGE_KIND:
            gone = [one.id for one in done.changes if one.gone and one.id not in found]
            there = context.find(gone, namespace)
            for one in gone:
                if one not in there:
                    found[one] = None
                    left += context.versions([one], namespace)
    return list(found)


def _source_messages(
    context: WriteContext, plan: ErasurePlan, roots: Sequence[Entry], namespace: str
) -> list[HistoryRow]:
    """Return the messages that the memories name as their source, and those that hold their words or quote them."""
    places = []
    for entry in roots:
        source = from_entry(entry).source
        if source is not None and source.session is not None and source.sequence is not None:
            places.append((source.session, source.sequence))
    places += _matching_places(context, plan, namespace)
    return context.rows.at(places, namespace=namespace)


def _matching_places(context: WriteContext, plan: ErasurePlan, namespace: str) -> list[tuple[str, int]]:
    """Return where a message holds the words, or quotes a memory that goes."""
    targets = set(plan.targets)

    def holds(row: HistoryRow) -> bool:
        if plan.words.in_message(row.message) or not targets.isdisjoint(quoted_ids(row.message)):
            return True
        return not row.memory and row.message.role == "tool" and plan.words.held_by(_tool_message_text(context, row))

    if len(plan.words.texts) + len(targets) <= _MAX_SEARCHED_TEXTS:  # then the file finds what may hold them
        suspects = context.rows.holding([*plan.words.longest(), *targets], namespace=namespace)
        return [(row.session, row.sequence) for row in suspects if holds(row)]
    return [(row.session, row.sequence) for row in context.rows.kept(namespace=namespace) if holds(row)]


def _tool_message_text(context: WriteContext, row: HistoryRow) -> str:
    """Return what a memory of a tool message says, where it has none: it is one of the same words."""
    if isinstance(
        memory_from_message(row.message, row.session, row.at), str
    ):  # it never has one; then its calls are not sought
        return ""
    memory = memory_from_message(row.message, row.session, row.at, calls=message_calls(context, row))
    return memory.text if isinstance(memory, Memory) else ""


def _unique_rows(rows: Iterable[HistoryRow]) -> list[HistoryRow]:
    return list({(row.session, row.sequence): row for row in rows}.values())


def _source_ids(entry: Entry) -> list[str]:
    return [one for name in BACKREFERENCE_FIELDS for one in _text_ids(entry.metadata.get(name))]


def _text_ids(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, (list, tuple)) else []
