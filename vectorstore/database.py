"""Contracts of the database beside a store: tables of components, in the store's own transactions.

A *component* is a part (history, operation log, tombstones, ...) that keeps tables in a database and knows nothing of
its home: a file (``tellback.vectorstore.sqlite.SqliteDatabase``), the memory of the process
(``tellback.vectorstore.sqlite.InMemoryDatabase``), or a server. It speaks SQL that every home understands, with ``?``
for bound values; the few expressions that differ are in the home's ``Dialect``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from tellback.vectorstore.filters import FilterNode
from tellback.vectorstore.types import Finding


class Rows(Iterator[Any], Protocol):
    """Rows of a statement, each a tuple in the order of its columns; read once, inside the block of the connection."""

    def fetchone(self) -> Any:
        """Return the next row; None where there is none."""

    def fetchall(self) -> list[Any]:
        """Return the rows that were not read yet."""


class VectorBytes(bytes):
    """Bytes of a vector of the store, float32 little-endian; a home may keep them as vectors of its own kind."""

    __slots__ = ()


class Connection(Protocol):
    """Connection of a ``read()`` or ``write()`` block, inside its transaction; not kept beyond the block.

    Values are None, integers of 64 bits, floats, text and bytes, and are always bound, never written into the SQL.
    Columns and tables are plain SQL names. The number that the database gives a new row is asked for by
    ``INSERT ... RETURNING``.
    """

    @property
    def dialect(self) -> Dialect:
        """The expressions in which the SQL of this home differs from others'."""

    def execute(self, sql: str, values: Sequence[Any] = ..., /) -> Rows:
        """Run one statement with *values* in place of its question marks."""

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> Rows:
        """Run one statement for each of *rows*."""

    def read_ahead(self, reads: Iterable[tuple[str, Sequence[Any]]], /) -> None:
        """Read the answers of *reads*, each a statement with its values, at once; the next ``execute`` of one has it.

        What is written meanwhile is not in them. A home whose rows are not far away reads nothing ahead.
        """

    def changes(self) -> int:
        """Return how many rows the last INSERT, UPDATE or DELETE wrote or removed, cascades not counted."""

    def total_changes(self) -> int:
        """Return how many rows were written or removed since the connection was made."""


class SalvageSource(Protocol):
    """Damaged database that is read row by row; a table read by ``rows`` or ``copy`` is counted in the report.

    Names are SQL of ours, never a user's.
    """

    def execute(self, sql: str, values: Sequence[Any] = ..., /) -> Rows:
        """As ``Connection.execute``; where it meets damage it raises the database's own errors."""

    def rows(self, table: str, columns: str, *, last_key: int = 0) -> Iterator[Any]:
        """Yield *columns* of every row of *table* that can be read, each once; none where there is no such table.

        *last_key* is the highest row number ever given, where that is known.
        """

    def index_rows(self, table: str, columns: str, index: str) -> Iterator[Any]:
        """Yield *columns*, all of them in *index*, as far as it can be read: the index lies on other pages."""

    def copy(
        self, target: Connection, table: str, check: Callable[[Mapping[str, Any]], str | None] | None = None
    ) -> None:
        """Copy every readable row of *table* into the same table of *target*, as far as both have its columns.

        *check* gets a row by column, and returns why it is not to be copied, None if it is. A row that the table does
        not take is lost, too.
        """

    def lose(self, table: str, problem: str) -> None:
        """Count a row that was read and not saved."""


Migration: TypeAlias = Callable[[Connection], None]
"""Step of a schema, named ``m001_...``; it runs inside a write transaction; never edited once released.

``CREATE TABLE`` is written as SQLite reads it (STRICT, WITHOUT ROWID, BLOB, AUTOINCREMENT); another home translates it.
"""


