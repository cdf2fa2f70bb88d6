"""Comparing the store's tables with themselves: checksums, tallies, vectors without entries, terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apsw
import numpy as np

from vectorstore.analysis import Analyzer
from vectorstore.core.forward import analyse, named
from vectorstore.sqlite.checksums import added, entry_checksum, reason_checksum, vector_checksum
from vectorstore.sqlite.query import each, every, only
from vectorstore.types import Finding

_NEXT = ("next_vectors", "next_no_vector")
_ROWS = (
    "SELECT e.id, e.revision, e.text, e.context, e.metadata, e.no_vector, e.checksum, v.vector, v.checksum,"
    " f.sequence, f.context_length FROM entries AS e"
    " LEFT JOIN vectors AS v ON v.key = e.key LEFT JOIN forward AS f ON f.key = e.key WHERE e.namespace = ?"
)


def verify_store(connection: apsw.Connection, analyzer: Analyzer) -> list[Finding]:
    """Return everything that is wrong; an empty list means all is well."""
    findings = list(_orphans(connection))
    namespaces = every(
        connection, "SELECT key, name, entries, next_term, tally, vector_tally, next_tally FROM namespaces"
    )
    for key, name, entries, next_term, tally, vector_tally, next_tally in namespaces:
        findings += _verify_namespace(connection, analyzer, key, name, entries, (tally, vector_tally))
        findings += _verify_next(connection, key, name, next_tally)
        highest = only(connection, "SELECT max(number) FROM terms WHERE namespace = ?", (key,))[0]
        if highest is not None and highest >= next_term:
            findings.append(Finding("terms", "a term number would be used twice", name))
    return findings


def retally(connection: apsw.Connection) -> None:
    """Count and sum the rows of every namespace again."""
    for (key,) in every(connection, "SELECT key FROM namespaces"):
        (entries,) = only(connection, "SELECT count(*) FROM entries WHERE namespace = ?", (key,))
        tallies = [_sum(connection, key, *tables) for tables in (("entries",), ("vectors",), _NEXT)]
        connection.execute(
            "UPDATE namespaces SET entries = ?, tally = ?, vector_tally = ?, next_tally = ? WHERE key = ?",
            (entries, *tallies, key),
        )


def _sum(connection: apsw.Connection, namespace: int, *tables: str) -> int:
    total = 0
    for table in tables:
        rows = each(connection, f"SELECT checksum FROM {table} WHERE namespace = ?", (namespace,))
        total = added(total, *(checksum for (checksum,) in rows))
    return total


def _verify_namespace(
    connection: apsw.Connection, analyzer: Analyzer, key: int, name: str, entries: int, tallies: tuple[int, int]
) -> list[Finding]:
    findings: list[Finding] = []
    terms: dict[int, str] = dict(every(connection, "SELECT number, term FROM terms WHERE namespace = ?", (key,)))
    counted, total, of_vectors = 0, 0, 0
    for row in each(connection, _ROWS, (key,)):
        id, *content, checksum, vector, its_checksum, sequence, context_length = row
        counted += 1
        total, of_vectors = added(total, checksum), added(of_vectors, its_checksum or 0)
        if entry_checksum(id, *content, has_vector=vector is not None) != checksum:
            findings.append(Finding("entries", "content differs from its checksum", id))
        if vector is not None and vector_checksum(id, vector) != its_checksum:
            findings.append(Finding("vectors", "content differs from its checksum", id))
        if not _same_terms(analyzer, content[1], content[2], sequence, context_length, terms):
            findings.append(Finding("forward", "terms differ from the text; rebuild makes them again", id))
    if counted != entries:
        findings.append(Finding("namespaces", f"{counted} entries where {entries} were counted", name))
    elif (total, of_vectors) != tallies:
        findings.append(Finding("namespaces", "the sum of checksums differs", name))
    return findings


def _verify_next(connection: apsw.Connection, key: int, name: str, tally: int) -> Iterator[Finding]:
    """What was filled into a second space."""
    parts: list[tuple[str, str, Callable[[str, Any], int]]] = [
        ("next_vectors", "vector", vector_checksum),
        ("next_no_vector", "reason", reason_checksum),
    ]
    total = 0
    for table, column, checksum_of in parts:
        rows = each(
            connection,
            f"SELECT e.id, t.{column}, t.checksum FROM {table} AS t JOIN entries AS e ON e.key = t.key"
            " WHERE t.namespace = ?",
            (key,),
        )
        for id, content, checksum in rows:
            total = added(total, checksum)
            if checksum_of(id, content) != checksum:
                yield Finding(table, "content differs from its checksum", id)
    if total != tally:
        yield Finding("namespaces", "the sum of checksums of the second space differs", name)


def _same_terms(
    analyzer: Analyzer,
    text: str,
    context: str,
    sequence: bytes | None,
    context_length: int,
    terms: dict[int, str],
) -> bool:
    if not isinstance(sequence, bytes) or len(sequence) % 4:
        return False
    analysed = analyse(analyzer, text, context)
    stored = named(np.frombuffer(sequence, dtype="<i4"), context_length, lambda number: terms.get(number, ""))
    return stored == (analysed.context, *analysed.sentences)


def _orphans(connection: apsw.Connection) -> Iterator[Finding]:
    for table in ("vectors", "forward", *_NEXT):
        rows = each(
            connection,
            f"SELECT t.key FROM {table} AS t LEFT JOIN entries AS e ON e.key = t.key"
            " WHERE e.key IS NULL OR e.namespace <> t.namespace",
        )
        for (key,) in rows:
            yield Finding(table, "belongs to no entry", str(key))
