"""The store's rows out of a damaged file: each that can be read and whose checksum holds, into fresh tables.

A vector that is lost makes its entry pending; a namespace whose name is lost is given another; nothing is guessed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import apsw
import numpy as np

from vectorstore.sqlite.checksums import entry_checksum, reason_checksum, vector_checksum
from vectorstore.sqlite.query import Row, first, only
from vectorstore.sqlite.readable import readable_rows

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
