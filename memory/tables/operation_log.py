"""Operation log: what was done to which memory, when and by whom; never the texts themselves.

A row is written in the transaction of the change that it names. Its place in the log, not its time, says what came
first: a clock may go back.

operations          the number that orders them, namespace, id, verb, actor, time, what it takes back or was taken by,
                    and the user of a server who did it
operation_changes   by memory and number: the revision before, whether it went, the fields kept without versions
"""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Self, cast

from tellback.memory.errors import ArgumentError
from tellback.memory.history.codec import texts_in_json
from tellback.memory.models import Actor, MemoryChange, Operation, Trust
from tellback.memory.tables.idempotency_keys import TimeOrderedIds
from tellback.memory.timestamps import Clock, system_clock, timestamp_from_text, timestamp_to_text, utc_offset
from tellback.vectorstore import Connection, DamageError, Database, Finding, TableComponent

if TYPE_CHECKING:
    from tellback.vectorstore.sqlite import SalvageSource

IMPORT_KIND: Final = "import"
"""The kind of the operations by which imports are recorded."""
NO_MEMORY: Final = ""
"""The id in a change that is of no memory; the log finds exports by it."""


def change_holds(change: MemoryChange, holds: Callable[[str], bool]) -> bool:
    """Return whether *holds* is true of a value that *change* keeps of a memory."""
    return bool(change.id) and any(holds(text) for fields in (change.old, change.new) for text in texts_in_json(fields))


def least_trusted_actor(actors: Iterable[Actor]) -> Actor:
    """Return that of *actors* whose word counts least: it answers for what they write together."""
    return max(actors, key=lambda actor: (Trust.of(actor).rank, actor != "user"), default="user")


def unknown_operation_error(id: str) -> ArgumentError:
    """Return the error for an operation that the log does not have."""
    return ArgumentError("operation", id, "the id of an operation of this namespace is needed")


_GROUP_SIZE: Final = 500
_KEPT_FIELDS: Final = "fields IS NOT NULL AND number IN (SELECT number FROM operations WHERE namespace = ?)"
_OPERATION_COLUMNS: Final = "number, id, kind, actor, at, zone, undoes, undone_by, user_name"
_LATER_QUERY: Final = (  # CROSS JOIN keeps SQLite to this order: the changes of one operation, then those after it
    f"SELECT {', '.join('o.' + name for name in _OPERATION_COLUMNS.split(', '))}, c.memory, c.before, c.gone, c.fields"
    " FROM operation_changes AS mine CROSS JOIN operation_changes AS c CROSS JOIN operations AS o"
    " WHERE mine.number = ? AND c.memory = mine.memory AND c.number > mine.number"
    " AND o.number = c.number AND o.namespace = ? ORDER BY o.number DESC"
)


