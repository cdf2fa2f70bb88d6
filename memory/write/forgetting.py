"""Forgetting: a memory with all its versions, what was made of it alone, and every copy of its words.

Planned and carried out in one transaction; a dry run is the plan alone. What is left is a tombstone: ids
and a keyed hash, never words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory.codec import from_entry
from memory.errors import NoSuchMemory
from memory.lanes import ARCHIVE, CONVERSATION, lane_of, store_namespace
from memory.records import Actor, Change, Forgotten
from memory.storage.rows import HistoryRow
from memory.storage.serialise import words_of
from memory.times import aware
from memory.write.checking import actor_named, names
from memory.write.context import WriteContext
from memory.write.turns import USED, quotes
from vectorstore import Entry

_SHORT = 8
_FREE = ("title", "heading", "tags")


@dataclass(slots=True)
class _Plan:
    targets: list[str]
    gone: dict[str, list[str]] = field(default_factory=dict)
    """By lane, the ids that go."""
    derived: list[str] = field(default_factory=list)
    also: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    messages: list[HistoryRow] = field(default_factory=list)

    def changes(self) -> list[Change]:
        """Return what the log says of it: which memories went, live ones only."""
        live = {one: None for lane, ids in self.gone.items() if lane_of(lane)[1] != ARCHIVE for one in ids}
        return [Change(one, gone=True) for one in live]

    def receipt(self, *, dry_run: bool, pending: bool = False, operation: str | None = None) -> Forgotten:
        versions = sum(len(ids) for lane, ids in self.gone.items() if lane_of(lane)[1] == ARCHIVE)
        return Forgotten(
            memories=tuple(self.targets),
            versions=versions,
            derived=tuple(self.derived),
            also=tuple(self.also),
            messages=len(self.messages),
            named=tuple(self.named),
            pending=pending,
            dry_run=dry_run,
            operation=operation,
        )


def forget(context: WriteContext, ids: Sequence[str], namespace: str, *, dry_run: bool, actor: Actor) -> Forgotten:
    """Forget the memories *ids*; one that is forgotten already is passed over, an unknown one raises."""
    store = context.lifecycle("forget")
    actor_named(actor, "actor")
    wanted = list(dict.fromkeys(names(ids, "ids")))
    if dry_run:
        return _plan(context, wanted, namespace).receipt(dry_run=True)
    now = aware(context.clock(), context.zone)
    with store.transaction():
        plan = _plan(context, wanted, namespace)
        for lane, gone in plan.gone.items():
            context.embedding.forget_entries(lane, gone)
            store.erase(gone, namespace=lane)
            if lane_of(lane)[1] != ARCHIVE:
                context.tombstones.add(lane, gone, now)
        context.tombstones.add_words(namespace, plan.words, now)
        context.rows.erase(plan.messages)
        changes, operation = plan.changes(), context.operation_ids()
        context.operations.erase(namespace, [one.id for one in changes])
        context.log(namespace, operation, "forget", actor, changes)
    done = operation if changes else None
    return plan.receipt(dry_run=False, pending=store.pending_erasure(), operation=done)


def holds(text: str, words: Iterable[str]) -> bool:
    """Whether *text* holds one of *words* verbatim.

    A text of fewer than eight letters must stand by itself: forgetting "ok" does not take "book".
    """
    return any(_holds(text, one) for one in words)


def _holds(text: str, words: str) -> bool:
    at = text.find(words)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(words) : at + len(words) + 1]
        if len(words) >= _SHORT or not (_is_letter(before) or _is_letter(after)):
            return True
        at = text.find(words, at + 1)
    return False


def _is_letter(character: str) -> bool:
    return character.isalnum() or character == "_"


def _plan(context: WriteContext, ids: list[str], namespace: str) -> _Plan:
    conversation, archive = (store_namespace(namespace, lane) for lane in (CONVERSATION, ARCHIVE))
    lanes = [conversation, *context.document_lanes(namespace)]
    found = context.find(ids, namespace)
    for one in ids:
        if one not in found and not any(context.tombstones.which(lane, [one]) for lane in lanes):
            raise NoSuchMemory(one)
    plan = _Plan([one for one in ids if one in found])
    if not plan.targets:
        return plan
    roots = [*(entry for _, entry in found.values()), *context.versions(plan.targets, namespace)]
    plan.words = {from_entry(entry).text.strip() for entry in roots}
    live = {lane: {one for one, (at, _) in found.items() if at == lane} for lane in lanes}
    survey = _survey(context, lanes, plan)
    plan.derived = _derived(survey, set(plan.targets), set(plan.targets))
    rows = _messages(context, plan, roots, namespace)
    recorded = [row.memory for row in rows if row.memory]
    live[conversation].update(entry.id for entry in context.store.get(recorded, namespace=conversation) if entry)
    for surveyed in survey:
        if surveyed.copy or surveyed.id in plan.derived:
            live[surveyed.lane].add(surveyed.id)
    chosen = set().union(*live.values())
    plan.also = sorted(chosen - set(plan.targets) - set(plan.derived))
    plan.named = sorted(one.id for one in survey if one.id not in chosen and one.leans_on(set(plan.targets)))
    plan.messages = _unique([*rows, *context.rows.of_memories(sorted(chosen), namespace=namespace)])
    old = {
        entry.id
        for entry in context.store.scan(namespace=archive)
        if entry.id.rpartition("@")[0] in live[conversation] or _is_copy(entry, plan.words)
    }
    plan.gone = {lane: sorted(gone) for lane, gone in {**live, archive: old}.items() if gone}
    return plan


@dataclass(frozen=True, slots=True)
class _Surveyed:
    """An entry that has to do with what is forgotten, and how."""

    lane: str
    id: str
    copy: bool
    parents: frozenset[str]
    used: frozenset[str]

    def leans_on(self, ids: set[str]) -> bool:
        return bool((self.parents | self.used) & ids)


def _survey(context: WriteContext, lanes: Sequence[str], plan: _Plan) -> list[_Surveyed]:
    found = []
    for lane in lanes:
        for entry in context.store.scan(namespace=lane):
            parents = frozenset(_ids(entry.metadata.get("derived_from")))
            used = frozenset(_ids(entry.metadata.get(f"meta.{USED}")))
            copy = _is_copy(entry, plan.words)
            if copy or parents or used:
                found.append(_Surveyed(lane, entry.id, copy, parents, used))
    return found


def _derived(survey: Sequence[_Surveyed], targets: set[str], gone: set[str]) -> list[str]:
    """Return what was made from *gone* alone, and from that alone, until nothing more follows."""
    while True:
        more = {one.id for one in survey if one.parents and one.parents <= gone and one.id not in gone}
        if not more:
            return sorted(gone - targets)
        gone = gone | more


def _messages(context: WriteContext, plan: _Plan, roots: Sequence[Entry], namespace: str) -> list[HistoryRow]:
    """Return the messages that the memories come from, and those that hold their words or quote them."""
    places = []
    for entry in roots:
        source = from_entry(entry).source
        if source is not None and source.session is not None and source.sequence is not None:
            places.append((source.session, source.sequence))
    suspects = context.rows.holding([*plan.words, *plan.targets], namespace=namespace)
    holders = [
        row
        for row in suspects
        if any(holds(text, plan.words) for text in words_of(row.message))
        or not set(quotes(row.message)).isdisjoint(plan.targets)
    ]
    own = context.rows.of_memories([*plan.targets, *plan.derived], namespace=namespace)
    return _unique([*own, *context.rows.at(places, namespace=namespace), *holders])


def _unique(rows: Iterable[HistoryRow]) -> list[HistoryRow]:
    return list({(row.session, row.sequence): row for row in rows}.values())


def _is_copy(entry: Entry, words: Iterable[str]) -> bool:
    """Whether *entry* repeats the words: in its text, title, headings or the caller's own fields.

    Not in roles, speakers or dates: forgetting "Ann" does not take all that Ann has said.
    """
    own = (value for field, value in entry.metadata.items() if field in _FREE or field.startswith("meta."))
    return holds(entry.text, words) or any(holds(text, words) for value in own for text in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner)


def _ids(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, (list, tuple)) else []
