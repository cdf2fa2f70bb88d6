"""Entries written to the file: rows, vectors, terms and their dictionary, checksums, tally and change log.

All of it happens in the caller's write transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice

import numpy as np

from vectorstore.analyzer import Analyzer
from vectorstore.database import Connection
from vectorstore.distance import row_norms
from vectorstore.errors import RevisionConflict
from vectorstore.index.bm25 import analyze_text, distinct_term_numbers
from vectorstore.sqlite.connection import fetch_all, fetch_first, fetch_one, iterate_rows, json_array
from vectorstore.sqlite.entry_reader import StoredEntry, stored_entries_by_id
from vectorstore.sqlite.integrity import add_checksums, entry_checksum, reason_checksum, vector_checksum
from vectorstore.types import Vector
from vectorstore.validation import CheckedEntry

_PAGE_SIZE = 1000


class TermDictionary:
    """Numbers terms from *next_number* on, which the caller keeps; ``numbers`` knows those that were asked for."""

    def __init__(self, connection: Connection, namespace: int, *, next_number: int) -> None:
        self._connection = connection
        self._namespace = namespace
        self.numbers: dict[str, int] = {}
        self.next_number = next_number

    def intern(self, terms: Set[str]) -> None:
        """Make sure that each of *terms* has a number."""
        unknown = sorted(terms - self.numbers.keys())
        if not unknown:
            return
        known = iterate_rows(
            self._connection,
            "SELECT t.term, t.number FROM json_each(?) AS wanted"
            " CROSS JOIN terms AS t ON t.namespace = ? AND t.term = wanted.value",
            (json_array(unknown), self._namespace),
        )
        self.numbers.update(dict(known))
        fresh = [term for term in unknown if term not in self.numbers]
        for term in fresh:
            self.numbers[term] = self.next_number
            self.next_number += 1
        self._connection.executemany(
            "INSERT INTO terms (namespace, number, term) VALUES (?, ?, ?)",
            ((self._namespace, self.numbers[term], term) for term in fresh),
        )


def remove_unused_terms(connection: Connection, namespace: int) -> None:
    """Remove the terms that no entry of the namespace uses any more, those of overwritten and deleted texts too."""
    known = fetch_all(connection, "SELECT number FROM terms WHERE namespace = ?", (namespace,))
    unused = np.array([number for (number,) in known], dtype=np.int32)
    rows = iterate_rows(connection, "SELECT sequence FROM forward WHERE namespace = ?", (namespace,))
    while unused.size and (page := list(islice(rows, _PAGE_SIZE))):
        used = distinct_term_numbers(np.frombuffer(blob, dtype="<i4") for (blob,) in page)
        unused = np.setdiff1d(unused, used, assume_unique=True)
    connection.executemany(
        "DELETE FROM terms WHERE namespace = ? AND number = ?",
        ((namespace, number) for number in unused.tolist()),
    )


KEPT_CHANGES = 1000
_NAMESPACE_SQL = (
    "SELECT key, revision, entries, pruned, tally, vector_tally, next_tally, next_term FROM namespaces WHERE name = ?"
)
_INSERT_VECTOR_SQL = (
    "INSERT INTO {} (key, namespace, norm, checksum, vector) VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE"
    " SET norm = excluded.norm, checksum = excluded.checksum, vector = excluded.vector"
)
_MIGRATION_TABLES = ("next_vectors", "next_no_vector")


class NamespaceWriter:
    """Writer of one namespace in one write transaction; ``finish`` before the transaction ends."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        found = fetch_first(connection, _NAMESPACE_SQL, (name,))
        self._created = found is None
        if self._created:
            connection.execute("INSERT INTO namespaces (name) VALUES (?)", (name,))
        row = found or fetch_one(connection, _NAMESPACE_SQL, (name,))
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

    def expect(self, expect: Mapping[str, int], stored: Mapping[str, StoredEntry]) -> None:
        """Raise where an entry is not at the revision that is expected."""
        for id, expected in expect.items():
            actual = stored[id].revision if id in stored else 0
            if actual != expected:
                raise RevisionConflict(id, self._name, expected, actual)

    def write(self, batch: Sequence[CheckedEntry], expect: Mapping[str, int], analyzer: Analyzer) -> int:
        """Write checked entries, each id once; return how many."""
        stored = stored_entries_by_id(self._connection, self.key, {*(checked.id for checked in batch), *expect})
        self.expect(expect, stored)
        next_key = self._reserve_keys(sum(checked.id not in stored for checked in batch))
        rows, vectors, replaced = [], [], []
        lengths = _vector_norms([checked.vector for checked in batch if checked.vector is not None])
        for checked in batch:
            before = stored.get(checked.id)
            if before is None:
                key, next_key = next_key, next_key + 1
                self._entries += 1
            else:
                key = before.key
                self._tally = add_checksums(self._tally, -before.checksum)
                self._drop_vector_checksum(before)
            content = (
                checked.id,
                self._next_revision(key),
                checked.text,
                checked.context,
                checked.metadata,
                checked.no_vector,
            )
            rows.append((key, self.key, *content, entry_checksum(*content, has_vector=checked.vector is not None)))
            if checked.vector is not None:
                vectors.append(self._vector_row(key, checked.id, checked.vector, next(lengths)))
            elif before is not None and before.vector_checksum is not None:
                replaced.append((key,))
        self._tally = add_checksums(self._tally, *(row[-1] for row in rows))
        self._vector_tally = add_checksums(self._vector_tally, *(row[3] for row in vectors))
        self._connection.executemany(
            "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET"
            " revision = excluded.revision, text = excluded.text, context = excluded.context,"
            " metadata = excluded.metadata, no_vector = excluded.no_vector, checksum = excluded.checksum",
            rows,
        )
        self._connection.executemany(_INSERT_VECTOR_SQL.format("vectors"), vectors)
        if replaced:
            self._connection.executemany("DELETE FROM vectors WHERE key = ?", replaced)
        if stored:
            self._forget_next(stored[checked.id] for checked in batch if checked.id in stored)
        self._write_terms(batch, [row[0] for row in rows], analyzer)
        return len(batch)

    def patch(self, metadata: Mapping[str, str], expect: Mapping[str, int]) -> int:
        """Replace the metadata (JSON text) of entries; return how many there were."""
        stored = stored_entries_by_id(self._connection, self.key, {*metadata, *expect})
        self.expect(expect, stored)
        present = [id for id in metadata if id in stored]
        for id in present:
            self._rewrite(id, stored[id], metadata=metadata[id], revision=self._next_revision(stored[id].key))
        return len(present)

    def put_vectors(self, vectors: Mapping[str, Vector], expect: Mapping[str, int]) -> int:
        """Give entries their vectors; return how many there were."""
        stored = stored_entries_by_id(self._connection, self.key, {*vectors, *expect})
        self.expect(expect, stored)
        present = [id for id in vectors if id in stored]
        for id in present:
            self._next_revision(stored[id].key)
            self._rewrite(id, stored[id], clear_reason=True)
            self._drop_vector_checksum(stored[id])
            row = self._vector_row(stored[id].key, id, vectors[id], next(_vector_norms([vectors[id]])))
            self._vector_tally = add_checksums(self._vector_tally, row[3])
            self._connection.execute(_INSERT_VECTOR_SQL.format("vectors"), row)
        return len(present)

    def fill(self, filled: Mapping[str, Vector | str], expect: Mapping[str, int]) -> int:
        """Give entries a vector of the space being filled, or a reason for none; return how many there were."""
        stored = stored_entries_by_id(self._connection, self.key, {*filled, *expect})
        self.expect(expect, stored)
        present = [id for id in filled if id in stored]
        self._forget_next(stored[id] for id in present)
        vectors, reasons, checksums = [], [], []
        for id in present:
            key, vector = stored[id].key, filled[id]
            if isinstance(vector, str):
                checksums.append(reason_checksum(id, vector))
                reasons.append((key, self.key, vector, checksums[-1]))
            else:
                vectors.append(self._vector_row(key, id, vector, next(_vector_norms([vector]))))
                checksums.append(vectors[-1][3])
        self._connection.executemany(_INSERT_VECTOR_SQL.format("next_vectors"), vectors)
        self._connection.executemany("INSERT INTO next_no_vector VALUES (?, ?, ?, ?)", reasons)
        self._next_tally = add_checksums(self._next_tally, *checksums)
        self._filled = bool(present)
        return len(present)

    def remove(self, ids: Iterable[str], *, erase: bool = False) -> int:
        """Remove entries; return how many there were. *erase*: and terms that nothing uses any more."""
        stored = stored_entries_by_id(self._connection, self.key, ids)
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
        self._connection.execute(
            "UPDATE namespaces SET revision = ?, entries = ?, pruned = ?, tally = ?, vector_tally = ?, next_tally = ?,"
            " next_term = ? WHERE key = ?",
            (
                *(self._revision, self._entries, self._pruned),
                *(self._tally, self._vector_tally, self._next_tally),
                *(self._next_term, self.key),
            ),
        )
        self._log.clear()

    def compact(self) -> None:
        """Remove the terms that no entry has, and what the change log need not keep."""
        remove_unused_terms(self._connection, self.key)
        self._shorten_log(1)
        self._connection.execute("UPDATE namespaces SET pruned = ? WHERE key = ?", (self._pruned, self.key))

    def _shorten_log(self, times: int) -> None:
        """Keep a thousand changes, or half as many as there are entries; only when it is *times* as long."""
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
        (after,) = fetch_one(
            self._connection,
            "INSERT INTO store_facts VALUES ('next_key', ?) ON CONFLICT (name) DO UPDATE"
            " SET value = CAST(CAST(value AS INTEGER) + ? AS TEXT) RETURNING value",
            (str(1 + count), count),
        )
        return int(after) - count

    def _vector_row(self, key: int, id: str, vector: Vector, norm: float) -> tuple[int, int, float, int, bytes]:
        blob = vector.astype("<f4", copy=False).tobytes()
        return key, self.key, norm, vector_checksum(id, blob), blob

    def _drop_vector_checksum(self, stored: StoredEntry | None) -> None:
        if stored is not None and stored.vector_checksum is not None:
            self._vector_tally = add_checksums(self._vector_tally, -stored.vector_checksum)

    def _forget_next(self, entries: Iterable[StoredEntry]) -> None:
        """Drop what entries have in the space that is being filled."""
        checksums = [(entry.key, entry.next_checksum) for entry in entries if entry.next_checksum is not None]
        for table in _MIGRATION_TABLES if checksums else ():
            self._connection.executemany(f"DELETE FROM {table} WHERE key = ?", ((key,) for key, _ in checksums))
        self._next_tally = add_checksums(self._next_tally, *(-checksum for _, checksum in checksums))

    def _rewrite(
        self,
        id: str,
        stored: StoredEntry,
        *,
        metadata: str | None = None,
        revision: int | None = None,
        clear_reason: bool = False,
    ) -> None:
        row = fetch_one(
            self._connection,
            "SELECT revision, text, context, metadata, no_vector FROM entries WHERE key = ?",
            (stored.key,),
        )
        content = (
            row[0] if revision is None else revision,
            row[1],
            row[2],
            row[3] if metadata is None else metadata,
            None if clear_reason else row[4],
        )
        has_vector = clear_reason or stored.vector_checksum is not None
        checksum = entry_checksum(id, *content, has_vector=has_vector)
        self._tally = add_checksums(self._tally, checksum, -stored.checksum)
        self._connection.execute(
            "UPDATE entries SET revision = ?, metadata = ?, no_vector = ?, checksum = ? WHERE key = ?",
            (content[0], content[3], content[4], checksum, stored.key),
        )

    def _write_terms(self, batch: Sequence[CheckedEntry], keys: Sequence[int], analyzer: Analyzer) -> None:
        analysed = [analyze_text(analyzer, checked.text, checked.context) for checked in batch]
        dictionary = TermDictionary(self._connection, self.key, next_number=self._next_term)
        dictionary.intern(set().union(*(terms.distinct() for terms in analysed)))
        self._next_term = dictionary.next_number
        rows = []
        for key, terms in zip(keys, analysed, strict=True):
            sequence, context_length = terms.numbered(dictionary.numbers)
            rows.append((key, self.key, context_length, sequence.astype("<i4", copy=False).tobytes()))
        self._connection.executemany("INSERT OR REPLACE INTO forward VALUES (?, ?, ?, ?)", rows)


def _vector_norms(vectors: Sequence[Vector]) -> Iterator[float]:
    """The length of each of *vectors*, all worked out together."""
    if len(vectors) == 1:
        return iter(row_norms(vectors[0][np.newaxis]).tolist())
    return iter(row_norms(np.stack(vectors)).tolist() if vectors else ())
