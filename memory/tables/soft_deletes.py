"""Soft deletes: what was forgotten with a time of grace, in no answer, until it is erased or restored.

held         namespace, operation, when its bytes are due, the space of its vectors
held_things  what was put aside, one row each: an entry, a message, texts, or what another part needs to come back
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tellback.memory.history.codec import message_from_json
from tellback.memory.history.protocol import HistoryRow
from tellback.memory.timestamps import timestamp_from_text, timestamp_to_text
from tellback.vectorstore import Connection, DamageError, Database, Entry, Finding, TableComponent

if TYPE_CHECKING:
    from tellback.vectorstore.sqlite import SalvageSource


@dataclass(frozen=True, slots=True)
class SoftDelete:
    """Entries, messages and words of one forgetting that can still be restored.

    *entries* are by partition (a namespace of the store). *space* names their vectors; those of another space are of
    no use. *words* are the texts of which there are tombstones. *parts* is what other parts need to come back, by name.
    """

    operation: str
    namespace: str
    due: datetime
    space: str
    entries: tuple[tuple[str, Entry], ...]
    messages: tuple[HistoryRow, ...]
    words: tuple[str, ...] = ()
    parts: tuple[tuple[str, str], ...] = ()


_ITEM_COLUMNS: Final = "kind, place, data, vector"
_ITEM_PROBLEM: Final = "what is held is not what was put aside"


class SoftDeletes:
    """Soft deletes by operation, in tables of *database*. Each call is one transaction, or part of its thread's."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.attach(SoftDeleteTables())

    def put(self, package: SoftDelete) -> None:
        """Put a soft delete aside."""
        with self._database.write(lock=package.namespace) as connection:
            (key,) = connection.execute(
                "INSERT INTO held (namespace, operation, due, space) VALUES (?, ?, ?, ?) RETURNING key",
                (package.namespace, package.operation, timestamp_to_text(package.due), package.space),
            ).fetchone()
            connection.executemany(
                f"INSERT INTO held_things (held, {_ITEM_COLUMNS}, checksum) VALUES (?, ?, ?, ?, ?, ?)",
                ((key, *item, _item_checksum(item)) for item in _item_rows(package)),
            )

    def get(self, namespace: str, operation: str) -> SoftDelete | None:
        """Return a soft delete; None where there is none (any more)."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT key, due, space FROM held WHERE namespace = ? AND operation = ?", (namespace, operation)
            ).fetchone()
            if row is None:
                return None
            sql = f"SELECT {_ITEM_COLUMNS}, checksum FROM held_things WHERE held = ? ORDER BY key"
            items = connection.execute(sql, (row[0],)).fetchall()
        if damaged := _damaged_items(items):
            raise DamageError(damaged[:1])
        return _decode_soft_delete(namespace, operation, row, items)

    def due(self, moment: datetime) -> Sequence[tuple[str, str]]:
        """Return (namespace, operation) of those whose time is over at *moment*, the first due first."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT namespace, operation FROM held WHERE due <= ? ORDER BY due, operation",
                (timestamp_to_text(moment),),
            )
            return [(str(namespace), str(operation)) for namespace, operation in rows]

    def next_due(self) -> datetime | None:
        """Return when the next one is due; None where there is none."""
        with self._database.read() as connection:
            (due,) = next(connection.execute("SELECT min(due) FROM held"))
        return None if due is None else timestamp_from_text(due)

    def of(self, namespace: str) -> Sequence[str]:
        """Return the operations of a namespace that have a soft delete, the first due first."""
        sql = "SELECT operation FROM held WHERE namespace = ? ORDER BY due, operation"
        with self._database.read() as connection:
            return [operation for (operation,) in connection.execute(sql, (namespace,))]

    def erase(self, namespace: str, operation: str) -> bool:
        """Remove a soft delete with its bytes; return whether there was one."""
        with self._database.write(lock=namespace) as connection:
            connection.execute("DELETE FROM held WHERE namespace = ? AND operation = ?", (namespace, operation))
            erased = bool(connection.changes())
            self._database.mark_erasure(connection)
        return erased


