"""The index cache in the memory's file: a component of the same database as the store.

recall_states     by the store's namespace: the fingerprint of the extraction, and the position of the change log
recall_segments   segments by number: the ids as a JSON list, the removed ids, and the columns

Everything can be derived again from the entries: damage, or changed extraction rules, cost time and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b

from memory.retrieval.index.index_cache import (
    DamagedSegment,
    IndexSegment,
    decode_batch,
    encode_batch,
    merge_segments,
    remove_ids,
    surviving_rows,
)
from memory.retrieval.index.record_batch import RecordBatch
from vectorstore import Changes, Connection, Cursor, Database, Finding, VectorStoreError

_MAX_SEGMENT_ROWS = 4096
"""Rows of a segment: what is read and written to take one memory out of it."""


class SqliteIndexCache:
    """``IndexCache`` in a database's file; *changes* are those of the store in it (``LifecycleStore.changes``)."""

    def __init__(self, database: Database, changes: Callable[[Cursor], Changes]) -> None:
        self._database = database
        self._changes = changes
        database.attach(IndexCacheTables())

    def load(self, namespace: str, basis: str, take: Callable[[RecordBatch], object]) -> int | None:
        """As ``IndexCache.load``."""
        with self._database.read() as connection:
            state = _read_state(connection, namespace)
            if state is None or state[0] != basis:
                return None
            try:
                said = _segment_ids(connection, namespace)
                rows = surviving_rows([(ids, removed) for _, ids, removed in said])
                for (number, _, _), left in zip(said, rows, strict=True):
                    columns = _read_segment(connection, namespace, number).columns
                    take(columns if left is None else columns.taken(left))
            except DamagedSegment:
                return None
        return state[1]

    def save(
        self,
        namespace: str,
        basis: str,
        segments: Sequence[IndexSegment],
        *,
        since: int | None,
        position: int,
        unchanged: Callable[[], bool],
    ) -> bool:
        """As ``IndexCache.save``."""
        if self._database.read_only or self._database.in_write():
            return False
        try:
            with self._database.write(wait=False) as connection:
                state = _read_state(connection, namespace)
                if since is not None and (state is None or state[0] != basis or state[1] < since):
                    return False
                if not unchanged():
                    return False
                if since is None:
                    _delete_namespace(connection, namespace)
                for segment in _group_segments(_drop_overruled_rows(segments)):
                    _append_segment(connection, namespace, segment)
                _write_state(connection, namespace, basis, position)
        except (VectorStoreError, DamagedSegment):  # busy, full, damaged: the answer that it was derived for stands
            return False
        return True

    def let_go(self, names: Sequence[str]) -> int:
        """Take what is no more out of the segments of the store's namespaces *names*, with every word of it.

        Inside the transaction that erased it. Returns how many rows went.
        """
        count = 0
        with self._database.write() as connection:
            for name in names:
                state = _read_state(connection, name)
                if state is not None:
                    count += self._clean(connection, name, state[1])
        return count

    def clear(self, prefix: str) -> int:
        """Let go of all namespaces of the store that begin with *prefix*; return how many rows went."""
        with self._database.write() as connection:
            names = [name for name in _cached_namespaces(connection) if name.startswith(prefix)]
            return sum([_delete_namespace(connection, name) for name in names])

    def names(self, prefix: str) -> list[str]:
        """Return the namespaces of the store that begin with *prefix* and have segments."""
        with self._database.read() as connection:
            return [name for name in _cached_namespaces(connection) if name.startswith(prefix)]

    def _clean(self, connection: Connection, name: str, position: int) -> int:
        changes = self._changes(Cursor(name, position))
        if not changes.complete:
            return _delete_namespace(connection, name)
        gone, count = {*changes.written, *changes.removed}, 0
        try:
            for number, ids, removed in reversed(_segment_ids(connection, name)):
                if not gone.isdisjoint(ids) or not gone.isdisjoint(removed):
                    left = remove_ids(_read_segment(connection, name, number), gone)
                    _write_segment(connection, name, number, left)
                    count += len(ids) - len(left.columns)
                gone.update(ids, removed)
        except DamagedSegment:
            return count + _delete_namespace(connection, name)
        return count


class IndexCacheTables:
    """The tables as a component of a database."""

    name = "recall"

    @property
    def migrations(self) -> Sequence[Callable[[Connection], None]]:
        """What has been done to the tables, in order."""
        return (m001_index_cache,)

    def verify(self, connection: Connection) -> list[Finding]:
        """Look whether each segment is whole."""
        return [
            Finding(self.name, "what recall derived is not whole", name) for name in _damaged_namespaces(connection)
        ]

    def rebuild(self, connection: Connection) -> None:
        """Drop it; recall derives it again."""
        for name in _cached_namespaces(connection):
            _delete_namespace(connection, name)

    def salvage(self, source: Connection, target: Connection) -> int:
        """Copy nothing: it is derived."""
        return 0


def m001_index_cache(connection: Connection) -> None:
    """Make the tables."""
    connection.execute(
        "CREATE TABLE recall_states ("
        " namespace TEXT PRIMARY KEY, basis TEXT NOT NULL, position INTEGER NOT NULL) STRICT, WITHOUT ROWID"
    )
    connection.execute(
        "CREATE TABLE recall_segments ("
        " namespace TEXT NOT NULL, number INTEGER NOT NULL, size INTEGER NOT NULL,"
        " ids TEXT NOT NULL, removed TEXT NOT NULL, columns BLOB NOT NULL, checksum BLOB NOT NULL,"
        " PRIMARY KEY (namespace, number)) STRICT"
    )


