"""Queries of a listing: filters, order, keyset cursors, pages, counts and statistics. Nothing is ranked here.

A cursor names the last memory of a page by what orders it, so the next page goes on behind that place whatever was
written or removed meanwhile: a memory that stays as it is is on exactly one page.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import islice
from typing import Any, Final, Literal, TypeAlias, get_args

from tellback.memory.codec import from_entry
from tellback.memory.errors import ArgumentError
from tellback.memory.partitions import (
    ARCHIVE,
    CONVERSATION,
    DOCUMENTS,
    parse_store_namespace,
    prefix_of,
    store_namespace,
)
from tellback.memory.results import MemoryPage, Stats
from tellback.memory.retrieval.index.validity import ValidityFilter, combine_filters
from tellback.memory.scopes import scope_filter
from tellback.memory.selectors import ListFilters
from tellback.memory.timestamps import timestamp_from_text, timestamp_to_text, to_aware
from tellback.memory.validation import checked_label, checked_labels, checked_text, checked_trust
from tellback.vectorstore import Entry, Filter, VectorStore, scan_by, scan_position
from tellback.vectorstore.internals import ScanPosition, scan_outlines

ListOrder: TypeAlias = Literal["id", "oldest", "newest"]
_ORDER_FIELDS: Final = ("occurred_at", "recorded_at")
"""Fields that order by time: when it was said, or else written; equal times by id."""


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Filters, checked and ready for a store: where to look, what must hold of metadata, and of the text."""

    lanes: tuple[str, ...]
    where: Filter | None
    contains: str | None

    @classmethod
    def of(cls, filters: ListFilters, namespace: str, *, now: datetime, zone: tzinfo | None) -> ListQuery:
        """Return the selection that *filters* name; raise ``ArgumentError`` for one that cannot be."""
        standing = ValidityFilter(now, _checked_time(filters, "as_of", zone), _checked_time(filters, "known_at", zone))
        conditions: list[Filter] = [*standing.time_conditions()] if standing.past else []
        if selected := scope_filter(filters.get("scopes"), filters.get("tags", ()), filters.get("where")):
            conditions.append(selected)
        kinds = checked_labels(filters.get("kinds", ()), "kinds")
        trusts = [checked_trust(trust, "trust").value for trust in _checked_list(filters.get("trust", ()))]
        for field, values in (("kind", kinds), ("trust", trusts)):
            if values:
                conditions.append({field: {"$in": list(values)}})
        if (session := filters.get("session")) is not None:
            conditions.append({"session": checked_label(session, "session")})
        for field in ("pinned", "disabled"):
            conditions += _flag_condition(field, filters.get(field), {field: True})
        expired: Filter = {"expires_at": {"$lte": timestamp_to_text(now)}}
        conditions += _flag_condition("expired", filters.get("expired"), expired)
        conditions += time_conditions(filters.get("between"), zone)
        contains = filters.get("contains")
        lanes = (CONVERSATION, ARCHIVE) if standing.past else (CONVERSATION,)
        return cls(
            tuple(store_namespace(namespace, lane) for lane in lanes),
            combine_filters(conditions),
            None if contains is None else checked_text(contains, "contains").casefold(),
        )

    def entries(self, store: VectorStore, *, after: str | None = None) -> Iterator[Entry]:
        """Yield what is selected in order of id, those after the id *after*."""
        scans = [store.scan(where=self.where, namespace=lane, after=after) for lane in self.lanes]
        yield from filter(self._says, heapq.merge(*scans, key=lambda entry: entry.id))

    def by_time(self, store: VectorStore, *, newest: bool, after: ScanPosition | None = None) -> Iterator[Entry]:
        """Yield what is selected by when it was said, or else written, those behind the place *after*."""
        options: dict[str, Any] = {"reverse": newest, "where": self.where, "after": after}
        scans = [scan_by(store, _ORDER_FIELDS, namespace=lane, **options) for lane in self.lanes]
        every = heapq.merge(*scans, key=lambda entry: scan_position(entry, _ORDER_FIELDS), reverse=newest)
        yield from filter(self._says, every)

    def count(self, store: VectorStore) -> int:
        """Return how many are selected."""
        if self.contains is not None:
            return sum(1 for _ in self.entries(store))
        return sum(store.count(where=self.where, namespace=lane) for lane in self.lanes)

    def page(self, store: VectorStore, *, order: ListOrder, after: str | None, limit: int) -> MemoryPage:
        """Return the *limit* memories that come after the cursor *after*, and the cursor of the next page."""
        if order not in get_args(ListOrder):
            raise ArgumentError("order", order, f"one of {', '.join(get_args(ListOrder))} is needed")
        cursor = None if after is None else checked_text(after, "after")
        if order == "id":
            entries = self.entries(store, after=cursor)
        else:
            position = None if cursor is None else _parse_cursor(cursor, order)
            entries = self.by_time(store, newest=order == "newest", after=position)
        entries_read = list(islice(entries, limit + 1))
        memories = tuple(from_entry(entry) for entry in entries_read[:limit])
        if not memories or len(entries_read) <= limit:
            return MemoryPage(memories)
        last = entries_read[limit - 1]
        place = last.id if order == "id" else "/".join((order, *scan_position(last, _ORDER_FIELDS)))
        return MemoryPage(memories, next=place)

    def _says(self, entry: Entry) -> bool:
        return self.contains is None or self.contains in entry.text.casefold()


