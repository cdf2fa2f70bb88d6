"""The cache of retrieval indexes in the memory's database: segments of record batches, and their encoding as bytes.

The segments of a namespace together are its records at one position of its change log; later changes are derived from
the entries. So the cache may be late or incomplete, and is never wrong. Everything can be derived again from the
entries: damage, or changed extraction rules, cost time and nothing else.

recall_states     by the store's namespace: the fingerprint of the extraction, and the position of the change log
recall_segments   segments by number: the ids as a JSON list, the removed ids, and the batch ("columns")

A batch is encoded as an uncompressed zip of arrays (numpy's npz), so that a search of the file's bytes for a forgotten
word sees everything. Decoding only checks that the parts fit together: a checksum is kept beside the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO
from typing import Any, Final
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from tellback.memory.retrieval.index.record_batch import RECORD_DTYPE, Ints, RecordBatch, concatenate_batches
from tellback.vectorstore import Changes, Connection, Cursor, Database, Finding, TableComponent, VectorStoreError

_MAX_SEGMENT_ROWS = 4096
"""Rows of a segment: what is read and written to remove one memory from it."""


@dataclass(frozen=True, slots=True)
class IndexSegment:
    """Rows that were added or replaced, and ids that were removed; it overrules the segments before it."""

    batch: RecordBatch
    removed: frozenset[str] = frozenset()


class IndexCache(TableComponent):
    """Segments of retrieval indexes in *database*, as a component of it; each call is one transaction.

    *changes* is ``LifecycleStore.changes`` of the store in the same database. *basis*, in each call, is the fingerprint
    of the extraction: segments of another basis count as none.
    """

    def __init__(self, database: Database, changes: Callable[[Cursor], Changes]) -> None:
        super().__init__("recall", (m001_index_cache,))
        self._database = database
        self._changes = changes
        database.attach(self)

    def position(self, namespace: str, basis: str) -> int | None:
        """Return the position of the change log that the cached rows of a namespace are of; None where none are."""
        with self._database.read() as connection:
            state = _read_state(connection, namespace)
        return None if state is None or state[0] != basis else state[1]

    def load(self, namespace: str, basis: str) -> tuple[list[RecordBatch], int] | None:
        """Return all cached rows of a namespace in batches, no two rows of one id, and the position of the change log
        that they are of; None where nothing is cached, or it is damaged.
        """
        with self._database.read() as connection:
            state = _read_state(connection, namespace)
            if state is None or state[0] != basis:
                return None
            try:
                segments = _segment_ids(connection, namespace)
                surviving = surviving_rows([(ids, removed) for _, ids, removed in segments])
                batches = [_read_segment(connection, namespace, number, ids).batch for number, ids, _ in segments]
            except DamagedSegment:
                return None
        kept = [batch if rows is None else batch.take(rows) for batch, rows in zip(batches, surviving, strict=True)]
        return kept, state[1]

    def save(self, cursor: Cursor, basis: str, segments: Sequence[IndexSegment], *, since: int | None) -> bool:
        """Save the changes from position *since* (None: from the beginning) to *cursor*; return whether it was done.

        It is not done while another connection writes, where the file is read-only or the disk full, or where anything
        was written or removed since *cursor*: what was erased meanwhile must not come back.
        """
        namespace = cursor.namespace
        if self._database.read_only or self._database.in_write():
            return False
        try:
            with self._database.write(lock=namespace, wait=False) as connection:
                state = _read_state(connection, namespace)
                if since is not None and (state is None or state[0] != basis or state[1] < since):
                    return False
                changes = self._changes(cursor)
                if not changes.complete or changes.written or changes.removed:
                    return False
                if since is None:
                    _delete_namespace(connection, namespace)
                for segment in _group_segments(_drop_overruled_rows(segments)):
                    _append_segment(connection, namespace, segment)
                connection.execute(
                    "INSERT INTO recall_states VALUES (?, ?, ?)"
                    " ON CONFLICT (namespace) DO UPDATE SET basis = excluded.basis, position = excluded.position",
                    (namespace, basis, cursor.position),
                )
        except (VectorStoreError, DamagedSegment):  # busy, full or damaged: the answer does not depend on the cache
            return False
        return True

    def erase_removed(self, names: Sequence[str]) -> int:
        """Erase the rows of entries that were changed or removed from the segments of the store's namespaces *names*.

        In the transaction that erases the entries. Returns the number of rows.
        """
        count = 0
        with self._database.write() as connection:
            for name in names:
                state = _read_state(connection, name)
                if state is not None:
                    count += self._erase_changed(connection, name, state[1])
        return count

    def clear(self, prefix: str) -> int:
        """Erase the segments of all store namespaces that begin with *prefix*; return the number of rows."""
        with self._database.write() as connection:
            return sum([_delete_namespace(connection, name) for name in _cached_namespaces(connection, prefix)])

    def namespaces(self, prefix: str) -> list[str]:
        """Return the store namespaces that begin with *prefix* and have segments."""
        with self._database.read() as connection:
            return _cached_namespaces(connection, prefix)

    def verify(self, connection: Connection) -> list[Finding]:
        """Return a finding for each namespace with a damaged segment."""
        findings = []
        for name in _cached_namespaces(connection):
            try:
                for number, _, _ in _segment_ids(connection, name):
                    with suppress(OutdatedSegment):
                        _read_segment(connection, name, number)
            except DamagedSegment:
                findings.append(Finding(self.name, "what recall derived is not whole", name))
        return findings

    def rebuild(self, connection: Connection) -> None:
        """Delete all segments; recall derives them again, so that salvage copies none either."""
        for name in _cached_namespaces(connection):
            _delete_namespace(connection, name)

    def _erase_changed(self, connection: Connection, name: str, position: int) -> int:
        """Erase the rows of ids that were changed since *position* of the change log; return their number."""
        changes = self._changes(Cursor(name, position))
        if not changes.complete:
            return _delete_namespace(connection, name)
        outdated, count = {*changes.written, *changes.removed}, 0
        try:
            for number, ids, removed in reversed(_segment_ids(connection, name)):
                if not outdated.isdisjoint(ids) or not outdated.isdisjoint(removed):
                    segment = remove_ids(_read_segment(connection, name, number), outdated)
                    _write_segment(connection, name, number, segment)
                    count += len(ids) - len(segment.batch)
                outdated.update(ids, removed)
        except DamagedSegment:
            return count + _delete_namespace(connection, name)
        return count


def m001_index_cache(connection: Connection) -> None:
    """Create the tables."""
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


INDEX_CACHE_TABLES: Final = TableComponent("recall", (m001_index_cache,))
"""The tables for a salvage, which copies none of their rows."""


def surviving_rows(segments: Sequence[tuple[Sequence[str], frozenset[str]]]) -> list[NDArray[np.int64] | None]:
    """Return the rows of each segment, given as (ids, removed ids), that no later one overrules; None: all."""
    surviving: list[NDArray[np.int64] | None] = []
    overruled: set[str] = set()
    for ids, removed in reversed(segments):
        rows = None if overruled.isdisjoint(ids) else [row for row, id in enumerate(ids) if id not in overruled]
        surviving.append(None if rows is None else np.array(rows, dtype=np.int64))
        overruled.update(ids, removed)
    return surviving[::-1]


def merge_segments(segments: Sequence[IndexSegment]) -> IndexSegment:
    """Return one segment for consecutive *segments*."""
    batch = concatenate_batches([segment.batch for segment in _drop_overruled_rows(segments)])
    removed = frozenset[str]().union(*(segment.removed for segment in segments))
    return IndexSegment(batch, removed.difference(batch.ids))


def remove_ids(segment: IndexSegment, ids: Iterable[str]) -> IndexSegment:
    """Return *segment* without the rows and the removed ids of *ids*, and without any of their text."""
    erased = frozenset(ids)
    rows = [row for row, id in enumerate(segment.batch.ids) if id not in erased]
    return IndexSegment(segment.batch.take(np.array(rows, dtype=np.int64)), segment.removed - erased)


def _drop_overruled_rows(segments: Sequence[IndexSegment]) -> list[IndexSegment]:
    """Return *segments* without rows that a later one overrules, so that rows erased before saving are not written."""
    surviving = surviving_rows([(segment.batch.ids, segment.removed) for segment in segments])
    return [
        segment if rows is None else IndexSegment(segment.batch.take(rows), segment.removed)
        for segment, rows in zip(segments, surviving, strict=True)
    ]


def _group_segments(segments: Sequence[IndexSegment]) -> Iterator[IndexSegment]:
    """Yield *segments* merged into segments as large as allowed."""
    group: list[IndexSegment] = []
    size = 0
    for segment in segments:
        if group and size + len(segment.batch) > _MAX_SEGMENT_ROWS:
            yield merge_segments(group)
            group, size = [], 0
        group.append(segment)
        size += len(segment.batch)
    if group:
        yield merge_segments(group)


def _append_segment(connection: Connection, namespace: str, segment: IndexSegment) -> None:
    """Append *segment* to those of the namespace, merged with smaller ones before it while that pays."""
    parts, size, last = [segment], len(segment.batch), 0
    for number, count in _segment_sizes(connection, namespace):
        if count > 2 * size or count + size > _MAX_SEGMENT_ROWS:
            last = number
            break
        parts.insert(0, _read_segment(connection, namespace, number))
        size += count
        connection.execute("DELETE FROM recall_segments WHERE namespace = ? AND number = ?", (namespace, number))
    merged = merge_segments(parts)
    if merged.removed:  # needed only for rows of earlier segments; a forgotten id must not be kept otherwise
        earlier = {id for number, ids, _ in _segment_ids(connection, namespace) if number <= last for id in ids}
        merged = IndexSegment(merged.batch, merged.removed & earlier)
    _write_segment(connection, namespace, last + 1, merged)


def _write_segment(connection: Connection, namespace: str, number: int, segment: IndexSegment) -> None:
    batch = segment.batch
    parts = (json.dumps(batch.ids), json.dumps(sorted(segment.removed)), encode_batch(batch))
    connection.execute(
        "INSERT INTO recall_segments VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (namespace, number) DO UPDATE SET"
        " size = excluded.size, ids = excluded.ids, removed = excluded.removed, columns = excluded.columns,"
        " checksum = excluded.checksum",
        (namespace, number, len(batch), *parts, _checksum(namespace, *parts)),
    )


def _read_state(connection: Connection, namespace: str) -> tuple[str, int] | None:
    row = connection.execute("SELECT basis, position FROM recall_states WHERE namespace = ?", (namespace,)).fetchone()
    return None if row is None else (str(row[0]), int(row[1]))


def _cached_namespaces(connection: Connection, prefix: str = "") -> list[str]:
    names = connection.execute("SELECT namespace FROM recall_states ORDER BY namespace")
    return [name for (name,) in names if name.startswith(prefix)]


def _segment_sizes(connection: Connection, namespace: str) -> list[tuple[int, int]]:
    """Return number and size of each segment, the last first."""
    query = "SELECT number, size FROM recall_segments WHERE namespace = ? ORDER BY number DESC"
    return [(number, size) for number, size in connection.execute(query, (namespace,))]


def _segment_ids(connection: Connection, namespace: str) -> list[tuple[int, tuple[str, ...], frozenset[str]]]:
    """Return number, ids and removed ids of each segment, in order."""
    rows = connection.execute(
        "SELECT number, ids, removed FROM recall_segments WHERE namespace = ? ORDER BY number", (namespace,)
    )
    return [(number, _parse_ids(ids), frozenset(_parse_ids(removed))) for number, ids, removed in rows]


def _read_segment(
    connection: Connection, namespace: str, number: int, parsed: tuple[str, ...] | None = None
) -> IndexSegment:
    """Return a segment; *parsed* are its ids where they were read in the same transaction."""
    row = connection.execute(
        "SELECT ids, removed, columns, checksum FROM recall_segments WHERE namespace = ? AND number = ?",
        (namespace, number),
    ).fetchone()
    if row is None:
        raise DamagedSegment(f"there is no segment {number}")
    ids, removed, encoded, checksum = row
    if _checksum(namespace, ids, removed, encoded) != checksum:
        raise DamagedSegment(f"segment {number} is not what was written")
    batch = decode_batch(encoded, _parse_ids(ids) if parsed is None else parsed)
    return IndexSegment(batch, frozenset(_parse_ids(removed)))


def _checksum(namespace: str, ids: str, removed: str, encoded: bytes) -> bytes:
    digest = blake2b(digest_size=16, person=b"recall segment")
    for part in (namespace.encode(), ids.encode(), removed.encode(), encoded):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


def _parse_ids(json_list: str) -> tuple[str, ...]:
    with suppress(ValueError):
        ids = json.loads(json_list)
        if isinstance(ids, list) and set(map(type, ids)) <= {str}:
            return tuple(ids)
    raise DamagedSegment("its ids are no list of texts")


def _delete_namespace(connection: Connection, namespace: str) -> int:
    """Delete all segments of a namespace; return the number of rows."""
    size = sum(size for _, size in _segment_sizes(connection, namespace))
    for table in ("recall_segments", "recall_states"):
        connection.execute(f"DELETE FROM {table} WHERE namespace = ?", (namespace,))
    return size


_TEXT_PARTS = ("sessions", "speakers", "subjects", "lines", "terms", "forms", "called")
_NUMBER_PARTS = ("words", "starts", "texts", "form_terms", "marks", "mark_starts", "calls", "call_rows")


_STORED_NAMES = {"mentioned_day": "about", "text_features": "cues", "question_bits": "asking"}
_STORED_DTYPE = np.dtype([(_STORED_NAMES.get(name, name), RECORD_DTYPE[name]) for name in RECORD_DTYPE.names or ()])
"""``RECORD_DTYPE`` with the names that files have."""


class DamagedSegment(ValueError):
    """Bytes that are no record batch."""


class OutdatedSegment(DamagedSegment):
    """A record batch with the fields of another version of the program: no damage, recall derives it again."""


def encode_batch(batch: RecordBatch) -> bytes:
    """Return *batch* as bytes, without its ids."""
    texts = json.dumps({name: getattr(batch, name) for name in _TEXT_PARTS}).encode()
    arrays = {name: getattr(batch, name) for name in _NUMBER_PARTS}
    smallest = {name: numbers.astype(np.min_scalar_type(numbers.max(initial=0))) for name, numbers in arrays.items()}
    values = batch.values.view(_STORED_DTYPE)
    file = BytesIO()
    np.savez(file, allow_pickle=False, text=np.frombuffer(texts, np.uint8), values=values, **smallest)
    return file.getvalue()


def decode_batch(data: bytes, ids: tuple[str, ...]) -> RecordBatch:
    """Return the batch of *ids* that *data* encodes; raise ``DamagedSegment`` for anything else."""
    try:
        with np.load(BytesIO(data), allow_pickle=False) as arrays:
            texts = json.loads(arrays["text"].tobytes())
            numbers = {name: arrays[name].astype(np.int32) for name in _NUMBER_PARTS}
            values = arrays["values"]
        if values.dtype != _STORED_DTYPE:
            raise OutdatedSegment("its fields are not those of a record")
        parts: dict[str, Any] = {**{name: tuple(texts[name]) for name in _TEXT_PARTS}, **numbers}
        batch = RecordBatch(ids=ids, values=values.view(RECORD_DTYPE), **parts)
    except OutdatedSegment:
        raise
    except (BadZipFile, EOFError, KeyError, OSError, TypeError, ValueError) as error:
        raise DamagedSegment(str(error)) from error
    if not _is_consistent(batch):
        raise DamagedSegment("its parts do not fit together")
    return batch


def _is_consistent(batch: RecordBatch) -> bool:
    """Return whether all parts fit together: no number points outside the part that it refers to."""
    rows, values = len(batch), batch.values
    pairs = (
        (values, batch.ids),
        (batch.texts, batch.ids),
        (batch.forms, batch.form_terms),
        (batch.calls, batch.call_rows),
    )
    offsets = ((batch.starts, batch.words), (batch.mark_starts, batch.marks))
    numbers = (
        (batch.words, len(batch.terms) + 1),
        (batch.form_terms, len(batch.terms)),
        (batch.marks >> 1, len(batch.forms)),
        (batch.calls, len(batch.called)),
        (batch.call_rows, rows),
        (values["session"] + 1, len(batch.sessions) + 1),
        (values["speaker"], len(batch.speakers)),
        (values["line"], len(batch.lines) + 1),
        (values["subject"], len(batch.subjects)),
    )
    return (
        all(len(part) == len(other) for part, other in pairs)
        and all(_are_offsets(starts, rows, len(spans)) for starts, spans in offsets)
        and bool((batch.texts >= batch.starts[:-1] + values["label_words"]).all())
        and bool((batch.texts < batch.starts[1:]).all())
        and all(int(part.min(initial=0)) >= 0 and int(part.max(initial=-1)) < size for part, size in numbers)
    )


def _are_offsets(starts: Ints, rows: int, length: int) -> bool:
    return len(starts) == rows + 1 and starts[0] == 0 and starts[-1] == length and bool((np.diff(starts) >= 0).all())
