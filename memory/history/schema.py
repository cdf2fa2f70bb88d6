"""Tables of conversation history in the memory's file, and statements on single messages and summaries.

history_sessions   namespace, session, the next sequence number; a row stays when its messages go
history_messages   session, sequence, when, role, the message as JSON, its memory, whether that is settled,
                   checksum
history_bounds     session, the first number that readings show, when it was used last (NULL: it is over); a session
                   without a row is shown as a whole
history_summaries  session, name, the last number summed up, of how many messages, when, the text, checksum
history_left       session, sequence and memory of messages that a retention took and a summary still tells of

The functions on messages and summaries run inside a transaction of their caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final

from memory.history.codec import checked_namespace, checked_session, message_from_json
from memory.history.protocol import Summary
from memory.history.sync_history import HistoryRow
from memory.message_text import message_excerpt
from memory.timestamps import timestamp_from_text, timestamp_to_text
from vectorstore import Connection, DamageError, Finding

MESSAGE_COLUMNS: Final = "s.namespace, s.session, m.sequence, m.at, m.message, m.memory, m.checksum"
_STORED_COLUMNS: Final = "session, sequence, at, role, message, memory, settled, checksum"
MESSAGES_FROM: Final = "FROM history_messages AS m JOIN history_sessions AS s ON s.key = m.session"
VISIBLE_FROM: Final = f"{MESSAGES_FROM} LEFT JOIN history_bounds AS b ON b.session = m.session"
VISIBLE_CONDITION: Final = "(b.session IS NULL OR (b.used_at > ? AND (m.sequence >= b.first OR m.role = 'system')))"
"""What readings show; bound is the time at or before which a session must have been used to be over, or ''."""
SUMMARY_COLUMNS: Final = "s.namespace, s.session, y.name, y.through, y.messages, y.at, y.text, y.checksum"
SUMMARY_FROM: Final = "FROM history_summaries AS y JOIN history_sessions AS s ON s.key = y.session"


class HistoryTables:
    """The tables of history as a component of a database."""

    name = "history"

    @property
    def migrations(self) -> Sequence[Callable[[Connection], None]]:
        """What has been done to the tables, in order."""
        return (m001_history_tables, m002_bounds_and_summaries)

    def verify(self, connection: Connection) -> list[Finding]:
        """Compare messages and summaries with their checksums, the numbers with the next one to be given."""
        findings: list[Finding] = []
        for columns, source, decode in (
            (MESSAGE_COLUMNS, MESSAGES_FROM, decode_message_row),
            (SUMMARY_COLUMNS, SUMMARY_FROM, decode_summary_row),
        ):
            for row in connection.execute(f"SELECT {columns} {source}"):
                try:
                    decode(row)
                except DamageError as error:
                    findings.extend(error.findings)
        for namespace, session in connection.execute(
            f"SELECT s.namespace, s.session {MESSAGES_FROM} GROUP BY s.key HAVING MAX(m.sequence) >= s.next"
        ):
            findings.append(Finding("history", "a sequence number could be given twice", f"{namespace}/{session}"))
        return findings

    def rebuild(self, connection: Connection) -> None:
        """Set the next sequence numbers from the messages, and drop summaries that are damaged."""
        connection.execute(
            "UPDATE history_sessions SET next = MAX(next, 1 + COALESCE("
            "(SELECT MAX(sequence) FROM history_messages AS m WHERE m.session = history_sessions.key), 0))"
        )
        for row in list(connection.execute(f"SELECT {SUMMARY_COLUMNS}, y.session {SUMMARY_FROM}")):
            if _summary_checksum(row) != row[7]:
                connection.execute("DELETE FROM history_summaries WHERE session = ? AND name = ?", (row[8], row[2]))

    def salvage(self, source: Connection, target: Connection) -> int:
        """Copy every session, and every message that is what was written."""
        sessions = list(source.execute("SELECT key, namespace, session, next FROM history_sessions"))
        target.executemany("INSERT INTO history_sessions (key, namespace, session, next) VALUES (?, ?, ?, ?)", sessions)
        names = {key: (namespace, session) for key, namespace, session, _ in sessions}
        copied = 0
        for row in source.execute(f"SELECT {_STORED_COLUMNS} FROM history_messages ORDER BY key"):
            place = names.get(row[0])
            if place is not None and history_checksum(place, row[1], row[2], row[4]) == row[7]:
                insert = f"INSERT INTO history_messages ({_STORED_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                target.execute(insert, row)
                copied += 1
        return copied + _salvage_bounds_and_summaries(source, target, names)


def _salvage_bounds_and_summaries(source: Connection, target: Connection, names: dict[int, tuple[str, str]]) -> int:
    """Copy bounds and summaries, which a file of an earlier version does not have."""
    tables = {name for (name,) in source.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    copied = 0
    if "history_bounds" in tables:
        rows = source.execute("SELECT session, first, used_at FROM history_bounds")
        known = [row for row in rows if row[0] in names]
        target.executemany("INSERT INTO history_bounds (session, first, used_at) VALUES (?, ?, ?)", known)
        rows = source.execute("SELECT session, sequence, memory FROM history_left")
        known = [row for row in rows if row[0] in names]
        target.executemany("INSERT INTO history_left (session, sequence, memory) VALUES (?, ?, ?)", known)
        for row in source.execute(f"SELECT {SUMMARY_COLUMNS}, y.session {SUMMARY_FROM}"):
            if _summary_checksum(row) == row[7]:
                target.execute("INSERT INTO history_summaries VALUES (?, ?, ?, ?, ?, ?, ?)", (row[8], *row[2:8]))
                copied += 1
    return copied


def m001_history_tables(connection: Connection) -> None:
    """Make the first tables."""
    for statement in (
        """
        CREATE TABLE history_sessions (
            key INTEGER PRIMARY KEY,
            namespace TEXT NOT NULL,
            session TEXT NOT NULL,
            next INTEGER NOT NULL,
            UNIQUE (namespace, session)
        ) STRICT
        """,
        """
        CREATE TABLE history_messages (
            key INTEGER PRIMARY KEY AUTOINCREMENT,
            session INTEGER NOT NULL REFERENCES history_sessions (key),
            sequence INTEGER NOT NULL,
            at TEXT NOT NULL,
            role TEXT NOT NULL,
            message TEXT NOT NULL,
            memory TEXT,
            settled INTEGER NOT NULL,
            checksum INTEGER NOT NULL,
            UNIQUE (session, sequence)
        ) STRICT
        """,
        "CREATE INDEX history_unsettled ON history_messages (key) WHERE settled = 0",
        "CREATE INDEX history_memories ON history_messages (memory) WHERE memory IS NOT NULL",
    ):
        connection.execute(statement)


def m002_bounds_and_summaries(connection: Connection) -> None:
    """Make room for what a retention hides and for summaries."""
    for statement in (
        """
        CREATE TABLE history_bounds (
            session INTEGER PRIMARY KEY REFERENCES history_sessions (key) ON DELETE CASCADE,
            first INTEGER NOT NULL,
            used_at TEXT
        ) STRICT
        """,
        """
        CREATE TABLE history_summaries (
            session INTEGER NOT NULL REFERENCES history_sessions (key) ON DELETE CASCADE,
            name TEXT NOT NULL,
            through INTEGER NOT NULL,
            messages INTEGER NOT NULL,
            at TEXT NOT NULL,
            text TEXT NOT NULL,
            checksum INTEGER NOT NULL,
            PRIMARY KEY (session, name)
        ) STRICT
        """,
        """
        CREATE TABLE history_left (
            session INTEGER NOT NULL REFERENCES history_sessions (key) ON DELETE CASCADE,
            sequence INTEGER NOT NULL,
            memory TEXT NOT NULL,
            PRIMARY KEY (session, sequence)
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE INDEX history_left_memories ON history_left (memory)",
        """
        INSERT INTO history_bounds (session, first, used_at)
        SELECT session, 1, MAX(at) FROM history_messages GROUP BY session
        """,
    ):
        connection.execute(statement)


