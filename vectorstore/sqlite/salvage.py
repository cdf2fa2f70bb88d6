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
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import apsw
import numpy as np

from vectorstore.errors import ArgumentError, DamageError, NotAStore, UnsupportedError
from vectorstore.sqlite.component import Component, versions
from vectorstore.sqlite.connection import Access, Row, border, first, only, open_connection, system_border
from vectorstore.sqlite.files import (
    Birth,
    Token,
    checked_path,
    create_file,
    fact,
    is_missing,
    now_for_reading,
)
from vectorstore.sqlite.integrity import entry_checksum, reason_checksum, vector_checksum


def salvage_file(
    path: Path, access: Access, target: Path, components: Sequence[Component], birth: Birth, *, token: Token
) -> int:
    """Copy every readable row of *path* into a new file at *target*; return how many."""
    with border(path):
        source = open_connection(path, access, busy_timeout=0, keep_log=True)

    def fill(connection: apsw.Connection) -> int:
        with border(path, source):
            source.execute("BEGIN")
            return sum(component.salvage(source, connection) for component in components)

    try:
        return create_file(target, components, birth, token=token, fill=fill)
    finally:
        source.close(True)


def salvage(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    components: Sequence[Component],
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    token: Token = os.urandom,
) -> int:
    """Copy every readable row of a file too damaged to be opened into a new file at *target*; return how many.

    *path* is only read. ``DamageError``: nothing of it can be read. ``UnsupportedError``: it has parts that none of
    *components* can copy.
    """
    origin, place = checked_path(path), checked_path(target, "target")
    if os.path.lexists(place):
        raise ArgumentError("target", target, "a path where nothing is yet is needed")
    with system_border(origin):
        if is_missing(origin):
            raise NotAStore(str(origin), "there is no such file")
        source = open_connection(origin, now_for_reading(origin, Access.FROZEN), busy_timeout=0, keep_log=True)
        try:
            found, birth = _what_it_says(source, Birth(token(16).hex(), clock().isoformat()))
        finally:
            source.close()
    known = {component.name for component in components}
    if known & found and (strangers := sorted(found - known)):  # without one of them the list itself is damaged
        raise UnsupportedError("salvage", f"nothing given can copy these parts of the file: {strangers}")
    access = now_for_reading(origin, Access.FROZEN)
    return salvage_file(origin, access, place, components, birth, token=token)


def _what_it_says(source: apsw.Connection, fresh: Birth) -> tuple[set[str], Birth]:
    """Return which parts it has and its birth, as far as that can be read."""
    try:
        source.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except (apsw.CorruptError, apsw.NotADBError, apsw.IOError) as error:
        raise DamageError(f"nothing can be read: {error}") from error
    try:
        identity, created = fact(source, "identity"), fact(source, "created")
        return set(versions(source)), Birth(identity or fresh.identity, created or fresh.created)
    except (apsw.Error, DamageError):
        return set(), fresh


_LEAST, _MOST = -(2**63), 2**63 - 1
_DOUBLINGS: Final = 63
_LAST: Final = 64
"""Jumps in the keys before damage that are looked at again."""
_POINTS: Final = 4096
"""Places at which a stretch that cannot be read from either end is looked into."""
_TRIES: Final = 100_000
"""Reads that may fail in one table before what is left of its damaged part is given up."""
_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.IOError, UnicodeDecodeError)


def readable_rows(
    connection: apsw.Connection, table: str, columns: str, *, key: str = "rowid"
) -> Iterator[apsw.SQLiteValues]:
    """Yield *columns* of every row of *table* that can be read, each once, in no order.

    Damage costs only the rows on the damaged pages: a stretch of keys is read from both ends until it fails, then
    places inside are looked for from which it can be read again. Keys below the first row and above the last belong to
    the first and last page: where these are damaged, such a stretch is nearly endless, so places near what was read
    come first. Names are SQL of ours, never a user's.
    """
    reader = _Table(connection, table, columns, key)
    stretches = [(_LEAST, _MOST)]
    while stretches and reader.tries > 0:
        low, high = stretches.pop()
        upwards = yield from reader.read(low, high)
        if upwards.whole:
            continue
        downwards = yield from reader.read(low, high, down=True)
        if downwards.whole:
            continue
        stretches += [*upwards.jumps, *downwards.jumps]
        if upwards.reached < downwards.reached:
            stretches += reader.split(upwards.reached, downwards.reached)


@dataclass(frozen=True, slots=True)
class _Read:
    """How a reading ended: at the end of all, or short of the key *reached*.

    *jumps* are stretches that were passed over just before: a page of noise can hold a key far ahead.
    """

    whole: bool
    reached: int
    jumps: tuple[tuple[int, int], ...] = ()


