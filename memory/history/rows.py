"""Rows of conversation history: messages and summaries, read and written synchronously inside one transaction.

The rows carry what the public protocol does not show: which memory keeps a message searchable, and whether that is
settled. They run in worker threads; ``DatabaseHistory`` is the async face over them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from tellback.memory.errors import ArgumentError
from tellback.memory.history import retention as bounds
from tellback.memory.history.codec import (
    check_paging,
    checked_namespace,
    checked_roles,
    checked_sequences,
    checked_session,
    checked_summary_name,
    json_fragment,
    messages_to_json,
)
from tellback.memory.history.protocol import HistoryRow, SessionInfo, StoredMessage, Summary, checked_summary
from tellback.memory.history.retention import Retention, checked_retention
from tellback.memory.history.schema import (
    INSERT_MESSAGE,
    MESSAGE_COLUMNS,
    MESSAGES_FROM,
    SUMMARY_COLUMNS,
    SUMMARY_FROM,
    VISIBLE_CONDITION,
    VISIBLE_FROM,
    HistoryTables,
    decode_message_row,
    decode_summary_row,
    history_checksum,
    summary_checksum,
)
from tellback.memory.timestamps import Clock, system_clock, timestamp_from_text, timestamp_to_text, to_aware
from tellback.vectorstore import Connection, DamageError, Database, Finding

if TYPE_CHECKING:
    from tellback.memory.messages import Message, Role

_GROUP_SIZE: Final = 200
_KEPT_GROUP_SIZE: Final = 20
"""Messages that are read at once where all are: one may carry a document."""
_MAX_INTEGER: Final = 2**63 - 1
"""The largest number that a database knows."""
_Value = TypeVar("_Value")
_NewRow: TypeAlias = tuple[str | None, str, str, str | None, int]
"""When a message was stored (None: now), its role, its JSON, its memory, and whether that is settled."""
DamageCallback: TypeAlias = Callable[[Finding], object]
"""Called with each damaged row that a reading passes over."""


class HistoryRows:
    """Rows of messages and summaries in *database*. A call is one transaction, or part of the one its thread is in.

    *retention* bounds what readings show; *clock* gives the times. A row is not *settled* while its memory is still to
    be decided or written: the message is safe in history, and crash recovery completes it.
    """

    def __init__(self, database: Database, *, clock: Clock = system_clock, retention: Retention | None = None) -> None:
        if not isinstance(database, Database):
            expected = "a Database is needed, such as vectorstore.sqlite.SqliteDatabase(path)"
            raise ArgumentError("database", database, expected)
        self.database = database
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
        """As ``HistoryStorage.append``; *memories* are ids reserved for them (empty: nothing to keep)."""
        owner, texts = _checked_owner(namespace, session), messages_to_json(messages)
        if not texts:
            return []
        remembered = [(memory, int(memory == "")) for memory in memories or [None] * len(texts)]
        with self.database.write(lock=namespace) as connection:
            return self._add_messages(connection, owner, _new_rows(messages, texts, remembered))

    def load(
        self,
        session: str,
        *,
        namespace: str = "",
        limit: int | None = None,
        offset: int = 0,
        roles: Iterable[Role] | None = None,
        after: int = 0,
        on_damage: DamageCallback | None = None,
    ) -> list[StoredMessage]:
        """As ``HistoryStorage.load``; damaged messages go to *on_damage*, where it is given, and are passed over."""
        owner = _checked_owner(namespace, session)
        check_paging(limit, offset, after)
        role_names = checked_roles(roles)
        sql = (
            f"SELECT {MESSAGE_COLUMNS} {VISIBLE_FROM} WHERE s.namespace = ? AND s.session = ? AND {VISIBLE_CONDITION} "
            f"AND m.role IN ({_placeholders(role_names)}) AND m.sequence > ? ORDER BY m.sequence DESC LIMIT ? OFFSET ?"
        )
        window = (min(after, _MAX_INTEGER), _sql_limit(limit), min(offset, _MAX_INTEGER))
        bound = (*owner, self._session_cutoff(), *role_names, *window)
        try:
            with self.database.read() as connection:
                rows = [decode_message_row(row) for row in connection.execute(sql, bound)]
        except DamageError:
            if on_damage is None:
                raise
            visible = self._visible_rows(owner, on_damage)
            rows = [row for row in visible if row.message.role in role_names and row.sequence > after][::-1]
            rows = rows[offset : None if limit is None else offset + limit]
        return [StoredMessage(row.sequence, row.message, row.at, row.memory or None) for row in reversed(rows)]

    def replace(self, session: str, messages: Sequence[Message], *, namespace: str = "") -> list[int]:
        """As ``HistoryStorage.replace``; a message that was stored before keeps its memory."""
        owner, texts = _checked_owner(namespace, session), messages_to_json(messages)
        sql = f"SELECT m.message, m.memory, m.settled {MESSAGES_FROM} WHERE s.namespace = ? AND s.session = ?"
        with self.database.write(lock=namespace) as connection:
            before: dict[str, list[tuple[str | None, int]]] = {}
            for text, memory, settled in connection.execute(f"{sql} ORDER BY m.sequence", owner):
                before.setdefault(text, []).append((memory, settled))
            self._delete(connection, owner, None)
            if not texts:
                return []
            remembered = [before[text].pop(0) if before.get(text) else (None, 0) for text in texts]
            return self._add_messages(connection, owner, _new_rows(messages, texts, remembered))

    def copy(self, session: str, new: str, *, namespace: str = "") -> list[int]:
        """As ``HistoryStorage.copy``; a copied message keeps its memory, so that forgetting that takes every copy."""
        owner = _checked_owner(namespace, session)
        fork = owner[0], checked_session(new, "new")
        visible = f"{VISIBLE_FROM} WHERE s.namespace = ? AND s.session = ? AND {VISIBLE_CONDITION}"
        cutoff = self._session_cutoff()
        with self.database.write(lock=namespace) as connection:
            if next(connection.execute(f"SELECT COUNT(*) {visible}", (*fork, cutoff)))[0]:
                raise ArgumentError("new", new, "the id of a session that has no messages is needed")
            sql = f"SELECT {MESSAGE_COLUMNS}, m.settled {visible} ORDER BY m.sequence"
            rows = []
            for *columns, settled in list(connection.execute(sql, (*owner, cutoff))):
                row = decode_message_row(tuple(columns))  # damage must not get a checksum that is right
                # a memory that is still being written is the first message's to write
                done = settled if row.memory is None else 1
                rows.append((timestamp_to_text(row.at), row.message.role, columns[4], row.memory, done))
            return self._add_messages(connection, fork, rows) if rows else []

    def delete(self, session: str, sequences: Iterable[int] | None, *, namespace: str = "") -> int:
        """As ``HistoryStorage.delete``; None means all."""
        owner = _checked_owner(namespace, session)
        chosen = None if sequences is None else checked_sequences(sequences)
        with self.database.write(lock=namespace) as connection:
            return self._delete(connection, owner, chosen)

    def erase(self, rows: Sequence[HistoryRow]) -> None:
        """Remove rows and see to their bytes: at the end of the transaction, or marked as pending."""
        if not rows:
            return
        with self.database.write(lock=_only_namespace(rows)) as connection:
            sequences: dict[tuple[str, str], list[int]] = {}
            for row in rows:
                sequences.setdefault((row.namespace, row.session), []).append(row.sequence)
            for owner, numbers in sequences.items():
                self._delete(connection, owner, numbers)
            self.database.mark_erasure(connection)
        if not self.database.in_write():
            self.database.finish_erasure()

    def erase_namespace(self, namespace: str) -> int:
        """Remove all messages of a namespace, and the names of its sessions, as ``erase``; return how many."""
        bound = (checked_namespace(namespace),)
        sessions = "history_sessions WHERE namespace = ?"
        with self.database.write(lock=namespace) as connection:
            connection.execute(f"DELETE FROM history_messages WHERE session IN (SELECT key FROM {sessions})", bound)
            removed = connection.changes()
            connection.execute(f"DELETE FROM {sessions}", bound)
            self.database.mark_erasure(connection)
        if not self.database.in_write():
            self.database.finish_erasure()
        return removed

    def place(self, rows: Sequence[HistoryRow]) -> int:
        """Put rows at their own session and sequence, with their own time; return how many.

        A number that is taken is left as it is. Numbers that are given later are above those put.
        """
        texts, placed = messages_to_json([row.message for row in rows]), 0
        with self.database.write(lock=_only_namespace(rows)) as connection:
            sessions: dict[tuple[str, str], list[tuple[int, str, str, str, str | None, int]]] = {}
            for row, text in zip(rows, texts, strict=True):
                columns = (row.sequence, timestamp_to_text(row.at), row.message.role, text, row.memory)
                owner = _checked_owner(row.namespace, row.session)
                sessions.setdefault(owner, []).append((*columns, int(row.memory is not None)))
            for owner, messages in sessions.items():
                key, _ = self._open_session(connection, owner, max(message[0] for message in messages) + 1)
                before = connection.total_changes()
                connection.executemany(
                    f"{INSERT_MESSAGE} ON CONFLICT DO NOTHING",
                    [_message_values(key, owner, message) for message in messages],
                )
                placed += connection.total_changes() - before
                latest = max(message[1] for message in messages)
                bounds.note_session_use(connection, key, latest, unless_later=True)
        return placed

    def sessions(self, *, namespace: str = "", limit: int | None = None) -> list[SessionInfo]:
        """As ``HistoryStorage.sessions``."""
        check_paging(limit)
        as_bytes = self.database.dialect.text_bytes
        sql = (
            "SELECT g.key, g.session, g.number, g.begins, "
            f"f.at, {as_bytes.format('f.message')}, l.at, {as_bytes.format('l.message')} FROM ("
            "SELECT s.key, s.session, COUNT(*) AS number, MIN(m.sequence) AS first, MAX(m.sequence) AS last, "
            "COALESCE(MIN(CASE m.role WHEN 'user' THEN m.sequence END), MIN(m.sequence)) AS begins "
            f"{VISIBLE_FROM} WHERE s.namespace = ? AND {VISIBLE_CONDITION} GROUP BY s.key) AS g "
            "JOIN history_messages AS f ON f.session = g.key AND f.sequence = g.first "
            "JOIN history_messages AS l ON l.session = g.key AND l.sequence = g.last"
        )
        bound = (checked_namespace(namespace), self._session_cutoff())
        from tellback.memory.messages import TITLE, message_excerpt

        sessions = []
        with self.database.read() as connection:
            found = [
                (key, sequence, SessionInfo(name, count, _said_at(*times[:2]), _said_at(*times[2:])))
                for key, name, count, sequence, *times in connection.execute(sql, bound)
            ]
            found.sort(key=lambda item: item[2].session)
            found.sort(key=lambda item: item[2].last_at, reverse=True)
            shown = found[:limit]
            firsts = self._readable("(m.session, m.sequence)", [(key, sequence) for key, sequence, _ in shown])
            row_of = {row.session: row for row in firsts}
            for _, _, info in shown:
                title: object = None
                if (first := row_of.get(info.session)) is not None:
                    begins, title = message_excerpt(first.message), first.message.metadata.get(TITLE)
                else:  # its other messages can still be read
                    begins = "(damaged)"
                sessions.append(replace(info, begins=begins, title=title if isinstance(title, str) else ""))
        return sessions

    def namespaces(self) -> list[str]:
        """As ``HistoryStorage.namespaces``."""
        sql = (
            "SELECT DISTINCT s.namespace FROM history_sessions AS s LEFT JOIN history_bounds AS b ON b.session = s.key "
            f"WHERE EXISTS (SELECT 1 FROM history_messages AS m WHERE m.session = s.key AND {VISIBLE_CONDITION})"
        )
        with self.database.read() as connection:
            return sorted(name for (name,) in connection.execute(sql, (self._session_cutoff(),)))

    def unsettled(self, limit: int) -> list[HistoryRow]:
        """Return rows whose memory is still to be decided or written, oldest first."""
        return self._select("m.settled = 0", (limit,), "ORDER BY m.key LIMIT ?")

    def reserve(self, rows: Sequence[HistoryRow]) -> None:
        """Record the id of each row's memory, which is still to be written."""
        self._assign(rows, settled=0)

    def settle(self, rows: Sequence[HistoryRow]) -> None:
        """Mark each row's memory as written; an empty id means that the message has none."""
        with self.database.write(lock=_only_namespace(rows)) as connection:
            self._assign(rows, settled=1)
            for owner in dict.fromkeys((row.namespace, row.session) for row in rows):
                for key in _session_keys(connection, owner):
                    bounds.delete_hidden_messages(connection, key)

    def of_memories(self, ids: Sequence[str], *, namespace: str = "") -> list[HistoryRow]:
        """Return the rows that these memories keep."""
        rows: list[HistoryRow] = []
        for group in _in_groups([id for id in dict.fromkeys(ids) if id]):
            rows += self._select(f"s.namespace = ? AND m.memory IN ({_placeholders(group)})", (namespace, *group))
        return rows

    def at(self, positions: Sequence[tuple[str, int]], *, namespace: str = "") -> list[HistoryRow]:
        """Return the rows at (session, sequence); positions without a row are passed over."""
        places = list(dict.fromkeys(positions))
        rows = self._select_at("(s.session, m.sequence)", places, "s.namespace = ? AND ", (namespace,))
        row_of = {(row.session, row.sequence): row for row in rows}
        return [row_of[place] for place in places if place in row_of]

    def holding(self, texts: Sequence[str], *, namespace: str = "") -> list[HistoryRow]:
        """Return rows that may hold one of *texts* in any of their parts, or over several; the caller looks closely."""
        needles = [json_fragment(text).encode() for text in texts]
        # in base64; in several blocks; a tool's answer joined with its question
        needles += [b'"media_type":"text/plain"', b'},{"type":', b'"type":"tool_result"']
        contains = self.database.dialect.contains_bytes.format("m.message")
        rows: dict[tuple[str, int], HistoryRow] = {}
        for group in _in_groups(needles):
            test = " OR ".join(contains for _ in group)
            for row in self._select(f"s.namespace = ? AND ({test})", (namespace, *group)):
                rows[row.session, row.sequence] = row
        return list(rows.values())

    def kept(
        self, session: str | None = None, *, namespace: str = "", on_damage: DamageCallback | None = None
    ) -> Iterator[HistoryRow]:
        """Yield every row of a session (None: of all) by session and number, those too that a retention has hidden.

        Damaged ones go to *on_damage*, where it is given, and are passed over.
        """
        sql = (
            f"SELECT s.session, m.sequence {MESSAGES_FROM} WHERE s.namespace = ? AND s.session = coalesce(?, s.session)"
        )
        with self.database.read() as connection:
            positions = list(connection.execute(f"{sql} ORDER BY s.session, m.sequence", (namespace, session)))
        for group in _in_groups(positions, _KEPT_GROUP_SIZE):
            try:
                yield from self.at(group, namespace=namespace)
            except DamageError:
                yield from self._kept_singly(group, namespace, on_damage)

    def _kept_singly(
        self, positions: Sequence[tuple[str, int]], namespace: str, on_damage: DamageCallback | None
    ) -> Iterator[HistoryRow]:
        for position in positions:
            try:
                rows = self.at([position], namespace=namespace)
            except DamageError as error:
                if on_damage is None:
                    raise
                on_damage(Finding("history", f"a message is damaged: {error}", f"{position[0]} {position[1]}"))
            else:
                yield from rows

    def next_numbers(self, session: str | None = None, *, namespace: str = "") -> list[tuple[str, int]]:
        """Return sessions (None: all), in order, with the number that the next message gets; empty ones are included,
        since numbers are never given twice.
        """
        sql = "SELECT session, next FROM history_sessions WHERE namespace = ? AND session = coalesce(?, session)"
        with self.database.read() as connection:
            return list(connection.execute(f"{sql} ORDER BY session", (namespace, session)))

    def count_from(self, session: str, number: int, *, namespace: str = "") -> None:
        """Let the next message of *session* get *number*, or a later one where that is due."""
        with self.database.write(lock=namespace) as connection:
            self._open_session(connection, _checked_owner(namespace, session), number)

    def summary(self, session: str, name: str, *, namespace: str = "") -> Summary | None:
        """As ``SummaryStorage.summary``; a session that is over has none."""
        return self._summary(_checked_owner(namespace, session), checked_summary_name(name, "name"))

    def keep_summary(
        self, session: str, summary: Summary, *, before: Summary | None, made_of: Sequence[int], namespace: str = ""
    ) -> bool:
        """As ``SummaryStorage.keep_summary``."""
        owner, now = _checked_owner(namespace, session), self._clock()
        summary, numbers = checked_summary(summary, before, made_of)
        values = (summary.name, summary.through, summary.messages, timestamp_to_text(now), summary.text)
        sources = sorted(set(numbers))
        sql = f"SELECT COUNT(*) {MESSAGES_FROM} WHERE s.namespace = ? AND s.session = ? AND m.sequence IN"
        with self.database.write(lock=namespace) as connection:
            present = self._summary(owner, summary.name, now)
            if (present and replace(present, at=None)) != (before and replace(before, at=None)):
                return False
            stored = 0
            for group in _in_groups(sources):
                stored += next(connection.execute(f"{sql} ({_placeholders(group)})", (*owner, *group)))[0]
            if stored < len(sources):
                return False
            connection.execute(
                "INSERT INTO history_summaries (session, name, through, messages, at, text, checksum) "
                "SELECT key, ?, ?, ?, ?, ?, ? FROM history_sessions WHERE namespace = ? AND session = ? "
                "ON CONFLICT (session, name) DO UPDATE SET through = excluded.through, messages = excluded.messages, "
                "at = excluded.at, text = excluded.text, checksum = excluded.checksum",
                (*values, summary_checksum((*owner, *values)), *owner),
            )
        return True

    def erase_summaries(
        self, memories: Sequence[str], holds: Callable[[str], bool] | None = None, *, namespace: str = ""
    ) -> int:
        """Erase summaries of messages that *memories* kept and a retention has taken since, and those whose text
        *holds* what is forgotten; return how many. (``erase`` sees to summaries of messages that are stored.)
        """
        joined = "FROM history_left AS l JOIN history_sessions AS s ON s.key = l.session"
        of_memory = f"SELECT l.session, l.sequence {joined} WHERE s.namespace = ? AND l.memory = ?"
        with self.database.write(lock=namespace) as connection:
            places = [place for memory in memories for place in connection.execute(of_memory, (namespace, memory))]
            if holds is not None:
                sql = f"SELECT y.session, y.through, y.text {SUMMARY_FROM} WHERE s.namespace = ?"
                places += [row[:2] for row in connection.execute(sql, (namespace,)) if holds(row[2])]
            erased = sum(_drop_summaries(connection, key, sequence) for key, sequence in places)
            if erased:
                self.database.mark_erasure(connection)
        if erased and not self.database.in_write():
            self.database.finish_erasure()
        return erased

    def _select(self, test: str, bound: tuple[Any, ...], order: str = "ORDER BY m.key") -> list[HistoryRow]:
        sql = f"SELECT {MESSAGE_COLUMNS} {MESSAGES_FROM} WHERE {test} {order}"
        with self.database.read() as connection:
            return [decode_message_row(row) for row in connection.execute(sql, bound)]

    def _select_at(
        self, columns: str, places: Sequence[tuple[Any, int]], test: str = "", bound: tuple[Any, ...] = ()
    ) -> list[HistoryRow]:
        """Return the rows whose *columns* are one of *places*, those that pass *test*."""
        rows: list[HistoryRow] = []
        for group in _in_groups(places):
            marks = ", ".join(["(?, ?)"] * len(group))
            rows += self._select(f"{test}{columns} IN (VALUES {marks})", (*bound, *chain.from_iterable(group)))
        return rows

    def _readable(self, columns: str, places: Sequence[tuple[Any, int]]) -> list[HistoryRow]:
        """As ``_select_at``, without rows that are damaged."""
        try:
            return self._select_at(columns, places)
        except DamageError:
            if len(places) == 1:
                return []
            return [row for place in places for row in self._readable(columns, [place])]

    def _visible_rows(self, owner: tuple[str, str], on_damage: DamageCallback) -> list[HistoryRow]:
        """Return the readable rows of a session that readings show, one by one: damage can be in a row or a page."""
        namespace, session = owner
        sql = (
            "SELECT b.first, b.used_at FROM history_bounds AS b JOIN history_sessions AS s ON s.key = b.session"
            " WHERE s.namespace = ? AND s.session = ?"
        )
        with self.database.read() as connection:
            bound = connection.execute(sql, owner).fetchone()
        if bound is not None and not (bound[1] or "") > self._session_cutoff():
            return []
        first = 0 if bound is None else bound[0]
        rows = self.kept(session, namespace=namespace, on_damage=on_damage)
        return [row for row in rows if row.sequence >= first or row.message.role == "system"]

    def _summary(self, owner: tuple[str, str], name: str, now: datetime | None = None) -> Summary | None:
        sql = (
            f"SELECT {SUMMARY_COLUMNS} {SUMMARY_FROM} LEFT JOIN history_bounds AS b ON b.session = y.session "
            "WHERE s.namespace = ? AND s.session = ? AND y.name = ? AND (b.session IS NULL OR b.used_at > ?)"
        )
        with self.database.read() as connection:
            rows = connection.execute(sql, (*owner, name, self._session_cutoff(now)))
            return next((decode_summary_row(row) for row in rows), None)

    def _session_cutoff(self, now: datetime | None = None) -> str:
        """Return the time at or before which a session must have been used last to be over, or ""."""
        return bounds.session_cutoff(self._retention, now or self._clock()) if self._retention is not None else ""

    def _open_session(self, connection: Connection, owner: tuple[str, str], number: int) -> tuple[int, int]:
        """Return the key of a session, made if it is new, and its next sequence number: *number*, or a later one."""
        ((key, following),) = connection.execute(
            "INSERT INTO history_sessions (namespace, session, next) VALUES (?, ?, ?) ON CONFLICT (namespace, session) "
            f"DO UPDATE SET next = {self.database.dialect.greatest}(history_sessions.next, excluded.next) "
            "RETURNING key, next",
            (*owner, number),
        )
        return key, following

    def _add_messages(
        self,
        connection: Connection,
        owner: tuple[str, str],
        rows: Sequence[_NewRow],
    ) -> list[int]:
        """Add messages, then apply the retention."""
        now = self._clock()
        time = timestamp_to_text(now)
        bounds.end_idle_sessions(connection, self._retention, now)
        key, start = self._open_session(connection, owner, 1)
        sequences = list(range(start, start + len(rows)))
        connection.executemany(
            INSERT_MESSAGE,
            [
                _message_values(key, owner, (sequence, at or time, role, text, memory, settled))
                for sequence, (at, role, text, memory, settled) in zip(sequences, rows, strict=True)
            ],
        )
        connection.execute("UPDATE history_sessions SET next = ? WHERE key = ?", (start + len(rows), key))
        bounds.note_session_use(connection, key, time)
        bounds.hide_excess_messages(connection, self._retention, key)
        return sequences

    def _delete(self, connection: Connection, owner: tuple[str, str], sequences: Sequence[int] | None) -> int:
        """Delete messages (None: all) and the summaries made of them; return how many of them were visible."""
        cutoff, removed = self._session_cutoff(), 0
        numbers = [number for number in sequences or () if 0 < number <= _MAX_INTEGER]
        groups: list[Sequence[int] | None] = [None] if sequences is None else list(_in_groups(numbers))
        for key in _session_keys(connection, owner):
            for group in groups:
                selected = "m.session = ?" + ("" if group is None else f" AND m.sequence IN ({_placeholders(group)})")
                bound = (key, *(group or ()))
                visible = f"SELECT COUNT(*) {VISIBLE_FROM} WHERE {VISIBLE_CONDITION} AND {selected}"
                removed += next(connection.execute(visible, (cutoff, *bound)))[0]
                delete = f"DELETE FROM history_messages AS m WHERE {selected} RETURNING sequence"
                deleted = [sequence for (sequence,) in connection.execute(delete, bound)]
                if group is None or deleted:
                    _drop_summaries(connection, key, 1 if group is None else min(deleted))
        return removed

    def _assign(self, rows: Sequence[HistoryRow], *, settled: int) -> None:
        with self.database.write(lock=_only_namespace(rows)) as connection:
            connection.executemany(
                "UPDATE history_messages SET memory = ?, settled = ? WHERE sequence = ? "
                "AND session = (SELECT key FROM history_sessions WHERE namespace = ? AND session = ?)",
                [(row.memory, settled, row.sequence, row.namespace, row.session) for row in rows],
            )


