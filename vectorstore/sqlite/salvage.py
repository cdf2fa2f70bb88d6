"""Salvage of a damaged file: every row that can be read, and whose checksum holds, copied into a new file.

``readable_rows`` reads what is left of one table, for a component that salvages its tables; what to trust is the
component's business. Of the store's rows, a vector that is lost makes its entry pending, a namespace whose name is lost
is given another, and nothing is guessed.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw
import numpy as np

from vectorstore.database import Component, Connection
from vectorstore.errors import ArgumentError, DamageError, NotAStore, UnsupportedError
from vectorstore.sqlite.connection import (
    Access,
    Row,
    fetch_first,
    fetch_one,
    open_connection,
    reading_access,
    translate_errors,
    translate_system_errors,
)
from vectorstore.sqlite.files import (
    FileIdentity,
    RandomBytes,
    check_path,
    create_database_file,
    is_missing,
    read_fact,
    utc_now,
)
from vectorstore.sqlite.integrity import entry_checksum, reason_checksum, vector_checksum
from vectorstore.sqlite.migrations import component_versions


def salvage_file(
    path: Path,
    access: Access,
    target: Path,
    components: Sequence[Component],
    birth: FileIdentity,
    *,
    token: RandomBytes,
) -> int:
    """Copy every readable row of *path* into a new file at *target*; return how many."""
    with translate_errors(path):
        source = open_connection(path, access, busy_timeout=0, keep_log=True)

    def fill(connection: apsw.Connection) -> int:
        with translate_errors(path, source):
            source.execute("BEGIN")
            return sum(component.salvage(source, connection) for component in components)

    with closing(source):
        return create_database_file(target, components, birth, token=token, fill=fill)


def salvage_database(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    components: Sequence[Component],
    clock: Callable[[], datetime] = utc_now,
    token: RandomBytes = os.urandom,
) -> int:
    """Copy every readable row of a file too damaged to be opened into a new file at *target*; return how many.

    *path* is only read. ``DamageError``: nothing of it can be read. ``UnsupportedError``: it has parts that none of
    *components* can copy.
    """
    origin, destination = check_path(path), check_path(target, "target")
    if os.path.lexists(destination):
        raise ArgumentError("target", target, "a path where nothing is yet is needed")
    with translate_system_errors(origin):
        if is_missing(origin):
            raise NotAStore(str(origin), "there is no such file")
        access = reading_access(origin, Access.FROZEN)
        with closing(open_connection(origin, access, busy_timeout=0, keep_log=True)) as source:
            found, birth = _read_parts_and_identity(source, FileIdentity(token(16).hex(), clock().isoformat()))
    known = {component.name for component in components}
    if known & found and (strangers := sorted(found - known)):  # without one of them the list itself is damaged
        raise UnsupportedError("salvage", f"nothing given can copy these parts of the file: {strangers}")
    return salvage_file(origin, access, destination, components, birth, token=token)


def _read_parts_and_identity(source: apsw.Connection, fresh: FileIdentity) -> tuple[set[str], FileIdentity]:
    """Return which parts it has and its birth, as far as that can be read."""
    try:
        source.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except (apsw.CorruptError, apsw.NotADBError, apsw.IOError) as error:
        raise DamageError(f"nothing can be read: {error}") from error
    try:
        identity, created = read_fact(source, "identity"), read_fact(source, "created")
        return set(component_versions(source)), FileIdentity(identity or fresh.identity, created or fresh.created)
    except (apsw.Error, DamageError):
        return set(), fresh


_LEAST_KEY, _GREATEST_KEY = -(2**63), 2**63 - 1
_DOUBLINGS: Final = 63
_JUMPS_KEPT: Final = 64
"""Jumps in the keys before damage that are looked at again."""
_PROBES: Final = 4096
"""Places at which a stretch that cannot be read from either end is looked into."""
_FAILED_READS_LIMIT: Final = 100_000
"""Reads that may fail in one table before what is left of its damaged part is given up."""
_DAMAGE_ERRORS = (apsw.CorruptError, apsw.NotADBError, apsw.IOError, UnicodeDecodeError)


def readable_rows(connection: Connection, table: str, columns: str, *, key: str = "rowid") -> Iterator[Row]:
    """Yield *columns* of every row of *table* that can be read, each once, in no order.

    Damage costs only the rows on the damaged pages: a stretch of keys is read from both ends until it fails, then
    places inside are looked for from which it can be read again. Keys below the first row and above the last belong to
    the first and last page: where these are damaged, such a stretch is nearly endless, so places near what was read
    come first. Names are SQL of ours, never a user's.
    """
    reader = _DamagedTable(connection, table, columns, key)
    stretches = [(_LEAST_KEY, _GREATEST_KEY)]
    while stretches and reader.tries > 0:
        low, high = stretches.pop()
        if (upwards := (yield from reader.read(low, high))) is None:
            continue
        if (downwards := (yield from reader.read(low, high, down=True))) is None:
            continue
        stretches += [*upwards.jumps, *downwards.jumps]
        if upwards.reached < downwards.reached:
            stretches += reader.split(upwards.reached, downwards.reached)


class _ReadFailure(NamedTuple):
    """The key short of which a reading failed.

    *jumps* are stretches that were passed over just before: a page of noise can hold a key far ahead.
    """

    reached: int
    jumps: list[tuple[int, int]]


class _DamagedTable:
    """Reader of one damaged table; *tries* are left until it is given up."""

    def __init__(self, connection: Connection, table: str, columns: str, key: str) -> None:
        self.tries = _FAILED_READS_LIMIT
        self._seen: set[int] = set()
        self._connection = connection
        select = f"SELECT {key}, {columns} FROM {table} WHERE {key} BETWEEN ? AND ? ORDER BY {key}"
        self._up, self._down, self._one = select, f"{select} DESC", f"{select} LIMIT 1"

    def read(self, low: int, high: int, *, down: bool = False) -> Generator[Row, None, _ReadFailure | None]:
        """Yield rows from *low* on, or from *high* down, that were not yielded before; return where it failed."""
        key, step = (high, -1) if down else (low, 1)
        jumps = deque[tuple[int, int]](maxlen=_JUMPS_KEPT)
        try:
            for row in self._connection.execute(self._down if down else self._up, (low, high)):
                number = int(str(row[0]))
                if (number - key) * step > 0:
                    jumps.append((number + 1, key) if down else (key, number - 1))
                key, known = number + step, hash((str(number), row))
                if known not in self._seen:
                    self._seen.add(known)
                    yield row[1:]
        except _DAMAGE_ERRORS:
            self.tries -= 1
            return _ReadFailure(min(max(key, low), high), [*jumps])
        return None

    def split(self, low: int, high: int) -> list[tuple[int, int]]:
        """Return the stretches beside the first place found inside from which rows can be read; none if there is none.

        *low* and *high* themselves are known to fail.
        """
        for key in _probe_keys(low, high):
            if self.tries <= 0:
                break
            try:
                found = self._connection.execute(self._one, (key, high)).fetchall()
            except _DAMAGE_ERRORS:
                self.tries -= 1
                continue
            return [(low, key - 1), (key, high)] if found else [(low, key - 1)]
        return []


def _probe_keys(low: int, high: int) -> Iterable[int]:
    """Yield places between *low* and *high*: ever farther from both ends and from 0, then all over."""
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


_ENTRY_COLUMNS = "key, namespace, id, revision, text, context, metadata, no_vector, checksum"
_FEW_KEYS, _MOST_KEYS = 100_000, 10_000_000
"""Number of keys looked up one by one where the number of rows is unknown, and the most of them."""
_FAILED_LOOKUPS_LIMIT = 1000
"""Look-ups that may fail in a row before a table is given up."""
_SETTING_FACTS = ("space", "next_space", "analyser", "fields")


def salvage_store_rows(source: Connection, target: Connection) -> int:
    """Copy what can be read and return how many entries that are."""
    _copy_facts(source, target)
    revisions = _copy_namespaces(source, target)
    claims: dict[int, list[_SalvagedEntry]] = {}
    late: list[Row] = []
    saved = last = 0
    for row in _salvaged_rows(source, "entries", _ENTRY_COLUMNS):
        if row[0] in claims:  # a damaged key: two rows have the same
            late.append(row)
            continue
        saved += _copy_entry(target, row, row[0], revisions, claims)
        last = max(last, row[0])
    last = max(last, _last_key(source) if late else 0)
    for row in late:
        last += 1
        saved += _copy_entry(target, row, last, revisions, claims)
    for namespace, revision in revisions.items():
        target.execute("UPDATE namespaces SET revision = max(revision, ?) WHERE key = ?", (revision, namespace))
    _copy_vectors(source, target, claims)
    _set_next_key(target, last)
    return saved


@dataclass(frozen=True, slots=True)
class _SalvagedEntry:
    """An entry that was saved as *key*; its vectors are those of the key under which it was found, if it has any."""

    key: int
    id: str
    namespace: int
    has_vector: bool


def _copy_entry(
    target: Connection, row: Row, key: int, revisions: dict[int, int], claims: dict[int, list[_SalvagedEntry]]
) -> int:
    """Copy a row of an entry as *key* if it is what was written; return how many that are."""
    found, namespace, *content, checksum = row
    has_vector = _written_with_vector(content, checksum)
    if has_vector is None or not isinstance(namespace, int):
        return 0
    if namespace not in revisions:
        revisions[namespace] = 0
        _add_lost_namespace(target, namespace)
    values = (key, namespace, *content, checksum)
    target.execute("INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    if not target.changes():
        return 0
    revisions[namespace] = max(revisions[namespace], content[1])
    claims.setdefault(found, []).append(_SalvagedEntry(key, content[0], namespace, has_vector))
    return 1


def _written_with_vector(content: list[object], checksum: object) -> bool | None:
    """Return whether an entry row was written with a vector; None where it is not what was written."""
    for has_vector in (True, False):
        if entry_checksum(*content, has_vector=has_vector) == checksum:  # type: ignore[arg-type]
            return has_vector
    return None


def _copy_facts(source: Connection, target: Connection) -> None:
    for name in (*_SETTING_FACTS, "next_key"):
        value = _read_store_fact(source, name)
        with suppress(ValueError, TypeError):  # it is damaged, or not there
            json.loads(value)
            target.execute("INSERT OR REPLACE INTO store_facts VALUES (?, ?)", (name, value))


def _copy_namespaces(source: Connection, target: Connection) -> dict[int, int]:
    revisions = {}
    for key, name, revision, next_term in _salvaged_rows(source, "namespaces", "key, name, revision, next_term"):
        if isinstance(name, str) and isinstance(revision, int) and isinstance(next_term, int):
            row = (key, name, revision, next_term)
            target.execute("INSERT OR IGNORE INTO namespaces (key, name, revision, next_term) VALUES (?, ?, ?, ?)", row)
            if target.changes():
                revisions[key] = revision
    return revisions


def _add_lost_namespace(target: Connection, namespace: int) -> None:
    name = f"its name was lost ({namespace})"
    while fetch_first(target, "SELECT key FROM namespaces WHERE name = ?", (name,)) is not None:
        name += "+"
    target.execute("INSERT INTO namespaces (key, name) VALUES (?, ?)", (namespace, name))


def _copy_vectors(source: Connection, target: Connection, claims: dict[int, list[_SalvagedEntry]]) -> None:
    lost = {claim.key for claimed in claims.values() for claim in claimed if claim.has_vector}
    for table in ("vectors", "next_vectors"):
        for key, checksum, blob in _salvaged_rows(source, table, "key, checksum, vector"):
            for claim in claims.get(key, ()):
                if checksum != vector_checksum(claim.id, blob) or len(blob) % 4:
                    continue
                if table == "next_vectors" or claim.has_vector:
                    norm = float(np.linalg.norm(np.frombuffer(blob, dtype="<f4").astype(np.float64)))
                    row = (claim.key, claim.namespace, norm, checksum, blob)
                    target.execute(f"INSERT OR IGNORE INTO {table} VALUES (?, ?, ?, ?, ?)", row)
                    lost -= {claim.key} if table == "vectors" else set()
    for key, reason, checksum in _salvaged_rows(source, "next_no_vector", "key, reason, checksum"):
        for claim in claims.get(key, ()):
            if checksum == reason_checksum(claim.id, reason):
                values = (claim.key, claim.namespace, reason, checksum)
                target.execute("INSERT OR IGNORE INTO next_no_vector VALUES (?, ?, ?, ?)", values)
    for key in lost:  # an entry whose vector is lost is pending now
        content = fetch_one(
            target, "SELECT id, revision, text, context, metadata, no_vector FROM entries WHERE key = ?", (key,)
        )
        changed = (entry_checksum(*content, has_vector=False), key)
        target.execute("UPDATE entries SET checksum = ? WHERE key = ?", changed)


def _set_next_key(target: Connection, last: int) -> None:
    """See to it that no key is used twice."""
    known = fetch_first(target, "SELECT value FROM store_facts WHERE name = 'next_key'")
    following = max(last + 1, 1 if known is None else int(known[0]))
    target.execute("INSERT OR REPLACE INTO store_facts VALUES ('next_key', ?)", (str(following),))


def _salvaged_rows(source: Connection, table: str, columns: str) -> Iterator[Row]:
    """Yield every row that can still be read, those of damaged pages left out."""
    seen: set[int] = set()
    try:
        for row in readable_rows(source, table, f"key, {columns}", key="key"):
            seen.add(row[0])
            yield row[1:]
        # A page whose head is damaged can end a walk over the table in silence, while its rows can still be looked up.
        failed = 0
        for key in range(1, max(_last_key(source), max(seen, default=0)) + 1):
            if key not in seen and failed < _FAILED_LOOKUPS_LIMIT:
                try:
                    yield from source.execute(f"SELECT {columns} FROM {table} WHERE key = ?", (key,)).fetchall()
                    failed = 0
                except _DAMAGE_ERRORS:
                    failed += 1
    except apsw.SQLError:
        return  # the table itself is gone


def _last_key(source: Connection) -> int:
    """Return the last key that was given, as far as the file knows."""
    value = _read_store_fact(source, "next_key")
    return min(int(value), _MOST_KEYS) if isinstance(value, str) and value.isdigit() else _FEW_KEYS


def _read_store_fact(source: Connection, name: str) -> Any:
    """Return a fact of the store, None where it cannot be read."""
    try:
        row = fetch_first(source, "SELECT value FROM store_facts WHERE name = ?", (name,))
    except (apsw.Error, UnicodeDecodeError):
        return None
    return None if row is None else row[0]
