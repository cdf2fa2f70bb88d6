"""Provenance of memories: their earlier versions, and the memories that they were derived from.

Versions are told apart and ordered by the store's revisions. Times are those of the clock when they were written; a
clock may go back, so nothing is ordered by them. A memory is trusted no further than its author, and than the least of
what it was derived from.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from tellback.memory.codec import from_entry, to_entry
from tellback.memory.entry_store import EntryStore
from tellback.memory.errors import NoSuchMemory, NotTrusted
from tellback.memory.models import Actor, Memory, MemoryChange, Trust
from tellback.memory.partitions import CONVERSATION, archived_id, store_namespace
from tellback.memory.results import Outcome, Report
from tellback.memory.write.access_control import Caller
from tellback.memory.write.draft import Draft
from tellback.vectorstore import Entry, Filter, Metadata, VectorStore

EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
UNVERSIONED_FIELDS: Final = (
    "pinned",
    "disabled",
    "tags",
    "importance",
    "expires_at",
    "evidence",
    "repeated",
    "about",
    "about_by",
)
"""Fields that are changed in place, without a new version; the log keeps their old and new values."""
_BATCH_SIZE: Final = 500


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
    id = archived_id(entry.id, entry.revision)
    version = replace(from_entry(entry), id=id, retired_at=at, counts_to=counts_to, withdrawn=withdrawn)
    return to_entry(version, vector=entry.vector, no_vector=entry.no_vector)


def restored_entry(entry: Entry, id: str, **fields: Any) -> Entry:
    """Return the archived version *entry* as the present one of the memory *id*, with other *fields* than it had."""
    old = from_entry(entry)
    version = replace(
        old, id=id, retired_at=None, counts_from=recorded_since(old), counts_to=None, withdrawn=False, **fields
    )
    return to_entry(version, vector=entry.vector, no_vector=entry.no_vector)


def ended_version(
    before: Entry, valid_to: datetime | None, *, at: datetime, operation: str | None, actor: Actor
) -> Memory:
    """Return the memory *before* as it is once it holds until *valid_to*; what it was before counts for no time."""
    old = from_entry(before)
    return replace(
        old,
        valid_to=valid_to,
        recorded_at=at,
        counts_from=recorded_since(old) or EARLIEST,
        supersedes=archived_id(before.id, before.revision),
        operation=operation,
        actor=actor,
    )


def unversioned_values(memory: Memory) -> dict[str, Any]:
    """Return those fields of *memory* that have no versions."""
    return {name: getattr(memory, name) for name in UNVERSIONED_FIELDS}


def replacement_change(before: Entry, new: Metadata) -> MemoryChange:
    """Return the change for the log where *before* was replaced: with those unversioned fields that differ in *new*."""
    fields = (*UNVERSIONED_FIELDS, "expires_at_offset")
    differing = [name for name in fields if before.metadata.get(name) != new.get(name)]
    old, now = ({name: metadata.get(name) for name in differing} for metadata in (before.metadata, new))
    return MemoryChange(before.id, before.revision, old=old, new=now)


def memory_versions(entries: EntryStore, id: str, namespace: str) -> list[Memory]:
    """Return all versions of a memory, newest first; archived ones have the id "id@revision"."""
    live = entries.find([id], namespace).get(id)
    versions = [] if live is None else [from_entry(live[1])]
    for entry in reversed(entries.versions([id], namespace)):
        versions.append(replace(from_entry(entry), revision=int(entry.id.rpartition("@")[2])))
    if not versions:
        raise NoSuchMemory(id)
    return versions


def only_derived_from(store: VectorStore, id: str, namespace: str, spared: Container[str] = frozenset()) -> list[Entry]:
    """Return what was derived from the memory *id* alone, and from that alone, until nothing more follows.

    What is *spared* is none of it, nor is anything that was derived from it.
    """
    partition = store_namespace(namespace, CONVERSATION)
    gone, sources = {id}, [id]
    candidates: dict[str, Entry] = {}
    found: dict[str, Entry] = {}
    while sources:
        for start in range(0, len(sources), _BATCH_SIZE):
            where: Filter = {"derived_from": {"$in": sources[start : start + _BATCH_SIZE]}}
            candidates.update({entry.id: entry for entry in store.scan(where=where, namespace=partition)})
        added = {
            entry.id: entry
            for entry in candidates.values()
            if entry.id not in gone and entry.id not in spared and set(entry.metadata["derived_from"]) <= gone
        }
        found.update(added)
        gone.update(added)
        sources = list(added)
    return [found[id] for id in sorted(found)]


def authorized_draft(draft: Draft, known: Mapping[str, Memory]) -> Draft:
    """Return *draft* with the trust that it has; one that may not supersede what it names is refused.

    *known* are the memories that drafts name and that are there, or are about to be written. What a memory was derived
    from and is not known does not count.
    """
    memory = draft.memory
    try:
        superseded = [known[id] for id in _superseded_ids(memory) if id in known]
        if superseded:
            Caller("", memory.actor).check_may_change(superseded, "supersede")
    except NotTrusted as error:
        return draft.settle(Report(Outcome.REJECTED, "", str(error)))
    sources = [known[id] for id in memory.derived_from if id in known]
    trust = Trust.least([memory.trust, Trust.of(memory.actor), *(source.trust for source in sources)])
    if trust == memory.trust:
        return draft
    memory = replace(memory, trust=trust)
    return replace(draft, memory=memory, given=memory)


def referenced_ids(memory: Memory) -> tuple[str, ...]:
    """Return the ids of the memories that *memory* says it was made from, or supersedes."""
    return (*memory.derived_from, *_superseded_ids(memory))


def _superseded_ids(memory: Memory) -> tuple[str, ...]:
    """Return the id of the memory that *memory* supersedes, whose version may be named as "id@revision"."""
    return () if memory.supersedes is None else (memory.supersedes.rpartition("@")[0] or memory.supersedes,)
