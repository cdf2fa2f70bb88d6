"""Store of tables, which both engines are: entries in the tables of a database, searched by the index in memory.

Indexes are filled from the tables when first needed and kept fresh by their change log; writes go straight to the
tables. A call that reads holds one read transaction; a call inside ``transaction()`` sees what that transaction wrote.
The database may be switched to another space by somebody else: then vectors are refused here, and everything else goes
on. Longer than 500 lines, since a store is whole in one file; an engine adds where its database is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Generic, Protocol, TypeAlias, TypeVar

from tellback.vectorstore.analyzer import Analyzer
from tellback.vectorstore.database import Connection, Database
from tellback.vectorstore.engines.base import (
    PAGE_SIZE,
    check_cursor,
    read_pages,
    searched,
    write_batches,
)
from tellback.vectorstore.errors import ArgumentError, SpaceChanged
from tellback.vectorstore.filters import filter_tree, matches_everything
from tellback.vectorstore.index.view import IndexView, NamespaceReader
from tellback.vectorstore.ordered_scan import ScanPosition, check_order_fields, check_scan_position
from tellback.vectorstore.outline_scan import EntryOutline
from tellback.vectorstore.protocol import VectorStore
from tellback.vectorstore.sqlite import entry_reader, schema
from tellback.vectorstore.sqlite.connection import fetch_all
from tellback.vectorstore.sqlite.entry_reader import NEXT_SPACE_FACT, read_space
from tellback.vectorstore.sqlite.entry_writer import EntryBatch, NamespaceWriter
from tellback.vectorstore.sqlite.index_cache import NamespaceHead, NamespaceIndexCache, read_namespace_head
from tellback.vectorstore.sqlite.namespace_reader import MemoryNamespaceReader
from tellback.vectorstore.sqlite.schema import StoreSettings, read_settings
from tellback.vectorstore.table_copy import check_whole
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
    check_after,
    check_entries,
    check_expect,
    check_fields,
    check_ids,
    check_migration_running,
    check_migration_vectors,
    check_namespace,
    check_namespaces,
    check_patches,
    check_search_mode,
    check_space,
    check_vectors,
    drop_overwritten,
)


class _ThreadTransaction(threading.local):
    """Indexes and space of a thread's present transaction, each beside the ``present_write`` to which it belongs."""

    indexes: tuple[object, NamespaceIndexCache] | None = None
    named: tuple[object, Space] | None = None


OpenReader: TypeAlias = Callable[[Connection, NamespaceIndexCache, str, NamespaceHead], NamespaceReader]


class ReadState:
    """State of one read transaction: the space recorded in it, and readers of its namespaces.

    What the connection itself writes meanwhile is read, too: *changes* counts the rows that it had changed before.
    """

    def __init__(
        self, connection: Connection, recorded: Space | None, indexes: NamespaceIndexCache, open_reader: OpenReader
    ) -> None:
        self.recorded = recorded
        self.changes = connection.total_changes()
        self._connection = connection
        self.indexes = indexes
        self._open_reader = open_reader
        self._readers: dict[str, NamespaceReader] = {}

    def reader(self, name: str) -> NamespaceReader | None:
        """Return the reader of a namespace; None if it was never written."""
        is_unchanged = self._connection.total_changes() == self.changes
        if is_unchanged and name in self._readers:
            return self._readers[name]
        if (head := read_namespace_head(self._connection, name)) is None:
            self.indexes.forget(name)
            return None
        opened = self._open_reader(self._connection, self.indexes, name, head)
        if is_unchanged:
            self._readers[name] = opened
        return opened


class TableDatabase(Database, Protocol):
    """Database of a store of tables, which needs more of it than components do."""

    def present_write(self) -> object | None:
        """Return an object that identifies this thread's present outermost ``write()``; None outside."""

    def compact(self, *, prepare: Callable[[], object] | None = None) -> Compaction:
        """Give unused room back, after *prepare* has freed what it can; see ``LifecycleStore.compact``."""


DatabaseT = TypeVar("DatabaseT", bound=TableDatabase)