def _append_segment(connection: Connection, namespace: str, segment: IndexSegment) -> None:
    """Put *segment* behind those that are there, joined with smaller ones before it while that pays."""
    parts, size, last = [segment], len(segment.columns), 0
    for number, count in _segment_sizes(connection, namespace):
        if count > 2 * size or count + size > _MAX_SEGMENT_ROWS:
            last = number
            break
        parts.insert(0, _read_segment(connection, namespace, number))
        size += count
        connection.execute("DELETE FROM recall_segments WHERE namespace = ? AND number = ?", (namespace, number))
    whole = merge_segments(parts)
    if whole.removed:  # of no use where no segment has their rows, and an id that was forgotten must stand nowhere
        there = {id for number, ids, _ in _segment_ids(connection, namespace) if number <= last for id in ids}
        whole = IndexSegment(whole.columns, whole.removed & there)
    _write_segment(connection, namespace, last + 1, whole)


def _drop_overruled_rows(segments: Sequence[IndexSegment]) -> list[IndexSegment]:
    """Return *segments* without rows that a later one overrules: what was erased before it was kept is not written."""
    rows = surviving_rows([(one.columns.ids, one.removed) for one in segments])
    return [
        one if left is None else IndexSegment(one.columns.taken(left), one.removed)
        for one, left in zip(segments, rows, strict=True)
    ]


def _group_segments(segments: Sequence[IndexSegment]) -> Iterator[IndexSegment]:
    """Yield what *segments* say in segments that are as large as may be."""
    group: list[IndexSegment] = []
    size = 0
    for segment in segments:
        if group and size + len(segment.columns) > _MAX_SEGMENT_ROWS:
            yield merge_segments(group)
            group, size = [], 0
        group.append(segment)
        size += len(segment.columns)
    if group:
        yield merge_segments(group)


def _write_segment(connection: Connection, namespace: str, number: int, segment: IndexSegment) -> None:
    columns = segment.columns
    parts = (json.dumps(columns.ids), json.dumps(sorted(segment.removed)), encode_batch(columns))
    connection.execute(
        "INSERT OR REPLACE INTO recall_segments VALUES (?, ?, ?, ?, ?, ?, ?)",
        (namespace, number, len(columns), *parts, _checksum(namespace, *parts)),
    )


def _read_state(connection: Connection, namespace: str) -> tuple[str, int] | None:
    row = connection.execute("SELECT basis, position FROM recall_states WHERE namespace = ?", (namespace,)).fetchone()
    return None if row is None else (str(row[0]), int(row[1]))


def _write_state(connection: Connection, namespace: str, basis: str, position: int) -> None:
    connection.execute("INSERT OR REPLACE INTO recall_states VALUES (?, ?, ?)", (namespace, basis, position))


def _cached_namespaces(connection: Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT namespace FROM recall_states ORDER BY namespace")]


def _segment_sizes(connection: Connection, namespace: str) -> list[tuple[int, int]]:
    """Return number and size of each segment, the last one first."""
    rows: Iterable[tuple[int, int]] = connection.execute(
        "SELECT number, size FROM recall_segments WHERE namespace = ? ORDER BY number DESC", (namespace,)
    )
    return list(rows)


def _segment_ids(connection: Connection, namespace: str) -> list[tuple[int, tuple[str, ...], frozenset[str]]]:
    """Return the number, the ids and the ids that went of each segment, in order."""
    rows = connection.execute(
        "SELECT number, ids, removed FROM recall_segments WHERE namespace = ? ORDER BY number", (namespace,)
    )
    return [(number, _parse_ids(ids), frozenset(_parse_ids(removed))) for number, ids, removed in rows]


def _read_segment(connection: Connection, namespace: str, number: int) -> IndexSegment:
    row = connection.execute(
        "SELECT ids, removed, columns, checksum FROM recall_segments WHERE namespace = ? AND number = ?",
        (namespace, number),
    ).fetchone()
    if row is None:
        raise DamagedSegment(f"there is no segment {number}")
    ids, removed, columns, checksum = row
    if _checksum(namespace, ids, removed, columns) != checksum:
        raise DamagedSegment(f"segment {number} is not what was written")
    return IndexSegment(decode_batch(columns, _parse_ids(ids)), frozenset(_parse_ids(removed)))


def _checksum(namespace: str, ids: str, removed: str, columns: bytes) -> bytes:
    digest = blake2b(digest_size=16, person=b"recall segment")
    for part in (namespace.encode(), ids.encode(), removed.encode(), columns):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


def _parse_ids(json_list: str) -> tuple[str, ...]:
    try:
        found = json.loads(json_list)
    except ValueError as error:
        raise DamagedSegment("its ids are no list") from error
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise DamagedSegment("its ids are no texts")
    return tuple(found)


def _delete_namespace(connection: Connection, namespace: str) -> int:
    """Remove all of a namespace; return how many rows that were."""
    sizes = [size for _, size in _segment_sizes(connection, namespace)]
    connection.execute("DELETE FROM recall_segments WHERE namespace = ?", (namespace,))
    connection.execute("DELETE FROM recall_states WHERE namespace = ?", (namespace,))
    return sum(sizes)


def _damaged_namespaces(connection: Connection) -> list[str]:
    """Return the namespaces of which a segment cannot be read."""
    found = []
    for name in _cached_namespaces(connection):
        try:
            for number, _, _ in _segment_ids(connection, name):
                _read_segment(connection, name, number)
        except DamagedSegment:
            found.append(name)
    return found