class Component(Protocol):
    """Tables of one part of the database, as the database needs to know them.

    They are its own; no other component reads or writes them, and its migrations make all of them, on an empty
    database too (but see ``LazyIndexes``). The connections handed in are inside a
    transaction of the database's: a component neither commits nor rolls back.
    """

    @property
    def name(self) -> str:
        """The name of the part in the database; never changed."""

    @property
    def migrations(self) -> Sequence[Migration]:
        """Every step from nothing to the present schema; the version of the part is how many ran."""

    def verify(self, connection: Connection) -> list[Finding]:
        """Compare the part's own tables with themselves; an empty list means all is well."""

    def rebuild(self, connection: Connection) -> None:
        """Make the derived tables again from the rows."""

    def salvage(self, source: SalvageSource, target: Connection) -> None:
        """Copy every readable row of the damaged file *source* into *target*, whose tables are new."""


@runtime_checkable
class LazyIndexes(Protocol):
    """Component with indexes that no migration makes: they are made when they are first needed.

    Every other object of a file's schema that no migration made is taken for somebody else's, and the file refused.
    """

    def makes_index(self, sql: str) -> bool:
        """Return whether *sql*, a whole ``CREATE INDEX``, is one of those that it makes."""


class TableComponent:
    """Component whose tables are all rows and nothing derived: salvage copies every row of *tables*, in that order.

    A part that can compare its rows with a checksum, or has derived tables, is a subclass that overrides ``verify``,
    ``rebuild`` or ``salvage``.
    """

    def __init__(self, name: str, migrations: Sequence[Migration], tables: Sequence[str] = ()) -> None:
        self.name = name
        self.migrations = tuple(migrations)
        self.tables = tuple(tables)

    def verify(self, connection: Connection) -> list[Finding]:
        """As ``Component.verify``: nothing to compare."""
        return []

    def rebuild(self, connection: Connection) -> None:
        """As ``Component.rebuild``: nothing is derived."""

    def salvage(self, source: SalvageSource, target: Connection) -> None:
        """As ``Component.salvage``: copy every row. A table that an older file does not have yet is passed over."""
        for table in self.tables:
            source.copy(target, table)


@dataclass(frozen=True, slots=True)
class Dialect:
    """SQL expressions that differ from database to database, for f-strings in the statements of components.

    Those from *index_exists* on are the store's own.
    """

    name: str
    greatest: str
    """Function for the greatest of several values, none of them NULL: ``f"{dialect.greatest}(next, ?)"``."""
    contains_bytes: str
    """Test whether the UTF-8 bytes of a text contain a byte string that is bound: ``.format("m.message")``."""
    text_bytes: str
    """UTF-8 bytes of a text, as a byte string."""
    table_exists: str
    """Query with one row if a table of the bound name exists, else none."""
    index_exists: str
    """Query with one row if an index of the bound name exists, else none."""
    tables: str
    """Query for the names of all tables, those that others refer to first."""
    columns: str
    """Query for the names of the columns of the bound table, in order."""
    primary_key: str
    """Query for the names of the columns of the bound table's primary key, in order."""
    continue_keys: Callable[[Connection], None]
    """Makes new rows get keys above those of rows that were written with theirs."""
    now: str
    """Seconds of the database's own clock, the same for all who use it."""
    wanted_keys: str
    """Rows ``wanted`` with a ``value`` for each number of a JSON array that is bound; joined with what comes after."""
    wanted_texts: str
    """As *wanted_keys*, for texts."""
    no_index: str
    """Clause behind a table that is to be read whole, by no index."""
    by_index: str
    """Clause behind a table that is to be read by the index of a name."""
    text_field: str
    """Value of a field (a plain name) of a column of JSON where it is a text, else NULL."""
    next_keys: str
    """Statement that reserves keys of entries, as many as are bound, and returns the first of them."""
    vector_type: str
    """Type of the columns of ``VectorBytes``."""
    cosine_distance: str
    """Distance of a column of vectors to a bound vector."""
    l2_distance: str
    infinity: str
    condition: Callable[[Connection, int, FilterNode], tuple[str, Sequence[Any]]]
    """Returns the condition of a filter on ``e``, a row of a namespace's entries, and the values to bind."""
    namespace_index: str
    """Expression for what is recorded of an index of ``n``, a row of the namespaces; NULL where there is none."""


