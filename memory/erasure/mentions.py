"""What a memory says it was made of: taken out of what stays, and put back when a forgetting is taken back."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from memory.message_metadata import USED
from memory.write.context import WriteContext
from vectorstore import Entry

PAGE: Final = 256
PART: Final = "mentions"
"""The name under which a package keeps them."""
MADE_OF: Final = ("derived_from", f"meta.{USED}")


def pages_of(context: WriteContext, lane: str, ids: Sequence[str]) -> Iterator[list[Entry]]:
    """Yield the entries *ids* of a lane, a page at a time."""
    for start in range(0, len(ids), PAGE):
        yield [one for one in context.store.get(ids[start : start + PAGE], namespace=lane) if one is not None]


def loosen(context: WriteContext, leaning: Mapping[str, Sequence[str]], gone: Collection[str]) -> str | None:
    """Take the mention of what is *gone* out of the entries *leaning* (ids by lane); return as text what they said."""
    store, said = context.lifecycle("forget"), []
    for lane, ids in leaning.items():
        for page in pages_of(context, lane, ids):
            said += [[lane, entry.id, _mentions(entry)] for entry in page]
            store.patch({entry.id: _with(entry, _without(_mentions(entry), gone)) for entry in page}, namespace=lane)
    return json.dumps(said, ensure_ascii=False) if said else None


def tighten(context: WriteContext, said: str, back: Collection[str]) -> None:
    """Let the entries mention again what they *said* (as ``loosen`` returned it) of those that are *back*."""
    store = context.lifecycle("restore_forgotten")
    for lane, id, before in json.loads(said):
        for entry in store.get([id], namespace=lane):
            if entry is not None:
                now = _mentions(entry)
                joined = {name: _joined(ids, now.get(name, ()), back) for name, ids in before.items()}
                store.patch({id: _with(entry, joined)}, namespace=lane)


def _mentions(entry: Entry) -> dict[str, list[Any]]:
    return {name: list(entry.metadata[name]) for name in MADE_OF if name in entry.metadata}


def _without(mentions: Mapping[str, list[Any]], gone: Collection[str]) -> dict[str, list[Any]]:
    return {name: [one for one in ids if one not in gone] for name, ids in mentions.items()}


def _joined(before: Sequence[Any], now: Sequence[Any], back: Collection[str]) -> list[Any]:
    """Return what is mentioned *now* and what was *before* and is *back*, in the order from before."""
    joined, place = list(now), len(now)
    for one in reversed(before):
        if one in joined:
            place = joined.index(one)
        elif one in back:
            joined.insert(place, one)
    return joined


def _with(entry: Entry, mentions: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return the metadata of *entry* with other *mentions*; a list that is empty is left out."""
    kept = {name: value for name, value in entry.metadata.items() if name not in mentions}
    return kept | {name: ids for name, ids in mentions.items() if ids}
