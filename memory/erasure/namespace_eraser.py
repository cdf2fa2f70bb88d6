"""Erasure of all entries of a namespace, page by page: to forget the namespace, or to replace it by an import."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from memory.entry_store import EntryStore
from memory.tables.erasers import ErasedItems, Eraser, run_erasers
from vectorstore import Entry

PAGE_SIZE: Final = 2000


class NamespaceEraser:
    """Erases the entries of a namespace, and what the registered *erasers* keep of it. Runs inside a transaction."""

    def __init__(self, entries: EntryStore, erasers: Sequence[Eraser]) -> None:
        self._entries = entries
        self._erasers = erasers

    def erase_entries(self, namespace: str, now: datetime, removed: Counter[str]) -> Iterator[tuple[str, list[Entry]]]:
        """Yield each page of entries with its partition, once it is erased; count in *removed* by eraser."""
        store = self._entries.lifecycle("forget_namespace")
        for partition in self._entries.partitions(namespace):
            while page := list(islice(store.scan(namespace=partition), PAGE_SIZE)):
                ids = [entry.id for entry in page]
                store.erase(ids, namespace=partition)
                texts = frozenset(entry.text for entry in page)
                removed.update(run_erasers(self._erasers, ErasedItems(namespace, now, {partition: ids}, texts)))
                yield partition, page

    def erase_rest(self, namespace: str, now: datetime) -> Counter[str]:
        """Let every eraser remove all that it still keeps of a namespace; return how many things, by its name."""
        return run_erasers(self._erasers, ErasedItems(namespace, now, {}, frozenset(), everything=True))
