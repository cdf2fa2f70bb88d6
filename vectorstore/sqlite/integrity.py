"""Integrity of rows and files: checksums of rows, verification of the store's tables and of the whole file.

A checksum is eight bytes of BLAKE2b over a row: a row with a changed byte is reported and never returned. SQLite's own
checks see damaged pages, not a changed byte inside a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, Final

import apsw
import numpy as np

from tellback.vectorstore.analyzer import Analyzer
from tellback.vectorstore.database import Component, Connection
from tellback.vectorstore.errors import DamageError
from tellback.vectorstore.index.bm25 import analyze_text, decode_terms
from tellback.vectorstore.sqlite.connection import fetch_all, fetch_one, iterate_rows
from tellback.vectorstore.sqlite.files import verify_header
from tellback.vectorstore.sqlite.migrations import component_versions, foreign_objects
from tellback.vectorstore.types import Finding

_SIGN_BIT: Final = 1 << 63
_MODULUS: Final = 1 << 64
_NOT_TEXT: Final = b"\xff"
"""Hashed in the place of a value that damage turned into another type; no text encodes to it."""


def entry_checksum(
    id: str, revision: int, text: str, context: str, metadata: str, no_vector: str | None, *, has_vector: bool
) -> int:
    """Return the checksum of an entry row, as a signed 64-bit integer; it covers whether the entry has a vector."""
    number, reason = str(revision), ("v" if has_vector else "") + ("-" if no_vector is None else f"+{no_vector}")
    joined = f"{id}{number}{text}{context}{metadata}{reason}"
    try:
        if joined.isascii():  # a character is a byte
            sizes = f"{len(id)},{len(number)},{len(text)},{len(context)},{len(metadata)},{len(reason)}"
        else:
            sizes = ",".join(str(len(part.encode())) for part in (id, number, text, context, metadata, reason))
    except (TypeError, AttributeError):
        return _digest(_NOT_TEXT)
    return _digest((sizes + joined).encode())


def vector_checksum(id: str, vector: bytes) -> int:
    """Return the checksum of a vector row, as a signed 64-bit integer."""
    return _digest(id.encode() + b"\0" + (vector if isinstance(vector, bytes) else _NOT_TEXT))


def reason_checksum(id: str, reason: str) -> int:
    """Return the checksum of a reason for having no vector in the space that is being filled."""
    return _digest(id.encode() + b"\0" + (reason.encode() if isinstance(reason, str) else _NOT_TEXT))


def add_checksums(tally: int, *checksums: int) -> int:
    """Return the sum of checksums as SQLite keeps it: signed, modulo 2**64; its order does not matter."""
    try:
        return (tally + sum(checksums) + _SIGN_BIT) % _MODULUS - _SIGN_BIT
    except TypeError as error:
        raise DamageError("a checksum is no number") from error


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little", signed=True)


_MIGRATION_TABLES = ("next_vectors", "next_no_vector")
_ROWS_SQL = (
    "SELECT e.id, e.revision, e.text, e.context, e.metadata, e.no_vector, e.checksum, v.vector, v.checksum,"
    " f.sequence, f.context_length FROM entries AS e"
    " LEFT JOIN vectors AS v ON v.key = e.key LEFT JOIN forward AS f ON f.key = e.key WHERE e.namespace = ?"
)


def verify_store_tables(connection: Connection, analyzer: Analyzer) -> list[Finding]:
    """Return a finding for each defect of the store's tables; an empty list means that they are whole."""
    findings = list(_find_orphans(connection))
    namespaces = fetch_all(
        connection, "SELECT key, name, entries, next_term, tally, vector_tally, next_tally FROM namespaces"
    )
    for key, name, entries, next_term, tally, vector_tally, next_tally in namespaces:
        findings += _verify_namespace(connection, analyzer, key, name, entries, (tally, vector_tally))
        findings += _verify_migration(connection, key, name, next_tally)
        highest = fetch_one(connection, "SELECT max(number) FROM terms WHERE namespace = ?", (key,))[0]
        if highest is not None and highest >= next_term:
            findings.append(Finding("terms", "a term number would be used twice", name))
    return findings


def recount_tallies(connection: Connection) -> None:
    """Recompute the number of entries and the sums of checksums of every namespace."""
    for (key,) in fetch_all(connection, "SELECT key FROM namespaces"):
        (entries,) = fetch_one(connection, "SELECT count(*) FROM entries WHERE namespace = ?", (key,))
        tallies = [
            _sum_checksums(connection, key, *tables) for tables in (("entries",), ("vectors",), _MIGRATION_TABLES)
        ]
        connection.execute(
            "UPDATE namespaces SET entries = ?, tally = ?, vector_tally = ?, next_tally = ? WHERE key = ?",
            (entries, *tallies, key),
        )


def _sum_checksums(connection: Connection, namespace: int, *tables: str) -> int:
    total = 0
    for table in tables:
        rows = iterate_rows(connection, f"SELECT checksum FROM {table} WHERE namespace = ?", (namespace,))
        total = add_checksums(total, *(checksum for (checksum,) in rows))
    return total


