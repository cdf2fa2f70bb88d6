"""Memories that wait for their vector: how many, and giving it to them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from memory.lanes import lane_of
from memory.write.context import WriteContext
from memory.write.embedding import Embedded
from memory.write.sensitive import NOT_SENT, may_embed_entry
from vectorstore import Entry, RevisionConflict

BATCH = 256


def lanes_of(context: WriteContext, namespace: str | None) -> list[str]:
    """Return the store namespaces of a user, or of all."""
    lanes = context.store.namespaces()
    return lanes if namespace is None else [lane for lane in lanes if lane_of(lane)[0] == namespace]


def count(context: WriteContext, namespace: str | None) -> int:
    """Return how many entries have no vector and no reason for none."""
    return sum(1 for lane in lanes_of(context, namespace) for _ in context.store.scan(namespace=lane, embedded=False))


async def flush(context: WriteContext, namespace: str | None, *, limit: int | None = None) -> int:
    """Embed what is pending, batch by batch (at most *limit* entries); return how many got their vector.

    It stops when the embedder fails; what was corrected meanwhile is passed over.
    """
    filled = 0
    for lane in await asyncio.to_thread(lanes_of, context, namespace):
        after: str | None = None
        while limit is None or filled < limit:
            batch = await asyncio.to_thread(_page, context, lane, after)
            if not batch:
                break
            after = batch[-1].id
            may = {entry.id: may_embed_entry(entry, context.embedding.embedder) for entry in batch}
            sent, held = ([entry for entry in batch if may[entry.id] is asked] for asked in (True, False))
            made = await context.embedding.vectors([entry.text for entry in sent])
            if made.deferred is not None:
                return filled
            filled += await asyncio.to_thread(_fill, context, lane, sent, made)
            if count := len(held):
                await asyncio.to_thread(_fill, context, lane, held, Embedded((None,) * count, (NOT_SENT,) * count))
    return filled


def _page(context: WriteContext, lane: str, after: str | None) -> list[Entry]:
    return list(islice(context.store.scan(namespace=lane, after=after, embedded=False), BATCH))


def _fill(context: WriteContext, lane: str, batch: Sequence[Entry], made: Embedded) -> int:
    try:
        return _put(context, lane, batch, made)
    except RevisionConflict:  # one was corrected meanwhile; the others are still to be filled
        if len(batch) == 1:
            return 0
    single = zip(batch, made.vectors, made.reasons, strict=True)
    return sum(_fill(context, lane, [entry], Embedded((vector,), (reason,))) for entry, vector, reason in single)


def _put(context: WriteContext, lane: str, batch: Sequence[Entry], made: Embedded) -> int:
    expect = {entry.id: entry.revision for entry in batch}
    vectors = {entry.id: vector for entry, vector in zip(batch, made.vectors, strict=True) if vector is not None}
    without = [
        replace(entry, no_vector=reason)
        for entry, reason in zip(batch, made.reasons, strict=True)
        if reason is not None
    ]
    with context.transaction():
        if vectors:
            known = {one: expect[one] for one in vectors}
            context.store.put_vectors(vectors, namespace=lane, expect=known)
        if without:
            context.store.upsert(without, namespace=lane, expect={entry.id: expect[entry.id] for entry in without})
    return len(vectors)
