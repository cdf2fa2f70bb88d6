"""In-memory indexes of a file's namespaces: filled from it when first needed, kept fresh by its change log.

Each call reads the namespace's write number. If it is higher, the changed rows are read, of other processes too, and
deleted ones are removed. Only committed rows are read, so a rollback needs no handling. Rows read lately are kept until
they change. Not thread-safe: the store locks.

SQL answers the first questions of a process, with the same result: a matrix, or a column of a field, takes longer to
load than a few scans.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore.database import Connection
from tellback.vectorstore.errors import DamageError
from tellback.vectorstore.index.bm25 import SENTENCE_END, ForwardBlock
from tellback.vectorstore.index.namespace_index import NamespaceIndex
from tellback.vectorstore.sqlite.connection import Row, fetch_all, fetch_first, fetch_one, iterate_rows, rows_of_keys
from tellback.vectorstore.sqlite.entry_reader import (
    check_tallies,
    parse_entry,
    rows_by_key,
    vector_blocks,
)
from tellback.vectorstore.sqlite.integrity import add_checksums
from tellback.vectorstore.types import Entry, Finding, Space

ROW_CACHE_BYTES: Final = 8 << 20
"""Approximate limit in bytes of the cache of a file's rows."""
_ROW_OVERHEAD: Final = 500
"""Bytes of a row beside its texts and its vector."""
_LARGEST_ROW: Final = ROW_CACHE_BYTES // 64


