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

import apsw

from memory.history.codec import check_namespace, check_session, from_json
from memory.history.protocol import Summary
from memory.history.sync_history import HistoryRow
from memory.message_text import beginning
from memory.timestamps import from_text, to_text
from vectorstore import DamageError, Finding

ROW: Final = "s.namespace, s.session, m.sequence, m.at, m.message, m.memory, m.checksum"
_COLUMNS: Final = "session, sequence, at, role, message, memory, settled, checksum"
FROM: Final = "FROM history_messages AS m JOIN history_sessions AS s ON s.key = m.session"
SHOWN_FROM: Final = f"{FROM} LEFT JOIN history_bounds AS b ON b.session = m.session"
SHOWN: Final = "(b.session IS NULL OR (b.used_at > ? AND (m.sequence >= b.first OR m.role = 'system')))"
"""What readings show; bound is the time at or before which a session must have been used to be over, or ''."""
SUMMARY: Final = "s.namespace, s.session, y.name, y.through, y.messages, y.at, y.text, y.checksum"
SUMMARY_FROM: Final = "FROM history_summaries AS y JOIN history_sessions AS s ON s.key = y.session"


class HistoryTables:
    """The tables of history as a component of a database."""

    name = "history"

    @property
    def migrations(self) -> Sequence[Callable[[apsw.Connection], None]]:
        """What has been done to the tables, in order."""
        return (m001_tables, m002_bounds_and_summaries)

    def verify(self, connection: apsw.Connection) -> list[Finding]:
        """Compare messages and summaries with their checksums, the numbers with the next one to be given."""
        findings: list[Finding] = []
        for columns, source, decode in ((ROW, FROM, decoded), (SUMMARY, SUMMARY_FROM, decoded_summary)):
            for row in connection.execute(f"SELECT {columns} {source}"):
                try:
                    decode(row)
                except DamageError as error:
                    findings.extend(error.findings)
        for namespace, session in connection.execute(
            f"SELECT s.namespace, s.session {FROM} GROUP BY s.key HAVING MAX(m.sequence) >= s.next"
        ):
            findings.append(Finding("history", "a sequence number could be given twice", f"{namespace}/{session}"))
        return findings

    def rebuild(self, connection: apsw.Connection) -> None:
        """Set the next sequence numbers from the messages, and drop summaries that are damaged."""
        connection.execute(
            "UPDATE history_sessions SET next = MAX(next, 1 + COALESCE("
            "(SELECT MAX(sequence) FROM history_messages AS m WHERE m.session = history_sessions.key), 0))"
        )
        for row in list(connection.execute(f"SELECT {SUMMARY}, y.session {SUMMARY_FROM}")):
            if _summary_checksum(row) != row[7]:
                connection.execute("DELETE FROM history_summaries WHERE session = ? AND name = ?", (row[8], row[2]))

    def salvage(self, source: apsw.Connection, target: apsw.Connection) -> int:
        """Copy every session, and every message that is what was written."""
        sessions = list(source.execute("SELECT key, namespace, session, next FROM history_sessions"))
        target.executemany("INSERT INTO history_sessions (key, namespace, session, next) VALUES (?, ?, ?, ?)", sessions)
        names = {key: (namespace, session) for key, namespace, session, _ in sessions}
        copied = 0
        for row in source.execute(f"SELECT {_COLUMNS} FROM history_messages ORDER BY key"):
            place = names.get(row[0])
            if place is not None and checksum_of(place, row[1], row[2], row[4]) == row[7]:
                insert = f"INSERT INTO history_messages ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                target.execute(insert, row)
                copied += 1
        return copied + _salvage_second(source, target, names)


def _salvage_second(source: apsw.Connection, target: apsw.Connection, names: dict[int, tuple[str, str]]) -> int:
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
        for row in source.execute(f"SELECT {SUMMARY}, y.session {SUMMARY_FROM}"):
            if _summary_checksum(row) == row[7]:
                target.execute("INSERT INTO history_summaries VALUES (?, ?, ?, ?, ?, ?, ?)", (row[8], *row[2:8]))
                copied += 1
    return copied


def m001_tables(connection: apsw.Connection) -> None:
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


def m002_bounds_and_summaries(connection: apsw.Connection) -> None:
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


def decoded(row: tuple[Any, ...]) -> HistoryRow:
    """Return a row of ``ROW``, or raise when it is not what was written."""
    namespace, session, sequence, at, text, memory, checksum = row
    if checksum_of((namespace, session), sequence, at, text) != checksum:
        raise DamageError([Finding("history", "a message is not what was written", f"{session} {sequence}")])
    return HistoryRow(namespace, session, sequence, from_json(text), from_text(at), memory)


def decoded_summary(row: tuple[Any, ...]) -> Summary:
    """Return a row of ``SUMMARY``, or raise when it is not what was written."""
    _, session, name, through, messages, at, text, checksum = row
    if _summary_checksum(row) != checksum:
        raise DamageError([Finding("history", "a summary is not what was written", f"{session} {name}")])
    return Summary(name, text, through, messages, from_text(at))


def _summary_checksum(row: tuple[Any, ...]) -> int:
    namespace, session, name, through, messages, at, text = row[:7]
    return checksum_of((namespace, session, name, str(messages)), through, at, text)