def _verify_namespace(
    connection: Connection, analyzer: Analyzer, key: int, name: str, entries: int, tallies: tuple[int, int]
) -> list[Finding]:
    findings: list[Finding] = []
    terms: dict[int, str] = dict(fetch_all(connection, "SELECT number, term FROM terms WHERE namespace = ?", (key,)))
    counted, total, vector_total = 0, 0, 0
    for row in iterate_rows(connection, _ROWS_SQL, (key,)):
        id, *content, checksum, vector, stored_checksum, sequence, context_length = row
        counted += 1
        total, vector_total = add_checksums(total, checksum), add_checksums(vector_total, stored_checksum or 0)
        if entry_checksum(id, *content, has_vector=vector is not None) != checksum:
            findings.append(Finding("entries", "content differs from its checksum", id))
        if vector is not None and vector_checksum(id, vector) != stored_checksum:
            findings.append(Finding("vectors", "content differs from its checksum", id))
        if not _same_terms(analyzer, content[1], content[2], sequence, context_length, terms):
            findings.append(Finding("forward", "terms differ from the text; rebuild makes them again", id))
    if counted != entries:
        findings.append(Finding("namespaces", f"{counted} entries where {entries} were counted", name))
    elif (total, vector_total) != tallies:
        findings.append(Finding("namespaces", "the sum of checksums differs", name))
    return findings


def _verify_migration(connection: Connection, key: int, name: str, tally: int) -> Iterator[Finding]:
    """Compare the vectors and reasons of the space being filled with their checksums."""
    parts: list[tuple[str, str, Callable[[str, Any], int]]] = [
        ("next_vectors", "vector", vector_checksum),
        ("next_no_vector", "reason", reason_checksum),
    ]
    total = 0
    for table, column, checksum_of in parts:
        rows = iterate_rows(
            connection,
            f"SELECT e.id, t.{column}, t.checksum FROM {table} AS t JOIN entries AS e ON e.key = t.key"
            " WHERE t.namespace = ?",
            (key,),
        )
        for id, content, checksum in rows:
            total = add_checksums(total, checksum)
            if checksum_of(id, content) != checksum:
                yield Finding(table, "content differs from its checksum", id)
    if total != tally:
        yield Finding("namespaces", "the sum of checksums of the second space differs", name)


def _same_terms(
    analyzer: Analyzer, text: str, context: str, sequence: bytes | None, context_length: int, terms: dict[int, str]
) -> bool:
    if not isinstance(sequence, bytes) or len(sequence) % 4:
        return False
    analysed = analyze_text(analyzer, text, context)
    stored = decode_terms(np.frombuffer(sequence, dtype="<i4"), context_length, lambda number: terms.get(number, ""))
    return stored == (analysed.context, *analysed.sentences)


def _find_orphans(connection: Connection) -> Iterator[Finding]:
    for table in ("vectors", "forward", *_MIGRATION_TABLES):
        rows = iterate_rows(
            connection,
            f"SELECT t.key FROM {table} AS t LEFT JOIN entries AS e ON e.key = t.key"
            " WHERE e.key IS NULL OR e.namespace <> t.namespace",
        )
        for (key,) in rows:
            yield Finding(table, "belongs to no entry", str(key))


def verify_file(connection: Connection, components: Sequence[Component]) -> list[Finding]:
    """Check pages, references, header and every component."""
    findings = [
        *run_check("pages", lambda: _page_findings(connection)),
        *run_check("references", lambda: _reference_findings(connection)),
        *run_check("header", lambda: verify_header(connection)),
        *run_check("schema", lambda: foreign_objects(connection, components)),
        *run_check("components", lambda: _version_findings(connection, components)),
    ]
    for component in components:
        findings += run_check(component.name, partial(component.verify, connection))
    return findings


def rebuild_components(connection: Connection, components: Sequence[Component]) -> None:
    """Rebuild indexes and every component's derived tables, inside the caller's write transaction."""
    connection.execute("REINDEX")
    for component in components:
        component.rebuild(connection)


def run_check(part: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Return the findings of *check*; where it cannot read *part*, that is one."""
    try:
        return list(check())
    except (apsw.BusyError, apsw.LockedError):
        raise
    except Exception as error:  # damage can raise anything; it ends this check alone
        return [Finding(part, f"cannot be read: {error}")]


def _page_findings(connection: Connection) -> Iterable[Finding]:
    return [Finding("pages", str(text)) for (text,) in fetch_all(connection, "PRAGMA integrity_check") if text != "ok"]


def _reference_findings(connection: Connection) -> Iterable[Finding]:
    return [
        Finding("references", f"row {row} refers to a missing row of {parent}", str(table))
        for table, row, parent, _ in fetch_all(connection, "PRAGMA foreign_key_check")
    ]


def _version_findings(connection: Connection, components: Sequence[Component]) -> Iterable[Finding]:
    versions = component_versions(connection)
    for component in components:
        if versions.get(component.name) != len(component.migrations):
            yield Finding("components", f"has version {versions.get(component.name)}", component.name)
