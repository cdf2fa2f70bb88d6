"""Synchronization of retrieval indexes with a lifecycle store, one index per namespace.

Before each use, an index is brought to the state of a view: filled from the cache, else from a scan, and kept up to
date by the change log (writes and deletes of this process and of others). A process that writes much extends the cache
as it goes, so that the first question afterwards need not derive everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from threading import Lock, RLock

from tellback.memory.embedders.protocol import WordVectors
from tellback.memory.retrieval.index.index_cache import IndexCache, IndexSegment, merge_segments
from tellback.memory.retrieval.index.record_batch import RecordExtractor, concatenate_batches
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.vectorstore import Changes, Cursor, Entry, LifecycleStore, VectorStoreError, View

_BATCH = 1000
_MAX_UNSAVED_SEGMENTS = 64
_MIN_SAVED_ROWS = 256
_MIN_SAVED_WORDS = 5_000
"""Rows, or words of them, from which on saving pays: to derive fewer at the next start takes less than a moment."""
_LOADED_NAMESPACES = 1000
"""Namespaces whose indexes stay in memory; the one that was used the longest time ago goes first."""
_FOLLOWED_ROWS = 1024
"""Added rows after which a writer extends the cache; the change log reaches back at least as far."""


class IndexSynchronizer:
    """The retrieval indexes of *store*. An index is locked while it is in use; other threads wait for it.

    *cache* keeps what was derived, so that the next process need not derive it again.
    """

    def __init__(
        self,
        store: LifecycleStore,
        extractor: RecordExtractor,
        *,
        word_vectors: WordVectors | None,
        cache: IndexCache | None = None,
    ) -> None:
        self.store = store
        self._extractor = extractor
        self._word_vectors = word_vectors
        self._cache = cache
        self._lock = Lock()
        self._states: dict[str, _IndexState] = {}
        self._added: Counter[str] = Counter()
        self._failed_saves: set[str] = set()

    @contextmanager
    def index(self, view: View, namespace: str, *, conversation: bool) -> Iterator[RetrievalIndex]:
        """Yield the index of *namespace* in the state of *view*, locked until the block ends."""
        with self._lock:
            state = self._states.pop(namespace, None)
            if state is None:
                state = _IndexState(namespace, RetrievalIndex(self._word_vectors), conversation=conversation)
            self._states[namespace] = state  # the one used last comes last
            while len(self._states) > _LOADED_NAMESPACES:
                del self._states[next(iter(self._states))]
        with state.lock:
            self._synchronize(state, view)
            yield state.index

    def index_of(self, view: View, namespace: str, ids: Sequence[str], *, conversation: bool) -> RetrievalIndex:
        """Return an index of the entries *ids* alone, for a namespace that is too large to be in memory."""
        entries = [entry for entry in view.get(ids, namespace=namespace) if entry is not None]
        terms = view.terms([entry.id for entry in entries], namespace=namespace)
        index = RetrievalIndex(self._word_vectors)
        index.extend(self._extractor.extract(entries, terms, conversation=conversation))
        return index

    def save(self, namespaces: Iterable[str]) -> None:
        """Save what was derived of *namespaces* since the last time, where that is much. Not inside a view."""
        for namespace in namespaces if self._cache is not None else ():
            with self._lock:
                state = self._states.get(namespace)
            if state is not None and state.lock.acquire(blocking=False):
                try:
                    self._save(state)
                finally:
                    state.lock.release()

    def follow(self, namespace: str, count: int, *, conversation: bool) -> None:
        """Take note of *count* entries added to *namespace*; when they are many, derive their rows and save them.

        A failure here fails no write: the next question derives what is missing.
        """
        with self._lock:
            self._added[namespace] += count
            if self._cache is None or self._added[namespace] < _FOLLOWED_ROWS:
                return
            del self._added[namespace]
            is_loaded = namespace in self._states
        with suppress(VectorStoreError):
            if is_loaded:
                with self.store.view([namespace]) as view, self.index(view, namespace, conversation=conversation):
                    pass
                self.save([namespace])
            else:
                self._extend_cache(namespace, conversation=conversation)

    def _extend_cache(self, namespace: str, *, conversation: bool) -> None:
        """Derive the rows of what was written since the cache was saved, and append them; no index is loaded.

        Where the change log does not reach back so far, all rows are derived: a thousand changed, or half of them. Not
        where they could not be saved last time, since others write all the while: that would be done again and again.
        """
        assert self._cache is not None
        basis = self._basis(conversation=conversation)
        since = self._cache.position(namespace, basis)
        changes = self.store.changes(Cursor(namespace, since or 0), namespace=namespace)
        entries: Iterator[Entry]
        if changes.complete:
            entries = self._written(changes, namespace)
        elif namespace in self._failed_saves:
            return
        else:
            since, entries = None, iter(self.store.scan(namespace=namespace))
        segments = [IndexSegment(concatenate_batches([]), frozenset(changes.removed))] if changes.removed else []
        while batch := list(islice(entries, _BATCH)):
            terms = list(map(self._extractor.terms, batch))
            segments.append(IndexSegment(self._extractor.extract(batch, terms, conversation=conversation)))
        is_saved = self._cache.save(changes.cursor, basis, segments, since=since)
        (self._failed_saves.discard if is_saved else self._failed_saves.add)(namespace)

    def _written(self, changes: Changes, namespace: str) -> Iterator[Entry]:
        """Yield the entries that *changes* wrote and that are still there."""
        for start in range(0, len(changes.written), _BATCH):
            entries = self.store.get(changes.written[start : start + _BATCH], namespace=namespace)
            yield from (entry for entry in entries if entry is not None)

    def _synchronize(self, state: _IndexState, view: View) -> None:
        newest = view.cursor(namespace=state.namespace)
        if state.cursor == newest or self._catch_up(state, view, newest):
            return
        if state.cursor is None and self._load(state) and self._catch_up(state, view, newest):
            return
        state.index, state.cursor = RetrievalIndex(self._word_vectors), None
        state.since, state.unsaved, state.derived_count = None, [], 0
        entries = self.store.scan(namespace=state.namespace)
        while batch := list(islice(entries, _BATCH)):
            self._add(state, view, batch)
            state.derived_count += len(batch)
        state.cursor = newest
        self._catch_up(state, view, newest)

    def _load(self, state: _IndexState) -> bool:
        """Fill the index from the cache; return whether the cache had it."""
        if self._cache is None:
            return False
        loaded = self._cache.load(state.namespace, self._basis(conversation=state.conversation))
        if loaded is None:
            return False
        batches, position = loaded
        state.index, state.cursor = RetrievalIndex(self._word_vectors), Cursor(state.namespace, position)
        state.index.extend(*batches)
        state.since, state.unsaved = position, []
        return True

    def _catch_up(self, state: _IndexState, view: View, wanted: Cursor) -> bool:
        """Apply the changes between the index and the view, whichever is newer; return whether that was possible."""
        if state.cursor is None or state.index.worn:
            return False
        older = min(state.cursor, wanted, key=lambda cursor: cursor.position)
        changes = self.store.changes(older, namespace=wanted.namespace)
        if not changes.complete:
            return False
        ids = (*changes.written, *changes.removed)
        for start in range(0, len(ids), _BATCH):
            self._apply(state, view, ids[start : start + _BATCH])
        state.cursor, state.derived_count = wanted, state.derived_count + len(ids)
        return True

    def _apply(self, state: _IndexState, view: View, ids: Sequence[str]) -> None:
        """Bring the rows of *ids* to the state of *view*."""
        entries = view.get(ids, namespace=state.namespace)
        removed = [id for id, entry in zip(ids, entries, strict=True) if entry is None]
        for id in removed:
            state.index.remove(id)
        if removed and self._cache is not None:
            state.unsaved.append(IndexSegment(concatenate_batches([]), frozenset(removed)))
        present = [entry for entry in entries if entry is not None]
        changed = [entry for entry in present if entry.revision != state.index.revision(entry.id)]
        if changed:
            self._add(state, view, changed)

    def _add(self, state: _IndexState, view: View, entries: Sequence[Entry]) -> None:
        terms = view.terms([entry.id for entry in entries], namespace=state.namespace)
        batch = self._extractor.extract(entries, terms, conversation=state.conversation)
        state.index.extend(batch)
        if self._cache is not None:
            state.unsaved.append(IndexSegment(batch))

    def _save(self, state: _IndexState) -> None:
        if self._cache is None or state.cursor is None:
            return
        words = sum(len(segment.batch.words) for segment in state.unsaved)
        if state.derived_count < _MIN_SAVED_ROWS and words < _MIN_SAVED_WORDS:
            return
        basis = self._basis(conversation=state.conversation)
        if self._cache.save(state.cursor, basis, state.unsaved, since=state.since):
            state.since, state.unsaved, state.derived_count = state.cursor.position, [], 0
        elif len(state.unsaved) > _MAX_UNSAVED_SEGMENTS:  # saving may never be possible: the list must not grow forever
            state.unsaved = [merge_segments(state.unsaved)]

    def _basis(self, *, conversation: bool) -> str:
        return f"{self._extractor.fingerprint}/{'conversation' if conversation else 'document'}"


class _IndexState:
    """The index of one namespace, the position of the change log that it is at (None before it is filled), its lock.

    *unsaved* are the segments derived since the position *since* of the change log (None: all); *derived_count* counts
    the entries that they took.
    """

    def __init__(self, namespace: str, index: RetrievalIndex, *, conversation: bool) -> None:
        self.namespace = namespace
        self.index = index
        self.conversation = conversation
        self.lock = RLock()
        self.cursor: Cursor | None = None
        self.since: int | None = None
        self.unsaved: list[IndexSegment] = []
        self.derived_count = 0
