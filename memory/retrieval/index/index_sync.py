"""Synchronization of retrieval indexes with a lifecycle store, one index per namespace.

Before each use, an index is brought to the state of a view: filled from the cache, else from a scan, and kept up to
date by the change log (own and foreign writes, deletes).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from threading import Lock, RLock

from memory.embedders.protocol import WordVectors
from memory.retrieval.index.index_cache import IndexCache, IndexSegment, merge_segments
from memory.retrieval.index.record_batch import RecordExtractor, build_batch
from memory.retrieval.index.retrieval_index import RetrievalIndex
from vectorstore import Cursor, Entry, LifecycleStore, View

_BATCH = 1000
_MAX_UNSAVED_SEGMENTS = 64
_MIN_SAVED_ROWS = 256
"""Rows; to derive fewer at the next start takes less than a short while."""


class IndexSynchronizer:
    """The indexes of *store*. While one is in use, other threads that want the same one wait.

    *segments* keep what was derived, so that the next process need not derive it.
    """

    def __init__(
        self,
        store: LifecycleStore,
        deriver: RecordExtractor,
        *,
        word_vectors: WordVectors | None,
        segments: IndexCache | None = None,
    ) -> None:
        self.store = store
        self._deriver = deriver
        self._word_vectors = word_vectors
        self._segments = segments
        self._lock = Lock()
        self._held: dict[str, _IndexState] = {}

    @contextmanager
    def index(self, view: View, namespace: str, *, conversation: bool) -> Iterator[RetrievalIndex]:
        """Give the index of *namespace* in the state of *view*, alone, until the block ends."""
        with self._lock:
            held = self._held.setdefault(namespace, _IndexState(namespace, conversation=conversation))
        with held.lock:
            self._bring(held, view)
            yield held.index_in_use()

    def keep(self, namespaces: Iterable[str]) -> None:
        """Have kept what was derived anew of *namespaces*, where that is much. Not inside a view of this thread."""
        for namespace in namespaces if self._segments is not None else ():
            with self._lock:
                held = self._held.get(namespace)
            if held is not None and held.lock.acquire(blocking=False):
                try:
                    self._keep(held)
                finally:
                    held.lock.release()

    def _bring(self, held: _IndexState, view: View) -> None:
        wanted = view.cursor(namespace=held.namespace)
        if held.index is not None and held.cursor == wanted:
            return
        if self._caught_up(held, view, wanted):
            return
        if held.index is None and self._loaded(held) and self._caught_up(held, view, wanted):
            return
        held.index, held.cursor = RetrievalIndex(self._word_vectors), wanted
        held.since, held.fresh, held.looked_at = None, [], 0
        for entries in _batched(self.store.scan(namespace=held.namespace)):
            self._put(held, view, entries)
            held.looked_at += len(entries)
        self._caught_up(held, view, wanted)

    def _loaded(self, held: _IndexState) -> bool:
        """Fill the index from what is kept; say whether there was something."""
        index = RetrievalIndex(self._word_vectors)
        if self._segments is None:
            return False
        place = self._segments.load(held.namespace, self._basis(held), index.extend)
        if place is None:
            return False
        held.index, held.cursor = index, Cursor(held.namespace, place)
        held.since, held.fresh = place, []
        return True

    def _caught_up(self, held: _IndexState, view: View, wanted: Cursor) -> bool:
        """Apply to the index what was written between its state and the view's, whichever is newer."""
        if held.index is None or held.cursor is None or held.index.worn:
            return False
        changes = self.store.changes(
            min(held.cursor, wanted, key=lambda cursor: cursor.position), namespace=wanted.namespace
        )
        if not changes.complete:
            return False
        ids = (*changes.written, *changes.removed)
        self._apply(held, view, ids)
        held.cursor, held.looked_at = wanted, held.looked_at + len(ids)
        return True

    def _apply(self, held: _IndexState, view: View, ids: Sequence[str]) -> None:
        index = held.index_in_use()
        for start in range(0, len(ids), _BATCH):
            batch = ids[start : start + _BATCH]
            entries = view.get(batch, namespace=held.namespace)
            gone = [name for name, entry in zip(batch, entries, strict=True) if entry is None]
            for name in gone:
                index.remove(name)
            if gone and self._segments is not None:
                held.fresh.append(IndexSegment(build_batch([], self._deriver.term_of), frozenset(gone)))
            there = [entry for entry in entries if entry is not None]
            self._put(held, view, [entry for entry in there if entry.revision != index.revision(entry.id)])

    def _put(self, held: _IndexState, view: View, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        terms = view.terms([entry.id for entry in entries], namespace=held.namespace)
        columns = self._deriver.columns(entries, terms, conversation=held.conversation)
        held.index_in_use().extend(columns)
        if self._segments is not None:
            held.fresh.append(IndexSegment(columns))

    def _keep(self, held: _IndexState) -> None:
        if self._segments is None or held.cursor is None:
            return
        if held.looked_at < _MIN_SAVED_ROWS:
            return
        cursor = held.cursor

        def unchanged() -> bool:
            changes = self.store.changes(cursor, namespace=held.namespace)
            return changes.complete and not (changes.written or changes.removed)

        basis, position = self._basis(held), cursor.position
        if self._segments.save(
            held.namespace, basis, held.fresh, since=held.since, position=position, unchanged=unchanged
        ):
            held.since, held.fresh, held.looked_at = position, [], 0
        elif (
            len(held.fresh) > _MAX_UNSAVED_SEGMENTS
        ):  # it may never be possible: what is tried again must not grow with each write
            held.fresh = [merge_segments(held.fresh)]

    def _basis(self, held: _IndexState) -> str:
        return f"{self._deriver.fingerprint}/{'conversation' if held.conversation else 'document'}"


class _IndexState:
    """One namespace's index with where it stands, and the lock of those who use it.

    *fresh* is what was derived since the place *since* of the change log (None: ever), as it is to be kept; *looked_at*
    says how many entries that took.
    """

    def __init__(self, namespace: str, *, conversation: bool) -> None:
        self.namespace = namespace
        self.conversation = conversation
        self.lock = RLock()
        self.index: RetrievalIndex | None = None
        self.cursor: Cursor | None = None
        self.since: int | None = None
        self.fresh: list[IndexSegment] = []
        self.looked_at = 0

    def index_in_use(self) -> RetrievalIndex:
        """Return the index that was just brought up to date."""
        assert self.index is not None
        return self.index


def _batched(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    source = iter(entries)
    while batch := list(islice(source, _BATCH)):
        yield batch
