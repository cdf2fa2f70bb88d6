"""Selection of what to forget: by id, source, session, document, filter, scope, tag or age.

All conditions must hold. A selection without a condition is an error: it means neither nothing nor everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any

from tellback.memory.entry_store import EntryStore
from tellback.memory.errors import ArgumentError, NoSuchMemory
from tellback.memory.history.protocol import HistoryRow
from tellback.memory.models import Source
from tellback.memory.partitions import ARCHIVE, CONVERSATION, parse_store_namespace, store_namespace
from tellback.memory.scopes import Scopes, scope_filter
from tellback.memory.selectors import ForgetSelectors
from tellback.memory.tables.tombstones import Tombstones
from tellback.memory.timestamps import Clock, timestamp_to_text, to_aware
from tellback.memory.validation import checked_int, checked_label, checked_labels, checked_text
from tellback.vectorstore import Filter
from tellback.vectorstore.internals import filter_fields, filter_tree


@dataclass(frozen=True, slots=True)
class ForgetSelection:
    """Checked selectors of one ``forget``; None and empty mean that the selector was not given."""

    ids: tuple[str, ...] | None = None
    source: str | Source | None = None
    session: str | None = None
    document: str | None = None
    where: Filter | None = None
    scopes: Scopes | None = None
    tags: tuple[str, ...] = ()
    before: datetime | None = None

    @classmethod
    def of(
        cls, ids: Sequence[str] | None, selectors: ForgetSelectors, clock: Clock, zone: tzinfo | None
    ) -> ForgetSelection:
        """Return the checked selection; an empty one, and a selector that would hold for everything, raise."""
        checked_ids = None if ids is None else tuple(dict.fromkeys(checked_labels(ids, "ids")))
        if checked_ids == ():
            raise ArgumentError("ids", ids, "the ids of one or more memories are needed")
        selection = cls(
            ids=checked_ids,
            source=selectors.get("source"),
            session=selectors.get("session"),
            document=selectors.get("document"),
            where=selectors.get("where"),
            scopes=selectors.get("scopes"),
            tags=checked_labels(selectors.get("tags", ()), "tags"),
            before=_cutoff_time(selectors.get("older_than"), clock, zone),
        )
        where, scopes, source = selection.where, selection.scopes, selection.source
        if where is not None and not where:
            expected = "a filter with a condition is needed (forget_namespace takes everything)"
            raise ArgumentError("where", where, expected)
        if scopes is not None and not scopes:
            raise ArgumentError("scopes", scopes, "a scope with its value is needed")
        scope_filter(scopes, selection.tags, where)
        if source is not None and not isinstance(source, (str, Source)):
            raise ArgumentError("source", source, "the name of a session or a document, or a Source, is needed")
        if source == Source():
            raise ArgumentError("source", source, "a Source that names a session or a document is needed")
        for argument, value in (("source", source), ("session", selection.session), ("document", selection.document)):
            if isinstance(value, str):
                checked_label(value, argument)
        if selection == cls():
            expected = "say what to forget: ids, source, session, document, where, scopes, tags or older_than"
            raise ArgumentError("forget", None, f"{expected} (forget_namespace takes everything)")
        return selection

    @property
    def includes_messages(self) -> bool:
        """True if a stretch of conversation is selected: its messages go even where nothing was remembered of them."""
        other_selectors = self.ids is not None or self.document or self.where or self.scopes or self.tags
        return not other_selectors and (self.session is not None or self.source is not None or self.before is not None)

    @property
    def includes_documents(self) -> bool:
        """True if passages are selected too: by age alone they are not, since a document is removed whole."""
        return self.before is None or self.document is not None or self.source is not None

    @property
    def spares_pinned(self) -> bool:
        """True if a filter selects memories that nobody named, and does not ask for pinned ones."""
        return self.ids is None and self.where is not None and "pinned" not in filter_fields(filter_tree(self.where))

    def conditions(self) -> list[Filter]:
        """Return the filters on a memory's metadata that the selectors stand for, the ids apart."""
        conditions = [] if self.where is None else [self.where]
        conditions += _source_conditions(Source(session=self.session, document=self.document))
        if isinstance(self.source, str):
            conditions.append({"$or": [{field: self.source} for field in ("session", "source.session", "document")]})
        elif self.source is not None:
            conditions += _source_conditions(self.source)
        if (scoped := scope_filter(self.scopes, self.tags)) is not None:
            conditions.append(scoped)
        if self.before is not None:
            earlier = {"$lt": timestamp_to_text(self.before)}
            recorded_earlier = {"occurred_at": {"$exists": False}, "recorded_at": earlier}
            conditions.append({"$or": [{"occurred_at": earlier}, recorded_earlier]})
        return conditions


