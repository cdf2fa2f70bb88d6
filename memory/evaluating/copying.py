"""A copy of one namespace in memory, with other vectors or none: what is tried is tried there, never on the memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import islice

import numpy as np

from memory.codec import DECLARED_FIELDS
from memory.embedders.protocol import Embedder
from memory.embedders.space import embedder_space
from memory.lanes import ARCHIVE, lane_of
from memory.write.sensitive import NOT_SENT, may_embed_entry
from vectorstore import Entry, VectorStore, open_store

_BATCH = 256
Place = tuple[str, Entry]
Counted = Callable[[int], None]


def entries_of(store: VectorStore, namespace: str) -> list[Place]:
    """Return what *namespace* holds, archived versions apart: (store namespace, entry)."""
    names = [
        name for name in sorted(store.namespaces()) if lane_of(name)[0] == namespace and lane_of(name)[1] != ARCHIVE
    ]
    return [(name, entry) for name in names for entry in store.scan(namespace=name)]


def changed(places: Sequence[Place], texts: Mapping[str, str], aside: Set[str]) -> list[Place]:
    """Return *places* without the ids *aside*, and with the texts of some changed; these have no vector any more."""
    return [
        (name, entry if entry.id not in texts else replace(entry, text=texts[entry.id], vector=None))
        for name, entry in places
        if entry.id not in aside
    ]


def without_vectors(places: Sequence[Place]) -> list[Place]:
    """Return *places* as they would be without an embedder."""
    return [(name, replace(entry, vector=None, no_vector="no embedder")) for name, entry in places]


def unembedded(places: Sequence[Place]) -> list[Place]:
    """Return *places* as they are before an embedder has seen them."""
    return [(name, replace(entry, vector=None, no_vector=None)) for name, entry in places]


async def embedded(places: Sequence[Place], embedder: Embedder, on_progress: Counted) -> list[Place]:
    """Return *places* with a vector for each that has none and may have one; *on_progress* gets how many are done.

    What is sensitive is not given to a remote embedder.
    """
    done = [
        (
            name,
            entry
            if entry.vector is not None or may_embed_entry(entry, embedder)
            else replace(entry, no_vector=NOT_SENT),
        )
        for name, entry in places
    ]
    waiting = [at for at, (_, entry) in enumerate(done) if entry.vector is None and entry.no_vector is None]
    for start in range(0, len(waiting), _BATCH):
        batch = waiting[start : start + _BATCH]
        vectors = await embedder.embed([done[at][1].text for at in batch])
        for at, vector in zip(batch, vectors, strict=True):
            name, entry = done[at]
            there = bool(np.any(vector))
            done[at] = (name, replace(entry, vector=vector) if there else replace(entry, no_vector="nothing to embed"))
        on_progress(min(start + _BATCH, len(waiting)))
    return done


async def copy_of(places: Sequence[Place], embedder: Embedder | None) -> VectorStore:
    """Return a store in memory that holds *places*."""
    return await asyncio.to_thread(_filled, places, embedder)


def _filled(places: Sequence[Place], embedder: Embedder | None) -> VectorStore:
    space = None if embedder is None else embedder_space(embedder)
    store = open_store("numpy:", space=space, fields=DECLARED_FIELDS)
    by_name: dict[str, list[Entry]] = {}
    for name, entry in places:
        by_name.setdefault(name, []).append(entry)
    for name, entries in by_name.items():
        for batch in _batches(entries):
            store.upsert(batch, namespace=name)
    return store


def _batches(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    source = iter(entries)
    while batch := list(islice(source, _BATCH)):
        yield batch