class TableStore(Generic[DatabaseT]):
    """Implements ``LifecycleStore`` on *database*, which the engine opens, with the settings that it has recorded.

    *lock* is held by searches, since threads share the indexes. *matrix_limit* is how many bytes of vectors are kept
    in memory; *resident* as of ``NamespaceIndexCache``.
    """

    database: DatabaseT
    """The database; other components of it can write in one transaction with the store."""

    def __init__(
        self,
        database: DatabaseT,
        settings: StoreSettings,
        *,
        lock: threading.RLock,
        search: SearchMode,
        matrix_limit: int,
        resident: bool = False,
    ) -> None:
        self.search_mode = search
        """Mode in which this object searches."""
        self.analyzer = settings.analyzer
        self.database = database
        self._matrix_limit = matrix_limit
        self._resident = resident
        self._counted: set[int] = set()
        self._space = settings.space
        self._fields = settings.fields
        self._indexes = self._new_indexes(settings.space)
        self._lock = lock
        self._local = _ThreadTransaction()

    @property
    def space(self) -> Space | None:
        """The space of the vectors that it takes; another process may have recorded the first one."""
        if self._space is None or self.database.in_write():
            with self.database.read() as connection:
                return self._known_space(read_space(connection))
        return self._space

    def recorded_space(self) -> Space | None:
        """As ``LifecycleStore.recorded_space``."""
        with self.database.read() as connection:
            return read_space(connection)

    @property
    def fields(self) -> tuple[str, ...]:
        """The declared fields, as this object knows them."""
        if self.database.in_write():
            with self.database.read() as connection:
                return read_settings(connection).fields
        return self._fields

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
            has_vectors = any(getattr(entry, "vector", None) is not None for entry in batch)
            space = self._writable_space() if has_vectors else None
            with self._checking():
                checked = check_entries(batch, start, space)
            prepared = EntryBatch.of(drop_overwritten(checked), expected, self.analyzer)
            with self._writer(name, space, prepared) as writer:
                return checked, writer.write(prepared)

        return write_batches(entries, expect, on_progress, write)

    def patch(
        self, metadata: Mapping[str, Metadata], *, namespace: str = "", expect: Mapping[str, int] | None = None
    ) -> int:
        """As ``VectorStore.patch``."""
        name, expected, checked = check_namespace(namespace), check_expect(expect), check_patches(metadata)
        with self._writer(name) as writer:
            return writer.patch(checked, expected)

    def put_vectors(
        self, vectors: Mapping[str, VectorLike], *, namespace: str = "", expect: Mapping[str, int] | None = None
    ) -> int:
        """As ``VectorStore.put_vectors``."""
        name, expected = check_namespace(namespace), check_expect(expect)
        space = self._writable_space()
        with self._checking():
            checked = check_vectors(vectors, space)
        with self._writer(name, space) as writer:
            return writer.put_vectors(checked, expected)

    def delete(self, ids: Iterable[str] = (), *, where: Filter | None = None, namespace: str = "") -> int:
        """As ``VectorStore.delete``."""
        name, node, names = check_namespace(namespace), filter_tree(where), check_ids(ids)
        everything = matches_everything(node)
        if not names and everything:
            raise ArgumentError("ids", names, "ids, or a filter that is not empty, are needed to delete")
        with self._writer(name) as writer, self.database.write() as connection:
            chosen = names if everything else entry_reader.matching_ids(connection, writer.key, node, names or None)
            return writer.remove(dict.fromkeys(chosen))

    def erase(self, ids: Iterable[str], *, namespace: str = "") -> Erasure:
        """As ``LifecycleStore.erase``."""
        name, names = check_namespace(namespace), check_ids(ids)
        with self._writer(name) as writer, self.database.write() as connection:
            removed = writer.remove(dict.fromkeys(names), erase=True)
            self.database.mark_erasure(connection)
            self.database.on_commit(lambda: self._forget_index(name))
        if self.database.in_write():
            return Erasure(removed, pending=True)
        return Erasure(removed, pending=not self.database.finish_erasure())

    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        """As ``VectorStore.get``."""
        name, names = check_namespace(namespace), check_ids(ids)
        with self.database.read() as connection:
            key = entry_reader.namespace_key(connection, name)
            if key is None:
                return [None] * len(names)
            entries = entry_reader.entries_by_id(connection, key, names)
            if key not in self._counted and None in entries:
                entry_reader.check_entry_count(connection, key)  # once: nothing is missing because an index lost it
                self._counted.add(key)
            return entries

    search = searched(VectorStore.search)
    search_many = searched(VectorStore.search_many)
    search_text = searched(VectorStore.search_text)

    def count(self, *, where: Filter | None = None, namespace: str = "") -> int:
        """As ``VectorStore.count``."""
        name, node = check_namespace(namespace), filter_tree(where)
        with self.database.read() as connection:
            key = entry_reader.namespace_key(connection, name)
            return 0 if key is None else entry_reader.count_entries(connection, key, node)

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

        def page(last: str | None, size: int) -> list[Entry]:
            with self.database.read() as connection:
                key = entry_reader.namespace_key(connection, name)
                return [] if key is None else entry_reader.entry_page(connection, key, node, last, embedded, size)

        with self.database.read() as connection:
            if (key := entry_reader.namespace_key(connection, name)) is not None:
                entry_reader.check_entry_count(connection, key)
        return read_pages(page, start)

    def scan_by(
        self,
        fields: Sequence[str],
        *,
        reverse: bool = False,
        where: Filter | None = None,
        namespace: str = "",
        after: ScanPosition | None = None,
    ) -> Iterator[Entry]:
        """As ``OrderedStore.scan_by``; the first call for *fields* makes an index, which each write then keeps."""
        name, node = check_namespace(namespace), filter_tree(where)
        return entry_reader.ordered_entries(
            self.database, name, check_order_fields(fields), node, check_scan_position(after), reverse=reverse
        )

    def scan_outlines(self, *, where: Filter | None = None, namespace: str = "") -> Iterator[EntryOutline]:
        """As ``OutlineStore.scan_outlines``."""
        return entry_reader.entry_outlines(self.database, check_namespace(namespace), filter_tree(where))

    def scan_holding(self, texts: Sequence[str], *, names: Sequence[str] = (), namespace: str = "") -> Iterator[Entry]:
        """As ``TextScanStore.scan_holding``."""
        name = check_namespace(namespace)
        with self.database.read() as connection:
            key = entry_reader.namespace_key(connection, name)
            ids = [] if key is None else entry_reader.ids_holding(connection, key, texts, names)
        pages = (ids[start : start + PAGE_SIZE] for start in range(0, len(ids), PAGE_SIZE))
        return (entry for page in pages for entry in self.get(page, namespace=name) if entry is not None)

    def namespaces(self, *, prefix: str = "") -> list[str]:
        """As ``VectorStore.namespaces``."""
        start = check_namespace(prefix)
        with self.database.read() as connection:
            return entry_reader.namespace_names(connection, start)

    def changes(self, since: Cursor | None = None, *, namespace: str = "") -> Changes:
        """As ``LifecycleStore.changes``."""
        name = check_namespace(namespace)
        position = check_cursor(since, name)
        with self.database.read() as connection:
            return entry_reader.read_changes(connection, name, position)

    @contextmanager
    def view(self, namespaces: Sequence[str], *, search: SearchMode | str | None = None) -> Iterator[IndexView]:
        """As ``LifecycleStore.view``. Other processes go on writing; searches of other threads wait.

        *search*: in another mode than the store's own.
        """
        allowed = check_namespaces(namespaces)
        with self._reading(allowed, None if search is None else check_search_mode(search)) as view:
            yield view

    @contextmanager
    def transaction(self, *, lock: str | None = None) -> Iterator[None]:
        """As ``LifecycleStore.transaction``. Searches inside load what they need afresh."""
        with self._writing(lock):
            try:
                yield
            finally:
                self._local.indexes = None

    def set_space(self, space: Space) -> None:
        """Record the space of a store that has none yet; the one that it was switched to is taken from now on."""
        check_space(space)
        with self._writing() as connection:
            schema.record_space(connection, space)
            self._take_space(space)

    def begin_space(self, space: Space) -> None:
        """As ``LifecycleStore.begin_space``."""
        check_space(space)
        with self._writing() as connection:
            schema.begin_migration(connection, space)

    def filling(self) -> SpaceMigration | None:
        """As ``LifecycleStore.filling``."""
        with self.database.read() as connection:
            return schema.migration_state(connection)

    def unfilled(self, *, namespace: str = "", after: str | None = None) -> Iterator[Entry]:
        """As ``LifecycleStore.unfilled``."""
        name, start = check_namespace(namespace), check_after(after)

        def page(last: str | None, size: int) -> list[Entry]:
            with self.database.read() as connection:
                check_migration_running(read_space(connection, NEXT_SPACE_FACT))
                key = entry_reader.namespace_key(connection, name)
                return [] if key is None else entry_reader.pending_page(connection, key, last, size)

        with self.database.read() as connection:
            check_migration_running(read_space(connection, NEXT_SPACE_FACT))
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
        with self._writer(name) as writer, self.database.read() as connection:
            check_migration_running(read_space(connection, NEXT_SPACE_FACT), space)
            return writer.fill(checked, expected)

    def commit_space(self, space: Space) -> None:
        """As ``LifecycleStore.commit_space``."""
        check_space(space)
        with self._writing() as connection:
            schema.commit_migration(connection, space)
            self._take_space(space)

    def abort_space(self) -> None:
        """As ``LifecycleStore.abort_space``."""
        with self._writing() as connection:
            schema.abort_migration(connection)

    def declare_fields(self, fields: Sequence[str]) -> None:
        """As ``LifecycleStore.declare_fields``."""
        names = check_fields(fields)
        with self._writing() as connection:
            schema.record_fields(connection, names)
            self.database.on_commit(lambda: self._use_fields(names))

    def pending_erasure(self) -> bool:
        """As ``LifecycleStore.pending_erasure``."""
        return self.database.pending_erasure()

    def verify(self) -> list[Finding]:
        """As ``LifecycleStore.verify``, over every component of the database."""
        return self.database.verify()

    def compact(self) -> Compaction:
        """As ``LifecycleStore.compact``, over every component of the database."""
        return self.database.compact(prepare=self._remove_unused)

    def close(self) -> None:
        """As ``VectorStore.close``."""
        self.database.close()
        self._forget_index()

    @contextmanager
    def _reading(self, allowed: set[str] | None = None, search: SearchMode | None = None) -> Iterator[IndexView]:
        with self._read_state() as state:
            space, mode = self._known_space(state.recorded), search or self.search_mode
            yield IndexView(space, self.analyzer, state.reader, allowed=allowed, search=mode, recorded=state.recorded)

    @contextmanager
    def _read_state(self) -> Iterator[ReadState]:
        """Yield the state of the present read transaction."""
        shared = not self.database.in_write()  # what this thread has not committed must not reach the shared indexes
        with self._lock if shared else nullcontext(), self.database.read() as connection:
            recorded = read_space(connection)
            indexes = self._shared_indexes(recorded) if shared else self._transaction_indexes(recorded)
            yield ReadState(connection, recorded, indexes, self._open_reader)

    def _open_reader(
        self, connection: Connection, indexes: NamespaceIndexCache, name: str, head: NamespaceHead
    ) -> NamespaceReader:
        """Return the reader of a namespace; an engine that has indexes elsewhere has another for it."""
        return MemoryNamespaceReader(connection, indexes, name, head, matrix_limit=self._matrix_limit)

    def _new_indexes(self, space: Space | None) -> NamespaceIndexCache:
        return NamespaceIndexCache(space=space, fields=self._fields, resident=self._resident)

    def _shared_indexes(self, space: Space | None) -> NamespaceIndexCache:
        """Return the indexes that all threads share; the lock is held."""
        if self._indexes.space != space or not self._are_current(self._indexes):
            self._indexes = self._new_indexes(space)
        return self._indexes

    def _are_current(self, indexes: NamespaceIndexCache) -> bool:
        return indexes is self._indexes and indexes.fields == self._fields

    def _transaction_indexes(self, space: Space | None) -> NamespaceIndexCache:
        """Return the indexes of this thread's present transaction."""
        present, cached = self.database.present_write(), self._local.indexes
        if cached is None or cached[0] is not present or cached[1].space != space:
            cached = self._local.indexes = (present, self._new_indexes(space))
        return cached[1]

    def _forget_index(self, name: str | None = None) -> None:
        """Forget loaded indexes, since what was erased must not stay in memory; the next search loads what is left."""
        with self._lock:
            self._indexes.forget(name)

    def _remove_unused(self) -> None:
        with self._writing() as connection:
            for (name,) in fetch_all(connection, "SELECT name FROM namespaces"):
                NamespaceWriter(connection, name).compact()
        self._forget_index()

    @contextmanager
    def _writing(self, lock: str | None = None) -> Iterator[Connection]:
        with self.database.write(lock=lock) as connection:
            self._local.indexes = None
            yield connection

    @contextmanager
    def _writer(
        self, name: str, space: Space | None = None, batch: EntryBatch | None = None
    ) -> Iterator[NamespaceWriter]:
        """Write to a namespace; *space* is that of the vectors, which the file may have left meanwhile."""
        with self._writing(name) as connection:
            if space is not None and (recorded := read_space(connection)) != space:
                raise SpaceChanged(recorded, space)
            writer = NamespaceWriter(connection, name, batch)
            yield writer
            writer.finish()

    def _writable_space(self) -> Space | None:
        """Return the space that vectors must have, None where there is none; raise if it was switched to another.

        Outside a transaction the one that is known will do: what is written is held against the file's (``_writer``).
        """
        if self._space is not None and not self.database.in_write():
            return self._space
        return self._read_recorded_space()

    @contextmanager
    def _checking(self) -> Iterator[None]:
        """Check vectors inside: what is wrong with them may be that the file was switched to another space."""
        try:
            yield
        except ArgumentError:
            self._read_recorded_space()
            raise

    def _read_recorded_space(self) -> Space | None:
        with self.database.read() as connection:
            recorded = read_space(connection)
        known = self._known_space(recorded)
        if recorded != known:
            raise SpaceChanged(recorded, known)
        return known

    def _known_space(self, recorded: Space | None) -> Space | None:
        """Return the space that this object takes vectors of, where the file has *recorded* one."""
        if (present := self.database.present_write()) is not None:
            if self._space is None or self._local.named == (present, recorded):
                return recorded  # by this thread, in a transaction that may still fail
        elif self._space is None:
            self._space = recorded
        return self._space

    def _take_space(self, space: Space) -> None:
        self._local.named = (self.database.present_write(), space)
        self.database.on_commit(lambda: self._use_space(space))

    def _use_space(self, space: Space) -> None:
        with self._lock:
            self._space = space

    def _use_fields(self, fields: tuple[str, ...]) -> None:
        with self._lock:
            self._fields = fields


def agree_settings(
    database: Database,
    space: Space | None,
    analyzer: Analyzer | None,
    fields: tuple[str, ...] | None,
) -> StoreSettings:
    """Return the settings of an opened database: what it has recorded, and what is given, which is recorded."""
    if space is not None:
        check_space(space)
    with database.read() as connection:
        check_whole(connection)
        recorded = read_settings(connection)
        entry_reader.check_tables(connection)
    settings = recorded.agreed(space=space, analyzer=analyzer, fields=fields)
    if settings == recorded or database.read_only:
        return settings
    with database.write() as connection:
        settings = read_settings(connection).agreed(space=space, analyzer=analyzer, fields=fields)
        schema.record_settings(connection, settings)
    return settings
