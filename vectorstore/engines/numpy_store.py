"""The store in the process: a dictionary of entries, searched by the in-memory index. On disk only when saved.

It is the quickest start and the other engine's equal: the same ids, scores and ties. Longer than 500 lines, since a
store stands whole in one file.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Self

import numpy as np
from numpy.typing import NDArray

from vectorstore.analyzer import Analyzer
from vectorstore.database import Database
from vectorstore.errors import ArgumentError, SpaceMismatch, StoreClosed, UnsupportedError
from vectorstore.filters import And, filter_tree
from vectorstore.index.memory_namespace import MemoryNamespace
from vectorstore.index.snapshot import StoreState
from vectorstore.index.view import IndexView
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
    ProgressCallback,
    SearchMode,
    Space,
    SpaceMigration,
    VectorLike,
)
from vectorstore.validation import (
    check_entry,
    check_expect,
    check_fields,
    check_ids,
    check_metadata,
    check_migration_complete,
    check_migration_running,
    check_migration_start,
    check_migration_vectors,
    check_name,
    check_namespace,
    check_namespaces,
    check_search_mode,
    check_space,
    check_vectors,
    drop_overwritten,
    entry_batches,
)

_PAGE_SIZE = 256


class NumpySpaces(ABC):
    """Space and fields of a store whose *journal* holds the undoes of its present transaction."""

    def __init__(self, space: Space | None, fields: tuple[str, ...]) -> None:
        self._space = None if space is None else check_space(space)
        self._next_space: Space | None = None
        self._fields = fields
        self._namespaces: dict[str, MemoryNamespace] = {}
        self._journal: list[Callable[[], None]] = []

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """As ``LifecycleStore.transaction``."""

    @abstractmethod
    def _open(self) -> AbstractContextManager[None]:
        """One call under the lock, refused when closed."""

    @property
    def space(self) -> Space | None:
        """The space of its vectors, if it has one."""
        return self._space

    def recorded_space(self) -> Space | None:
        """As ``LifecycleStore.recorded_space``: nobody else can switch it."""
        with self._open():
            return self._space

    def set_space(self, space: Space) -> None:
        """Record the space of a store that has none yet."""
        check_space(space)
        with self.transaction():
            if self._space is not None and self._space != space:
                raise SpaceMismatch(self._space, space)
            if self._space is None:
                self._use_space(space)
                self._journal.append(lambda: self._use_space(None))

    def begin_space(self, space: Space) -> None:
        """As ``LifecycleStore.begin_space``."""
        check_space(space)
        with self.transaction():
            check_migration_start(space, self._space, self._next_space)
            self._set(next_space=space)

    def filling(self) -> SpaceMigration | None:
        """As ``LifecycleStore.filling``."""
        with self._open():
            if self._next_space is None:
                return None
            counts = {name: held.filled() for name, held in sorted(self._namespaces.items())}
            pending = {name: left for name, (_, left) in counts.items() if left}
            return SpaceMigration(self._next_space, sum(filled for filled, _ in counts.values()), pending)

    def unfilled(self, *, namespace: str = "", after: str | None = None) -> Iterator[Entry]:
        """As ``LifecycleStore.unfilled``."""
        name = check_namespace(namespace)
        last = None if after is None else check_name(after, "after", empty=True)
        with self._open():
            check_migration_running(self._next_space)

        def pages() -> Iterator[Entry]:
            at = last
            while True:
                with self._open():
                    check_migration_running(self._next_space)
                    held = self._namespaces.get(name)
                    page = [] if held is None else held.unfilled(at, _PAGE_SIZE)
                if not page:
                    return
                yield from page
                at = page[-1].id

        return pages()

    def fill_space(
        self,
        space: Space,
        vectors: Mapping[str, VectorLike],
        *,
        no_vector: Mapping[str, str] | None = None,
        namespace: str = "",
        expect: Mapping[str, int] | None = None,
    ) -> int:
        """As ``LifecycleStore.fill_space``."""
        name, wanted = check_namespace(namespace), check_expect(expect)
        given = check_migration_vectors(vectors, no_vector, check_space(space))
        with self.transaction():
            check_migration_running(self._next_space, space)
            return self._namespace(name).fill(given, wanted)

    def commit_space(self, space: Space) -> None:
        """As ``LifecycleStore.commit_space``."""
        check_space(space)
        with self.transaction():
            check_migration_running(self._next_space, space)
            check_migration_complete(self.filling())
            self._set(space=space, next_space=None)
            for held in self._namespaces.values():
                held.switch(space)

    def abort_space(self) -> None:
        """As ``LifecycleStore.abort_space``."""
        with self.transaction():
            for held in self._namespaces.values():
                held.drop_next()
            self._set(next_space=None)

    @property
    def fields(self) -> tuple[str, ...]:
        """The declared fields."""
        return self._fields

    def declare_fields(self, fields: Sequence[str]) -> None:
        """As ``LifecycleStore.declare_fields``."""
        names = check_fields(fields)
        with self.transaction():
            before = self._fields
            self._use_fields(names)
            self._journal.append(lambda: self._use_fields(before))

    @abstractmethod
    def _namespace(self, name: str) -> MemoryNamespace:
        """The namespace, new where there is none."""

    def _use_space(self, space: Space | None) -> None:
        self._space = space
        for held in self._namespaces.values():
            held.start_space(space)

    def _use_fields(self, fields: tuple[str, ...]) -> None:
        self._fields = fields
        for held in self._namespaces.values():
            held.declare(fields)

    def _set(self, *, next_space: Space | None, space: Space | None = None) -> None:
        before = self._space, self._next_space

        def undo() -> None:
            self._space, self._next_space = before
            for held in self._namespaces.values():
                if not len(held):  # it may have come meanwhile
                    held.start_space(self._space)

        self._space, self._next_space = space or self._space, next_space
        self._journal.append(undo)


class NumpySnapshots(NumpySpaces):
    """``save`` and ``backup`` of a store that counts in ``_depth`` the transactions that it is inside of."""

    def __init__(self, space: Space | None, fields: Sequence[str], analyzer: Analyzer) -> None:
        super().__init__(space, tuple(fields))
        self.analyzer = analyzer
        self._depth = 0
        self._path: str | os.PathLike[str] | None = None

    @property
    def database(self) -> Database | None:
        """None: nothing is in a file until it is saved."""
        return None

    def backup(self, path: str | os.PathLike[str]) -> None:
        """As ``LifecycleStore.backup``: a snapshot, which ``open`` reads."""
        self._write_snapshot("backup", path, replace=False)

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Write a snapshot of everything to *path* (None: where ``open`` was told), in place of an earlier one.

        It is written whole or not at all: beside its place, flushed to disk (mode 0600), then put there in one
        step. What is there and is no snapshot of a numpy store is left untouched: ``NotAStore``, ``NewerFile``.
        """
        target = self._path if path is None else path
        if target is None:
            raise ArgumentError("path", path, "a path is needed: this store was not opened with one")
        self._write_snapshot("save", target, replace=True)

    def _load(self, state: StoreState) -> None:
        self._next_space = state.next_space
        analysed = state.fingerprint == self.analyzer.fingerprint
        for held in state.namespaces:
            self._namespace(held.name).load(held, analysed=analysed)

    def _write_snapshot(self, operation: str, path: str | os.PathLike[str], *, replace: bool) -> None:
        from vectorstore.engines.snapshot_file import write_snapshot

        with self._open():
            if self._depth:
                raise UnsupportedError(operation, "it cannot be made inside transaction()")
            state = StoreState(
                space=self._space,
                next_space=self._next_space,
                language=self.analyzer.language,
                fingerprint=self.analyzer.fingerprint,
                fields=self._fields,
                namespaces=[held.state() for _, held in sorted(self._namespaces.items())],
            )
        write_snapshot(state, path, replace=replace)


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
        self._search = check_search_mode(search)
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
        from vectorstore.engines.snapshot_file import agree_snapshot_settings, read_snapshot

        names = None if fields is None else check_fields(fields)
        state = read_snapshot(path)
        if state is None:
            store = cls(space=space, analyzer=analyzer, fields=names or (), search=search)
        else:
            settings = agree_snapshot_settings(state, space=space, analyzer=analyzer, fields=names)
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
        on_progress: ProgressCallback | None = None,
    ) -> int:
        """As ``VectorStore.upsert``."""
        name, wanted = check_namespace(namespace), dict(check_expect(expect))
        written = 0
        for start, batch in entry_batches(entries):
            with self.transaction():
                checked = [check_entry(entry, f"entries[{start + i}]", self._space) for i, entry in enumerate(batch)]
                written += self._namespace(name).write(drop_overwritten(checked), wanted)
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
        name, node, names = check_namespace(namespace), filter_tree(where), check_ids(ids)
        if not names and (isinstance(node, And) and not node.nodes):
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
        name, node = check_namespace(namespace), filter_tree(where)
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
        name, node = check_namespace(namespace), filter_tree(where)
        last = None if after is None else check_name(after, "after", empty=True)
        with self._open():
            pass

        def pages() -> Iterator[Entry]:
            at = last
            while True:
                with self._open():
                    held = self._namespaces.get(name)
                    page = [] if held is None else held.page(node, at, embedded, _PAGE_SIZE)
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
    def view(self, namespaces: Sequence[str], *, search: SearchMode | str | None = None) -> Iterator[IndexView]:
        """As ``LifecycleStore.view``; writers wait until it ends. *search*: in another mode than the store's own."""
        allowed = check_namespaces(namespaces)
        mode = None if search is None else check_search_mode(search)
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

    def _view(self, allowed: set[str] | None = None, search: SearchMode | None = None) -> IndexView:
        def reader(name: str) -> MemoryNamespace | None:
            if allowed is not None and name not in allowed:
                raise ArgumentError("namespace", name, "this view was opened for other namespaces")
            return self._namespaces.get(name)

        mode = search or self._search
        return IndexView(space=self._space, analyzer=self.analyzer, open_reader=reader, search=mode)
