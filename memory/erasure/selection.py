"""Selection of the memories to forget: by id, by source, by a filter, by age. Changes nothing.

All conditions must hold. No condition is an error: it means neither all nor none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from memory.errors import ArgumentError, NoSuchMemory
from memory.history.protocol import HistoryRow
from memory.models import Source
from memory.partitions import ARCHIVE, CONVERSATION, parse_store_namespace, store_namespace
from memory.scopes import Scopes, scope_filter
from memory.timestamps import timestamp_to_text, to_aware
from memory.validation import checked_label, checked_labels
from memory.write.context import WriteContext
from vectorstore import Filter


@dataclass(frozen=True, slots=True)
class ErasureSelection:
    """What somebody named; None and empty mean not named."""

    ids: tuple[str, ...] | None = None
    source: str | Source | None = None
    session: str | None = None
    document: str | None = None
    where: Filter | None = None
    scopes: Scopes | None = None
    tags: tuple[str, ...] = ()
    before: datetime | None = None

    @property
    def by_place(self) -> bool:
        """Whether a stretch of conversation is meant, with messages of which nothing was remembered too."""
        others = self.ids is not None or self.document or self.where or self.scopes or self.tags
        return not others and (self.session is not None or self.source is not None or self.before is not None)


def checked_selection(
    context: WriteContext,
    *,
    ids: Sequence[str] | None = None,
    source: str | Source | None = None,
    session: str | None = None,
    document: str | None = None,
    where: Filter | None = None,
    scopes: Scopes | None = None,
    tags: Sequence[str] = (),
    older_than: datetime | timedelta | None = None,
) -> ErasureSelection:
    """Return what is named, checked; nothing named, or something named that holds for everything, raises."""
    wanted = None if ids is None else tuple(dict.fromkeys(checked_labels(ids, "ids")))
    if wanted == ():
        raise ArgumentError("ids", ids, "the ids of one or more memories are needed")
    if where is not None and not where:
        raise ArgumentError("where", where, "a filter with a condition is needed (forget_namespace takes everything)")
    if scopes is not None and not scopes:
        raise ArgumentError("scopes", scopes, "a scope with its value is needed")
    scope_filter(scopes, tags)
    if source is not None and not isinstance(source, (str, Source)):
        raise ArgumentError("source", source, "the name of a session or a document, or a Source, is needed")
    if isinstance(source, Source) and source == Source():
        raise ArgumentError("source", source, "a Source that names a session or a document is needed")
    for argument, value in (("source", source), ("session", session), ("document", document)):
        if isinstance(value, str):
            checked_label(value, argument)
    given = ErasureSelection(
        ids=wanted,
        source=source,
        session=session,
        document=document,
        where=where,
        scopes=scopes,
        tags=checked_labels(tags, "tags"),
        before=_cutoff_time(context, older_than),
    )
    if given == ErasureSelection():
        expected = "say what to forget: ids, source, session, document, where, scopes, tags or older_than"
        raise ArgumentError("forget", None, f"{expected} (forget_namespace takes everything)")
    return given


def selected_ids(context: WriteContext, chosen: ErasureSelection, namespace: str) -> list[str]:
    """Return the ids of the memories that are meant, those forgotten before left out; an unknown id raises."""
    lanes = [store_namespace(namespace, CONVERSATION), *context.document_lanes(namespace)]
    there: list[str] | None = None
    if chosen.ids is not None:
        found = context.find(chosen.ids, namespace)
        there = [one for one in chosen.ids if one in found or context.versions([one], namespace)]
        missing = [one for one in chosen.ids if one not in there]
        gone = _forgotten_ids(context, missing, namespace)
        if unknown := [one for one in missing if one not in gone]:
            raise NoSuchMemory(unknown[0])
    conditions = list(_conditions(chosen))
    if not conditions:
        return there or []
    wanted = None if there is None else set(there)
    searched = lanes if _includes_documents(chosen) else lanes[:1]
    matching = [
        entry.id for lane in searched for entry in context.store.scan(namespace=lane, where=_conjunction(conditions))
    ]
    matching += _archived_only_ids(context, conditions, namespace)
    return [one for one in matching if wanted is None or one in wanted]


def _forgotten_ids(context: WriteContext, ids: Sequence[str], namespace: str) -> set[str]:
    """Return those of *ids* that were forgotten, in whichever lane: a collection may have nothing left."""
    lanes = [lane for lane in context.tombstones.lanes() if parse_store_namespace(lane)[0] == namespace] if ids else []
    return {one for lane in lanes for one in context.tombstones.which(lane, ids)}


def _archived_only_ids(context: WriteContext, conditions: Sequence[Filter], namespace: str) -> list[str]:
    """Return the memories of which only old versions are left, since they were undone or merged into others."""
    archive = store_namespace(namespace, ARCHIVE)
    scan = context.store.scan(namespace=archive, where=_conjunction(conditions))
    owners = list(dict.fromkeys(entry.id.rpartition("@")[0] for entry in scan))
    live = context.store.get(owners, namespace=store_namespace(namespace, CONVERSATION))
    return [one for one, entry in zip(owners, live, strict=True) if entry is None]


def selected_messages(context: WriteContext, chosen: ErasureSelection, namespace: str) -> Iterator[HistoryRow]:
    """Yield the messages that are meant by themselves: those of a session, those older than a time."""
    if not chosen.by_place:
        return
    session, sequence = chosen.session, None
    if isinstance(chosen.source, Source):
        if chosen.source.session is None or session not in (None, chosen.source.session):
            return
        session, sequence = chosen.source.session, chosen.source.sequence
    elif chosen.source is not None:
        if session not in (None, chosen.source):
            return
        session = chosen.source
    for row in context.rows.kept(session, namespace=namespace):
        if sequence in (None, row.sequence) and _is_older(context, chosen, row):
            yield row


def _is_older(context: WriteContext, chosen: ErasureSelection, row: HistoryRow) -> bool:
    return chosen.before is None or to_aware(row.message.at or row.at, context.zone) < chosen.before


def _conditions(chosen: ErasureSelection) -> Iterator[Filter]:
    if chosen.where is not None:
        yield chosen.where
    if chosen.session is not None:
        yield {"$or": [{"session": chosen.session}, {"source.session": chosen.session}]}
    if chosen.document is not None:
        yield {"document": chosen.document}
    if isinstance(chosen.source, str):
        yield {"$or": [{field: chosen.source} for field in ("session", "source.session", "document")]}
    elif chosen.source is not None:
        yield from _source_conditions(chosen.source)
    if (of := scope_filter(chosen.scopes, chosen.tags)) is not None:
        yield of
    if chosen.before is not None:
        before = {"$lt": timestamp_to_text(chosen.before)}
        yield {"$or": [{"occurred_at": before}, {"occurred_at": {"$exists": False}, "recorded_at": before}]}


def _source_conditions(source: Source) -> Iterator[Filter]:
    """The memories whose source has everything that *source* names."""
    if source.session is not None:
        yield {"$or": [{"session": source.session}, {"source.session": source.session}]}
    if source.sequence is not None:
        yield {"$or": [{"sequence": source.sequence}, {"source.sequence": source.sequence}]}
    for field in ("document", "title", "page", "start", "end"):
        if getattr(source, field) is not None:
            yield {field: getattr(source, field)}
    if source.heading:
        yield {"heading": list(source.heading)}


def _includes_documents(chosen: ErasureSelection) -> bool:
    """Age alone says nothing of passages: they are as old as their document, which is ingested and removed whole."""
    return chosen.before is None or chosen.document is not None or chosen.source is not None


def _conjunction(conditions: Sequence[Filter]) -> dict[str, Any]:
    return {"$and": list(conditions)}


def _cutoff_time(context: WriteContext, given: datetime | timedelta | None) -> datetime | None:
    if given is None:
        return None
    if isinstance(given, timedelta):
        if given < timedelta(0):
            raise ArgumentError("older_than", given, "a time that is past, or a length of time, is needed")
        try:
            return to_aware(context.clock(), context.zone) - given
        except OverflowError as error:
            raise ArgumentError("older_than", given, "a length of time that reaches back to year 1 at most") from error
    return to_aware(given, context.zone, argument="older_than")
