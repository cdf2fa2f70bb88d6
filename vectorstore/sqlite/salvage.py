"""Salvage of a damaged file: the readable rows of each component, copied into a new file.

A component reads the damaged file through a ``SalvageSource`` and decides what to trust. Lost rows are counted by
table: the number of rows comes from the table and from its indexes, which lie on other pages.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from tellback.vectorstore.database import Component, Connection
from tellback.vectorstore.errors import ArgumentError, DamageError, NotAStore, UnsupportedError
from tellback.vectorstore.persisted_names import APPLICATION_ID
from tellback.vectorstore.sqlite.connection import (
    Access,
    Row,
    fetch_all,
    fetch_one,
    open_connection,
    reading_access,
    translate_errors,
    translate_system_errors,
)
from tellback.vectorstore.sqlite.dialect import SqliteConnection
from tellback.vectorstore.sqlite.files import (
    FileIdentity,
    RandomBytes,
    check_path,
    create_database_file,
    is_missing,
    read_fact,
    utc_now,
)
from tellback.vectorstore.sqlite.integrity import verify_file
from tellback.vectorstore.sqlite.migrations import component_versions
from tellback.vectorstore.table_copy import column_names, key_names
from tellback.vectorstore.types import Finding, SalvagedTable, SalvageReport


def salvage_file(
    path: Path,
    access: Access,
    target: Path,
    components: Sequence[Component],
    birth: FileIdentity,
    *,
    token: RandomBytes,
) -> SalvageReport:
    """Copy every readable row of *path* into a new file at *target*; return the saved and the lost rows by table."""
    with translate_errors(path):
        source = open_connection(path, access, busy_timeout=0, keep_log=True)
    damaged, tables, findings = DamagedFile(source), list[SalvagedTable](), list[Finding]()

    def fill(connection: SqliteConnection) -> None:
        with translate_errors(path, source):
            source.execute("BEGIN")
            for component in components:
                damaged.salvage(component, connection)
            tables.extend(damaged.tables(connection))
            findings.extend(verify_file(connection, components))

    with closing(source):
        create_database_file(target, components, birth, token=token, fill=fill)
    return SalvageReport(str(target), tuple(tables), tuple(findings))


def salvage_database(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    components: Sequence[Component],
    partial: bool = False,
    clock: Callable[[], datetime] = utc_now,
    token: RandomBytes = os.urandom,
) -> SalvageReport:
    """Copy every readable row of a file too damaged to be opened into a new file at *target*.

    *path* is only read. ``DamageError``: nothing of it can be read. ``UnsupportedError``: the file has components that
    are not among *components*; with *partial* these are left out and reported.
    """
    origin, destination = check_path(path), check_path(target, "target")
    if os.path.lexists(destination):
        raise ArgumentError("target", target, "a path where nothing is yet is needed")
    with translate_system_errors(origin):
        if is_missing(origin):
            raise NotAStore(str(origin), "there is no such file")
        access = reading_access(origin, Access.FROZEN)
        with closing(open_connection(origin, access, busy_timeout=0, keep_log=True)) as source:
            versions, birth = _read_parts_and_identity(
                origin, source, FileIdentity(token(16).hex(), clock().isoformat())
            )
    known = {component.name: len(component.migrations) for component in components}
    unknown = (
        sorted(versions.keys() - known.keys()) if known.keys() & versions.keys() else []
    )  # else the list is damaged
    if unknown and not partial:
        raise UnsupportedError("salvage", f"nothing given can copy these parts of the file: {unknown}")
    try:
        report = salvage_file(origin, access, destination, components, birth, token=token)
    except FileExistsError as error:
        raise ArgumentError("target", target, "a path where nothing is yet is needed") from error
    newer = [f"{name}: of version {versions[name]}" for name in known if versions.get(name, 0) > known[name]]
    left = [SalvagedTable(name, 0, None, ("a part that is not known here",)) for name in unknown]
    left += [SalvagedTable("components", 0, None, (f"{part}, which is newer, or damaged",)) for part in newer]
    return replace(report, tables=(*report.tables, *left))


def _read_parts_and_identity(
    path: Path, source: SqliteConnection, fresh: FileIdentity
) -> tuple[dict[str, int], FileIdentity]:
    """Return the components' versions and the file's identity; *fresh* replaces an identity that cannot be read."""
    try:
        tables = {name for (name,) in fetch_all(source, "SELECT name FROM sqlite_schema WHERE type = 'table'")}
    except (apsw.Error, UnicodeDecodeError) as error:
        raise DamageError(f"{path}: nothing can be read: {error}") from error
    if not tables & {"components", "file_facts"} and source.pragma("application_id") != APPLICATION_ID:
        raise NotAStore(str(path), "it is an SQLite file of another program; choose another path")
    try:
        identity, created = read_fact(source, "identity"), read_fact(source, "created")
        return component_versions(source), FileIdentity(identity or fresh.identity, created or fresh.created)
    except (apsw.Error, DamageError, UnicodeDecodeError):
        return {}, fresh


_NOT_TEXT: Final = "a text is not UTF-8"
_UNREADABLE: Final = "pages cannot be read"
_LEFT_OUT: Final = "pages are damaged, or rows are missing"


class DamagedFile:
    """``SalvageSource`` over a *connection* to a damaged file; it counts lost rows by table and reason."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection
        self._problems: dict[str, Counter[str]] = {}

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> apsw.Cursor:
        """As ``Connection.execute``; damage raises SQLite's own errors."""
        return self._connection.execute(sql, tuple(values))

    def salvage(self, component: Component, target: SqliteConnection) -> None:
        """Copy the rows of *component*; damage that it does not handle ends the copy of this component alone."""
        try:
            component.salvage(self, target)
        except (*_DAMAGE_ERRORS, apsw.SQLError, apsw.ConstraintError, DamageError, ValueError, TypeError) as error:
            self.lose(component.name, f"ended early: {error}")

    def tables(self, target: SqliteConnection) -> Iterator[SalvagedTable]:
        """Yield each table that was read, with the number of its rows in *target* and of those lost."""
        for table, problems in self._problems.items():
            if not problems and not column_names(self._connection, table):
                continue  # the file is of a version that did not have it
            (saved,) = fetch_one(target, f"SELECT count(*) FROM {table}") if column_names(target, table) else (0,)
            counted, refused = self._count(table), problems.total() - problems[_UNREADABLE] - problems[_NOT_TEXT]
            lost = None if counted is None else max(counted - saved, refused, 0)
            reasons = tuple(problems) if problems or lost == 0 else (_LEFT_OUT,)
            yield SalvagedTable(table, saved, lost, reasons if lost != 0 else ())

    def rows(self, table: str, columns: str, *, last_key: int = 0) -> Iterator[Row]:
        """As ``SalvageSource.rows``."""
        self._problems.setdefault(table, Counter())
        try:
            if not column_names(self._connection, table):
                return
            ((without_rowid,),) = self.execute("SELECT wr FROM pragma_table_list WHERE name = ?", (table,)).fetchall()
            if without_rowid:
                yield from self._keyed_rows(table, columns)
            else:
                yield from self._rowid_rows(table, columns, last_key)
        except (*_DAMAGE_ERRORS, apsw.SQLError) as error:
            self.lose(table, _NOT_TEXT if isinstance(error, UnicodeDecodeError) else _UNREADABLE)

    def index_rows(self, table: str, columns: str, index: str) -> Iterator[Row]:
        """As ``SalvageSource.index_rows``."""
        with suppress(*_DAMAGE_ERRORS, apsw.SQLError):
            yield from self.execute(f"SELECT {columns} FROM {table} INDEXED BY {index}")

    def copy(
        self, target: Connection, table: str, check: Callable[[Mapping[str, Any]], str | None] | None = None
    ) -> None:
        """As ``SalvageSource.copy``."""
        known = column_names(target, table)
        columns = [name for name in column_names(self._connection, table) if name in known]
        names, marks = ", ".join(columns), ", ".join("?" for _ in columns)
        for row in self.rows(table, names):
            try:
                problem = None if check is None else check(dict(zip(columns, row, strict=True)))
                if problem is None:
                    target.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", row)
            except (ValueError, TypeError, OverflowError, AttributeError):
                problem = "a value is not what was written"
            except apsw.ConstraintError as error:
                problem = f"a row is not what its table takes ({error})"
            if problem is not None:
                self.lose(table, problem)

    def lose(self, table: str, problem: str) -> None:
        """As ``SalvageSource.lose``."""
        self._problems.setdefault(table, Counter())[problem] += 1

    def _rowid_rows(self, table: str, columns: str, last_key: int) -> Iterator[Row]:
        seen: set[int] = set()
        for row in _readable_rows(_DamagedTable(self._connection, table, columns, self.lose)):
            seen.add(row[0])
            yield row[1:]
        # A damaged page header can end a scan of the table without an error, while rows can still be looked up.
        failed = 0
        for key in self._other_keys(table, seen, last_key):
            if failed >= _FAILED_LOOKUPS_LIMIT:
                break
            try:
                yield from self.execute(f"SELECT {columns} FROM {table} WHERE rowid = ?", (key,)).fetchall()
                failed = 0
            except _DAMAGE_ERRORS:
                failed += 1

    def _other_keys(self, table: str, seen: set[int], last_key: int) -> Iterator[int]:
        """Yield row numbers that are not in *seen*: those of the indexes, or where none is whole, up to a limit."""
        indexed, whole = set[int](), False
        for index in self._indexes(table):
            with suppress(*_DAMAGE_ERRORS, apsw.SQLError):
                for (key,) in self.execute(f"SELECT rowid FROM {table} INDEXED BY {index}"):
                    indexed.add(key)
                whole = True
        yield from sorted(indexed - seen)
        if not whole or (self._count(table) or 0) > len(seen | indexed):
            last = max(min(last_key, _MOST_KEYS), min(max(seen, default=0), _MOST_KEYS), 0 if last_key else _FEW_KEYS)
            yield from (key for key in range(1, last + 1) if key not in seen and key not in indexed)

    def _keyed_rows(self, table: str, columns: str) -> Iterator[Row]:
        """Yield the rows of a table without row numbers: from both ends, and where that fails, by other indexes."""
        key = key_names(self._connection, table)
        names, seen = ", ".join(key), set[Row]()
        for down in ("", " DESC"):
            order = ", ".join(name + down for name in key)
            rows = iter(self.execute(f"SELECT {names}, {columns} FROM {table} ORDER BY {order}"))
            if (yield from self._unseen(table, rows, len(key), seen)):
                return
        test = " AND ".join(f"{name} IS ?" for name in key)
        for index in self._indexes(table):
            with suppress(*_DAMAGE_ERRORS, apsw.SQLError):
                for row_key in self.execute(f"SELECT {names} FROM {table} INDEXED BY {index}").fetchall():
                    if row_key not in seen:
                        rows = iter(self.execute(f"SELECT {names}, {columns} FROM {table} WHERE {test}", row_key))
                        yield from self._unseen(table, rows, len(key), seen)

    def _unseen(self, table: str, rows: Iterator[Row], width: int, seen: set[Row]) -> Generator[Row, None, bool]:
        """Yield rows whose key, the first *width* columns, is new; return whether they could be read to the end."""
        failed = 0
        while failed < _FAILED_LOOKUPS_LIMIT:
            try:
                row = next(rows, None)
            except UnicodeDecodeError:  # the cursor is behind that row now
                self.lose(table, _NOT_TEXT)
                failed += 1
                continue
            except _DAMAGE_ERRORS:
                self.lose(table, _UNREADABLE)
                return False
            if row is None:
                return True
            if row[:width] not in seen:
                seen.add(row[:width])
                yield row[width:]
        return False

    def _indexes(self, table: str) -> list[str]:
        """Return the indexes that have every row of *table*, without its primary key, which may be the table itself."""
        sql = "SELECT name FROM pragma_index_list(?) WHERE NOT partial AND origin <> 'pk'"
        with suppress(*_DAMAGE_ERRORS, apsw.SQLError):
            return [f'"{name}"' for (name,) in self.execute(sql, (table,))]
        return []

    def _count(self, table: str) -> int | None:
        """Return how many rows the table or an index of it has, the greatest number; None where none can be read."""
        counts = []
        for clause in ("NOT INDEXED", *(f"INDEXED BY {index}" for index in self._indexes(table))):
            with suppress(*_DAMAGE_ERRORS, apsw.SQLError):
                counts.append(int(fetch_one(self._connection, f"SELECT count(*) FROM {table} {clause}")[0]))
        return max(counts, default=None)


