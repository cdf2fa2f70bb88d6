"""Provenance of memories: their earlier versions, and the memories that they were derived from.

Versions are told apart and ordered by the store's revisions. Times are those of the clock when they were written; a
clock may go back, so nothing is ordered by them. A memory is trusted no further than its author, and than the least of
what it was derived from.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from memory.codec import from_entry, to_entry
from memory.errors import NoSuchMemory, NotTrusted
from memory.models import Memory, MemoryChange, Trust
from memory.partitions import CONVERSATION, archived_id, store_namespace
from memory.results import Outcome, Report
from memory.write.access_control import actor_trust, check_may_change
from memory.write.context import WriteContext
from vectorstore import Entry, Filter, Metadata

EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
UNVERSIONED_FIELDS: Final = ("pinned", "disabled", "tags", "importance", "expires_at")
"""Fields that are changed in place, without a new version; the log keeps their old and new values."""


def recorded_since(version: Memory) -> datetime | None:
    """Return from when *version* counts if it says nothing of its validity; None: from always."""
    if version.counts_from is not None:
        return version.counts_from
    return version.recorded_at if version.supersedes is not None else None


def counts_since(version: Memory) -> datetime:
    """Return from when *version* counts, asked what held at a time."""
    return version.valid_from or recorded_since(version) or EARLIEST


def retired_entry(entry: Entry, at: datetime, *, counts_to: datetime | None = None, withdrawn: bool = False) -> Entry:
    """Return *entry* as the archive keeps it: replaced by what begins at *counts_to*, or *withdrawn*."""
    version = replace(
        from_entry(entry),
        id=archived_id(entry.id, entry.revision),
        retired_at=at,
        counts_to=counts_to,
        withdrawn=withdrawn,
    )
    return replace(to_entry(version), vector=entry.vector, no_vector=entry.no_vector)


def restored_entry(entry: Entry, id: str, **fields: Any) -> Entry:
    """Return the archived version *entry* as the present one of the memory *id*, with other *fields* than it had."""
    old = from_entry(entry)
    version = replace(
        old, id=id, retired_at=None, counts_from=recorded_since(old), counts_to=None, withdrawn=False, **fields
    )
    return replace(to_entry(version), vector=entry.vector, no_vector=entry.no_vector)


def unversioned_values(memory: Memory) -> dict[str, Any]:
    """Return those fields of *memory* that have no versions."""
    return {name: getattr(memory, name) for name in UNVERSIONED_FIELDS}


def replacement_change(before: Entry, new: Metadata) -> MemoryChange:
    """Return the change for the log where *before* was replaced: with those unversioned fields that differ in *new*."""
    names = [one for one in (*UNVERSIONED_FIELDS, "expires_at_offset") if before.metadata.get(one) != new.get(one)]
    old, now = ({one: fields.get(one) for one in names} for fields in (before.metadata, new))
    return MemoryChange(before.id, before.revision, old=old, new=now)


def memory_versions(context: WriteContext, id: str, namespace: str) -> list[Memory]:
    """Return all versions of a memory, newest first; archived ones have the id "id@revision"."""
    here = context.find([id], namespace).get(id)
    versions = [] if here is None else [from_entry(here[1])]
    for entry in reversed(context.versions([id], namespace)):
        versions.append(replace(from_entry(entry), revision=int(entry.id.rpartition("@")[2])))
    if not versions:
        raise NoSuchMemory(id)
    return versions


_BATCH_SIZE: Final = 500


def authorize_memories(
    context: WriteContext,
    memories: Sequence[Memory],
    namespace: str,
    beside: Mapping[str, Memory] = MappingProxyType({}),
) -> list[Memory | Report]:
    """Return *memories* with the trust that they have; one that may not supersede what it names is refused.

    What a memory was derived from and is neither there (any more) nor *beside* it, about to be written, does not count.
    """
    asked = {id for one in memories for id in referenced_ids(one)}
    there = context.find(sorted(asked), namespace) if asked else {}
    known = {**beside, **{id: from_entry(entry) for id, (_, entry) in there.items()}}
    return [_authorize_memory(one, [known[id] for id in one.derived_from if id in known], known) for one in memories]


def referenced_ids(memory: Memory) -> tuple[str, ...]:
    """Return the ids of the memories that *memory* says it was made from, or supersedes."""
    return (*memory.derived_from, *_superseded_ids(memory))


def derived_only_from(
    context: WriteContext, id: str, namespace: str, spared: Container[str] = frozenset()
) -> list[Entry]:
    """Return what was derived from the memory *id* alone, and from that alone, until nothing more follows.

    What is *spared* is none of it, and nothing is that leans on it.
    """
    lane = store_namespace(namespace, CONVERSATION)
    gone, asked = {id}, [id]
    leaning: dict[str, Entry] = {}
    found: dict[str, Entry] = {}
    while asked:
        for start in range(0, len(asked), _BATCH_SIZE):
            where: Filter = {"derived_from": {"$in": asked[start : start + _BATCH_SIZE]}}
            leaning.update({one.id: one for one in context.store.scan(where=where, namespace=lane)})
        more = {
            one.id: one
            for one in leaning.values()
            if one.id not in gone and one.id not in spared and set(one.metadata["derived_from"]) <= gone
        }
        found.update(more)
        gone.update(more)
        asked = list(more)
    return [found[one] for one in sorted(found)]


def _authorize_memory(memory: Memory, sources: Sequence[Memory], known: Mapping[str, Memory]) -> Memory | Report:
    try:
        old = [known[id] for id in _superseded_ids(memory) if id in known]
        check_may_change(memory.actor, old, "supersede")
    except NotTrusted as error:
        return Report(Outcome.REJECTED, "", str(error))
    trust = Trust.least([memory.trust, actor_trust(memory.actor), *(one.trust for one in sources)])
    return memory if trust is memory.trust else replace(memory, trust=trust)


def _superseded_ids(memory: Memory) -> tuple[str, ...]:
    """Return the id of the memory that *memory* supersedes, whose version may be named as "id@revision"."""
    return () if memory.supersedes is None else (memory.supersedes.rpartition("@")[0] or memory.supersedes,)