class _Table:
    """One table as it is read; *tries* are left until it is given up."""

    def __init__(self, connection: apsw.Connection, table: str, columns: str, key: str) -> None:
        self.tries = _TRIES
        self._seen: set[int] = set()
        self._connection = connection
        select = f"SELECT {key}, {columns} FROM {table} WHERE {key} BETWEEN ? AND ? ORDER BY {key}"
        self._up, self._down, self._one = select, f"{select} DESC", f"{select} LIMIT 1"

    def read(self, low: int, high: int, *, down: bool = False) -> Generator[apsw.SQLiteValues, None, _Read]:
        """Yield rows from *low* on, or from *high* down, that were not yielded before."""
        place, step = (high, -1) if down else (low, 1)
        jumps = deque[tuple[int, int]](maxlen=_LAST)
        try:
            for row in self._connection.execute(self._down if down else self._up, (low, high)):
                number = int(str(row[0]))
                if (number - place) * step > 0:
                    jumps.append((number + 1, place) if down else (place, number - 1))
                place, known = number + step, hash((str(number), row))
                if known not in self._seen:
                    self._seen.add(known)
                    yield row[1:]
        except _DAMAGE:
            self.tries -= 1
            return _Read(False, min(max(place, low), high), tuple(jumps))
        return _Read(True, place)

    def split(self, low: int, high: int) -> list[tuple[int, int]]:
        """Return the stretches beside the first place found inside from which rows can be read; none if there is none.

        *low* and *high* themselves are known to fail.
        """
        for place in _places(low, high):
            if self.tries <= 0:
                break
            try:
                found = self._connection.execute(self._one, (place, high)).fetchall()
            except _DAMAGE:
                self.tries -= 1
                continue
            return [(low, place - 1), (place, high)] if found else [(low, place - 1)]
        return []


