"""Conversation history in the memory's file: a component of the same database as the store.

A write inside the database's own ``write()``, by the same thread, is part of that transaction; so a turn
and its record are stored together or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from memory.errors import ArgumentError
from memory.history import retention as bounds
from memory.history.codec import (
    check_paging,
    checked_namespace,
    checked_roles,
    checked_sequences,
    checked_session,
    checked_summary_name,
    json_fragment,
    messages_to_json,
)
from memory.history.protocol import SessionInfo, StoredMessage, Summary, checked_summary, is_same_summary
from memory.history.retention import Retention, checked_retention
from memory.history.schema import (
    MAX_INTEGER,
    MESSAGE_COLUMNS,
    MESSAGES_FROM,
    VISIBLE_CONDITION,
    VISIBLE_FROM,
    HistoryTables,
    decode_message_row,
    delete_messages,
    drop_summaries,
    ensure_session,
    first_words,
    history_checksum,
    insert_message,
    read_summary,
    session_keys,
    summaries_holding,
    update_message,
    write_summary,
)
from memory.history.sync_history import HistoryRow, ThreadedHistory
from memory.messages import Message, Role
from memory.timestamps import Clock, system_clock, timestamp_from_text, timestamp_to_text
from vectorstore import Connection, Database

_GROUP_SIZE = 200


class SqliteHistory(ThreadedHistory):
    """``HistoryStorage`` in a database's file."""

    def __init__(self, database: Database, *, clock: Clock = system_clock, retention: Retention | None = None) -> None:
        self.database = database
        super().__init__(SqliteHistoryRows(database, clock=clock, retention=retention))


