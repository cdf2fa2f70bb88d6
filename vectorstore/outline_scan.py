"""Entries without their vectors, from a store that need not read these or any other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tellback.vectorstore.protocol import VectorStore
from tellback.vectorstore.types import Entry, Filter, Metadata


@dataclass(frozen=True, slots=True)
class EntryOutline:
    """Entry without its vector, of which it has the size alone: 0 bytes where there is none."""

    id: str
    text: str
    metadata: Metadata
    vector_bytes: int
    pending: bool
    """True if it has neither a vector nor a reason for none."""


@runtime_checkable
class OutlineStore(Protocol):
    """Store that reads entries without their vectors, which are most of its bytes."""

    def scan_outlines(self, *, where: Filter | None = None, namespace: str = "") -> Iterator[EntryOutline]:
        """As the function ``scan_outlines``."""


def scan_outlines(store: VectorStore, *, where: Filter | None = None, namespace: str = "") -> Iterator[EntryOutline]:
    """Yield the outlines of the entries that ``store.scan`` would yield, in order of id.

    Of a store that is no ``OutlineStore``, a wrapper too, each entry is read whole.
    """
    if isinstance(store, OutlineStore):
        return store.scan_outlines(where=where, namespace=namespace)
    return map(_outline, store.scan(where=where, namespace=namespace))


def _outline(entry: Entry) -> EntryOutline:
    size = 0 if entry.vector is None else entry.vector.nbytes
    return EntryOutline(entry.id, entry.text, entry.metadata, size, not size and entry.no_vector is None)
