"""Entries that may hold given texts in their text or metadata, from a store that can look for them or any other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from tellback.vectorstore.protocol import VectorStore
from tellback.vectorstore.types import Entry


@runtime_checkable
class TextScanStore(Protocol):
    """Store that finds such entries without reading all of them."""

    def scan_holding(self, texts: Sequence[str], *, names: Sequence[str] = (), namespace: str = "") -> Iterator[Entry]:
        """As the function ``scan_holding``."""


def scan_holding(
    store: VectorStore, texts: Sequence[str], *, names: Sequence[str] = (), namespace: str = ""
) -> Iterator[Entry]:
    """Yield entries that may hold one of *texts*, in order of id: every one that does, and perhaps others.

    The text of an entry and the names and values of its metadata are looked through, letter by letter; for *names* its
    metadata alone. A store that is no ``TextScanStore`` yields all its entries.
    """
    if isinstance(store, TextScanStore):
        return store.scan_holding(texts, names=names, namespace=namespace)
    return store.scan(namespace=namespace)