def decode_message_row(row: tuple[Any, ...]) -> HistoryRow:
    """Return a row of ``MESSAGE_COLUMNS``, or raise when it is not what was written."""
    namespace, session, sequence, at, text, memory, checksum = row
    if history_checksum((namespace, session), sequence, at, text) != checksum:
        raise DamageError([Finding("history", "a message is not what was written", f"{session} {sequence}")])
    return HistoryRow(namespace, session, sequence, message_from_json(text), timestamp_from_text(at), memory)


def decode_summary_row(row: tuple[Any, ...]) -> Summary:
    """Return a row of ``SUMMARY_COLUMNS``, or raise when it is not what was written."""
    _, session, name, through, messages, at, text, checksum = row
    if _summary_checksum(row) != checksum:
        raise DamageError([Finding("history", "a summary is not what was written", f"{session} {name}")])
    return Summary(name, text, through, messages, timestamp_from_text(at))


def _summary_checksum(row: tuple[Any, ...]) -> int:
    namespace, session, name, through, messages, at, text = row[:7]
    return history_checksum((namespace, session, name, str(messages)), through, at, text)


def history_checksum(place: tuple[str, ...], sequence: int, at: str, text: str) -> int:
    """Return the checksum of a message, or of a summary, in its place."""
    parts = [part.encode() for part in (*place, str(sequence), at, text)]
    digest = blake2b(",".join(str(len(part)) for part in parts).encode(), digest_size=8)
    for part in parts:
        digest.update(part)
    return int.from_bytes(digest.digest(), "little", signed=True)


