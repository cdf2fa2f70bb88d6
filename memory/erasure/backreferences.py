"""Backreferences: the ids of forgotten memories in the entries that stay, removed and restored."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from tellback.memory.entry_store import EntryStore
from tellback.memory.messages import USED
from tellback.vectorstore import Entry

DERIVED_FROM: Final = "derived_from"
SOURCE_FIELDS: Final = (DERIVED_FROM, f"meta.{USED}")
"""The fields that name what a memory was made with."""
BACKREFERENCE_FIELDS: Final = (*SOURCE_FIELDS, "replaces")
BACKREFERENCES: Final = "mentions"
"""The name under which a soft delete keeps them."""


def remove_backreferences(
    entries: EntryStore, referring: Mapping[str, Sequence[str]], forgotten: Collection[str]
) -> str | None:
    """Take the ids *forgotten* out of the entries *referring* (ids by partition).

    Returns the lists as they were, as JSON for ``restore_backreferences``; None where no entry refers.
    """
    store, before = entries.store, []
    for partition, ids in referring.items():
        for page in entries.pages(ids, partition):
            changed = {}
            for entry in page:
                lists = _backreferences(entry)
                before.append([partition, entry.id, lists])
                remaining = {field: [id for id in ids if id not in forgotten] for field, ids in lists.items()}
                changed[entry.id] = _with_backreferences(entry, remaining)
            store.patch(changed, namespace=partition)
    return json.dumps(before, ensure_ascii=False) if before else None


def restore_backreferences(entries: EntryStore, removed: str, restored: Collection[str]) -> None:
    """Put the ids *restored* back where they were in the lists that were *removed*."""
    store = entries.lifecycle("restore_forgotten")
    for partition, id, before in json.loads(removed):
        for entry in store.get([id], namespace=partition):
            if entry is not None:
                present = _backreferences(entry)
                lists = {field: _merged(ids, present.get(field, ()), restored) for field, ids in before.items()}
                store.patch({id: _with_backreferences(entry, lists)}, namespace=partition)


def referenced_ids(entry: Entry, fields: Sequence[str] = BACKREFERENCE_FIELDS) -> list[str]:
    """Return the ids that *entry* names in any of *fields*."""
    return [id for field in fields for id in ids_in_field(entry, field)]


def ids_in_field(entry: Entry, field: str) -> list[str]:
    """Return the ids in one field of *entry*; a value that is no list has none."""
    value = entry.metadata.get(field)
    return [id for id in value if isinstance(id, str)] if isinstance(value, (list, tuple)) else []


def _backreferences(entry: Entry) -> dict[str, list[Any]]:
    return {field: list(entry.metadata[field]) for field in BACKREFERENCE_FIELDS if field in entry.metadata}


def _merged(before: Sequence[Any], present: Sequence[Any], restored: Collection[str]) -> list[Any]:
    """Return the *present* ids and those of *before* that are *restored*, in the order from before."""
    merged, index = list(present), len(present)
    for id in reversed(before):
        if id in merged:
            index = merged.index(id)
        elif id in restored:
            merged.insert(index, id)
    return merged


def _with_backreferences(entry: Entry, lists: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return the metadata of *entry* with other *lists*; an empty list is left out."""
    others = {field: value for field, value in entry.metadata.items() if field not in lists}
    return others | {field: ids for field, ids in lists.items() if ids}
