"""What one namespace holds, in counts and times: every row is looked at, none of another namespace."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from memory.lanes import ARCHIVE, CONVERSATION, DOCUMENTS, lane_of
from memory.listed import Stats
from memory.times import from_text, to_text
from vectorstore import Filter, VectorStore


def tally(store: VectorStore, namespace: str, now: datetime, where: Filter | None = None) -> Stats:
    """Count what *namespace* holds at the moment *now*, or what of it *where* selects."""
    lanes: Counter[str] = Counter({CONVERSATION: 0, DOCUMENTS: 0, ARCHIVE: 0})
    collections: Counter[str] = Counter()
    counts: dict[str, Counter[str]] = {field: Counter() for field in ("kind", "trust", "tags")}
    flags: Counter[str] = Counter()
    times: list[str] = []
    pending = text_bytes = vector_bytes = 0
    moment = to_text(now)
    for lane_name in store.namespaces():
        owner, lane, collection = lane_of(lane_name)
        if owner != namespace:
            continue
        for entry in store.scan(where=where, namespace=lane_name):
            lanes[lane] += 1
            pending += entry.vector is None and entry.no_vector is None
            text_bytes += len(entry.text.encode())
            vector_bytes += 0 if entry.vector is None else entry.vector.nbytes
            if collection is not None:
                collections[collection] += 1
            if lane != CONVERSATION:
                continue
            fields = entry.metadata
            counts["kind"][str(fields.get("kind", ""))] += 1
            counts["trust"][str(fields.get("trust", ""))] += 1
            counts["tags"].update(fields.get("tags", ()))
            flags.update(name for name in ("pinned", "disabled", "sensitive") if fields.get(name) is True)
            flags["expired"] += str(fields.get("expires_at", "~")) <= moment
            flags["ended"] += str(fields.get("valid_to", "~")) <= moment
            if time := fields.get("occurred_at") or fields.get("recorded_at"):
                times = [min([*times[:1], time]), max([*times[1:], time])]
    first, last = (from_text(one) for one in times) if times else (None, None)
    return Stats(
        memories=lanes[CONVERSATION],
        lanes=dict(lanes),
        collections=dict(sorted(collections.items())),
        kinds=dict(sorted(counts["kind"].items())),
        trust=dict(sorted(counts["trust"].items())),
        tags=dict(sorted(counts["tags"].items())),
        pinned=flags["pinned"],
        disabled=flags["disabled"],
        sensitive=flags["sensitive"],
        expired=flags["expired"],
        ended=flags["ended"],
        pending=pending,
        first=first,
        last=last,
        text_bytes=text_bytes,
        vector_bytes=vector_bytes,
    )
