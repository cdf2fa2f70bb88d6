"""Indexes of a lifecycle store, one a namespace, brought to the state of a view before each use.

Filled from a scan, kept by the change log (own and foreign writes, deletes). Not the index itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import tzinfo
from itertools import islice
from threading import Lock, RLock
from typing import Protocol

from memory.embedders.protocol import WordVectors
from memory.recall.index import Index
from memory.recall.lexicon import Lexicon
from memory.recall.rows import row_of
from vectorstore import Cursor, Entry, LifecycleStore, View

_BATCH = 1000


class Stemmer(Protocol):
    """The analyser of a store, as far as recall needs it."""

    def terms(self, text: str) -> list[str]:
        """Return the terms of *text*."""
        ...

    def asking(self, text: str) -> list[bool]:
        """Return for each sentence of *text* that has a term whether it is a question."""
        ...


class Following:
    """The indexes of *store*. While one is in use, other threads that want the same one wait."""

    def __init__(
        self,
        store: LifecycleStore,
        *,
        analyser: Stemmer,
        lexicon: Lexicon,
        zone: tzinfo,
        word_vectors: WordVectors | None,
    ) -> None:
        self.store = store
        self._analyser = analyser
        self._lexicon = lexicon
        self._zone = zone
        self._word_vectors = word_vectors
        self._lock = Lock()
        self._held: dict[str, _Held] = {}

    @contextmanager
    def index(self, view: View, namespace: str, *, conversation: bool) -> Iterator[Index]:
        """Give the index of *namespace* in the state of *view*, alone, until the block ends."""
        with self._lock:
            held = self._held.setdefault(namespace, _Held())
        with held.lock:
            self._bring(held, view, namespace, conversation=conversation)
            yield held.index_in_use()

    def _bring(self, held: _Held, view: View, namespace: str, *, conversation: bool) -> None:
        wanted = view.cursor(namespace=namespace)
        if held.index is not None and held.cursor == wanted:
            return
        if not self._caught_up(held, view, wanted, conversation=conversation):
            held.index, held.cursor = Index(self._word_vectors, self._analyser.terms), wanted
            for entries in _batches(self.store.scan(namespace=namespace)):
                self._put(held.index, view, namespace, entries, conversation=conversation)
            self._caught_up(held, view, wanted, conversation=conversation)
        if held.index is not None:
            held.index.stems.settle()

    def _caught_up(self, held: _Held, view: View, wanted: Cursor, *, conversation: bool) -> bool:
        """Apply to the index what was written between its state and the view's, whichever is newer."""
        if held.index is None or held.cursor is None or held.index.worn:
            return False
        changes = self.store.changes(
            min(held.cursor, wanted, key=lambda cursor: cursor.position), namespace=wanted.namespace
        )
        if not changes.complete:
            return False
        ids = (*changes.written, *changes.removed)
        self._apply(held.index, view, wanted.namespace, ids, conversation=conversation)
        held.cursor = wanted
        return True

    def _apply(self, index: Index, view: View, namespace: str, ids: Sequence[str], *, conversation: bool) -> None:
        for start in range(0, len(ids), _BATCH):
            batch = ids[start : start + _BATCH]
            entries = view.get(batch, namespace=namespace)
            for name, entry in zip(batch, entries, strict=True):
                if entry is None:
                    index.remove(name)
            there = [entry for entry in entries if entry is not None]
            moved = [entry for entry in there if entry.revision != index.revision(entry.id)]
            self._put(index, view, namespace, moved, conversation=conversation)

    def _put(self, index: Index, view: View, namespace: str, entries: Sequence[Entry], *, conversation: bool) -> None:
        terms = view.terms([entry.id for entry in entries], namespace=namespace)
        for entry, of_entry in zip(entries, terms, strict=True):
            index.put(
                row_of(
                    entry,
                    of_entry,
                    asking=self._analyser.asking,
                    lexicon=self._lexicon,
                    zone=self._zone,
                    conversation=conversation,
                )
            )


class _Held:
    """One namespace's index with where it stands, and the lock of those who use it."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.index: Index | None = None
        self.cursor: Cursor | None = None

    def index_in_use(self) -> Index:
        """Return the index that was just brought up to date."""
        assert self.index is not None
        return self.index


def _batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    source = iter(entries)
    while batch := list(islice(source, _BATCH)):
        yield batch
