"""In-memory indexes of a file's namespaces: filled from it when first needed, kept fresh by its change log.

Each call reads the namespace's write number; where it moved on, the changed rows are read, whoever wrote them, and what
was deleted goes. A rollback never arrives, since only committed rows are read. Rows that were read lately and were
whole are neither read nor checked again until they change. Not thread-safe: the store locks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, Final

import apsw
import numpy as np
from numpy.typing import NDArray

from vectorstore.errors import DamageError
from vectorstore.filters import FilterNode
from vectorstore.index.bm25 import SENTENCE_END, ForwardBlock
from vectorstore.index.namespace_index import NamespaceIndex
from vectorstore.index.vectors import Ranking
from vectorstore.index.view import filter_mask
from vectorstore.sqlite.connection import Row, fetch_all, fetch_first, fetch_one, iterate_rows
from vectorstore.sqlite.entry_reader import matching_keys, parse_entry, rows_by_key, vector_blocks
from vectorstore.sqlite.integrity import add_checksums
from vectorstore.sqlite.vector_sql import SqlVectorSearch, exact_scores_by_key
from vectorstore.types import Entry, Finding, Space, Vector

ROW_CACHE_BYTES: Final = 8 << 20
"""Bytes that are kept, about."""
_ROW_OVERHEAD: Final = 500
"""Bytes of a row beside its texts and its vector."""
_LARGEST_ROW: Final = ROW_CACHE_BYTES // 64


class RowCache:
    """The rows of one file by their key, those read longest ago going first. Not thread-safe."""

    def __init__(self) -> None:
        self._rows: dict[int, Row] = {}
        self._bytes = 0

    def entries(self, connection: apsw.Connection, keys: Sequence[int]) -> list[Entry]:
        """Return the entries of *keys* in that order; each is a value of its own."""
        found = {key: self._rows[key] for key in keys if key in self._rows}
        if missing := [key for key in keys if key not in found]:
            fresh = rows_by_key(connection, missing)
            found.update(fresh)
            self._keep(fresh.values())
        return [parse_entry(found[key]) for key in keys]

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
        while self._bytes > ROW_CACHE_BYTES:
            self.forget([next(iter(self._rows))])


def _row_size(row: Row) -> int:
    _, id, _, text, context, metadata, _, _, vector, _ = row
    return _ROW_OVERHEAD + len(id) + len(text) + len(context) + len(metadata) + len(vector or b"")


_RELOAD_SHARE = 0.5
_LOAD_BLOCK = 2048
_MAX_TERMS: Final = 1 << 31
"""Term numbers are kept in 32 bits."""


@dataclass(slots=True)
class LoadedIndex:
    """An index, and up to where it has read the file."""

    key: int
    index: NamespaceIndex
    revision: int
    next_term: int = 1


class NamespaceIndexCache:
    """The indexes of one store by namespace. *fields* become columns. *recent* are rows as the indexes have them."""

    def __init__(self, *, space: Space | None, fields: Sequence[str]) -> None:
        self.space = space
        self.fields = tuple(fields)
        self.recent = RowCache()
        self._loaded: dict[str, LoadedIndex] = {}

    def fresh(self, connection: apsw.Connection, name: str) -> LoadedIndex | None:
        """Return the index of a namespace in the state that *connection* sees; None if it was never written."""
        row = fetch_first(connection, "SELECT key, revision, pruned, entries FROM namespaces WHERE name = ?", (name,))
        if row is None:
            self._loaded.pop(name, None)
            return None
        if not all(isinstance(value, int) for value in row):
            raise DamageError([Finding("namespaces", "is not what was written", name)])
        key, revision, pruned, entries = row
        loaded = self._loaded.get(name)
        if loaded is not None and (loaded.key != key or not pruned <= loaded.revision <= revision):
            self.forget(name)
            loaded = None
        try:
            moved = loaded is not None and loaded.revision != revision
            if loaded is None or (moved and not self._catch_up(connection, loaded, revision, entries)):
                loaded = self._loaded[name] = self._load(connection, key, revision)
        except BaseException:
            self.forget(name)  # it is not what the file holds
            raise
        return loaded

    def forget(self, name: str | None = None) -> None:
        """Drop the index of a namespace, or all of them."""
        self.recent.clear()
        if name is None:
            self._loaded.clear()
        else:
            self._loaded.pop(name, None)

    def matrix_bytes(self) -> int:
        """Return how much the loaded matrices hold."""
        width = 0 if self.space is None else 4 * self.space.dimension
        return sum(len(loaded.index) * width for loaded in self._loaded.values() if loaded.index.matrix is not None)

    def load_matrix(self, connection: apsw.Connection, loaded: LoadedIndex) -> None:
        """Fill the matrix of an index."""
        assert self.space is not None
        dimension, known = self.space.dimension, set(loaded.index.keys().tolist())

        def blocks() -> Iterator[tuple[list[int], NDArray[np.float32]]]:
            for keys, vectors in vector_blocks(connection, dimension, namespace=loaded.key):
                if not known.issuperset(keys):
                    raise DamageError([Finding("vectors", "one belongs to no entry")])
                yield keys, vectors

        loaded.index.load_matrix(blocks())

    def load_terms(self, connection: apsw.Connection, loaded: LoadedIndex) -> None:
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

    def _load(self, connection: apsw.Connection, key: int, revision: int) -> LoadedIndex:
        """Return a new index with the rows of the namespace *key*."""
        column = "metadata" if self.fields else "''"
        rows = iterate_rows(connection, f"SELECT key, id, checksum, {column} FROM entries WHERE namespace = ?", (key,))
        keys: list[int] = []
        ids: list[str] = []
        total = 0

        def metadata() -> Iterator[dict[str, Any]]:
            nonlocal total
            while block := list(islice(rows, _LOAD_BLOCK)):
                some_keys, some_ids, checksums, texts = zip(*block, strict=True)
                keys.extend(some_keys)
                ids.extend(some_ids)
                total = add_checksums(total, *checksums)
                yield from self._columns(texts)

        index = NamespaceIndex(space=self.space, fields=self.fields)
        index.load_rows(keys, ids, metadata())
        entries, tally = fetch_one(connection, "SELECT entries, tally FROM namespaces WHERE key = ?", (key,))
        if (len(keys), total) != (entries, tally):
            raise DamageError([Finding("entries", f"{len(keys)} are not the {entries} that were written")])
        return LoadedIndex(key, index, revision)

    def _columns(self, metadata: Sequence[str]) -> Iterable[dict[str, Any]]:
        if not self.fields:
            return repeat({}, len(metadata))
        try:
            fields: list[dict[str, Any]] = json.loads("[" + ",".join(metadata) + "]")
        except (ValueError, TypeError) as error:
            raise DamageError([Finding("entries", "metadata are no JSON")]) from error
        return fields

    def _catch_up(self, connection: apsw.Connection, loaded: LoadedIndex, revision: int, entries: int) -> bool:
        """Apply the changes up to *revision*; False where they are so many that the index is better loaded anew."""
        rows = fetch_all(
            connection,
            "SELECT DISTINCT key FROM changes WHERE namespace = ? AND revision > ?",
            (loaded.key, loaded.revision),
        )
        changed = [key for (key,) in rows]
        self.recent.forget(changed)
        if len(changed) > max(100, _RELOAD_SHARE * entries):
            return False
        self._apply(connection, loaded, changed)
        loaded.revision = revision
        return True

    def _apply(self, connection: apsw.Connection, loaded: LoadedIndex, changed: list[int]) -> None:
        index, changed_json = loaded.index, json.dumps(changed)
        rows = fetch_all(
            connection,
            "SELECT e.key, e.id, e.metadata FROM json_each(?) AS wanted"
            " CROSS JOIN entries AS e ON e.key = wanted.value",
            (changed_json,),
        )
        current = [key for key, _, _ in rows]
        for key in set(changed).difference(current):
            index.remove(key)
        for (key, id, _), fields in zip(rows, self._columns([row[2] for row in rows]), strict=True):
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
            forward = fetch_all(
                connection,
                "SELECT f.key, f.sequence, f.context_length FROM json_each(?) AS wanted"
                " CROSS JOIN forward AS f ON f.key = wanted.value",
                (changed_json,),
            )
            _check_forward_keys([key for key, _, _ in forward], current)
            # asked for once, so only where a row takes them in: what came and went again leaves its terms behind
            fresh = _new_terms(connection, loaded) if forward else {}
            new = {SENTENCE_END, *fresh.values()}
            for key, blob, length in forward:
                block = _forward_block(
                    [key], [blob], [length], lambda numbers: index.terms.known(set(numbers.tolist()) - new)
                )
                index.put_terms(key, block.numbers, length, fresh)


def _check_forward_keys(found: Sequence[int], keys: Collection[int]) -> None:
    """Raise when the terms that were *found* are not those of the entries *keys*."""
    if len(found) != len(keys) or set(found) != set(keys):
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


def _new_terms(connection: apsw.Connection, loaded: LoadedIndex) -> dict[str, int]:
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


class SqliteNamespaceReader:
    """Implements ``Reader`` over a read transaction. Matrices together stay within *matrix_limit* bytes."""

    def __init__(
        self, connection: apsw.Connection, indexes: NamespaceIndexCache, loaded: LoadedIndex, *, matrix_limit: int
    ) -> None:
        self._connection = connection
        self._indexes = indexes
        self._loaded = loaded
        self.matrix_limit = matrix_limit

    def rows(self) -> NamespaceIndex:
        """The index with rows and columns."""
        return self._loaded.index

    def words(self) -> NamespaceIndex:
        """The index with its terms loaded."""
        if not self._loaded.index.has_terms:
            self._indexes.load_terms(self._connection, self._loaded)
        return self._loaded.index

    def cursor(self) -> int:
        """The namespace's write number."""
        return self._loaded.revision

    def entries(self, keys: Sequence[int]) -> list[Entry]:
        """The entries of *keys*."""
        return self._indexes.recent.entries(self._connection, keys)

    def passing(self, where: FilterNode) -> NDArray[np.bool_]:
        """Return which rows pass, by SQL."""
        return self._loaded.index.mask_of(matching_keys(self._connection, self._loaded.key, where))

    def nearest(
        self, queries: NDArray[np.float32], k: int, where: FilterNode, min_score: float | None, *, fast: bool
    ) -> list[Ranking]:
        """The k nearest of each query, from memory where the matrix fits and else by SQL."""
        if not self._in_memory():
            assert self._indexes.space is not None
            search = SqlVectorSearch(self._connection, self._indexes.space, self._loaded.key, where)
            return [search.nearest(query, k, min_score) for query in queries]
        mask = filter_mask(self, where)
        return self._loaded.index.nearest(queries, k, mask=mask, min_score=min_score, fast=fast)

    def similarity(self, query: Vector, keys: Sequence[int]) -> NDArray[np.float64]:
        """Exact scores of *keys*."""
        if self._in_memory():
            return self._loaded.index.similarity(query, keys)
        assert self._indexes.space is not None
        return exact_scores_by_key(self._connection, self._indexes.space, query, list(keys))

    def _in_memory(self) -> bool:
        index, space = self._loaded.index, self._indexes.space
        if space is None:
            return True
        needed = 4 * space.dimension * len(index)
        if index.matrix is not None:
            return needed <= self.matrix_limit
        if self._indexes.matrix_bytes() + needed > self.matrix_limit:
            return False
        self._indexes.load_matrix(self._connection, self._loaded)
        return True
