"""What was derived from what: how far it is trusted, and which memories lean on one alone.

A memory is trusted no further than who wrote it, and than the least of what it was derived from.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from memory.codec import from_entry
from memory.errors import NotTrusted
from memory.lanes import CONVERSATION, store_namespace
from memory.records import Memory, Outcome, Report, Trust
from memory.write.context import WriteContext
from memory.write.trust import check_may_change, trust_of
from vectorstore import Entry, Filter

_AT_ONCE: Final = 500


def entitled(
    context: WriteContext,
    memories: Sequence[Memory],
    namespace: str,
    beside: Mapping[str, Memory] = MappingProxyType({}),
) -> list[Memory | Report]:
    """Return *memories* with the trust that they have; one that may not supersede what it names is refused.

    What a memory was derived from and is neither there (any more) nor *beside* it, about to be written, does not count.
    """
    asked = {id for one in memories for id in named_by(one)}
    there = context.find(sorted(asked), namespace) if asked else {}
    known = {**beside, **{id: from_entry(entry) for id, (_, entry) in there.items()}}
    return [_entitled(one, [known[id] for id in one.derived_from if id in known], known) for one in memories]


def named_by(memory: Memory) -> tuple[str, ...]:
    """Return the ids of the memories that *memory* says it was made from, or supersedes."""
    return (*memory.derived_from, *_superseded(memory))


def derived_alone(context: WriteContext, id: str, namespace: str, spared: Container[str] = frozenset()) -> list[Entry]:
    """Return what was derived from the memory *id* alone, and from that alone, until nothing more follows.

    What is *spared* is none of it, and nothing is that leans on it.
    """
    lane = store_namespace(namespace, CONVERSATION)
    gone, asked = {id}, [id]
    leaning: dict[str, Entry] = {}
    found: dict[str, Entry] = {}
    while asked:
        for start in range(0, len(asked), _AT_ONCE):
            where: Filter = {"derived_from": {"$in": asked[start : start + _AT_ONCE]}}
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


def _entitled(memory: Memory, sources: Sequence[Memory], known: Mapping[str, Memory]) -> Memory | Report:
    try:
        old = [known[id] for id in _superseded(memory) if id in known]
        check_may_change(memory.actor, old, "supersede")
    except NotTrusted as error:
        return Report(Outcome.REJECTED, "", str(error))
    trust = Trust.least([memory.trust, trust_of(memory.actor), *(one.trust for one in sources)])
    return memory if trust is memory.trust else replace(memory, trust=trust)


def _superseded(memory: Memory) -> tuple[str, ...]:
    """Return the id of the memory that *memory* supersedes, whose version may be named as "id@revision"."""
    return () if memory.supersedes is None else (memory.supersedes.rpartition("@")[0] or memory.supersedes,)