class SoftDeleteTables(TableComponent):
    """The tables of soft deletes as a component of a database."""

    def __init__(self) -> None:
        super().__init__("held", (m001_soft_deletes,), ("held", "held_things"))

    def verify(self, connection: Connection) -> list[Finding]:
        """Compare each item with its checksum."""
        return _damaged_items(connection.execute(f"SELECT {_ITEM_COLUMNS}, checksum FROM held_things"))

    def salvage(self, source: SalvageSource, target: Connection) -> None:
        """Copy every soft delete, and each item that is what was put aside."""

        def check(row: Mapping[str, Any]) -> str | None:
            timestamp_from_text(row["due"])
            return None

        def check_item(row: Mapping[str, Any]) -> str | None:
            whole = _item_checksum([row[name] for name in _ITEM_COLUMNS.split(", ")]) == row["checksum"]
            return None if whole else _ITEM_PROBLEM

        source.copy(target, "held", check)
        source.copy(target, "held_things", check_item)


def m001_soft_deletes(connection: Connection) -> None:
    """Create the first tables."""
    for statement in (
        """
        CREATE TABLE held (
            key INTEGER PRIMARY KEY,
            namespace TEXT NOT NULL,
            operation TEXT NOT NULL,
            due TEXT NOT NULL,
            space TEXT NOT NULL,
            UNIQUE (namespace, operation)
        ) STRICT
        """,
        "CREATE INDEX held_due ON held (due)",
        """
        CREATE TABLE held_things (
            key INTEGER PRIMARY KEY,
            held INTEGER NOT NULL REFERENCES held (key) ON DELETE CASCADE,
            kind TEXT NOT NULL,
            place TEXT NOT NULL,
            data TEXT NOT NULL,
            vector BLOB,
            checksum INTEGER NOT NULL
        ) STRICT
        """,
        "CREATE INDEX held_things_of ON held_things (held)",
    ):
        connection.execute(statement)


def _item_rows(package: SoftDelete) -> Iterator[tuple[str, str, str, bytes | None]]:
    for partition, entry in package.entries:
        vector = None if entry.vector is None else np.asarray(entry.vector, dtype="<f4").tobytes()
        columns = (entry.id, entry.text, entry.context, dict(entry.metadata), entry.no_vector)
        yield "entry", partition, _to_json(columns), vector
    for row in package.messages:
        fields = (row.session, row.sequence, timestamp_to_text(row.at), row.memory, row.message.model_dump_json())
        yield "message", "", _to_json(fields), None
    for words in package.words:
        yield "words", "", _to_json(words), None
    for part, text in package.parts:
        yield "part", part, _to_json(text), None


def _decode_soft_delete(
    namespace: str, operation: str, row: Sequence[Any], items: Sequence[tuple[Any, ...]]
) -> SoftDelete:
    rows_by_kind: defaultdict[str, list[tuple[str, Any, bytes | None]]] = defaultdict(list)
    for kind, owner, data, vector, _ in items:
        rows_by_kind[kind].append((owner, json.loads(data), vector))
    return SoftDelete(
        operation,
        namespace,
        timestamp_from_text(row[1]),
        row[2],
        entries=tuple(
            (partition, _decode_entry(fields, vector)) for partition, fields, vector in rows_by_kind["entry"]
        ),
        messages=tuple(_decode_message(namespace, fields) for _, fields, _ in rows_by_kind["message"]),
        words=tuple(words for _, words, _ in rows_by_kind["words"]),
        parts=tuple((part, text) for part, text, _ in rows_by_kind["part"]),
    )


def _decode_entry(fields: Sequence[Any], vector: bytes | None) -> Entry:
    id, text, context, metadata, no_vector = fields
    row = None if vector is None else np.frombuffer(vector, dtype="<f4").astype(np.float32)
    return Entry(id, row, text, context, metadata, no_vector=no_vector)


def _decode_message(namespace: str, fields: Sequence[Any]) -> HistoryRow:
    session, sequence, time, memory, message = fields
    return HistoryRow(namespace, session, sequence, message_from_json(message), timestamp_from_text(time), memory)


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _damaged_items(rows: Iterable[Sequence[Any]]) -> list[Finding]:
    return [Finding("held", _ITEM_PROBLEM, row[0]) for row in rows if _item_checksum(row[:-1]) != row[-1]]


def _item_checksum(item: Sequence[Any]) -> int:
    digest = blake2b(digest_size=8)
    for part in item:
        data = b"" if part is None else part if isinstance(part, bytes) else part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return int.from_bytes(digest.digest(), "little", signed=True)