@runtime_checkable
class Database(Protocol):
    """Tables of components, in one place with one order of transactions. Any thread may call."""

    @property
    def lasting(self) -> bool:
        """Return whether what is written to it is there after this process has ended."""

    @property
    def identity(self) -> str:
        """Random name that it was given when it was made; a copy has the same."""

    @property
    def read_only(self) -> bool:
        """Return whether nothing can be written."""

    @property
    def dialect(self) -> Dialect:
        """The expressions in which its SQL differs from others'."""

    @property
    def unreached(self) -> str:
        """Copies that erasing here cannot reach, in words for a receipt; empty where every byte is seen to."""

    def attach(self, component: Component) -> None:
        """Bring the tables of *component* to their newest version in one transaction, all or nothing.

        Inside this thread's ``write()`` it is part of that. Attaching again is harmless. Tables of a newer
        Tellback raise ``NewerFile`` and are left as they are.
        """

    def read(self) -> AbstractContextManager[Connection]:
        """Open a block with a connection in one transaction for reading: all that is read in it is one state.

        Blocks of one thread inside each other share the outermost's state. Inside this thread's ``write()``
        it is the writing connection, which sees what was written.
        """

    def write(self, *, lock: str | None = None, wait: bool = True) -> AbstractContextManager[Connection]:
        """Open a block with the writing connection in one transaction, durable when the block has ended.

        Nobody else writes meanwhile what *lock* names, such as a namespace; None is everything. A home with one writer
        at a time excludes everything always. Where somebody else has the lock it waits, or raises ``BusyError`` at
        once (*wait* off). An error undoes all of it. A block inside a block of the same thread joins it, and takes a
        lock that it names beside those that the thread has: the outermost commits, and an error that leaves the
        inner one undoes that part alone.
        """

    def hold(self, name: str, *, wait: float = 30.0) -> AbstractContextManager[None]:
        """Open a block that nobody else is in for the same *name*: no other thread, process or machine that uses this.

        It may last, and has no transaction. A file is held within its process. A process that ends, or loses the
        server, holds nothing any more. After *wait* seconds for another ``BusyError`` is raised.
        """

    def in_write(self) -> bool:
        """Return whether this thread is inside ``write()``."""

    def on_commit(self, callback: Callable[[], object]) -> None:
        """Run *callback* once, after the outermost commit of this thread's present ``write()``, if it comes."""

    def mark_erasure(self, connection: Connection) -> None:
        """Record, in this thread's present ``write()``, that what it deletes must also leave the disk."""

    def finish_erasure(self) -> bool:
        """Take deleted bytes from the disk; True when none are left."""

    def pending_erasure(self) -> bool:
        """Return whether deleted bytes may still be on the disk."""

    def verify(self) -> list[Finding]:
        """Check the database and every component's tables; an empty list means all is well."""

    def close(self) -> None:
        """Release it; twice is harmless, and any other call afterwards raises ``StoreClosed``."""


@runtime_checkable
class FileDatabase(Database, Protocol):
    """Database in a file of this machine."""

    @property
    def path(self) -> Path:
        """The file that it is in."""

    def empty_log(self) -> bool:
        """Move the write-ahead log into the file; False where a reader prevents that for now."""

    def backup(self, path: str | os.PathLike[str], *, on_progress: Callable[[int, int], object] | None = None) -> None:
        """Write a complete, checked copy to an unused *path*, while others may write; it is one of the ``backups``."""

    def backups(self) -> dict[str, str]:
        """Return where copies were made, and when (ISO 8601)."""

    def remove_backup(self, path: str) -> bool:
        """Remove a recorded copy and its record; return whether the copy was still there."""