_FEW_KEYS, _MOST_KEYS = 100_000, 10_000_000
"""Keys looked up one by one where the last key is unknown, and the most where it is known."""
_FAILED_LOOKUPS_LIMIT = 1000
"""Look-ups that may fail in a row before a table is given up."""
_LEAST_KEY, _GREATEST_KEY = -(2**63), 2**63 - 1
_DOUBLINGS: Final = 63
_JUMPS_KEPT: Final = 64
"""Gaps in the keys just before damage that are read again."""
_PROBES: Final = 4096
"""Keys probed inside a range that cannot be read from either end."""
_FAILED_READS_LIMIT: Final = 100_000
"""Reads that may fail in one table before the rest of its damaged part is given up."""
_DAMAGE_ERRORS = (apsw.CorruptError, apsw.NotADBError, apsw.IOError, UnicodeDecodeError)


def _readable_rows(reader: _DamagedTable) -> Iterator[Row]:
    """Yield every row of a table that can be read, each once, in no order.

    Damage costs only the rows on the damaged pages: a range of keys is read from both ends until a read fails, then
    keys inside are probed from which it can be read again. Keys below the first row and above the last belong to the
    first and last page: where these are damaged, such a range is nearly endless, so keys near the rows that were read
    come first.
    """
    ranges = [(_LEAST_KEY, _GREATEST_KEY)]
    while ranges and reader.tries > 0:
        low, high = ranges.pop()
        if (upwards := (yield from reader.read(low, high))) is None:
            continue
        if (downwards := (yield from reader.read(low, high, down=True))) is None:
            continue
        ranges += [*upwards.jumps, *downwards.jumps]
        if upwards.reached < downwards.reached:
            ranges += reader.split(upwards.reached, downwards.reached)