def check_forget_query(query: str, k: int, *, dry_run: bool) -> None:
    """Raise unless *query* can select memories: a question, for a dry run, that lists its *k* hits."""
    if not checked_text(query, "query").strip():
        raise ArgumentError("query", query, "a question that is not blank is needed")
    checked_int(k, "k", 1)
    if not dry_run:
        expected = "with dry_run=True it lists what it finds; then forget those of the ids that are meant"
        raise ArgumentError("query", query, expected)


@dataclass(frozen=True, slots=True)
class SelectionResolver:
    """Finds the memories and messages that a selection names. Changes nothing."""

    entries: EntryStore
    tombstones: Tombstones
    zone: tzinfo | None

    def memory_ids(self, selection: ForgetSelection, namespace: str) -> tuple[list[str], int]:
        """Return the ids of the selected memories without those forgotten before, and how many pinned ones are spared.

        An unknown id raises.
        """
        known = None if selection.ids is None else self._known_ids(selection.ids, namespace)
        conditions = selection.conditions()
        if not conditions:
            return known or [], 0
        partitions = [store_namespace(namespace, CONVERSATION)]
        if selection.includes_documents:
            partitions += self.entries.document_partitions(namespace)
        where: dict[str, Any] = {"$and": conditions}
        entries = [
            entry for partition in partitions for entry in self.entries.store.scan(namespace=partition, where=where)
        ]
        spared = {entry.id for entry in entries if selection.spares_pinned and entry.metadata.get("pinned") is True}
        matching = [entry.id for entry in entries if entry.id not in spared]
        # and those of which only earlier versions are left: undone, or merged into others
        versions = self.entries.store.scan(namespace=store_namespace(namespace, ARCHIVE), where=where)
        owners = list(dict.fromkeys(version.id.rpartition("@")[0] for version in versions))
        live = self.entries.store.get(owners, namespace=store_namespace(namespace, CONVERSATION))
        matching += [owner for owner, entry in zip(owners, live, strict=True) if entry is None]
        wanted = None if known is None else set(known)
        return [id for id in matching if wanted is None or id in wanted], len(spared)

    def messages(self, selection: ForgetSelection, namespace: str) -> Iterator[HistoryRow]:
        """Yield the messages that are selected by themselves: those of a session, those older than a time."""
        if not selection.includes_messages:
            return
        session, sequence, source = selection.session, None, selection.source
        if source is not None:
            named = source.session if isinstance(source, Source) else source
            if named is None or session not in (None, named):
                return
            session, sequence = named, source.sequence if isinstance(source, Source) else None
        for row in self.entries.rows.kept(session, namespace=namespace):
            before = selection.before
            is_older = before is None or to_aware(row.message.at or row.at, self.zone) < before
            if is_older and sequence in (None, row.sequence):
                yield row

    def _known_ids(self, ids: Sequence[str], namespace: str) -> list[str]:
        """Return those of *ids* that are here, if only in the archive; one that was never here raises."""
        located = self.entries.find(ids, namespace)
        known = [id for id in ids if id in located or self.entries.versions([id], namespace)]
        missing = [id for id in ids if id not in known]
        if missing:  # they may have a tombstone in any partition: a collection may have nothing left
            partitions = [name for name in self.tombstones.partitions() if parse_store_namespace(name)[0] == namespace]
            forgotten = {id for partition in partitions for id in self.tombstones.which(partition, missing)}
            if unknown := [id for id in missing if id not in forgotten]:
                raise NoSuchMemory(unknown[0])
        return known


def _either(field: str, other: str, value: object) -> Filter:
    return {"$or": [{field: value}, {other: value}]}


def _source_conditions(source: Source) -> Iterator[Filter]:
    """Yield the conditions on a memory whose source has every field that *source* gives."""
    if source.session is not None:
        yield _either("session", "source.session", source.session)
    if source.sequence is not None:
        yield _either("sequence", "source.sequence", source.sequence)
    for field in ("document", "title", "page", "start", "end"):
        if getattr(source, field) is not None:
            yield {field: getattr(source, field)}
    if source.heading:
        yield {"heading": list(source.heading)}


def _cutoff_time(older_than: datetime | timedelta | None, clock: Clock, zone: tzinfo | None) -> datetime | None:
    if older_than is None:
        return None
    if isinstance(older_than, timedelta):
        if older_than < timedelta(0):
            raise ArgumentError("older_than", older_than, "a time that is past, or a length of time, is needed")
        try:
            return to_aware(clock(), zone) - older_than
        except OverflowError as error:
            expected = "a length of time that reaches back to year 1 at most"
            raise ArgumentError("older_than", older_than, expected) from error
    return to_aware(older_than, zone, argument="older_than")
