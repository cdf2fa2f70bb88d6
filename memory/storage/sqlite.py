"""Conversation history in the memory's file: a component of the same database as the store.

A write inside the database's own ``write()``, by the same thread, is part of that transaction; so a turn
and its record are stored together or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apsw

from memory.messages import Message, Role
from memory.storage.protocol import SessionInfo, StoredMessage
from memory.storage.rows import HistoryRow, ThreadedHistory
from memory.storage.serialise import (
    all_to_json,
    check_namespace,
    check_page,
    check_roles,
    check_sequences,
    check_session,
    needle,
)
from memory.storage.tables import FROM, ROW, HistoryTables, checksum_of, decoded
from memory.times import Clock, from_text, system_clock, to_text
from vectorstore.sqlite import Database

_GROUP = 200


class SqliteHistory(ThreadedHistory):
    """``HistoryStorage`` in a database's file."""

    def __init__(self, database: Database, *, clock: Clock = system_clock) -> None:
        self.database = database
        super().__init__(SqliteRows(database, clock=clock))


class SqliteRows:
    """``HistoryRows`` in a database's file."""

    def __init__(self, database: Database, *, clock: Clock = system_clock) -> None:
        self._database = database
        self._clock = clock
        database.attach(HistoryTables())

    def append(
        self,
        session: str,
        messages: Sequence[Message],
        *,
        namespace: str = "",
        memories: Sequence[str | None] | None = None,
    ) -> list[int]:
        """As ``HistoryRows.append``."""
        place = (check_namespace(namespace), check_session(session))
        texts = all_to_json(messages)
        if not texts:
            return []
        with self._database.write() as connection:
            return self._add(connection, place, messages, texts, memories or [None] * len(texts))

    def load(
        self,
        session: str,
        *,
        namespace: str = "",
        limit: int | None = None,
        offset: int = 0,
        roles: Iterable[Role] | None = None,
    ) -> list[StoredMessage]:
        """As ``HistoryStorage.load``."""
        place = (check_namespace(namespace), check_session(session))
        check_page(limit, offset)
        wanted = check_roles(roles)
        if not wanted:
            return []
        sql = (
            f"SELECT {ROW} {FROM} WHERE s.namespace = ? AND s.session = ? "
            f"AND m.role IN ({_marks(wanted)}) ORDER BY m.sequence DESC LIMIT ? OFFSET ?"
        )
        bound = (*place, *wanted, -1 if limit is None else limit, offset)
        with self._database.read() as connection:
            rows = [decoded(row) for row in connection.execute(sql, bound)]
        return [StoredMessage(row.sequence, row.message, row.at, row.memory or None) for row in reversed(rows)]

    def replace(self, session: str, messages: Sequence[Message], *, namespace: str = "") -> list[int]:
        """As ``HistoryRows.replace``."""
        place = (check_namespace(namespace), check_session(session))
        texts = all_to_json(messages)
        with self._database.write() as connection:
            before: dict[str, list[tuple[str | None, int]]] = {}
            for text, memory, settled in connection.execute(
                f"SELECT m.message, m.memory, m.settled {FROM} "
                "WHERE s.namespace = ? AND s.session = ? ORDER BY m.sequence",
                place,
            ):
                before.setdefault(text, []).append((memory, settled))
            _remove(connection, place, None)
            if not texts:
                return []
            kept = [before[text].pop(0) if before.get(text) else (None, 0) for text in texts]
            sequences = self._add(connection, place, messages, texts, [memory for memory, _ in kept])
            for sequence, (_, settled) in zip(sequences, kept, strict=True):
                _note(connection, place, sequence, "settled = ?", (settled,))
            return sequences

    def delete(self, session: str, sequences: Iterable[int] | None, *, namespace: str = "") -> int:
        """As ``HistoryRows.delete``."""
        place = (check_namespace(namespace), check_session(session))
        chosen = None if sequences is None else check_sequences(sequences)
        with self._database.write() as connection:
            return _remove(connection, place, chosen)

    def erase(self, rows: Sequence[HistoryRow]) -> None:
        """As ``HistoryRows.erase``."""
        if not rows:
            return
        with self._database.write() as connection:
            for row in rows:
                _remove(connection, (row.namespace, row.session), [row.sequence])
            self._database.mark_erasure(connection)
        if not self._database.in_write():
            self._database.finish_erasure()

    def erase_namespace(self, namespace: str) -> int:
        """As ``HistoryRows.erase_namespace``."""
        name = check_namespace(namespace)
        with self._database.write() as connection:
            connection.execute(
                "DELETE FROM history_messages WHERE session IN (SELECT key FROM history_sessions WHERE namespace = ?)",
                (name,),
            )
            gone = connection.changes()
            connection.execute("DELETE FROM history_sessions WHERE namespace = ?", (name,))
            self._database.mark_erasure(connection)
        return gone

    def place(self, rows: Sequence[HistoryRow]) -> int:
        """As ``HistoryRows.place``."""
        texts = all_to_json([row.message for row in rows])
        with self._database.write() as connection:
            return sum(_place(connection, row, text) for row, text in zip(rows, texts, strict=True))

    def sessions(self, *, namespace: str = "") -> list[SessionInfo]:
        """As ``HistoryStorage.sessions``."""
        sql = (
            f"SELECT s.session, COUNT(*), MIN(m.at), MAX(m.at) {FROM} "
            "WHERE s.namespace = ? GROUP BY s.key ORDER BY MAX(m.at) DESC, s.session"
        )
        with self._database.read() as connection:
            found = list(connection.execute(sql, (check_namespace(namespace),)))
        return [SessionInfo(name, count, from_text(first), from_text(last)) for name, count, first, last in found]

    def namespaces(self) -> list[str]:
        """As ``HistoryStorage.namespaces``."""
        sql = (
            "SELECT DISTINCT namespace FROM history_sessions AS s "
            "WHERE EXISTS (SELECT 1 FROM history_messages AS m WHERE m.session = s.key) ORDER BY namespace"
        )
        with self._database.read() as connection:
            return sorted(name for (name,) in connection.execute(sql))

    def unsettled(self, limit: int) -> list[HistoryRow]:
        """As ``HistoryRows.unsettled``."""
        return list(self._select("m.settled = 0", (limit,), "ORDER BY m.key LIMIT ?"))

    def reserve(self, rows: Sequence[HistoryRow]) -> None:
        """As ``HistoryRows.reserve``."""
        self._assign(rows, settled=0)

    def settle(self, rows: Sequence[HistoryRow]) -> None:
        """As ``HistoryRows.settle``."""
        self._assign(rows, settled=1)

    def of_memories(self, ids: Sequence[str], *, namespace: str = "") -> list[HistoryRow]:
        """As ``HistoryRows.of_memories``."""
        wanted = [one for one in dict.fromkeys(ids) if one]
        return [
            row
            for group in _groups(wanted)
            for row in self._select(f"s.namespace = ? AND m.memory IN ({_marks(group)})", (namespace, *group))
        ]

    def at(self, places: Sequence[tuple[str, int]], *, namespace: str = "") -> list[HistoryRow]:
        """As ``HistoryRows.at``."""
        test = "s.namespace = ? AND s.session = ? AND m.sequence = ?"
        return [row for place in dict.fromkeys(places) for row in self._select(test, (namespace, *place))]

    def holding(self, texts: Sequence[str], *, namespace: str = "") -> list[HistoryRow]:
        """As ``HistoryRows.holding``."""
        needles = [needle(text).encode() for text in texts]
        needles.append(b'"media_type":"text/plain"')
        found: dict[tuple[str, int], HistoryRow] = {}
        for group in _groups(needles):
            test = " OR ".join("instr(CAST(m.message AS BLOB), ?) > 0" for _ in group)
            for row in self._select(f"s.namespace = ? AND ({test})", (namespace, *group)):
                found[row.session, row.sequence] = row
        return list(found.values())

    def _select(self, test: str, bound: tuple[Any, ...], order: str = "ORDER BY m.key") -> Iterator[HistoryRow]:
        sql = f"SELECT {ROW} {FROM} WHERE {test} {order}"
        with self._database.read() as connection:
            return iter([decoded(row) for row in connection.execute(sql, bound)])

    def _add(
        self,
        connection: apsw.Connection,
        place: tuple[str, str],
        messages: Sequence[Message],
        texts: Sequence[str],
        memories: Sequence[str | None],
    ) -> list[int]:
        connection.execute(
            "INSERT INTO history_sessions (namespace, session, next) VALUES (?, ?, 1) ON CONFLICT DO NOTHING",
            place,
        )
        key, start = next(
            connection.execute("SELECT key, next FROM history_sessions WHERE namespace = ? AND session = ?", place)
        )
        at = to_text(self._clock())
        sequences = list(range(start, start + len(texts)))
        connection.executemany(
            "INSERT INTO history_messages (session, sequence, at, role, message, memory, settled, checksum) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    key,
                    sequence,
                    at,
                    message.role,
                    text,
                    memory,
                    int(memory == ""),
                    checksum_of(place, sequence, at, text),
                )
                for sequence, message, text, memory in zip(sequences, messages, texts, memories, strict=True)
            ],
        )
        connection.execute("UPDATE history_sessions SET next = ? WHERE key = ?", (start + len(texts), key))
        return sequences

    def _assign(self, rows: Sequence[HistoryRow], *, settled: int) -> None:
        with self._database.write() as connection:
            for row in rows:
                place = (row.namespace, row.session)
                _note(connection, place, row.sequence, "memory = ?, settled = ?", (row.memory, settled))