def _only_namespace(rows: Sequence[HistoryRow]) -> str | None:
    """Return the namespace of all *rows*; None where there are several."""
    namespaces = {row.namespace for row in rows}
    return namespaces.pop() if len(namespaces) == 1 else None


def _new_rows(
    messages: Sequence[Message], texts: Sequence[str], remembered: Sequence[tuple[str | None, int]]
) -> list[_NewRow]:
    items = zip(messages, texts, remembered, strict=True)
    return [(None, message.role, text, memory, settled) for message, text, (memory, settled) in items]


def _checked_owner(namespace: object, session: object) -> tuple[str, str]:
    return checked_namespace(namespace), checked_session(session)


def _said_at(kept: str, text: bytes) -> datetime:
    """Return when the message of the JSON *text* was said; where it does not tell, when it was *kept*."""
    try:
        time = json.loads(text).get("at")
        return timestamp_from_text(kept) if time is None else to_aware(datetime.fromisoformat(time))
    except (ValueError, TypeError, AttributeError):  # damaged; reading the message says so
        return timestamp_from_text(kept)


def _sql_limit(limit: int | None) -> int:
    return _MAX_INTEGER if limit is None else min(limit, _MAX_INTEGER)


def _placeholders(values: Sequence[object]) -> str:
    return ", ".join("?" for _ in values) or "NULL"  # which nothing equals


def _in_groups(values: Sequence[_Value], size: int = _GROUP_SIZE) -> Iterator[Sequence[_Value]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]


def _message_values(
    key: int, owner: tuple[str, str], columns: tuple[int, str, str, str, str | None, int]
) -> tuple[Any, ...]:
    """Return the values of ``INSERT_MESSAGE``: *columns* are those between the session and the checksum."""
    sequence, time, _, text, _, _ = columns
    return key, *columns, history_checksum(owner, sequence, time, text)


def _session_keys(connection: Connection, owner: tuple[str, str]) -> list[int]:
    """Return the key of a session; nothing for one that is unknown."""
    sql = "SELECT key FROM history_sessions WHERE namespace = ? AND session = ?"
    return [key for (key,) in connection.execute(sql, owner)]


def _drop_summaries(connection: Connection, key: int, sequence: int) -> int:
    """Delete the session's summaries that reach to the number *sequence*; return how many."""
    connection.execute("DELETE FROM history_summaries WHERE session = ? AND through >= ?", (key, sequence))
    dropped = connection.changes()
    left = "DELETE FROM history_left WHERE session = ? AND session NOT IN (SELECT session FROM history_summaries)"
    connection.execute(left, (key,))
    return dropped