def _places(low: int, high: int) -> Iterable[int]:
    """Yield places between *low* and *high*: ever farther from both ends and from 0, then all over."""
    if low < 0 < high:
        yield from (place for power in range(_DOUBLINGS) for place in (1 << power, -1 << power) if low < place < high)
    step = 1
    while low + step <= high - step:
        yield low + step
        yield high - step
        step = max(step + 1, step * 9 // 8)
    inside = high - low - 1
    if inside > 0:
        yield from range(low + 1, high, max(inside // _POINTS, 1))


_ENTRY = "key, namespace, id, revision, text, context, metadata, no_vector, checksum"
_FEW_KEYS, _MOST_KEYS = 100_000, 10_000_000
"""How many keys are looked up one by one where it is not known how many there are, and at most."""
_FAILURES = 1000
"""Look-ups that may fail in a row before a table is given up."""
_FACTS = ("space", "next_space", "analyser", "fields")


def copy_rows(source: apsw.Connection, target: apsw.Connection) -> int:
    """Copy what can be read and return how many entries that are."""
    _copy_facts(source, target)
    revisions = _copy_namespaces(source, target)
    claims: dict[int, list[_Claim]] = {}
    late: list[Row] = []
    saved = last = 0
    for row in _rows(source, "entries", _ENTRY):
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
    _go_on_after(target, last)
    return saved


@dataclass(frozen=True, slots=True)
class _Claim:
    """An entry that was saved as *key*; its vectors are those of the key under which it was found, if it has any."""

    key: int
    id: str
    namespace: int
    has_vector: bool


def _copy_entry(
    target: apsw.Connection, row: Row, key: int, revisions: dict[int, int], claims: dict[int, list[_Claim]]
) -> int:
    """Copy a row of an entry as *key* if it is what was written; return how many that are."""
    found, namespace, *content, checksum = row
    has_vector = _as_written(content, checksum)
    if has_vector is None or not isinstance(namespace, int):
        return 0
    if namespace not in revisions:
        revisions[namespace] = 0
        _name_lost(target, namespace)
    values = (key, namespace, *content, checksum)
    target.execute("INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    if not target.changes():
        return 0
    revisions[namespace] = max(revisions[namespace], content[1])
    claims.setdefault(found, []).append(_Claim(key, content[0], namespace, has_vector))
    return 1


def _as_written(content: list[object], checksum: object) -> bool | None:
    """Whether an entry row was written with a vector; None where it is not what was written."""
    for has_vector in (True, False):
        if entry_checksum(*content, has_vector=has_vector) == checksum:  # type: ignore[arg-type]
            return has_vector
    return None


def _copy_facts(source: apsw.Connection, target: apsw.Connection) -> None:
    for name in (*_FACTS, "next_key"):
        for (value,) in _readable(source, "SELECT value FROM store_facts WHERE name = ?", name):
            try:
                json.loads(value)
            except (ValueError, TypeError):
                continue
            target.execute("INSERT OR REPLACE INTO store_facts VALUES (?, ?)", (name, value))


def _copy_namespaces(source: apsw.Connection, target: apsw.Connection) -> dict[int, int]:
    revisions = {}
    for key, name, revision, next_term in _rows(source, "namespaces", "key, name, revision, next_term"):
        if isinstance(name, str) and isinstance(revision, int) and isinstance(next_term, int):
            row = (key, name, revision, next_term)
            target.execute("INSERT OR IGNORE INTO namespaces (key, name, revision, next_term) VALUES (?, ?, ?, ?)", row)
            if target.changes():
                revisions[key] = revision
    return revisions


def _name_lost(target: apsw.Connection, namespace: int) -> None:
    name = f"its name was lost ({namespace})"
    while first(target, "SELECT key FROM namespaces WHERE name = ?", (name,)) is not None:
        name += "+"
    target.execute("INSERT INTO namespaces (key, name) VALUES (?, ?)", (namespace, name))


def _copy_vectors(source: apsw.Connection, target: apsw.Connection, claims: dict[int, list[_Claim]]) -> None:
    lost = {claim.key for claimed in claims.values() for claim in claimed if claim.has_vector}
    for table in ("vectors", "next_vectors"):
        for key, checksum, blob in _rows(source, table, "key, checksum, vector"):
            for claim in claims.get(key, ()):
                if checksum != vector_checksum(claim.id, blob) or len(blob) % 4:
                    continue
                if table == "next_vectors" or claim.has_vector:
                    norm = float(np.linalg.norm(np.frombuffer(blob, dtype="<f4").astype(np.float64)))
                    row = (claim.key, claim.namespace, norm, checksum, blob)
                    target.execute(f"INSERT OR IGNORE INTO {table} VALUES (?, ?, ?, ?, ?)", row)
                    lost -= {claim.key} if table == "vectors" else set()
    for key, reason, checksum in _rows(source, "next_no_vector", "key, reason, checksum"):
        for claim in claims.get(key, ()):
            if checksum == reason_checksum(claim.id, reason):
                values = (claim.key, claim.namespace, reason, checksum)
                target.execute("INSERT OR IGNORE INTO next_no_vector VALUES (?, ?, ?, ?)", values)
    for key in lost:  # an entry whose vector is lost is pending now
        content = only(
            target, "SELECT id, revision, text, context, metadata, no_vector FROM entries WHERE key = ?", (key,)
        )
        changed = (entry_checksum(*content, has_vector=False), key)
        target.execute("UPDATE entries SET checksum = ? WHERE key = ?", changed)


def _go_on_after(target: apsw.Connection, last: int) -> None:
    """See to it that no key is used twice."""
    known = first(target, "SELECT value FROM store_facts WHERE name = 'next_key'")
    following = max(last + 1, 1 if known is None else int(known[0]))
    target.execute("INSERT OR REPLACE INTO store_facts VALUES ('next_key', ?)", (str(following),))


def _rows(source: apsw.Connection, table: str, columns: str) -> Iterator[Row]:
    """Yield every row that can still be read, those of damaged pages left out."""
    seen: set[int] = set()
    try:
        for row in readable_rows(source, table, f"key, {columns}", key="key"):
            seen.add(row[0])  # type: ignore[arg-type]  # the key is an integer
            yield row[1:]
        # A page whose head is damaged can end a walk over the table in silence, while its rows can still be looked up.
        failed = 0
        for key in range(1, max(_last_key(source), max(seen, default=0)) + 1):
            if key not in seen and failed < _FAILURES:
                try:
                    yield from source.execute(f"SELECT {columns} FROM {table} WHERE key = ?", (key,)).fetchall()
                    failed = 0
                except (apsw.CorruptError, apsw.NotADBError, apsw.IOError, UnicodeDecodeError):
                    failed += 1
    except apsw.SQLError:
        return  # the table itself is gone


def _last_key(source: apsw.Connection) -> int:
    """Return the last key that was given, as far as the file knows."""
    for (value,) in _readable(source, "SELECT value FROM store_facts WHERE name = ?", "next_key"):
        if isinstance(value, str) and value.isdigit():
            return min(int(value), _MOST_KEYS)
    return _FEW_KEYS


def _readable(source: apsw.Connection, sql: str, value: str | int) -> list[Row]:
    try:
        return source.execute(sql, (value,)).fetchall()
    except (apsw.Error, UnicodeDecodeError):
        return []
