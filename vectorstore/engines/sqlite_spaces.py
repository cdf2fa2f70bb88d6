"""The settings of a SQLite store that can change: its space, the one filled beside it, the declared fields.

The part of the store that knows which space *this* object takes vectors of. The file may be switched to another by
somebody else: then vectors are refused here, and everything else goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import apsw

from vectorstore.analysis import Analyzer
from vectorstore.checking import check_expect, check_fields, check_given, check_name, check_namespace
from vectorstore.errors import ArgumentError, SpaceChanged
from vectorstore.filling import check_filling, check_space
from vectorstore.sqlite import rows, spaces
from vectorstore.sqlite.cores import Cores
from vectorstore.sqlite.database import Database
from vectorstore.sqlite.settings import (
    NEXT_SPACE,
    Settings,
    read_settings,
    read_space,
    record_fields,
    record_settings,
    record_space,
)
from vectorstore.sqlite.writing import NamespaceWriter
from vectorstore.types import Entry, Filling, Space, VectorLike

_PAGE = 256


class _Here(threading.local):
    """What one thread holds of its present transaction; both belong to the ``present_write`` beside them."""

    cores: tuple[object, Cores] | None = None
    named: tuple[object, Space] | None = None


class SqliteSpaces:
    """Space, fields and cores of a store on *database*."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        """The file; other components of it can write in one transaction with the store."""
        self._space = settings.space
        self._fields = settings.fields
        self._cores = Cores(space=settings.space, fields=settings.fields)
        self._lock = threading.RLock()
        self._here = _Here()

    @property
    def space(self) -> Space | None:
        """The space of the vectors that it takes; another process may have recorded the first one."""
        if self._space is None or self.database.in_write():
            with self.database.read() as connection:
                return self._known(read_space(connection))
        return self._space

    def recorded_space(self) -> Space | None:
        """As ``LifecycleStore.recorded_space``."""
        with self.database.read() as connection:
            return read_space(connection)

    def set_space(self, space: Space) -> None:
        """Record the space of a store that has none yet; the one that it was switched to is taken from now on."""
        check_space(space)
        with self._writing() as connection:
            record_space(connection, space)
            self._take(space)

    def begin_space(self, space: Space) -> None:
        """As ``LifecycleStore.begin_space``."""
        check_space(space)
        with self._writing() as connection:
            spaces.begin(connection, space)

    def filling(self) -> Filling | None:
        """As ``LifecycleStore.filling``."""
        with self.database.read() as connection:
            return spaces.filling(connection)

    def unfilled(self, *, namespace: str = "", after: str | None = None) -> Iterator[Entry]:
        """As ``LifecycleStore.unfilled``."""
        name = check_namespace(namespace)
        last = None if after is None else check_name(after, "after", empty=True)
        with self.database.read() as connection:
            check_filling(read_space(connection, NEXT_SPACE))

        def pages() -> Iterator[Entry]:
            at = last
            while True:
                with self.database.read() as connection:
                    check_filling(read_space(connection, NEXT_SPACE))
                    key = rows.namespace_key(connection, name)
                    page = [] if key is None else rows.unfilled(connection, key, at, _PAGE)
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
        given = check_given(vectors, no_vector, check_space(space))
        with self._writer(name) as writer, self.database.read() as connection:
            check_filling(read_space(connection, NEXT_SPACE), space)
            return writer.fill(given, wanted)

    def commit_space(self, space: Space) -> None:
        """As ``LifecycleStore.commit_space``."""
        check_space(space)
        with self._writing() as connection:
            spaces.switch(connection, space)
            self._take(space)

    def abort_space(self) -> None:
        """As ``LifecycleStore.abort_space``."""
        with self._writing() as connection:
            spaces.drop(connection)

    @property
    def fields(self) -> tuple[str, ...]:
        """The declared fields, as this object knows them."""
        if self.database.in_write():
            with self.database.read() as connection:
                return read_settings(connection).fields
        return self._fields

    def declare_fields(self, fields: Sequence[str]) -> None:
        """As ``LifecycleStore.declare_fields``."""
        names = check_fields(fields)
        with self._writing() as connection:
            record_fields(connection, names)
            self.database.on_commit(lambda: self._use_fields(names))

    def _taken_space(self) -> Space | None:
        """Return the space that vectors must have, None where there is none; raise if it was switched to another.

        Outside a transaction the one that is known will do: what is written is held against the file's (``_writer``).
        """
        if self._space is not None and not self.database.in_write():
            return self._space
        return self._space_of_the_file()

    @contextmanager
    def _checking(self) -> Iterator[None]:
        """Check vectors inside: what is wrong with them may be that the file was switched to another space."""
        try:
            yield
        except ArgumentError:
            self._space_of_the_file()
            raise

    def _space_of_the_file(self) -> Space | None:
        with self.database.read() as connection:
            recorded = read_space(connection)
        known = self._known(recorded)
        if recorded != known:
            raise SpaceChanged(recorded, known)
        return known

    def _known(self, recorded: Space | None) -> Space | None:
        """Return the space that this object takes vectors of, where the file has *recorded* one."""
        if (present := self.database.present_write()) is not None:
            if self._space is None or self._here.named == (present, recorded):
                return recorded  # by this thread, in a transaction that may still fail
        elif self._space is None:
            self._space = recorded
        return self._space

    def _take(self, space: Space) -> None:
        self._here.named = (self.database.present_write(), space)
        self.database.on_commit(lambda: self._use_space(space))

    def _use_space(self, space: Space) -> None:
        with self._lock:
            self._space = space

    def _use_fields(self, fields: tuple[str, ...]) -> None:
        with self._lock:
            self._fields = fields

    def _cores_for(self, space: Space | None) -> Cores:
        """Return the cores that all threads share; the lock is held."""
        if self._cores.space != space or self._cores.fields != self._fields:
            self._cores = Cores(space=space, fields=self._fields)
        return self._cores

    def _own_cores(self, space: Space | None) -> Cores:
        """Return the cores of this thread's present transaction."""
        present, held = self.database.present_write(), self._here.cores
        if held is None or held[0] is not present or held[1].space != space:
            held = self._here.cores = (present, Cores(space=space, fields=self._fields))
        return held[1]

    @contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        with self.database.write() as connection:
            self._here.cores = None
            yield connection

    @contextmanager
    def _writer(self, name: str, space: Space | None = None) -> Iterator[NamespaceWriter]:
        """Write to a namespace; *space* is that of the vectors, which the file may have left meanwhile."""
        with self._writing() as connection:
            if space is not None and (recorded := read_space(connection)) != space:
                raise SpaceChanged(recorded, space)
            writer = NamespaceWriter(connection, name)
            yield writer
            writer.finish()


def agreed(
    database: Database, space: Space | None, analyzer: Analyzer | None, fields: tuple[str, ...] | None
) -> Settings:
    """Return the settings of an opened file: what it has recorded, and what is given, which is recorded."""
    if space is not None:
        check_space(space)
    with database.read() as connection:
        recorded = read_settings(connection)
        rows.check_tables(connection)
    wanted = recorded.agreed(space=space, analyzer=analyzer, fields=fields)
    if wanted == recorded or database.read_only:
        return wanted
    with database.write() as connection:
        wanted = read_settings(connection).agreed(space=space, analyzer=analyzer, fields=fields)
        record_settings(connection, wanted)
    return wanted