class _ReadFailure(NamedTuple):
    """Failure of a read: the next key when it failed.

    *jumps* are the gaps in the keys just before it: a damaged page can hold a key far ahead, so they are read again.
    """

    reached: int
    jumps: list[tuple[int, int]]


class _DamagedTable:
    """Reader of one damaged table, which is given up after *tries* more failed reads."""

    def __init__(self, connection: Connection, table: str, columns: str, lose: Callable[[str, str], object]) -> None:
        self.tries = _FAILED_READS_LIMIT
        self._table, self._lose = table, lose
        self._seen: set[int] = set()
        self._connection = connection
        select = f"SELECT rowid, {columns} FROM {table} WHERE rowid BETWEEN ? AND ? ORDER BY rowid"
        self._up, self._down, self._one = select, f"{select} DESC", f"{select} LIMIT 1"

    def read(self, low: int, high: int, *, down: bool = False) -> Generator[Row, None, _ReadFailure | None]:
        """Yield new rows from *low* on, or from *high* down; return the failure, None where all were read."""
        key, step = (high, -1) if down else (low, 1)
        jumps = deque[tuple[int, int]](maxlen=_JUMPS_KEPT)
        try:
            rows = iter(self._connection.execute(self._down if down else self._up, (low, high)))
            while self.tries > 0:
                try:
                    row = next(rows, None)
                except UnicodeDecodeError:  # the cursor is behind that row now
                    self.tries -= 1
                    self._lose(self._table, _NOT_TEXT)
                    continue
                if row is None:
                    return None
                number = int(str(row[0]))
                if (number - key) * step > 0:
                    jumps.append((number + 1, key) if down else (key, number - 1))
                key, row_hash = number + step, hash((str(number), row))
                if row_hash not in self._seen:
                    self._seen.add(row_hash)
                    yield row
        except _DAMAGE_ERRORS:
            self.tries -= 1
            self._lose(self._table, _UNREADABLE)
        return _ReadFailure(min(max(key, low), high), [*jumps])

    def split(self, low: int, high: int) -> list[tuple[int, int]]:
        """Return the ranges below and from the first key inside that can be read; none if there is none.

        *low* and *high* themselves are known to fail.
        """
        for key in _probe_keys(low, high):
            if self.tries <= 0:
                break
            try:
                rows = self._connection.execute(self._one, (key, high)).fetchall()
            except _DAMAGE_ERRORS:
                self.tries -= 1
                continue
            return [(low, key - 1), (key, high)] if rows else [(low, key - 1)]
        return []


def _probe_keys(low: int, high: int) -> Iterable[int]:
    """Yield keys between *low* and *high*: at growing distances from both ends and from 0, then evenly spread."""
    if low < 0 < high:
        yield from (key for power in range(_DOUBLINGS) for key in (1 << power, -1 << power) if low < key < high)
    step = 1
    while low + step <= high - step:
        yield low + step
        yield high - step
        step = max(step + 1, step * 9 // 8)
    inside = high - low - 1
    if inside > 0:
        yield from range(low + 1, high, max(inside // _PROBES, 1))