class OperationLog:
    """Operations in order, in tables of *database*. Each call is one transaction, or part of its thread's.

    *ids* and *clock* give operations their ids and times.
    """

    def __init__(
        self, database: Database, *, clock: Clock = system_clock, ids: Callable[[], str] | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self._user = ""
        self.new_id: Callable[[], str] = ids or TimeOrderedIds(clock=clock)
        """Returns the id of an operation that is to be recorded, for the entries that name it."""
        database.attach(OperationLogTables())

    def signed_by(self, user: str) -> Self:
        """Return the same log for *user*, whose name each operation has that is recorded by it."""
        signed = copy.copy(self)
        signed._user = user
        return signed

    def record(
        self,
        namespace: str,
        kind: str,
        actor: Actor,
        changes: Sequence[MemoryChange],
        *,
        id: str | None = None,
        at: datetime | None = None,
        undoes: str | None = None,
    ) -> Operation:
        """Put an operation at the end of a user's log, in the transaction of its *changes*; return it.

        Without an *id* or a time *at*, the log's own ids and clock give it one.
        """
        operation = Operation(
            id or self.new_id(), kind, actor, at or self._clock(), tuple(changes), undoes, user=self._user
        )
        self.add(namespace, operation)
        return operation

    def add(self, namespace: str, operation: Operation) -> None:
        """Put *operation* at the end of a user's log."""
        with self._database.write(lock=namespace) as connection:
            row = (namespace, operation.id, operation.kind, operation.actor, timestamp_to_text(operation.at))
            more = (utc_offset(operation.at), operation.undoes, operation.undone_by, operation.user)
            connection.execute(
                "INSERT INTO operations (namespace, id, kind, actor, at, zone, undoes, undone_by, user_name)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                row + more,
            )
            _insert_changes(connection, namespace, operation.id, operation.changes)

    def extend(self, namespace: str, id: str, changes: Sequence[MemoryChange]) -> None:
        """Add *changes*, of other memories, to an operation that goes on."""
        with self._database.write(lock=namespace) as connection:
            number = _operation_number(connection, namespace, id)
            (first,) = connection.execute(
                "SELECT coalesce(max(place) + 1, 0) FROM operation_changes WHERE number = ?", (number,)
            ).fetchone() or (0,)
            _insert_changes(connection, namespace, id, changes, first)

    def get(self, namespace: str, id: str) -> Operation | None:
        """Return an operation with all its changes; None if there is none of that id."""
        with self._database.read() as connection:
            row = connection.execute(
                f"SELECT {_OPERATION_COLUMNS} FROM operations WHERE namespace = ? AND id = ?", (namespace, id)
            ).fetchone()
            return None if row is None else _decode_operation(row, _read_changes(connection, row[0])[row[0]])

    def list(
        self, namespace: str, *, memory: str | None = None, before: str | None = None, limit: int = 100
    ) -> Sequence[Operation]:
        """Return the newest operations first (on one *memory*; those before the operation *before*)."""
        condition = "namespace = ?"
        bound: list[str | int] = [namespace]
        if memory is not None:
            condition += " AND number IN (SELECT number FROM operation_changes WHERE memory = ?)"
            bound.append(memory)
        with self._database.read() as connection:
            if before is not None:
                condition += " AND number < ?"
                bound.append(_operation_number(connection, namespace, before))
            rows = connection.execute(
                f"SELECT {_OPERATION_COLUMNS} FROM operations WHERE {condition} ORDER BY number DESC LIMIT ?",
                (*bound, limit),
            ).fetchall()
            changes = _read_changes(connection, *(row[0] for row in rows))
            return [_decode_operation(row, changes[row[0]]) for row in rows]

    def later(self, namespace: str, id: str) -> Mapping[str, Sequence[Operation]]:
        """Return the operations after *id* on memories that it changed, by memory, the newest first.

        Each comes with its change of that memory alone.
        """
        operations: defaultdict[str, list[Operation]] = defaultdict(list)
        with self._database.read() as connection:
            for row in connection.execute(_LATER_QUERY, (_operation_number(connection, namespace, id), namespace)):
                operations[row[9]].append(_decode_operation(row[:9], [row[9:]]))
        return operations

    def undone(self, namespace: str, id: str, by: str | None) -> None:
        """Record that the operation *id* was undone by *by*, or (None) is in force again."""
        with self._database.write(lock=namespace) as connection:
            connection.execute(
                "UPDATE operations SET undone_by = ? WHERE namespace = ? AND id = ?", (by, namespace, id)
            )

    def erase(self, namespace: str, ids: Iterable[str], holds: Callable[[str], bool]) -> None:
        """Remove the field values of memories that were forgotten, and other values that *holds* is true of."""
        with self._database.write(lock=namespace) as connection:
            connection.executemany(
                f"UPDATE operation_changes SET fields = NULL WHERE memory = ? AND {_KEPT_FIELDS}",
                [(id, namespace) for id in ids],
            )
            rows = connection.execute(
                f"SELECT memory, before, gone, fields, number FROM operation_changes WHERE {_KEPT_FIELDS}", (namespace,)
            ).fetchall()
            connection.executemany(
                "UPDATE operation_changes SET fields = NULL WHERE memory = ? AND number = ?",
                [(row[0], row[4]) for row in rows if change_holds(_decode_change(row[:4]), holds)],
            )

    def clear(self, namespace: str) -> int:
        """Remove a user's whole log, which was forgotten; return how many operations it had."""
        of_user = "number IN (SELECT number FROM operations WHERE namespace = ?)"
        with self._database.write(lock=namespace) as connection:
            connection.execute(f"DELETE FROM operation_changes WHERE {of_user}", (namespace,))
            connection.execute("DELETE FROM operations WHERE namespace = ?", (namespace,))
            removed = connection.changes()
            self._database.mark_erasure(connection)
        return removed


class OperationLogTables(TableComponent):
    """The tables of the operation log as a component of a database."""

    def __init__(self) -> None:
        super().__init__("operations", (m001_operation_log, m002_user_names), ("operations", "operation_changes"))

    def verify(self, connection: Connection) -> list[Finding]:
        """Find changes of no operation, and fields that are not JSON."""
        orphans = "SELECT memory FROM operation_changes WHERE number NOT IN (SELECT number FROM operations)"
        findings = [
            Finding(self.name, "a change belongs to no operation", memory) for (memory,) in connection.execute(orphans)
        ]
        for memory, fields in connection.execute(
            "SELECT memory, fields FROM operation_changes WHERE fields IS NOT NULL"
        ):
            try:
                json.loads(fields)
            except ValueError:
                findings.append(Finding(self.name, "the fields of a change cannot be read", memory))
        return findings

    def salvage(self, source: SalvageSource, target: Connection) -> None:
        """Copy every operation and change that can be read, changes of no operation apart."""

        def check_operation(row: Mapping[str, Any]) -> str | None:
            timestamp_from_text(row["at"], row["zone"])
            return None

        def check_change(row: Mapping[str, Any]) -> str | None:
            _decode_change((row["memory"], row["before"], row["gone"], row["fields"]))
            known = target.execute("SELECT 1 FROM operations WHERE number = ?", (row["number"],)).fetchone()
            return "its operation was lost" if known is None else None

        source.copy(target, "operations", check_operation)
        source.copy(target, "operation_changes", check_change)


def m001_operation_log(connection: Connection) -> None:
    """Create the first tables."""
    for statement in (
        """
        CREATE TABLE operations (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            namespace TEXT NOT NULL,
            id TEXT NOT NULL,
            kind TEXT NOT NULL,
            actor TEXT NOT NULL,
            at TEXT NOT NULL,
            zone INTEGER NOT NULL,
            undoes TEXT,
            undone_by TEXT,
            UNIQUE (namespace, id)
        ) STRICT
        """,
        """
        CREATE TABLE operation_changes (
            memory TEXT NOT NULL,
            number INTEGER NOT NULL,
            place INTEGER NOT NULL,
            before INTEGER,
            gone INTEGER NOT NULL,
            fields TEXT,
            PRIMARY KEY (memory, number)
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE INDEX operation_changes_by_number ON operation_changes (number)",
    ):
        connection.execute(statement)


def m002_user_names(connection: Connection) -> None:
    """Name the user of a server in each operation."""
    connection.execute("ALTER TABLE operations ADD COLUMN user_name TEXT NOT NULL DEFAULT ''")


def _insert_changes(
    connection: Connection, namespace: str, id: str, changes: Sequence[MemoryChange], first: int = 0
) -> None:
    """Insert *changes* of the operation *id*; the row of the operation may still be on its way to a server."""
    connection.executemany(
        "INSERT INTO operation_changes (memory, number, place, before, gone, fields)"
        " VALUES (?, (SELECT number FROM operations WHERE namespace = ? AND id = ?), ?, ?, ?, ?)",
        [
            (change.id, namespace, id, index, change.before, int(change.gone), _encode_fields(change))
            for index, change in enumerate(changes, start=first)
        ],
    )


def _operation_number(connection: Connection, namespace: str, id: str) -> int:
    row = connection.execute("SELECT number FROM operations WHERE namespace = ? AND id = ?", (namespace, id)).fetchone()
    if row is None:
        raise unknown_operation_error(id)
    return int(row[0])


def _read_changes(connection: Connection, *numbers: int) -> Mapping[int, Sequence[Sequence[Any]]]:
    """Return the rows of the changes of operations, by number, in their order."""
    changes: defaultdict[int, list[Sequence[Any]]] = defaultdict(list)
    for start in range(0, len(numbers), _GROUP_SIZE):
        group = numbers[start : start + _GROUP_SIZE]
        marks = ", ".join("?" * len(group))
        sql = f"SELECT number, memory, before, gone, fields FROM operation_changes WHERE number IN ({marks})"
        for number, *change in connection.execute(f"{sql} ORDER BY number, place", group):
            changes[number].append(change)
    return changes


def _decode_operation(row: Sequence[Any], changes: Iterable[Sequence[Any]]) -> Operation:
    _, id, kind, actor, time, zone, undoes, undone_by, user = row
    try:
        decoded = tuple(_decode_change(change) for change in changes)
        moment = timestamp_from_text(time, zone)
        return Operation(id, kind, cast("Actor", actor), moment, decoded, undoes, undone_by, str(user))
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise DamageError([Finding("operations", "an operation is not what was written", str(id))]) from error


def _encode_fields(change: MemoryChange) -> str | None:
    if not change.old and not change.new:
        return None
    return json.dumps({"old": dict(change.old), "new": dict(change.new)}, ensure_ascii=False, sort_keys=True)


def _decode_change(row: Sequence[Any]) -> MemoryChange:
    memory, before, gone, fields = row
    known = {"old": {}, "new": {}} if fields is None else json.loads(fields)
    return MemoryChange(memory, before, bool(gone), known["old"], known["new"])