class RowCache:
    """Cache of the checked rows of one database by key, up to *limit* bytes: the first read are evicted first.

    Not thread-safe.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._rows: dict[int, Row] = {}
        self._bytes = 0

    def entries(self, connection: Connection, keys: Sequence[int]) -> list[Entry]:
        """Return the entries of *keys* in that order; each is a value of its own."""
        rows = {key: self._rows[key] for key in keys if key in self._rows}
        if missing := [key for key in keys if key not in rows]:
            fresh = rows_by_key(connection, missing)
            rows.update(fresh)
            self._keep(fresh.values())
        return [parse_entry(rows[key]) for key in keys]

    def forget(self, keys: Iterable[int]) -> None:
        """Drop rows that have changed."""
        for key in keys:
            if (row := self._rows.pop(key, None)) is not None:
                self._bytes -= _row_size(row)

    def clear(self) -> None:
        """Drop every row."""
        self._rows.clear()
        self._bytes = 0

    def _keep(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if _row_size(row) <= _LARGEST_ROW:
                self._rows[row[0]] = row
                self._bytes += _row_size(row)
        while self._bytes > self._limit:
            self.forget([next(iter(self._rows))])


def _row_size(row: Row) -> int:
    _, id, _, text, context, metadata, _, _, vector, _ = row
    return _ROW_OVERHEAD + len(id) + len(text) + len(context) + len(metadata) + len(vector or b"")


_RELOAD_SHARE = 0.5
_LOAD_BLOCK = 2048
_COLD_QUESTIONS: Final = 2
"""Questions by vector that the file answers before the matrix is loaded, which takes as long as three scans or more."""
_COLD_ENTRIES: Final = 1000
"""Fewer entries are loaded at once, in a few milliseconds."""
_COLD_FILTERS: Final = 8
"""Filters that the file answers before the columns are loaded, which takes as long as ten."""
_LOADED_LIMIT: Final = 1000
"""Namespaces of a process whose indexes stay in memory; of a small one it is about a hundred kilobytes."""
_ASKED_FIELDS: Final = 8
"""Limit of undeclared fields that become columns because filters use them often."""


@dataclass(frozen=True, slots=True)
class NamespaceHead:
    """Namespace as the read transaction sees it: key, write number, last pruned change, number of entries.

    *index* is what the home has recorded of an index for it beside its tables; None without one.
    """

    key: int
    revision: int
    pruned: int
    entries: int
    index: str | None


def read_namespace_head(connection: Connection, name: str) -> NamespaceHead | None:
    """Return the head of a namespace; None if it was never written."""
    columns = f"n.key, n.revision, n.pruned, n.entries, {connection.dialect.namespace_index}"
    row = fetch_first(connection, f"SELECT {columns} FROM namespaces AS n WHERE n.name = ?", (name,))
    if row is None:
        return None
    if not all(isinstance(value, int) for value in row[:-1]):
        raise DamageError([Finding("namespaces", "is not what was written", name)])
    return NamespaceHead(*row)


_MAX_TERMS: Final = 1 << 31
"""Term numbers are kept in 32 bits."""


@dataclass(slots=True)
class LoadedIndex:
    """Index of a namespace, with the write number and the term number up to which it was read."""

    key: int
    index: NamespaceIndex
    revision: int
    next_term: int = 1


class NamespaceIndexCache:
    """Indexes of one store by namespace. *fields* become columns. *recent* are rows in the state of the indexes.

    *columns* are *fields*, then those that filters of this process use often. *resident* is for a database in memory:
    SQL does not answer first questions, and no row is evicted.
    """

    def __init__(self, *, space: Space | None, fields: Sequence[str], resident: bool = False) -> None:
        self.space = space
        self.fields = self.columns = tuple(fields)
        self.resident = resident
        self.recent = RowCache(math.inf if resident else ROW_CACHE_BYTES)
        self._loaded: dict[str, LoadedIndex] = {}
        self._questions: Counter[str] = Counter()
        self._filters: Counter[tuple[str, frozenset[str]]] = Counter()
        self._checked: set[int] = set()

    def fresh(self, connection: Connection, name: str) -> LoadedIndex | None:
        """Return the index of a namespace in the state that *connection* sees; None if it was never written."""
        head = read_namespace_head(connection, name)
        if head is None:
            self._loaded.pop(name, None)
            return None
        loaded = self._loaded.get(name)
        if loaded is not None and (loaded.key != head.key or not head.pruned <= loaded.revision <= head.revision):
            self.forget(name)
            loaded = None
        try:
            moved = loaded is not None and loaded.revision != head.revision
            if loaded is None or (moved and not self._catch_up(connection, loaded, head)):
                loaded = self._loaded[name] = self._load(connection, head)
        except BaseException:
            self.forget(name)  # a part of the changes may be missing
            raise
        self._loaded[name] = self._loaded.pop(name)  # the one used last comes last
        while len(self._loaded) > _LOADED_LIMIT:
            self.forget_first()
        return loaded

    def forget_first(self) -> None:
        """Drop the index that was used the longest time ago."""
        del self._loaded[next(iter(self._loaded))]

    def make_room(self, needed: int, limit: int) -> None:
        """Drop the indexes that were used the longest time ago until a matrix of *needed* bytes more fits in *limit*.

        The one that was used last, which gets the matrix, stays.
        """
        while len(self._loaded) > 1 and self.matrix_bytes() + needed > limit:
            self.forget_first()

    def is_loaded(self, name: str) -> bool:
        """Return whether the index of a namespace is loaded, even if it is out of date."""
        return name in self._loaded

    def is_cold(self, name: str, entries: int, questions: int) -> bool:
        """Count *questions* by vector to a namespace of *entries*; return whether SQL is to answer them."""
        self._questions[name] += questions
        return not self.resident and entries >= _COLD_ENTRIES and self._questions[name] <= _COLD_QUESTIONS

    def are_columns_wanted(self, name: str, fields: frozenset[str]) -> bool:
        """Count a filter that needs unloaded columns; return whether columns of *fields* are to be loaded."""
        new = fields.difference(self.columns)
        self._filters[name, new] += 1
        is_cold = self._filters[name, new] <= _COLD_FILTERS and (new or not self.resident)
        if is_cold or len(self.columns) + len(new) > len(self.fields) + _ASKED_FIELDS:
            return False
        self.columns += tuple(sorted(new))
        return True

    def check_vectors(self, connection: Connection, name: str, key: int) -> None:
        """Raise, before the file answers for the first time, where entries or vectors of a namespace are missing."""
        if key not in self._checked:
            check_tallies(connection, key, entries=not self.is_loaded(name))
            self._checked.add(key)

    def forget(self, name: str | None = None) -> None:
        """Drop the index of a namespace, or all of them."""
        self.recent.clear()
        if name is None:
            self._loaded.clear()
        else:
            self._loaded.pop(name, None)

    def matrix_bytes(self) -> int:
        """Return the bytes of the loaded matrices."""
        width = 0 if self.space is None else 4 * self.space.dimension
        return sum(len(loaded.index) * width for loaded in self._loaded.values() if loaded.index.matrix is not None)

    def load_matrix(self, connection: Connection, loaded: LoadedIndex) -> None:
        """Fill the matrix of an index."""
        assert self.space is not None
        dimension, known = self.space.dimension, set(loaded.index.keys().tolist())

        def blocks() -> Iterator[tuple[list[int], NDArray[np.float32]]]:
            for keys, vectors in vector_blocks(connection, dimension, namespace=loaded.key):
                if not known.issuperset(keys):
                    raise DamageError([Finding("vectors", "one belongs to no entry")])
                yield keys, vectors

        loaded.index.load_matrix(blocks())

    def load_terms(self, connection: Connection, loaded: LoadedIndex) -> None:
        """Fill the terms of an index."""
        loaded.next_term = 1
        dictionary = _new_terms(connection, loaded)
        rows = iterate_rows(
            connection, "SELECT key, sequence, context_length FROM forward WHERE namespace = ?", (loaded.key,)
        )
        known = np.zeros(max(dictionary.values(), default=0) + 1, dtype=np.bool_)
        known[[SENTENCE_END, *dictionary.values()]] = True

        def all_known(numbers: NDArray[np.int32]) -> bool:
            return bool(numbers.min(initial=0) >= 0 and numbers.max(initial=0) < len(known) and known[numbers].all())

        blocks = []
        while block := list(islice(rows, _LOAD_BLOCK)):
            keys, sequences, contexts = zip(*block, strict=True)
            blocks.append(_forward_block(keys, sequences, contexts, all_known))
        _check_forward_keys([key for block in blocks for key in block.keys], loaded.index.keys().tolist())
        loaded.index.load_terms(dictionary, iter(blocks))

    def load_columns(self, connection: Connection, loaded: LoadedIndex) -> None:
        """Fill the columns of an index."""
        rows = iterate_rows(connection, "SELECT key, metadata FROM entries WHERE namespace = ?", (loaded.key,))
        metadata: dict[int, dict[str, Any]] = {}
        while block := list(islice(rows, _LOAD_BLOCK)):
            keys, texts = zip(*block, strict=True)
            metadata.update(zip(keys, self._columns(texts), strict=True))
        loaded.index.use_fields(self.columns, map(metadata.__getitem__, loaded.index.keys().tolist()))

    def _load(self, connection: Connection, head: NamespaceHead) -> LoadedIndex:
        """Return a new index with the rows of a namespace."""
        rows = fetch_all(connection, "SELECT key, id, checksum FROM entries WHERE namespace = ?", (head.key,))
        keys, ids, checksums = zip(*rows, strict=True) if rows else ((), (), ())
        index = NamespaceIndex(keys, ids, space=self.space)
        (tally,) = fetch_one(connection, "SELECT tally FROM namespaces WHERE key = ?", (head.key,))
        if (len(keys), add_checksums(0, *checksums)) != (head.entries, tally):
            raise DamageError([Finding("entries", f"{len(keys)} are not the {head.entries} that were written")])
        return LoadedIndex(head.key, index, head.revision)

    def _columns(self, metadata: Sequence[str]) -> Iterable[dict[str, Any]]:
        if not self.columns:
            return repeat({}, len(metadata))
        try:
            fields: list[dict[str, Any]] = json.loads("[" + ",".join(metadata) + "]")
        except (ValueError, TypeError) as error:
            raise DamageError([Finding("entries", "metadata are no JSON")]) from error
        return fields

    def _catch_up(self, connection: Connection, loaded: LoadedIndex, head: NamespaceHead) -> bool:
        """Apply the changes up to *head*; False where they are so many that the index is better loaded anew."""
        rows = fetch_all(
            connection,
            "SELECT DISTINCT key FROM changes WHERE namespace = ? AND revision > ?",
            (loaded.key, loaded.revision),
        )
        changed = [key for (key,) in rows]
        self.recent.forget(changed)
        if len(changed) > max(100, _RELOAD_SHARE * head.entries):
            return False
        self._apply(connection, loaded, changed)
        loaded.revision = head.revision
        return True

    def _apply(self, connection: Connection, loaded: LoadedIndex, changed: list[int]) -> None:
        index, entries = loaded.index, "entries AS e ON e.key = wanted.value"
        rows = [*rows_of_keys(connection, "e.key, e.id, e.metadata", entries, changed)]
        current = [key for key, _, _ in rows]
        for key in set(changed).difference(current):
            index.remove(key)
        metadata = self._columns([row[2] for row in rows]) if index.has_columns else repeat({}, len(rows))
        for (key, id, _), fields in zip(rows, metadata, strict=True):
            index.put_row(key, id, fields)
        if index.matrix is not None and self.space is not None:
            pending = set(current)
            for keys, vectors in vector_blocks(connection, self.space.dimension, keys=current):
                for key, vector in zip(keys, vectors, strict=True):
                    index.put_vector(key, vector)
                pending.difference_update(keys)
            for key in pending:
                index.put_vector(key, None)
        if index.has_terms:
            columns, terms = "f.key, f.sequence, f.context_length", "forward AS f ON f.key = wanted.value"
            forward = [*rows_of_keys(connection, columns, terms, changed)]
            _check_forward_keys([key for key, _, _ in forward], current)
            # read once, so only for a row that uses them: entries that were deleted again leave terms behind
            fresh = _new_terms(connection, loaded) if forward else {}
            new = {SENTENCE_END, *fresh.values()}
            for key, blob, length in forward:
                block = _forward_block(
                    [key], [blob], [length], lambda numbers: index.terms.known(set(numbers.tolist()) - new)
                )
                index.put_terms(key, block.numbers, length, fresh)


def _check_forward_keys(forward_keys: Sequence[int], keys: Collection[int]) -> None:
    """Raise when *forward_keys*, of the forward index, are not the *keys* of the entries."""
    if len(forward_keys) != len(keys) or set(forward_keys) != set(keys):
        raise DamageError([Finding("forward", "is not of the entries that are there; rebuild makes it again")])


def _forward_block(
    keys: Sequence[int],
    sequences: Sequence[bytes],
    contexts: Sequence[int],
    known: Callable[[NDArray[np.int32]], bool],
) -> ForwardBlock:
    """Return the sequences of *keys*; they have no checksums, so terms that are not *known* and wrong lengths raise."""
    try:
        numbers = np.frombuffer(b"".join(sequences), dtype="<i4")
        sizes = np.array([len(sequence) // 4 for sequence in sequences], dtype=np.int64)
        lengths = np.array(contexts, dtype=np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DamageError([Finding("forward", "is no sequence of terms; rebuild makes it again")]) from error
    if (lengths < 0).any() or (lengths > sizes).any():
        raise DamageError([Finding("forward", "has a context beyond its end; rebuild makes it again")])
    if not known(numbers):
        raise DamageError([Finding("forward", "uses a term that is not there; rebuild makes it again")])
    return ForwardBlock(keys, numbers, sizes, lengths.astype(np.int32))


def _new_terms(connection: Connection, loaded: LoadedIndex) -> dict[str, int]:
    rows = iterate_rows(
        connection, "SELECT term, number FROM terms WHERE namespace = ? AND number >= ?", (loaded.key, loaded.next_term)
    )
    fresh: dict[str, int] = dict(rows)
    (following,) = fetch_one(connection, "SELECT next_term FROM namespaces WHERE key = ?", (loaded.key,))
    typed = {*map(type, fresh)} <= {str} and {*map(type, fresh.values()), type(following)} == {int}
    if not typed or min(fresh.values(), default=1) < 1 or max(fresh.values(), default=0) >= min(following, _MAX_TERMS):
        raise DamageError([Finding("terms", "is no dictionary of terms; rebuild makes it again")])
    loaded.next_term = max(fresh.values(), default=loaded.next_term - 1) + 1
    return fresh
