"""The store that lasts: one SQLite file, searched by the same core as the numpy store, or by sqlite-vec in SQL.

Cores are filled from the file when first needed and kept fresh by its change log; writes go straight to the file. A
call that reads holds one read transaction; a call inside ``transaction()`` sees what that transaction wrote. It is one
file, a little longer than others: each method of the protocol is a few lines here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import apsw
import numpy as np
from numpy.typing import NDArray

from vectorstore.analysis import Analyzer
from vectorstore.checking import (
    batches,
    check_entries,
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
from vectorstore.core.view import CoreView
from vectorstore.engines.sqlite_spaces import SqliteSpaces, agreed
from vectorstore.errors import ArgumentError
from vectorstore.filters import All, parse
from vectorstore.scanning import Place, check_order, check_place
from vectorstore.sqlite import ordered, rows
from vectorstore.sqlite.database import Database
from vectorstore.sqlite.query import every
from vectorstore.sqlite.reader import SqliteReader
from vectorstore.sqlite.schema import StoreTables
from vectorstore.sqlite.settings import read_space
from vectorstore.sqlite.writing import NamespaceWriter
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

MATRIX_LIMIT = 2 << 30
"""Bytes of vectors kept in memory unless another limit is given."""
_PAGE = 256


class SqliteStore(SqliteSpaces):
    """Implements ``LifecycleStore`` on a file. None takes what the file has recorded; what is given is recorded."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        space: Space | None = None,
        analyzer: Analyzer | None = None,
        fields: Sequence[str] | None = None,
        matrix_limit: int | None = None,
        search: SearchMode | str = SearchMode.EXACT,
        create: bool = True,
    ) -> None:
        self._search = check_search(search)
        limit = MATRIX_LIMIT if matrix_limit is None else matrix_limit
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise ArgumentError("matrix_limit", matrix_limit, "a number of bytes, 0 or more, is needed")
        self._matrix_limit = limit
        self._counted: set[int] = set()
        tables = StoreTables(analyzer or Analyzer())
        declared = None if fields is None else check_fields(fields)
        database = Database(path, components=(tables,), create=create)
        try:
            settings = agreed(database, space, analyzer, declared)
        except BaseException:
            database.close()
            raise
        super().__init__(database, settings)
        tables.analyzer = self.analyzer = settings.analyzer

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
            space = self._space_for(batch)
            with self._checking():
                checked = check_entries(batch, start, space)
            with self._writer(name, space) as writer:
                written += writer.write(last_of_each(checked), wanted, self.analyzer)
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
        with self._writer(name) as writer:
            return writer.patch(checked, wanted)

    def put_vectors(
        self,
        vectors: Mapping[str, VectorLike],
        *,
        namespace: str = "",
        expect: Mapping[str, int] | None = None,
    ) -> int:
        """As ``VectorStore.put_vectors``."""
        name, wanted = check_namespace(namespace), check_expect(expect)
        space = self._taken_space()
        with self._checking():
            checked = check_vectors(vectors, space)
        with self._writer(name, space) as writer:
            return writer.put_vectors(checked, wanted)

    def delete(self, ids: Iterable[str] = (), *, where: Filter | None = None, namespace: str = "") -> int:
        """As ``VectorStore.delete``."""
        name, node, names = check_namespace(namespace), parse(where), check_ids(ids)
        everything = isinstance(node, All) and not node.nodes
        if not names and everything:
            raise ArgumentError("ids", names, "ids, or a filter that is not empty, are needed to delete")
        with self._writer(name) as writer, self.database.write() as connection:
            chosen = names if everything else rows.matching_ids(connection, writer.key, node, names or None)
            return writer.remove(dict.fromkeys(chosen))

    def erase(self, ids: Iterable[str], *, namespace: str = "") -> Erasure:
        """As ``LifecycleStore.erase``."""
        name, names = check_namespace(namespace), check_ids(ids)
        with self._writer(name) as writer, self.database.write() as connection:
            removed = writer.remove(dict.fromkeys(names), erase=True)
            self.database.mark_erasure(connection)
            self.database.on_commit(lambda: self._drop_core(name))
        if self.database.in_write():
            return Erasure(removed, pending=True)
        return Erasure(removed, pending=not self.database.finish_erasure())

    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        """As ``VectorStore.get``."""
        name, names = check_namespace(namespace), check_ids(ids)
        with self.database.read() as connection:
            key = rows.namespace_key(connection, name)
            if key is None:
                return [None] * len(names)
            found = rows.entries_by_id(connection, key, names)
            if key not in self._counted and None in found:
                rows.check_counted(connection, key)  # once: nothing is missing because an index lost it
                self._counted.add(key)
            return found

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
        with self._reading() as view:
            return view.search(vector, k, where=where, min_score=min_score, namespace=namespace)

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
        with self._reading() as view:
            return view.search_many(vectors, k, where=where, min_score=min_score, namespace=namespace)

    def search_text(self, query: str, k: int = 10, *, where: Filter | None = None, namespace: str = "") -> list[Match]:
        """As ``VectorStore.search_text``."""
        with self._reading() as view:
            return view.search_text(query, k, where=where, namespace=namespace)

    def count(self, *, where: Filter | None = None, namespace: str = "") -> int:
        """As ``VectorStore.count``."""
        name, node = check_namespace(namespace), parse(where)
        with self.database.read() as connection:
            key = rows.namespace_key(connection, name)
            return 0 if key is None else rows.count(connection, key, node)

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
        with self.database.read() as connection:
            if (there := rows.namespace_key(connection, name)) is not None:
                rows.check_counted(connection, there)

        def pages() -> Iterator[Entry]:
            at = last
            while True:
                with self.database.read() as connection:
                    key = rows.namespace_key(connection, name)
                    page = [] if key is None else rows.page(connection, key, node, at, embedded, _PAGE)
                if not page:
                    return
                yield from page
                at = page[-1].id

        return pages()

    def scan_by(
        self,
        fields: Sequence[str],
        *,
        reverse: bool = False,
        where: Filter | None = None,
        namespace: str = "",
        after: Place | None = None,
    ) -> Iterator[Entry]:
        """As ``OrderedStore.scan_by``; the first call for *fields* makes an index, which each write then keeps."""
        name, node = check_namespace(namespace), parse(where)
        return ordered.scan(self.database, name, check_order(fields), node, check_place(after), reverse=reverse)

    def namespaces(self) -> list[str]:
        """As ``VectorStore.namespaces``."""
        with self.database.read() as connection:
            return [
                name for (name,) in every(connection, "SELECT name FROM namespaces WHERE entries > 0 ORDER BY name")
            ]

    def changes(self, since: Cursor | None = None, *, namespace: str = "") -> Changes:
        """As ``LifecycleStore.changes``."""
        name = check_namespace(namespace)
        if since is not None and since.namespace != name:
            raise ArgumentError("since", since, f"a cursor of namespace {name!r} is needed")
        with self.database.read() as connection:
            return rows.changes(connection, name, None if since is None else since.position)

    @contextmanager
    def view(self, namespaces: Sequence[str], *, search: SearchMode | str | None = None) -> Iterator[CoreView]:
        """As ``LifecycleStore.view``. Other processes go on writing; searches of other threads wait.

        *search*: in another mode than the store's own.
        """
        allowed = check_namespaces(namespaces)
        with self._reading(allowed, None if search is None else check_search(search)) as view:
            yield view

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """As ``LifecycleStore.transaction``. Searches inside load what they need afresh."""
        with self._writing():
            try:
                yield
            finally:
                self._here.cores = None

    def pending_erasure(self) -> bool:
        """As ``LifecycleStore.pending_erasure``."""
        return self.database.pending_erasure()

    def verify(self) -> list[Finding]:
        """As ``LifecycleStore.verify``, over every component of the file."""
        return self.database.verify()

    def compact(self) -> Compaction:
        """As ``LifecycleStore.compact``, over every component of the file."""
        return self.database.compact(prepare=self._remove_unused)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """As ``LifecycleStore.backup``, over every component of the file."""
        self.database.backup(path)

    def close(self) -> None:
        """As ``VectorStore.close``."""
        self.database.close()
        with self._lock:
            self._cores.forget()

    def _remove_unused(self) -> None:
        with self._writing() as connection:
            for (name,) in every(connection, "SELECT name FROM namespaces"):
                NamespaceWriter(connection, name).compact()
        self._drop_core()

    def _drop_core(self, name: str | None = None) -> None:
        """What was erased must not stay in memory either; the next search loads what is left."""
        with self._lock:
            self._cores.forget(name)

    @contextmanager
    def _reading(self, allowed: set[str] | None = None, search: SearchMode | None = None) -> Iterator[CoreView]:
        mode = search or self._search
        if self.database.in_write():  # what this thread has not committed yet must not reach the shared cores
            with self.database.read() as connection:
                yield self._view(connection, allowed, mode, shared=False)
            return
        with self._lock, self.database.read() as connection:
            yield self._view(connection, allowed, mode, shared=True)

    def _view(
        self, connection: apsw.Connection, allowed: set[str] | None, search: SearchMode, *, shared: bool
    ) -> CoreView:
        recorded = read_space(connection)
        cores = self._cores_for(recorded) if shared else self._own_cores(recorded)

        def reader(name: str) -> SqliteReader | None:
            if allowed is not None and name not in allowed:
                raise ArgumentError("namespace", name, "this view was opened for other namespaces")
            loaded = cores.fresh(connection, name)
            return None if loaded is None else SqliteReader(connection, cores, loaded, matrix_limit=self._matrix_limit)

        return CoreView(
            space=self._known(recorded),
            recorded=recorded,
            analyzer=self.analyzer,
            open_reader=reader,
            search=search,
        )

    def _space_for(self, batch: Sequence[Entry]) -> Space | None:
        """Return the space of the vectors of a batch, None where it has none or there is no space yet."""
        some = any(getattr(entry, "vector", None) is not None for entry in batch)
        return self._taken_space() if some else None
