"""Entries written to the file: rows, vectors, terms and their dictionary, checksums, tally and change log.

All of it happens in the caller's write transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

import numpy as np

from tellback.vectorstore.analyzer import Analyzer
from tellback.vectorstore.database import Connection, VectorBytes
from tellback.vectorstore.distance import row_norms
from tellback.vectorstore.errors import DamageError, RevisionConflict
from tellback.vectorstore.index.bm25 import AnalyzedText, analyze_text
from tellback.vectorstore.sqlite.connection import fetch_first, fetch_one, iterate_rows, json_array
from tellback.vectorstore.sqlite.entry_reader import (
    NAMESPACE_BY_NAME,
    StoredEntry,
    stored_entries_by_id,
    stored_entries_query,
)
from tellback.vectorstore.sqlite.integrity import add_checksums, entry_checksum, reason_checksum, vector_checksum
from tellback.vectorstore.types import Finding, Vector
from tellback.vectorstore.validation import CheckedEntry

_PAGE_SIZE = 1000


class TermDictionary:
    """Numbers of the terms of the namespace *key*, which is called *name*.

    New terms get *next_number* and those after it, which the caller stores.
    """

    def __init__(self, connection: Connection, key: int, name: str, *, next_number: int) -> None:
        self._connection = connection
        self._namespace = key
        self._name = name
        self._numbers: dict[str, int] = {}
        self.next_number = next_number

    def write_forward_index(self, analysed: Sequence[tuple[int, AnalyzedText]]) -> None:
        """Store the forward index of entries, by key, and the terms that are new."""
        self._intern(set().union(*(terms.distinct() for _, terms in analysed)))
        rows = []
        for key, terms in analysed:
            sequence, context_length = terms.numbered(self._numbers)
            rows.append((key, self._namespace, context_length, sequence.astype("<i4", copy=False).tobytes()))
        self._connection.executemany(
            "INSERT INTO forward (key, namespace, context_length, sequence) VALUES (?, ?, ?, ?) ON CONFLICT (key)"
            " DO UPDATE SET context_length = excluded.context_length, sequence = excluded.sequence",
            rows,
        )

    def _intern(self, terms: Set[str]) -> None:
        """Number those of *terms* that have no number."""
        unknown = sorted(terms - self._numbers.keys())
        if not unknown:
            return
        self._numbers.update(dict(iterate_rows(self._connection, *_terms_query(self._connection, self._name, unknown))))
        fresh = [term for term in unknown if term not in self._numbers]
        self._numbers.update(zip(fresh, count(self.next_number)))
        self.next_number += len(fresh)
        self._connection.executemany(
            "INSERT INTO terms (namespace, number, term) VALUES (?, ?, ?)",
            ((self._namespace, self._numbers[term], term) for term in fresh),
        )


def _terms_query(connection: Connection, namespace: str, terms: Sequence[str]) -> tuple[str, Sequence[Any]]:
    """Return the statement that reads the numbers of *terms*, with its values."""
    tables = f"{connection.dialect.wanted_texts} terms AS t ON t.namespace = {NAMESPACE_BY_NAME}"
    return f"SELECT t.term, t.number FROM {tables} AND t.term = wanted.value", (json_array(list(terms)), namespace)


def rebuild_terms(connection: Connection, namespace: int, analyzer: Analyzer, next_number: int) -> int:
    """Make the terms and the forward index of a namespace without them from its entries; return the next number."""
    (name,) = fetch_one(connection, "SELECT name FROM namespaces WHERE key = ?", (namespace,))
    dictionary = TermDictionary(connection, namespace, name, next_number=next_number)
    rows = iterate_rows(
        connection, "SELECT key, text, context FROM entries WHERE namespace = ? ORDER BY key", (namespace,)
    )
    while page := list(islice(rows, _PAGE_SIZE)):
        dictionary.write_forward_index([(key, analyze_text(analyzer, text, context)) for key, text, context in page])
    return dictionary.next_number


def remove_unused_terms(connection: Connection, namespace: int) -> None:
    """Remove the terms that no entry of the namespace uses, such as those of deleted texts."""
    (known,) = fetch_one(
        connection, "SELECT string_agg(CAST(number AS TEXT), ',') FROM terms WHERE namespace = ?", (namespace,)
    )
    if known is None:
        return
    numbers = np.fromstring(known, dtype=np.int64, sep=",")
    unused = np.zeros(numbers.max() + 1, dtype=np.bool_)
    unused[numbers] = True
    rows = iterate_rows(connection, "SELECT sequence FROM forward WHERE namespace = ?", (namespace,))
    while page := [blob for (blob,) in islice(rows, _PAGE_SIZE)]:
        joined = b"".join(page)
        if len(joined) % 4:
            raise DamageError([Finding("forward", "a sequence of terms has a wrong length")])
        used = np.frombuffer(joined, dtype="<i4")
        unused[used[(used >= 0) & (used < len(unused))]] = False
    connection.executemany(
        "DELETE FROM terms WHERE namespace = ? AND number = ?",
        ((namespace, number) for number in np.flatnonzero(unused).tolist()),
    )


KEPT_CHANGES = 1000
_CONTENT_COLUMNS = ("revision", "text", "context", "metadata", "no_vector")
_NAMESPACE_COLUMNS = "key, revision, entries, pruned, tally, vector_tally, next_tally, next_term"
_INSERT_VECTOR_SQL = (
    "INSERT INTO {} (key, namespace, norm, checksum, vector) VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE"
    " SET norm = excluded.norm, checksum = excluded.checksum, vector = excluded.vector"
)
_MIGRATION_TABLES = ("next_vectors", "next_no_vector")


@dataclass(frozen=True, slots=True)
class EntryBatch:
    """Checked entries, each id once, with their terms, and the revisions that ids are *expected* to have."""

    entries: Sequence[CheckedEntry]
    expected: Mapping[str, int]
    terms: Sequence[AnalyzedText]

    @classmethod
    def of(cls, entries: Sequence[CheckedEntry], expected: Mapping[str, int], analyzer: Analyzer) -> EntryBatch:
        """Return the batch of *entries*; it needs no transaction."""
        return cls(entries, expected, [analyze_text(analyzer, entry.text, entry.context) for entry in entries])


class NamespaceWriter:
    """Writer of one namespace in one write transaction; ``finish`` before the transaction ends.

    What writing *batch* needs to know is read at once.
    """

    def __init__(self, connection: Connection, name: str, batch: EntryBatch | None = None) -> None:
        self._connection = connection
        self._name = name
        row_query = f"SELECT {_NAMESPACE_COLUMNS} FROM namespaces WHERE name = ?", (name,)
        if batch is not None:
            ids = _with_expected([entry.id for entry in batch.entries], batch.expected)
            terms = sorted(set().union(*(terms.distinct() for terms in batch.terms)))
            connection.read_ahead(
                (
                    row_query,
                    stored_entries_query(connection, name, ids),
                    _terms_query(connection, name, terms),
                    (connection.dialect.next_keys, (len(batch.entries),)),
                )
            )
        existing = fetch_first(connection, *row_query)
        self._created = existing is None
        row = existing or fetch_one(
            connection, f"INSERT INTO namespaces (name) VALUES (?) RETURNING {_NAMESPACE_COLUMNS}", (name,)
        )
        self.key: int = row[0]
        self._revision: int = row[1]
        self._entries: int = row[2]
        self._pruned: int = row[3]
        self._tally: int = row[4]
        self._vector_tally: int = row[5]
        self._next_tally: int = row[6]
        self._next_term: int = row[7]
        self._filled = False
        self._log: list[tuple[int, int, int, str | None]] = []

    def write(self, batch: EntryBatch) -> int:
        """Write the entries of *batch*; return how many."""
        stored = self._stored([checked.id for checked in batch.entries], batch.expected)
        next_key = self._reserve_keys(len(batch.entries) - len(stored))
        rows, vectors, without_vector = [], [], []
        for checked in batch.entries:
            before = stored.get(checked.id)
            if before is None:
                key, next_key = next_key, next_key + 1
                self._entries += 1
            else:
                key = before.key
                self._tally = add_checksums(self._tally, -before.checksum)
                self._drop_vector_checksum(before)
            revision = self._next_revision(key)
            content = checked.id, revision, checked.text, checked.context, checked.metadata, checked.no_vector
            rows.append((key, self.key, *content, entry_checksum(*content, has_vector=checked.vector is not None)))
            if checked.vector is not None:
                vectors.append((key, checked.id, checked.vector))
            elif before is not None and before.vector_checksum is not None:
                without_vector.append((key,))
        self._tally = add_checksums(self._tally, *(row[-1] for row in rows))
        self._connection.executemany(
            "INSERT INTO entries (key, namespace, id, revision, text, context, metadata, no_vector, checksum)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET"
            " revision = excluded.revision, text = excluded.text, context = excluded.context,"
            " metadata = excluded.metadata, no_vector = excluded.no_vector, checksum = excluded.checksum",
            rows,
        )
        self._vector_tally = add_checksums(self._vector_tally, *self._put_vectors("vectors", vectors))
        if without_vector:
            self._connection.executemany("DELETE FROM vectors WHERE key = ?", without_vector)
        self._forget_next(stored.values())
        dictionary = TermDictionary(self._connection, self.key, self._name, next_number=self._next_term)
        dictionary.write_forward_index([(row[0], terms) for row, terms in zip(rows, batch.terms, strict=True)])
        self._next_term = dictionary.next_number
        return len(rows)

    def patch(self, metadata: Mapping[str, str], expect: Mapping[str, int]) -> int:
        """Replace the metadata (JSON text) of entries; return how many there were."""
        stored = self._stored(metadata, expect)
        for id, entry in stored.items():
            changes = {"metadata": metadata[id], "revision": self._next_revision(entry.key)}
            self._rewrite(id, entry, changes, has_vector=entry.vector_checksum is not None)
        return len(stored)

    def put_vectors(self, vectors: Mapping[str, Vector], expect: Mapping[str, int]) -> int:
        """Give entries their vectors; return how many there were."""
        stored = self._stored(vectors, expect)
        for id, entry in stored.items():
            self._next_revision(entry.key)
            self._rewrite(id, entry, {"no_vector": None}, has_vector=True)
            self._drop_vector_checksum(entry)
        rows = [(entry.key, id, vectors[id]) for id, entry in stored.items()]
        self._vector_tally = add_checksums(self._vector_tally, *self._put_vectors("vectors", rows))
        return len(stored)

    def fill(self, filled: Mapping[str, Vector | str], expect: Mapping[str, int]) -> int:
        """Give entries a vector of the space being filled, or a reason for none; return how many there were."""
        stored = self._stored(filled, expect)
        self._forget_next(stored.values())
        vectors, reasons = [], []
        for id, entry in stored.items():
            content = filled[id]
            if isinstance(content, str):
                reasons.append((entry.key, self.key, content, reason_checksum(id, content)))
            else:
                vectors.append((entry.key, id, content))
        self._connection.executemany("INSERT INTO next_no_vector VALUES (?, ?, ?, ?)", reasons)
        checksums = [*self._put_vectors("next_vectors", vectors), *(row[3] for row in reasons)]
        self._next_tally = add_checksums(self._next_tally, *checksums)
        self._filled = bool(stored)
        return len(stored)

    def remove(self, ids: Iterable[str], *, erase: bool = False) -> int:
        """Remove entries; return how many there were. With *erase* unused terms are removed too."""
        stored = stored_entries_by_id(self._connection, self._name, ids)
        keys = [(entry.key,) for entry in stored.values()]
        for id, entry in stored.items():
            self._next_revision(entry.key, removed=id)
            self._tally = add_checksums(self._tally, -entry.checksum)
            self._drop_vector_checksum(entry)
        self._forget_next(stored.values())
        for table in ("forward", "vectors", "entries"):
            self._connection.executemany(f"DELETE FROM {table} WHERE key = ?", keys)
        self._entries -= len(stored)
        if erase:
            remove_unused_terms(self._connection, self.key)
        return len(stored)

    def finish(self) -> None:
        """Write the change log and the namespace's own row."""
        if not self._log and not self._filled:
            if self._created:
                self._connection.execute("DELETE FROM namespaces WHERE key = ?", (self.key,))
            return
        self._connection.executemany("INSERT INTO changes VALUES (?, ?, ?, ?)", self._log)
        self._shorten_log(2)
        tallies = self._tally, self._vector_tally, self._next_tally
        self._connection.execute(
            "UPDATE namespaces SET revision = ?, entries = ?, pruned = ?, tally = ?, vector_tally = ?, next_tally = ?,"
            " next_term = ? WHERE key = ?",
            (self._revision, self._entries, self._pruned, *tallies, self._next_term, self.key),
        )
        self._log.clear()

    def compact(self) -> None:
        """Remove unused terms, and shorten the change log."""
        remove_unused_terms(self._connection, self.key)
        self._shorten_log(1)
        self._connection.execute("UPDATE namespaces SET pruned = ? WHERE key = ?", (self._pruned, self.key))

    def _shorten_log(self, times: int) -> None:
        """Shorten a log *times* as long as needed: to a thousand changes, or half the number of entries if more."""
        keep = max(KEPT_CHANGES, self._entries // 2)
        if self._revision - self._pruned > times * keep:
            self._pruned = self._revision - keep
            self._connection.execute(
                "DELETE FROM changes WHERE namespace = ? AND revision <= ?", (self.key, self._pruned)
            )

    def _next_revision(self, key: int, *, removed: str | None = None) -> int:
        self._revision += 1
        self._log.append((self.key, self._revision, key, removed))
        return self._revision

    def _reserve_keys(self, count: int) -> int:
        if not count:
            return 0
        (first,) = fetch_one(self._connection, self._connection.dialect.next_keys, (count,))
        return int(first)

    def _put_vectors(self, table: str, vectors: Sequence[tuple[int, str, Vector]]) -> list[int]:
        """Write *vectors* (key, id, vector) to *table*, and return their checksums."""
        if not vectors:
            return []
        norms = row_norms(np.stack([vector for _, _, vector in vectors])).tolist()
        blobs = [VectorBytes(vector.astype("<f4", copy=False)) for _, _, vector in vectors]
        rows = [
            (key, self.key, norm, vector_checksum(id, blob), blob)
            for (key, id, _), norm, blob in zip(vectors, norms, blobs, strict=True)
        ]
        self._connection.executemany(_INSERT_VECTOR_SQL.format(table), rows)
        return [row[3] for row in rows]

    def _stored(self, ids: Collection[str], expect: Mapping[str, int]) -> dict[str, StoredEntry]:
        """Return those of *ids* that are stored, in this order; raise where a revision is not the expected one."""
        stored = stored_entries_by_id(self._connection, self._name, _with_expected(ids, expect))
        for id, expected in expect.items():
            actual = stored[id].revision if id in stored else 0
            if actual != expected:
                raise RevisionConflict(id, self._name, expected, actual)
        return {id: stored[id] for id in ids if id in stored}

    def _drop_vector_checksum(self, stored: StoredEntry) -> None:
        if stored.vector_checksum is not None:
            self._vector_tally = add_checksums(self._vector_tally, -stored.vector_checksum)

    def _forget_next(self, entries: Iterable[StoredEntry]) -> None:
        """Delete the vectors and reasons of entries in the space being filled."""
        checksums = [(entry.key, entry.next_checksum) for entry in entries if entry.next_checksum is not None]
        for table in _MIGRATION_TABLES if checksums else ():
            self._connection.executemany(f"DELETE FROM {table} WHERE key = ?", ((key,) for key, _ in checksums))
        self._next_tally = add_checksums(self._next_tally, *(-checksum for _, checksum in checksums))

    def _rewrite(self, id: str, stored: StoredEntry, changes: Mapping[str, Any], *, has_vector: bool) -> None:
        """Change columns of an entry's row, and its checksum."""
        row = fetch_one(
            self._connection, f"SELECT {', '.join(_CONTENT_COLUMNS)} FROM entries WHERE key = ?", (stored.key,)
        )
        content = {**dict(zip(_CONTENT_COLUMNS, row, strict=True)), **changes}
        checksum = entry_checksum(id, **content, has_vector=has_vector)
        self._tally = add_checksums(self._tally, checksum, -stored.checksum)
        self._connection.execute(
            "UPDATE entries SET revision = ?, metadata = ?, no_vector = ?, checksum = ? WHERE key = ?",
            (content["revision"], content["metadata"], content["no_vector"], checksum, stored.key),
        )


def _with_expected(ids: Iterable[str], expected: Mapping[str, int]) -> list[str]:
    """Return *ids* and those that are expected, each once, in an order that is the same every time."""
    return list(dict.fromkeys((*ids, *expected)))