_GROUP_SIZE = 200


def read_summary(connection: Connection, place: tuple[str, str], name: str, over: str) -> Summary | None:
    """Return the summary of that name, or None; of a session used last at or before *over* there is none."""
    sql = (
        f"SELECT {SUMMARY_COLUMNS} {SUMMARY_FROM} LEFT JOIN history_bounds AS b ON b.session = y.session "
        "WHERE s.namespace = ? AND s.session = ? AND y.name = ? AND (b.session IS NULL OR b.used_at > ?)"
    )
    return next((decode_summary_row(row) for row in connection.execute(sql, (*place, name, over))), None)


def write_summary(
    connection: Connection,
    place: tuple[str, str],
    summary: Summary,
    made_of: Sequence[int],
    at: str,
) -> bool:
    """Put *summary* in the place of the one before if all it is made of is there; say whether."""
    keys = list(connection.execute("SELECT key FROM history_sessions WHERE namespace = ? AND session = ?", place))
    if not keys:
        return False
    key = keys[0][0]
    numbers = list(dict.fromkeys(made_of))
    present = 0
    for start in range(0, len(numbers), _GROUP_SIZE):
        group = numbers[start : start + _GROUP_SIZE]
        marks = ", ".join("?" for _ in group)
        sql = f"SELECT COUNT(*) FROM history_messages WHERE session = ? AND sequence IN ({marks})"
        present += next(connection.execute(sql, (key, *group)))[0]
    if present < len(numbers):
        return False
    checksum = history_checksum((*place, summary.name, str(summary.messages)), summary.through, at, summary.text)
    connection.execute(
        "INSERT OR REPLACE INTO history_summaries (session, name, through, messages, at, text, checksum) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (key, summary.name, summary.through, summary.messages, at, summary.text, checksum),
    )
    return True


def drop_summaries(connection: Connection, place: tuple[str, str], sequence: int) -> int:
    """Delete the session's summaries that reach to the number *sequence*; return how many."""
    of_session = "session = (SELECT key FROM history_sessions WHERE namespace = ? AND session = ?)"
    connection.execute(f"DELETE FROM history_summaries WHERE through >= ? AND {of_session}", (sequence, *place))
    dropped = connection.changes()
    connection.execute(
        f"DELETE FROM history_left WHERE {of_session} AND session NOT IN (SELECT session FROM history_summaries)", place
    )
    return dropped


