"""The store in the process: a dictionary of entries, searched by the in-memory index. On disk only when saved, in a
snapshot that is written whole or not at all, holds the tables of ``database`` too, and is checked when it is read.

It is the quickest start and the other engine's equal: the same ids, scores and ties. Longer than 500 lines, since a
store is whole in one file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

import apsw

from tellback.vectorstore.analyzer import Analyzer
from tellback.vectorstore.call_hints import with_hints
from tellback.vectorstore.engines.base import (
    check_after,
    check_cursor,
    check_patches,
    read_pages,
    searched,
    write_batches,
)
from tellback.vectorstore.engines.snapshot import (
    PREAMBLE_SIZE,
    StoreState,
    check_preamble,
    decode_snapshot,
    encode_snapshot,
)
from tellback.vectorstore.errors import ArgumentError, SpaceMismatch, StoreClosed, UnsupportedError
from tellback.vectorstore.filters import filter_tree, matches_everything
from tellback.vectorstore.index.memory_namespace import MemoryNamespace
from tellback.vectorstore.index.view import IndexView
from tellback.vectorstore.protocol import VectorStore
from tellback.vectorstore.sqlite.connection import translate_system_errors
from tellback.vectorstore.sqlite.files import atomic_write, check_path, is_missing
from tellback.vectorstore.sqlite.in_memory import InMemoryDatabase
from tellback.vectorstore.sqlite.schema import StoreSettings
from tellback.vectorstore.types import (
    Changes,
    Compaction,
    Cursor,
    Entry,
    Erasure,
    Filter,
    Finding,
    Metadata,
    ProgressCallback,
    SearchMode,
    Space,
    SpaceMigration,
    VectorLike,
)
from tellback.vectorstore.validation import (
    CheckedEntry,
    check_entry,
    check_expect,
    check_fields,
    check_ids,
    check_migration_complete,
    check_migration_running,
    check_migration_start,
    check_migration_vectors,
    check_namespace,
    check_namespaces,
    check_search_mode,
    check_space,
    check_vectors,
    drop_overwritten,
)


@with_hints
class NumpyStore:
    """Implements ``LifecycleStore`` in memory. *fields* become columns, for fast filters; *search*: ``SearchMode``."""

    def __init__(
        self,
        *,
        space: Space | None = None,
        analyzer: Analyzer | None = None,
        fields: Sequence[str] = (),
        search: SearchMode | str = SearchMode.EXACT,
    ) -> None:
        self.analyzer = analyzer or Analyzer()
        self._space = None if space is None else check_space(space)
        self._next_space: Space | None = None
        self._fields = check_fields(fields)
        self.search_mode = check_search_mode(search)
        """Mode in which this object searches."""
        self._lock = threading.RLock()
        self._database = InMemoryDatabase(lock=self._lock)
        self._journal = self._database.journal
        self._namespaces: dict[str, MemoryNamespace] = {}
        self._touched: set[str] = set()
        self._path: str | os.PathLike[str] | None = None
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
        ``DamageError``; a foreign or newer file ``NotAStore`` or ``NewerFile``. The file is not stored open.
        """
        names = None if fields is None else check_fields(fields)
        snapshot, recorded = read_snapshot(path), StoreSettings()
        if snapshot is not None:
            state = snapshot[0]
            recorded = StoreSettings(state.space, Analyzer(state.language), state.fields, recorded=True)
        settings = recorded.agreed(space=space, analyzer=analyzer, fields=names)
        store = cls(space=settings.space, analyzer=settings.analyzer, fields=settings.fields, search=search)
        if snapshot is not None:
            store._load(*snapshot)
        store._path = path
        return store

    @property
    def space(self) -> Space | None:
        """The space of its vectors, if it has one."""
        return self._space

    def recorded_space(self) -> Space | None:
        """As ``LifecycleStore.recorded_space``: nobody else can switch it."""
        with self._open():
            return self._space

    @property
    def fields(self) -> tuple[str, ...]:
        """The declared fields."""
        return self._fields

    @property
    def database(self) -> InMemoryDatabase:
        """As ``LifecycleStore.database``: in the memory of the process, and in its snapshots."""
        return self._database

    def upsert(
        self,
        entries: Iterable[Entry],
        *,
        namespace: str = "",
        expect: Mapping[str, int] | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> int:
        """As ``VectorStore.upsert``."""
        name = check_namespace(namespace)

        def write(batch: Sequence[Entry], start: int, expected: dict[str, int]) -> tuple[list[CheckedEntry], int]:
            with self.transaction():
                checked = [check_entry(entry, f"entries[{start + i}]", self._space) for i, entry in enumerate(batch)]
                return checked, self._namespace(name).write(drop_overwritten(checked), expected)

        return write_batches(entries, expect, on_progress, write)

    def patch(
        self, metadata: Mapping[str, Metadata], *, namespace: str = "", expect: Mapping[str, int] | None = None
    ) -> int:
        """As ``VectorStore.patch``."""
        name, expected, checked = check_namespace(namespace), check_expect(expect), check_patches(metadata)
        with self.transaction():
            return self._namespace(name).patch(checked, expected)

    def put_vectors(
        self, vectors: Mapping[str, VectorLike], *, namespace: str = "", expect: Mapping[str, int] | None = None
    ) -> int:
        """As ``VectorStore.put_vectors``."""
        name, expected = check_namespace(namespace), check_expect(expect)
        with self.transaction():
            return self._namespace(name).put_vectors(check_vectors(vectors, self._space), expected)

    def delete(self, ids: Iterable[str] = (), *, where: Filter | None = None, namespace: str = "") -> int:
        """As ``VectorStore.delete``."""
        name, node, names = check_namespace(namespace), filter_tree(where), check_ids(ids)
        if not names and matches_everything(node):
            raise ArgumentError(
                "ids", names, "ids or a filter that is not empty are needed; nothing empties a store by accident"
            )
        with self.transaction():
            stored = self._namespaces.get(name)
            if stored is None:
                return 0
            chosen = names or stored.ids()
            return stored.remove([id for id in dict.fromkeys(chosen) if stored.matches(id, node)])

    def erase(self, ids: Iterable[str], *, namespace: str = "") -> Erasure:
        """As ``LifecycleStore.erase``; memory is freed at once, a snapshot is pending until the next ``save``."""
        name, names = check_namespace(namespace), check_ids(ids)
        with self.transaction(), self._database.write() as connection:
            stored = self._namespaces.get(name)
            removed = 0 if stored is None else stored.remove(list(dict.fromkeys(names)))
            if removed:
                self._database.mark_erasure(connection)
        return Erasure(removed, pending=self.pending_erasure())

    get = searched(VectorStore.get)
    search = searched(VectorStore.search)
    search_many = searched(VectorStore.search_many)
    search_text = searched(VectorStore.search_text)

    def count(self, *, where: Filter | None = None, namespace: str = "") -> int:
        """As ``VectorStore.count``."""
        name, node = check_namespace(namespace), filter_tree(where)
        with self._open():
            stored = self._namespaces.get(name)
            return 0 if stored is None else sum(stored.matches(id, node) for id in stored.ids())

    def scan(
        self,
        *,
        where: Filter | None = None,
        namespace: str = "",
        after: str | None = None,
        embedded: bool | None = None,
    ) -> Iterator[Entry]:
        """As ``VectorStore.scan``."""
        name, node, start = check_namespace(namespace), filter_tree(where), check_after(after)
        self._check_open()

        def page(last: str | None, size: int) -> list[Entry]:
            with self._open():
                stored = self._namespaces.get(name)
                return [] if stored is None else stored.page(node, last, embedded, size)

        return read_pages(page, start)

    def namespaces(self) -> list[str]:
        """As ``VectorStore.namespaces``."""
        with self._open():
            return sorted(name for name, stored in self._namespaces.items() if len(stored))

    def changes(self, since: Cursor | None = None, *, namespace: str = "") -> Changes:
        """As ``LifecycleStore.changes``."""
        name = check_namespace(namespace)
        position = check_cursor(since, name)
        with self._open():
            stored = self._namespaces.get(name)
            if stored is None:
                return Changes((), (), Cursor(name, 0), complete=since is not None)
            return stored.changes(position)

    @contextmanager
    def view(self, namespaces: Sequence[str], *, search: SearchMode | str | None = None) -> Iterator[IndexView]:
        """As ``LifecycleStore.view``; writers wait until it ends. *search*: in another mode than the store's own."""
        allowed = check_namespaces(namespaces)
        mode = None if search is None else check_search_mode(search)
        with self._reading(allowed, mode) as view:
            yield view

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """As ``LifecycleStore.transaction``; other threads wait until it ends."""
        self._check_open()
        with self._database.transaction():
            yield
            if self._touched:
                self._database.on_commit(self._settle)

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
            counts = {name: stored.filled() for name, stored in sorted(self._namespaces.items())}
            pending = {name: unfilled for name, (_, unfilled) in counts.items() if unfilled}
            return SpaceMigration(self._next_space, sum(filled for filled, _ in counts.values()), pending)

    def unfilled(self, *, namespace: str = "", after: str | None = None) -> Iterator[Entry]:
        """As ``LifecycleStore.unfilled``."""
        name, start = check_namespace(namespace), check_after(after)

        def page(last: str | None, size: int) -> list[Entry]:
            with self._open():
                check_migration_running(self._next_space)
                stored = self._namespaces.get(name)
                return [] if stored is None else stored.unfilled(last, size)

        with self._open():
            check_migration_running(self._next_space)
        return read_pages(page, start)

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
        name, expected = check_namespace(namespace), check_expect(expect)
        checked = check_migration_vectors(vectors, no_vector, check_space(space))
        with self.transaction():
            check_migration_running(self._next_space, space)
            return self._namespace(name).fill(checked, expected)

    def commit_space(self, space: Space) -> None:
        """As ``LifecycleStore.commit_space``."""
        check_space(space)
        with self.transaction():
            check_migration_running(self._next_space, space)
            check_migration_complete(self.filling())
            self._set(space=space, next_space=None)
            for stored in self._namespaces.values():
                stored.switch(space)

    def abort_space(self) -> None:
        """As ``LifecycleStore.abort_space``."""
        with self.transaction():
            for stored in self._namespaces.values():
                stored.drop_next()
            self._set(next_space=None)

    def declare_fields(self, fields: Sequence[str]) -> None:
        """As ``LifecycleStore.declare_fields``."""
        names = check_fields(fields)
        with self.transaction():
            before = self._fields
            self._use_fields(names)
            self._journal.append(lambda: self._use_fields(before))

    def pending_erasure(self) -> bool:
        """Return whether something was erased since the last ``save``, whose file still has it."""
        with self._open():
            return self._database.pending_erasure()

    def verify(self) -> list[Finding]:
        """As ``LifecycleStore.verify``: compare each index with its entries, and every component of ``database``."""
        with self._open():
            findings = [finding for stored in self._namespaces.values() for finding in stored.verify()]
            return findings + self._database.verify()

    def compact(self) -> Compaction:
        """As ``LifecycleStore.compact``: room and terms that nothing uses are freed; there is no file."""
        with self._open():
            if self._database.in_write():
                raise UnsupportedError("compact", "it cannot be done inside transaction()")
            fresh = {name: self._new_namespace(name) for name in self._namespaces}
            for name, stored in fresh.items():
                stored.load(self._namespaces[name].state(), analysed=True)
            self._namespaces = fresh
            return Compaction(before=0, after=0, pending=False)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """As ``LifecycleStore.backup``: a snapshot, which ``open`` reads."""
        self._write_snapshot("backup", path, replace=False)

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Write a snapshot of everything to *path* (None: the path given to ``open``), in place of an earlier one.

        Everything is also what others keep in ``database``, such as conversations, the operation log and tombstones.
        It is written whole or not at all: beside its place, flushed to disk (mode 0600), then put there in one
        step. What is there and is no snapshot of a numpy store is left untouched: ``NotAStore``, ``NewerFile``.
        """
        target = self._path if path is None else path
        if target is None:
            raise ArgumentError("path", path, "a path is needed: this store was not opened with one")
        self._write_snapshot("save", target, replace=True)

    def close(self) -> None:
        """Forget everything, the tables of ``database`` too; closing twice is harmless."""
        with self._lock:
            self._closed = True
            self._namespaces.clear()
            self._database.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Run one call under the lock; refused when closed."""
        with self._lock:
            self._check_open()
            yield

    @contextmanager
    def _reading(self, allowed: set[str] | None = None, search: SearchMode | None = None) -> Iterator[IndexView]:
        with self._lock:
            self._check_open()
            mode = search or self.search_mode
            yield IndexView(self._space, self.analyzer, self._namespaces.get, allowed=allowed, search=mode)

    def _settle(self) -> None:
        """Shorten the change logs of what was written, after a commit."""
        with self._lock:
            for name in self._touched:
                if (stored := self._namespaces.get(name)) is not None:
                    stored.settle()
            self._touched.clear()

    def _namespace(self, name: str) -> MemoryNamespace:
        self._touched.add(name)
        stored = self._namespaces.get(name)
        if stored is None:
            stored = self._namespaces[name] = self._new_namespace(name)
        return stored

    def _new_namespace(self, name: str) -> MemoryNamespace:
        return MemoryNamespace(
            name, space=self._space, analyzer=self.analyzer, fields=self._fields, journal=self._journal
        )

    def _use_space(self, space: Space | None) -> None:
        self._space = space
        for stored in self._namespaces.values():
            stored.use_space(space)

    def _use_fields(self, fields: tuple[str, ...]) -> None:
        self._fields = fields
        for stored in self._namespaces.values():
            stored.declare(fields)

    def _set(self, *, next_space: Space | None, space: Space | None = None) -> None:
        before = self._space, self._next_space

        def undo() -> None:
            self._space, self._next_space = before
            for stored in self._namespaces.values():
                if not len(stored):  # it may have come meanwhile
                    stored.use_space(self._space)

        self._space, self._next_space = space or self._space, next_space
        self._journal.append(undo)

    def _load(self, state: StoreState, image: apsw.Connection) -> None:
        self._database.close()
        self._database = InMemoryDatabase(lock=self._lock, image=image)
        self._journal = self._database.journal
        self._next_space = state.next_space
        analysed = state.fingerprint == self.analyzer.fingerprint
        for stored in state.namespaces:
            self._namespace(stored.name).load(stored, analysed=analysed)

    def _write_snapshot(self, operation: str, path: str | os.PathLike[str], *, replace: bool) -> None:
        """Put a snapshot at *path*; an earlier one there stays as it is until the new one is whole.

        Anything but a snapshot is left untouched and refused; so is a snapshot too, unless *replace*.
        """
        target = check_path(path)
        with self._open():
            if self._database.in_write():
                raise UnsupportedError(operation, "it cannot be made inside transaction()")
            language, fingerprint = self.analyzer.language, self.analyzer.fingerprint
            namespaces = tuple(stored.state() for _, stored in sorted(self._namespaces.items()))
            state = StoreState(self._space, self._next_space, language, fingerprint, self._fields, namespaces)
            image, note_saved = self._database.copy_tables()
        with translate_system_errors(target):
            try:
                if not is_missing(target):
                    if not replace:
                        raise FileExistsError
                    with target.open("rb") as file:
                        check_preamble(file.read(PREAMBLE_SIZE), str(target))
                with atomic_write(target, token=os.urandom, replace=replace) as private, private.open("wb") as file:
                    file.writelines(encode_snapshot(state, image))
                if replace:
                    note_saved()
            except FileExistsError as error:
                raise ArgumentError("path", os.fspath(path), "a path where nothing is yet is needed") from error


def read_snapshot(path: str | os.PathLike[str]) -> tuple[StoreState, apsw.Connection] | None:
    """Return the state at *path* and the tables of its database; None where nothing is."""
    target = check_path(path)
    with translate_system_errors(target):
        if is_missing(target):
            return None
        data = target.read_bytes()
    return decode_snapshot(data, str(target))