def _parse_cursor(cursor: str, order: ListOrder) -> ScanPosition:
    kind, _, rest = cursor.partition("/")
    time, slash, id = rest.partition("/")
    if kind != order or not slash:
        raise ArgumentError("after", cursor, f"the cursor that a page in the order {order!r} gave is needed")
    return time, id


def _checked_list(values: Any) -> Sequence[Any]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ArgumentError("trust", values, "a list is needed")
    return values


def _flag_condition(argument: str, wanted: object, condition: Filter) -> list[Filter]:
    if wanted is None:
        return []
    if not isinstance(wanted, bool):
        raise ArgumentError(argument, wanted, "True, False or None is needed")
    return [condition] if wanted else [{"$not": condition}]


def time_conditions(times: Any, zone: tzinfo | None) -> list[Filter]:
    """Return the filters of when something was said, or else written; *times* as in ``ListFilters.between``."""
    if times is None:
        return []
    if not isinstance(times, tuple) or len(times) != 2:
        raise ArgumentError("between", times, "two times are needed, each may be None")
    conditions: list[Filter] = []
    for operator, moment in zip(("$gte", "$lt"), times, strict=True):
        if moment is not None:
            bound = {operator: timestamp_to_text(to_aware(moment, zone, argument="between"))}
            unsaid: Filter = {"occurred_at": {"$exists": False}, "recorded_at": bound}
            conditions.append({"$or": [{"occurred_at": bound}, unsaid]})
    return conditions


def _checked_time(filters: ListFilters, argument: Literal["as_of", "known_at"], zone: tzinfo | None) -> datetime | None:
    moment = filters.get(argument)
    return None if moment is None else to_aware(moment, zone, argument=argument)


def collect_stats(store: VectorStore, namespace: str, now: datetime, where: Filter | None = None) -> Stats:
    """Count what *namespace* holds at the moment *now*, or what of it *where* selects."""
    lanes: Counter[str] = Counter({CONVERSATION: 0, DOCUMENTS: 0, ARCHIVE: 0})
    collections, kinds, trust, tags, lines, flags = (Counter[str]() for _ in range(6))
    first = last = ""
    pending = text_bytes = vector_bytes = 0
    moment = timestamp_to_text(now)
    for lane_name in store.namespaces(prefix=prefix_of(namespace)):
        _, lane, collection = parse_store_namespace(lane_name)
        for entry in scan_outlines(store, where=where, namespace=lane_name):
            lanes[lane] += 1
            pending += entry.pending
            text_bytes += len(entry.text.encode())
            vector_bytes += entry.vector_bytes
            if collection is not None:
                collections[collection] += 1
            if lane != CONVERSATION:
                continue
            fields = entry.metadata
            kinds[str(fields.get("kind", ""))] += 1
            trust[str(fields.get("trust", ""))] += 1
            for tag in fields.get("tags", ()):
                tags[tag] += 1
            if "about" in fields:
                lines[fields["about_by"]] += 1
            for flag in ("pinned", "disabled", "sensitive"):
                flags[flag] += fields.get(flag) is True
            flags["expired"] += str(fields.get("expires_at", "~")) <= moment
            flags["ended"] += str(fields.get("valid_to", "~")) <= moment
            if time := fields.get("occurred_at") or fields.get("recorded_at"):
                first, last = min(first or time, time), max(last, time)
    return Stats(
        memories=lanes[CONVERSATION],
        lanes=dict(lanes),
        collections=dict(sorted(collections.items())),
        kinds=dict(sorted(kinds.items())),
        trust=dict(sorted(trust.items())),
        tags=dict(sorted(tags.items())),
        lines=dict(sorted(lines.items())),
        **{flag: flags[flag] for flag in ("pinned", "disabled", "sensitive", "expired", "ended")},
        pending=pending,
        first=timestamp_from_text(first) if first else None,
        last=timestamp_from_text(last) if last else None,
        text_bytes=text_bytes,
        vector_bytes=vector_bytes,
    )