def summaries_holding(
    connection: Connection, namespace: str, memories: Sequence[str], holds: Callable[[str], bool] | None
) -> Iterator[tuple[str, int]]:
    """Yield session and reach of what tells of a message that was one of *memories*, or *holds* what is forgotten."""
    for memory in memories:
        yield from list(
            connection.execute(
                "SELECT s.session, l.sequence FROM history_left AS l JOIN history_sessions AS s ON s.key = l.session "
                "WHERE s.namespace = ? AND l.memory = ?",
                (namespace, memory),
            )
        )
    sql = f"SELECT s.session, y.through, y.text {SUMMARY_FROM} WHERE s.namespace = ?"
    for session, through, text in list(connection.execute(sql, (namespace,))) if holds is not None else ():
        if holds is not None and holds(text):
            yield session, through


MAX_INTEGER = 2**63 - 1
"""The largest number that SQLite knows."""


def session_keys(connection: Connection, place: tuple[str, str]) -> list[int]:
    """Return the key of a session; nothing for one that is unknown."""
    sql = "SELECT key FROM history_sessions WHERE namespace = ? AND session = ?"
    return [key for (key,) in connection.execute(sql, place)]


def first_words(connection: Connection, key: int, sequence: int) -> str:
    """Return the first words of a message."""
    sql = f"SELECT {MESSAGE_COLUMNS} {MESSAGES_FROM} WHERE m.session = ? AND m.sequence = ?"
    return message_excerpt(decode_message_row(next(connection.execute(sql, (key, sequence)))).message)


def ensure_session(connection: Connection, place: tuple[str, str], number: int) -> None:
    """Make a session if it is not there; its next message gets *number*, or a later one where that is due."""
    connection.execute(
        "INSERT INTO history_sessions (namespace, session, next) VALUES (?, ?, ?)"
        " ON CONFLICT DO UPDATE SET next = max(next, excluded.next)",
        (*place, number),
    )


def insert_message(connection: Connection, row: HistoryRow, text: str) -> int:
    """Put a row at its own place, where that is free; return how many were put."""
    place, at = (checked_namespace(row.namespace), checked_session(row.session)), timestamp_to_text(row.at)
    ensure_session(connection, place, row.sequence + 1)
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
            history_checksum(place, row.sequence, at, text),
            *place,
        ),
    )
    placed = connection.changes()
    connection.execute(
        "INSERT INTO history_bounds (session, first, used_at) "
        "SELECT key, 1, ? FROM history_sessions WHERE namespace = ? AND session = ? "
        "ON CONFLICT (session) DO UPDATE SET used_at = max(coalesce(used_at, excluded.used_at), excluded.used_at)",
        (at, *place),
    )
    return placed


def delete_messages(connection: Connection, place: tuple[str, str], sequences: Sequence[int] | None, over: str) -> int:
    """Delete messages (None: all) and the summaries made of them; return how many of them were shown.

    *over* as ``VISIBLE_CONDITION`` binds it.
    """
    gone = 0
    for key in session_keys(connection, place):
        for sequence in (None,) if sequences is None else [one for one in sequences if 0 < one <= MAX_INTEGER]:
            test, bound = ("1", ()) if sequence is None else ("m.sequence = ?", (sequence,))
            shown = f"SELECT COUNT(*) {VISIBLE_FROM} WHERE m.session = ? AND {VISIBLE_CONDITION} AND {test}"
            gone += next(connection.execute(shown, (key, over, *bound)))[0]
            connection.execute(f"DELETE FROM history_messages AS m WHERE m.session = ? AND {test}", (key, *bound))
            if sequence is None or connection.changes():
                drop_summaries(connection, place, sequence or 0)
    return gone


def update_message(
    connection: Connection, place: tuple[str, str], sequence: int, what: str, values: tuple[Any, ...]
) -> None:
    """Set columns of a message: *what*, such as "settled = ?", to *values*."""
    connection.execute(
        f"UPDATE history_messages SET {what} WHERE sequence = ? "
        "AND session = (SELECT key FROM history_sessions WHERE namespace = ? AND session = ?)",
        (*values, sequence, *place),
    )