def _place(connection: apsw.Connection, row: HistoryRow, text: str) -> int:
    place, at = (check_namespace(row.namespace), check_session(row.session)), to_text(row.at)
    connection.execute(
        "INSERT INTO history_sessions (namespace, session, next) VALUES (?, ?, ?)"
        " ON CONFLICT DO UPDATE SET next = max(next, excluded.next)",
        (*place, row.sequence + 1),
    )
    connection.execute(
        "INSERT INTO history_messages (session, sequence, at, role, message, memory, settled, checksum)"
        " SELECT key, ?, ?, ?, ?, ?, ?, ? FROM history_sessions WHERE namespace = ? AND session = ?"
        " ON CONFLICT DO NOTHING",
        (
            row.sequence,
            at,
            row.message.role,
            text,
            row.memory,
            int(row.memory is not None),
            checksum_of(place, row.sequence, at, text),
            *place,
        ),
    )
    return connection.changes()


def _remove(connection: apsw.Connection, place: tuple[str, str], sequences: Sequence[int] | None) -> int:
    of_session = "session = (SELECT key FROM history_sessions WHERE namespace = ? AND session = ?)"
    before = connection.total_changes()
    if sequences is None:
        connection.execute(f"DELETE FROM history_messages WHERE {of_session}", place)
    else:
        for sequence in sequences:
            connection.execute(
                f"DELETE FROM history_messages WHERE {of_session} AND sequence = ?",
                (*place, sequence),
            )
    return connection.total_changes() - before


def _note(
    connection: apsw.Connection, place: tuple[str, str], sequence: int, what: str, values: tuple[Any, ...]
) -> None:
    connection.execute(
        f"UPDATE history_messages SET {what} WHERE sequence = ? "
        "AND session = (SELECT key FROM history_sessions WHERE namespace = ? AND session = ?)",
        (*values, sequence, *place),
    )


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" for _ in values)


def _groups(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), _GROUP):
        yield values[start : start + _GROUP]