def checksum_of(place: tuple[str, ...], sequence: int, at: str, text: str) -> int:
    """Return the checksum of a message, or of a summary, in its place."""
    parts = [part.encode() for part in (*place, str(sequence), at, text)]
    digest = blake2b(",".join(str(len(part)) for part in parts).encode(), digest_size=8)
    for part in parts:
        digest.update(part)
    return int.from_bytes(digest.digest(), "little", signed=True)


_GROUP = 200


def read_summary(connection: apsw.Connection, place: tuple[str, str], name: str, over: str) -> Summary | None:
    """Return the summary of that name, or None; of a session used last at or before *over* there is none."""
    sql = (
        f"SELECT {SUMMARY} {SUMMARY_FROM} LEFT JOIN history_bounds AS b ON b.session = y.session "
        "WHERE s.namespace = ? AND s.session = ? AND y.name = ? AND (b.session IS NULL OR b.used_at > ?)"
    )
    return next((decoded_summary(row) for row in connection.execute(sql, (*place, name, over))), None)


def write_summary(
    connection: apsw.Connection,
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
    for start in range(0, len(numbers), _GROUP):
        group = numbers[start : start + _GROUP]
        marks = ", ".join("?" for _ in group)
        sql = f"SELECT COUNT(*) FROM history_messages WHERE session = ? AND sequence IN ({marks})"
        present += next(connection.execute(sql, (key, *group)))[0]
    if present < len(numbers):
        return False
    checksum = checksum_of((*place, summary.name, str(summary.messages)), summary.through, at, summary.text)
    connection.execute(
        "INSERT OR REPLACE INTO history_summaries (session, name, through, messages, at, text, checksum) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (key, summary.name, summary.through, summary.messages, at, summary.text, checksum),
    )
    return True


def drop_summaries(connection: apsw.Connection, place: tuple[str, str], sequence: int) -> int:
    """Delete the session's summaries that reach to the number *sequence*; return how many."""
    of_session = "session = (SELECT key FROM history_sessions WHERE namespace = ? AND session = ?)"
    connection.execute(f"DELETE FROM history_summaries WHERE through >= ? AND {of_session}", (sequence, *place))
    dropped = connection.changes()
    connection.execute(
        f"DELETE FROM history_left WHERE {of_session} AND session NOT IN (SELECT session FROM history_summaries)", place
    )
    return dropped


def telling(
    connection: apsw.Connection, namespace: str, memories: Sequence[str], holds: Callable[[str], bool] | None
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


MOST = 2**63 - 1
"""The largest number that SQLite knows."""


def keys(connection: apsw.Connection, place: tuple[str, str]) -> list[int]:
    """Return the key of a session; nothing for one that is unknown."""
    sql = "SELECT key FROM history_sessions WHERE namespace = ? AND session = ?"
    return [key for (key,) in connection.execute(sql, place)]


def begins(connection: apsw.Connection, key: int, sequence: int) -> str:
    """Return the first words of a message."""
    sql = f"SELECT {ROW} {FROM} WHERE m.session = ? AND m.sequence = ?"
    return beginning(decoded(next(connection.execute(sql, (key, sequence)))).message)


def begin(connection: apsw.Connection, place: tuple[str, str], number: int) -> None:
    """Make a session if it is not there; its next message gets *number*, or a later one where that is due."""
    connection.execute(
        "INSERT INTO history_sessions (namespace, session, next) VALUES (?, ?, ?)"
        " ON CONFLICT DO UPDATE SET next = max(next, excluded.next)",
        (*place, number),
    )


def put_at(connection: apsw.Connection, row: HistoryRow, text: str) -> int:
    """Put a row at its own place, where that is free; return how many were put."""
    place, at = (check_namespace(row.namespace), check_session(row.session)), to_text(row.at)
    begin(connection, place, row.sequence + 1)
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
    placed = connection.changes()
    connection.execute(
        "INSERT INTO history_bounds (session, first, used_at) "
        "SELECT key, 1, ? FROM history_sessions WHERE namespace = ? AND session = ? "
        "ON CONFLICT (session) DO UPDATE SET used_at = max(coalesce(used_at, excluded.used_at), excluded.used_at)",
        (at, *place),
    )
    return placed


def remove(connection: apsw.Connection, place: tuple[str, str], sequences: Sequence[int] | None, over: str) -> int:
    """Delete messages (None: all) and the summaries made of them; return how many of them were shown.

    *over* as ``SHOWN`` binds it.
    """
    gone = 0
    for key in keys(connection, place):
        for sequence in (None,) if sequences is None else [one for one in sequences if 0 < one <= MOST]:
            test, bound = ("1", ()) if sequence is None else ("m.sequence = ?", (sequence,))
            shown = f"SELECT COUNT(*) {SHOWN_FROM} WHERE m.session = ? AND {SHOWN} AND {test}"
            gone += next(connection.execute(shown, (key, over, *bound)))[0]
            connection.execute(f"DELETE FROM history_messages AS m WHERE m.session = ? AND {test}", (key, *bound))
            if sequence is None or connection.changes():
                drop_summaries(connection, place, sequence or 0)
    return gone


def note(
    connection: apsw.Connection, place: tuple[str, str], sequence: int, what: str, values: tuple[Any, ...]
) -> None:
    """Set columns of a message: *what*, such as "settled = ?", to *values*."""
    connection.execute(
        f"UPDATE history_messages SET {what} WHERE sequence = ? "
        "AND session = (SELECT key FROM history_sessions WHERE namespace = ? AND session = ?)",
        (*values, sequence, *place),
    )
