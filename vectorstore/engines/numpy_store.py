"""The store that lives in the process: a dictionary of entries, searched by the core. Nothing is on disk until saved.

It is the quickest start and the other engine's equal: the same ids, scores and ties.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

import numpy as np
from numpy.typing import NDArray

from vectorstore.analysis import Analyzer
from vectorstore.checking import (
    batches,
    check_entry,
    check_expect,
    check_fields,
    check_ids,
    check_metadata,
    check_name,
    check_namespace,
    check_namespaces,
    check_search,
    check_vectors,
    last_of_each,
)
from vectorstore.core.namespace import MemoryNamespace
from vectorstore.core.view import CoreView
from vectorstore.engines.numpy_snapshots import NumpySnapshots
from vectorstore.errors import ArgumentError, StoreClosed, UnsupportedError
from vectorstore.filters import All, parse
from vectorstore.types import (
    Changes,
    Compaction,
    Cursor,
    Entry,
    Erasure,
    Filter,
    Finding,
    Match,
    Metadata,
    Progress,
    SearchMode,
    Space,
    VectorLike,
)

_PAGE = 256


class NumpyStore(NumpySnapshots):
    """Implements ``LifecycleStore`` in memory. *fields* are columns, for fast filters; *search* is how it finds."""

    def __init__(
        self,
        *,
        space: Space | None = None,
        analyzer: Analyzer | None = None,
        fields: Sequence[str] = (),
        search: SearchMode | str = SearchMode.EXACT,
    ) -> None:
        super().__init__(space, check_fields(fields), analyzer or Analyzer())
        self._search = check_search(search)
        self._lock = threading.RLock()
        self._touched: set[str] = set()
        self._closed = False

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        space: Space | None = None,
        analyzer: Analyzer | None = None,
        fields: Sequence[str] | None = None,
        search: SearchMode | str = SearchMode.EXACT,
    ) -> Self:
        """Return the store of the snapshot at *path*, or an empty one where nothing is; ``save`` writes it back.

        None takes what the snapshot has recorded, a different setting raises. Each byte is checked: damage raises
        ``DamageError``; a foreign or newer file ``NotAStore`` or ``NewerFile``. The file is not held open.
        """
        # Imported here, since a store that is never saved needs nothing of SQLite's.
        from vectorstore.engines.snapshot_file import agreed, read_snapshot

        names = None if fields is None else check_fields(fields)
        state = read_snapshot(path)
        if state is None:
            store = cls(space=space, analyzer=analyzer, fields=names or (), search=search)
        else:
            settings = agreed(state, space=space, analyzer=analyzer, fields=names)
            store = cls(space=settings.space, analyzer=settings.analyzer, fields=settings.fields, search=search)
            store._load(state)
        store._path = path
        return store

    @property
    def search_mode(self) -> SearchMode:
        """How this object searches."""
        return self._search

    def upsert(
        self,
        entries: Iterable[Entry],
        *,
        namespace: str = "",
        expect: Mapping[str, int] | None = None,
        on_progress: Progress | None = None,
    ) -> int:
        """As ``VectorStore.upsert``."""
        name, wanted = check_namespace(namespace), dict(check_expect(expect))
        written = 0
        for start, batch in batches(entries):
            with self.transaction():
                checked = [check_entry(entry, f"entries[{start + i}]", self._space) for i, entry in enumerate(batch)]
                written += self._namespace(name).write(last_of_each(checked), wanted)
            for one in checked:
                wanted.pop(one.id, None)
            if on_progress is not None:
                on_progress(written)
        return written

    def patch(
        self,
        metadata: Mapping[str, Metadata],
        *,
        namespace: str = "",
        expect: Mapping[str, int] | None = None,
    ) -> int:
        """As ``VectorStore.patch``."""
        name, wanted = check_namespace(namespace), check_expect(expect)
        checked = {
            check_name(id, "metadata", empty=False): check_metadata(value, f"metadata[{id!r}]")
            for id, value in metadata.items()
        }
        with self.transaction():
            return self._namespace(name).patch(checked, wanted)

    def put_vectors(
        self,
        vectors: Mapping[str, VectorLike],
        *,
        namespace: str = "",
        expect: Mapping[str, int] | None = None,
    ) -> int:
        """As ``VectorStore.put_vectors``."""
        name, wanted = check_namespace(namespace), check_expect(expect)
        with self.transaction():
            return self._namespace(name).put_vectors(check_vectors(vectors, self._space), wanted)

    def delete(self, ids: Iterable[str] = (), *, where: Filter | None = None, namespace: str = "") -> int:
        """As ``VectorStore.delete``."""
        name, node, names = check_namespace(namespace), parse(where), check_ids(ids)
        if not names and (isinstance(node, All) and not node.nodes):
            raise ArgumentError(
                "ids",
                names,
                "ids or a filter that is not empty are needed; nothing empties a store by accident",
            )
        with self.transaction():
            held = self._namespaces.get(name)
            if held is None:
                return 0
            chosen = names or held.ids()
            return held.remove([id for id in dict.fromkeys(chosen) if held.matches(id, node)])

    def erase(self, ids: Iterable[str], *, namespace: str = "") -> Erasure:
        """As ``LifecycleStore.erase``; memory is freed at once, nothing is ever pending."""
        name, names = check_namespace(namespace), check_ids(ids)
        with self.transaction():
            held = self._namespaces.get(name)
            return Erasure(0 if held is None else held.remove(list(dict.fromkeys(names))), pending=False)

    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        """As ``VectorStore.get``."""
        names = check_ids(ids)
        with self._open():
            held = self._namespaces.get(check_namespace(namespace))
            return [None if held is None else held.entry(id) for id in names]

    def search(
        self,
        vector: VectorLike,
        k: int = 10,
        *,
        where: Filter | None = None,
        min_score: float | None = None,
        namespace: str = "",
    ) -> list[Match]:
        """As ``VectorStore.search``."""
        with self._open():
            return self._view().search(vector, k, where=where, min_score=min_score, namespace=namespace)

    def search_many(
        self,
        vectors: Sequence[VectorLike] | NDArray[np.float32],
        k: int = 10,
        *,
        where: Filter | None = None,
        min_score: float | None = None,
        namespace: str = "",
    ) -> list[list[Match]]:
        """As ``VectorStore.search_many``."""
        with self._open():
            return self._view().search_many(vectors, k, where=where, min_score=min_score, namespace=namespace)

    def search_text(self, query: str, k: int = 10, *, where: Filter | None = None, namespace: str = "") -> list[Match]:
        """As ``VectorStore.search_text``."""
        with self._open():
            return self._view().search_text(query, k, where=where, namespace=namespace)

    def count(self, *, where: Filter | None = None, namespace: str = "") -> int:
        """As ``VectorStore.count``."""
        name, node = check_namespace(namespace), parse(where)
        with self._open():
            held = self._namespaces.get(name)
            return 0 if held is None else sum(held.matches(id, node) for id in held.ids())

    def scan(
        self,
        *,
        where: Filter | None = None,
        namespace: str = "",
        after: str | None = None,
        embedded: bool | None = None,
    ) -> Iterator[Entry]:
        """As ``VectorStore.scan``."""
        name, node = check_namespace(namespace), parse(where)
        last = None if after is None else check_name(after, "after", empty=True)
        with self._open():
            pass

        def pages() -> Iterator[Entry]:
            at = last
            while True:
                with self._open():
                    held = self._namespaces.get(name)
                    page = [] if held is None else held.page(node, at, embedded, _PAGE)
                if not page:
                    return
                yield from page
                at = page[-1].id

        return pages()

    def namespaces(self) -> list[str]:
        """As ``VectorStore.namespaces``."""
        with self._open():
            return sorted(name for name, held in self._namespaces.items() if len(held))

    def changes(self, since: Cursor | None = None, *, namespace: str = "") -> Changes:
        """As ``LifecycleStore.changes``."""
        name = check_namespace(namespace)
        if since is not None and since.namespace != name:
            raise ArgumentError("since", since, f"a cursor of namespace {name!r} is needed")
        with self._open():
            held = self._namespaces.get(name)
            if held is None:
                return Changes((), (), Cursor(name, 0), complete=since is not None)
            return held.changes(None if since is None else since.position)

    @contextmanager
    def view(self, namespaces: Sequence[str], *, search: SearchMode | str | None = None) -> Iterator[CoreView]:
        """As ``LifecycleStore.view``; writers wait until it ends. *search*: in another mode than the store's own."""
        allowed = check_namespaces(namespaces)
        mode = None if search is None else check_search(search)
        with self._open():
            yield self._view(allowed, mode)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """As ``LifecycleStore.transaction``; other threads wait until it ends."""
        with self._open():
            mark = len(self._journal)
            self._depth += 1
            try:
                yield
            except BaseException:
                while len(self._journal) > mark:
                    self._journal.pop()()
                raise
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._journal.clear()
                    for name in self._touched:
                        self._namespaces[name].settle()
                    self._touched.clear()

    def pending_erasure(self) -> bool:
        """Nothing is ever pending in memory."""
        with self._open():
            return False

    def verify(self) -> list[Finding]:
        """Compare what the core knows with the entries."""
        with self._open():
            return [finding for held in self._namespaces.values() for finding in held.verify()]

    def compact(self) -> Compaction:
        """As ``LifecycleStore.compact``: room and terms that nothing uses are freed; there is no file."""
        with self._open():
            if self._depth:
                raise UnsupportedError("compact", "it cannot be done inside transaction()")
            fresh = {name: self._new_namespace(name) for name in self._namespaces}
            for name, held in fresh.items():
                held.load(self._namespaces[name].state(), analysed=True)
            self._namespaces = fresh
            return Compaction(before=0, after=0, pending=False)

    def close(self) -> None:
        """Forget everything; closing twice is harmless."""
        with self._lock:
            self._closed = True
            self._namespaces.clear()

    @contextmanager
    def _open(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise StoreClosed
            yield

    def _namespace(self, name: str) -> MemoryNamespace:
        self._touched.add(name)
        held = self._namespaces.get(name)
        if held is None:
            held = self._namespaces[name] = self._new_namespace(name)
        return held

    def _new_namespace(self, name: str) -> MemoryNamespace:
        return MemoryNamespace(
            name, space=self._space, analyzer=self.analyzer, fields=self._fields, journal=self._journal
        )

    def _view(self, allowed: set[str] | None = None, search: SearchMode | None = None) -> CoreView:
        def reader(name: str) -> MemoryNamespace | None:
            if allowed is not None and name not in allowed:
                raise ArgumentError("namespace", name, "this view was opened for other namespaces")
            return self._namespaces.get(name)

        mode = search or self._search
        return CoreView(space=self._space, analyzer=self.analyzer, open_reader=reader, search=mode)