class SqliteHistoryRows:
    """``HistoryRows`` in a database's file."""

    def __init__(self, database: Database, *, clock: Clock = system_clock, retention: Retention | None = None) -> None:
        if not isinstance(database, Database):
            raise ArgumentError("database", database, "a vectorstore.sqlite.Database is needed, such as Database(path)")
        self.database = self._database = database
        self._clock = clock
        self._retention = checked_retention(retention)
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
        place = (checked_namespace(namespace), checked_session(session))
        texts = messages_to_json(messages)
        if not texts:
            return []
        with self._database.write() as connection:
            kept = [(memory, int(memory == "")) for memory in memories or [None] * len(texts)]
            return self._add(connection, place, messages, texts, kept)

    def load(
        self,
        session: str,
        *,
        namespace: str = "",
        limit: int | None = None,
        offset: int = 0,
        roles: Iterable[Role] | None = None,
        after: int = 0,
    ) -> list[StoredMessage]:
        """As ``HistoryStorage.load``."""
        place = (checked_namespace(namespace), checked_session(session))
        check_paging(limit, offset, after)
        wanted = checked_roles(roles)
        sql = (
            f"SELECT {MESSAGE_COLUMNS} {VISIBLE_FROM} WHERE s.namespace = ? AND s.session = ? AND {VISIBLE_CONDITION} "
            f"AND m.role IN ({_placeholders(wanted)}) AND m.sequence > ? ORDER BY m.sequence DESC LIMIT ? OFFSET ?"
        )
        most = -1 if limit is None else min(limit, MAX_INTEGER)
        bound = (*place, self._over(), *wanted, min(after, MAX_INTEGER), most, min(offset, MAX_INTEGER))
        with self._database.read() as connection:
            rows = [decode_message_row(row) for row in connection.execute(sql, bound)]
        return [StoredMessage(row.sequence, row.message, row.at, row.memory or None) for row in reversed(rows)]

    def replace(self, session: str, messages: Sequence[Message], *, namespace: str = "") -> list[int]:
        """As ``HistoryRows.replace``."""
        place = (checked_namespace(namespace), checked_session(session))
        texts = messages_to_json(messages)
        with self._database.write() as connection:
            before: dict[str, list[tuple[str | None, int]]] = {}
            for text, memory, settled in connection.execute(
                f"SELECT m.message, m.memory, m.settled {MESSAGES_FROM} "
                "WHERE s.namespace = ? AND s.session = ? ORDER BY m.sequence",
                place,
            ):
                before.setdefault(text, []).append((memory, settled))
            delete_messages(connection, place, None, self._over())
            if not texts:
                return []
            kept = [before[text].pop(0) if before.get(text) else (None, 0) for text in texts]
            return self._add(connection, place, messages, texts, kept)

    def delete(self, session: str, sequences: Iterable[int] | None, *, namespace: str = "") -> int:
        """As ``HistoryRows.delete``."""
        place = (checked_namespace(namespace), checked_session(session))
        chosen = None if sequences is None else checked_sequences(sequences)
        with self._database.write() as connection:
            return delete_messages(connection, place, chosen, self._over())

    def erase(self, rows: Sequence[HistoryRow]) -> None:
        """As ``HistoryRows.erase``."""
        if not rows:
            return
        with self._database.write() as connection:
            for row in rows:
                delete_messages(connection, (row.namespace, row.session), [row.sequence], self._over())
            self._database.mark_erasure(connection)
        if not self._database.in_write():
            self._database.finish_erasure()

    def erase_namespace(self, namespace: str) -> int:
        """As ``HistoryRows.erase_namespace``."""
        name = checked_namespace(namespace)
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
        texts = messages_to_json([row.message for row in rows])
        with self._database.write() as connection:
            return sum(insert_message(connection, row, text) for row, text in zip(rows, texts, strict=True))

    def sessions(self, *, namespace: str = "", limit: int | None = None) -> list[SessionInfo]:
        """As ``HistoryStorage.sessions``."""
        check_paging(limit)
        sql = (
            "SELECT s.key, s.session, COUNT(*), MIN(m.at), MAX(m.at), "
            "COALESCE(MIN(CASE m.role WHEN 'user' THEN m.sequence END), MIN(m.sequence)) "
            f"{VISIBLE_FROM} WHERE s.namespace = ? AND {VISIBLE_CONDITION} "
            "GROUP BY s.key ORDER BY MAX(m.at) DESC, s.session LIMIT ?"
        )
        bound = (checked_namespace(namespace), self._over(), -1 if limit is None else min(limit, MAX_INTEGER))
        with self._database.read() as connection:
            return [
                SessionInfo(
                    name,
                    count,
                    timestamp_from_text(first),
                    timestamp_from_text(last),
                    first_words(connection, key, sequence),
                )
                for key, name, count, first, last, sequence in list(connection.execute(sql, bound))
            ]

    def namespaces(self) -> list[str]:
        """As ``HistoryStorage.namespaces``."""
        sql = (
            "SELECT DISTINCT s.namespace FROM history_sessions AS s LEFT JOIN history_bounds AS b ON b.session = s.key "
            f"WHERE EXISTS (SELECT 1 FROM history_messages AS m WHERE m.session = s.key AND {VISIBLE_CONDITION})"
        )
        with self._database.read() as connection:
            return sorted(name for (name,) in connection.execute(sql, (self._over(),)))

    def unsettled(self, limit: int) -> list[HistoryRow]:
        """As ``HistoryRows.unsettled``."""
        return list(self._select("m.settled = 0", (limit,), "ORDER BY m.key LIMIT ?"))

    def reserve(self, rows: Sequence[HistoryRow]) -> None:
        """As ``HistoryRows.reserve``."""
        self._assign(rows, settled=0)

    def settle(self, rows: Sequence[HistoryRow]) -> None:
        """As ``HistoryRows.settle``."""
        with self._database.write() as connection:
            self._assign(rows, settled=1)
            for place in dict.fromkeys((row.namespace, row.session) for row in rows):
                for key in session_keys(connection, place):
                    bounds.delete_hidden_messages(connection, key)

    def of_memories(self, ids: Sequence[str], *, namespace: str = "") -> list[HistoryRow]:
        """As ``HistoryRows.of_memories``."""
        wanted = [one for one in dict.fromkeys(ids) if one]
        return [
            row
            for group in _in_groups(wanted)
            for row in self._select(f"s.namespace = ? AND m.memory IN ({_placeholders(group)})", (namespace, *group))
        ]

    def at(self, places: Sequence[tuple[str, int]], *, namespace: str = "") -> list[HistoryRow]:
        """As ``HistoryRows.at``."""
        test = "s.namespace = ? AND s.session = ? AND m.sequence = ?"
        return [row for place in dict.fromkeys(places) for row in self._select(test, (namespace, *place))]

    def holding(self, texts: Sequence[str], *, namespace: str = "") -> list[HistoryRow]:
        """As ``HistoryRows.holding``."""
        needles = [json_fragment(text).encode() for text in texts]
        # in base64; in several blocks; told together with what a tool was asked
        needles += [b'"media_type":"text/plain"', b'},{"type":', b'"type":"tool_result"']
        found: dict[tuple[str, int], HistoryRow] = {}
        for group in _in_groups(needles):
            test = " OR ".join("instr(CAST(m.message AS BLOB), ?) > 0" for _ in group)
            for row in self._select(f"s.namespace = ? AND ({test})", (namespace, *group)):
                found[row.session, row.sequence] = row
        return list(found.values())

    def kept(self, session: str | None = None, *, namespace: str = "") -> Iterator[HistoryRow]:
        """As ``HistoryRows.kept``."""
        sql = f"SELECT s.session, m.sequence {MESSAGES_FROM} WHERE s.namespace = ? AND s.session = ifnull(?, s.session)"
        with self._database.read() as connection:
            places = list(connection.execute(f"{sql} ORDER BY s.session, m.sequence", (namespace, session)))
        for place in places:  # one at a time: a message may carry a document
            yield from self.at([place], namespace=namespace)

    def next_numbers(self, session: str | None = None, *, namespace: str = "") -> list[tuple[str, int]]:
        """As ``HistoryRows.next_numbers``."""
        sql = "SELECT session, next FROM history_sessions WHERE namespace = ? AND session = ifnull(?, session)"
        with self._database.read() as connection:
            return list(connection.execute(f"{sql} ORDER BY session", (namespace, session)))

    def count_from(self, session: str, number: int, *, namespace: str = "") -> None:
        """As ``HistoryRows.count_from``."""
        place = (checked_namespace(namespace), checked_session(session))
        with self._database.write() as connection:
            ensure_session(connection, place, number)

    def _select(self, test: str, bound: tuple[Any, ...], order: str = "ORDER BY m.key") -> Iterator[HistoryRow]:
        sql = f"SELECT {MESSAGE_COLUMNS} {MESSAGES_FROM} WHERE {test} {order}"
        with self._database.read() as connection:
            return iter([decode_message_row(row) for row in connection.execute(sql, bound)])

    def summary(self, session: str, name: str, *, namespace: str = "") -> Summary | None:
        """As ``SummaryStorage.summary``; a session that is over has none."""
        place = (checked_namespace(namespace), checked_session(session))
        with self._database.read() as connection:
            return read_summary(connection, place, checked_summary_name(name, "name"), self._over())

    def keep_summary(
        self, session: str, summary: Summary, *, before: Summary | None, made_of: Sequence[int], namespace: str = ""
    ) -> bool:
        """As ``SummaryStorage.keep_summary``."""
        place = (checked_namespace(namespace), checked_session(session))
        summary, numbers = checked_summary(summary, before, made_of)
        now = self._clock()
        with self._database.write() as connection:
            present = read_summary(connection, place, summary.name, self._over(now))
            if not is_same_summary(present, before):
                return False
            return write_summary(connection, place, summary, numbers, timestamp_to_text(now))

    def erase_summaries(
        self, memories: Sequence[str], holds: Callable[[str], bool] | None = None, *, namespace: str = ""
    ) -> int:
        """As ``HistoryRows.erase_summaries``."""
        erased = 0
        with self._database.write() as connection:
            for session, sequence in summaries_holding(connection, namespace, memories, holds):
                erased += drop_summaries(connection, (namespace, session), sequence)
            if erased:
                self._database.mark_erasure(connection)
        if erased and not self._database.in_write():
            self._database.finish_erasure()
        return erased

    def _over(self, now: datetime | None = None) -> str:
        return bounds.session_cutoff(self._retention, now or self._clock()) if self._retention is not None else ""

    def _add(
        self,
        connection: Connection,
        place: tuple[str, str],
        messages: Sequence[Message],
        texts: Sequence[str],
        kept: Sequence[tuple[str | None, int]],
    ) -> list[int]:
        """Add messages, each with its memory and whether that is settled; then what has to go for them goes."""
        now = self._clock()
        at = timestamp_to_text(now)
        bounds.end_idle_sessions(connection, self._retention, now)
        connection.execute(
            "INSERT INTO history_sessions (namespace, session, next) VALUES (?, ?, 1) ON CONFLICT DO NOTHING",
            place,
        )
        key, start = next(
            connection.execute("SELECT key, next FROM history_sessions WHERE namespace = ? AND session = ?", place)
        )
        sequences = list(range(start, start + len(texts)))
        connection.executemany(
            "INSERT INTO history_messages (session, sequence, at, role, message, memory, settled, checksum) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (key, sequence, at, message.role, text, memory, settled, history_checksum(place, sequence, at, text))
                for sequence, message, text, (memory, settled) in zip(sequences, messages, texts, kept, strict=True)
            ],
        )
        connection.execute("UPDATE history_sessions SET next = ? WHERE key = ?", (start + len(texts), key))
        bounds.note_session_use(connection, key, at)
        bounds.hide_excess_messages(connection, self._retention, key)
        return sequences

    def _assign(self, rows: Sequence[HistoryRow], *, settled: int) -> None:
        with self._database.write() as connection:
            for row in rows:
                place = (row.namespace, row.session)
                update_message(connection, place, row.sequence, "memory = ?, settled = ?", (row.memory, settled))


def _placeholders(values: Sequence[object]) -> str:
    return ", ".join("?" for _ in values)


def _in_groups(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), _GROUP_SIZE):
        yield values[start : start + _GROUP_SIZE]
