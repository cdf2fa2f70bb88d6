"""The tables of conversation history in the memory's file.

history_sessions   namespace, session, the next sequence number; a row stays when its messages go
history_messages   session, sequence, when, role, the message as JSON, its memory, whether that is settled,
checksum
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Final

import apsw

from memory.storage.rows import HistoryRow
from memory.storage.serialise import from_json
from memory.times import from_text
from vectorstore import DamageError, Finding

ROW: Final = "s.namespace, s.session, m.sequence, m.at, m.message, m.memory, m.checksum"
_COLUMNS: Final = "session, sequence, at, role, message, memory, settled, checksum"
FROM: Final = "FROM history_messages AS m JOIN history_sessions AS s ON s.key = m.session"


class HistoryTables:
    """The tables of history as a component of a database."""

    name = "history"

    @property
    def migrations(self) -> Sequence[Callable[[apsw.Connection], None]]:
        """What has been done to the tables, in order."""
        return (m001_tables,)

    def verify(self, connection: apsw.Connection) -> list[Finding]:
        """Compare each message with its checksum, and the numbers with the next one to be given."""
        findings: list[Finding] = []
        for row in connection.execute(f"SELECT {ROW} {FROM}"):
            try:
                decoded(row)
            except DamageError as error:
                findings.extend(error.findings)
        for namespace, session in connection.execute(
            f"SELECT s.namespace, s.session {FROM} GROUP BY s.key HAVING MAX(m.sequence) >= s.next"
        ):
            findings.append(Finding("history", "a sequence number could be given twice", f"{namespace}/{session}"))
        return findings

    def rebuild(self, connection: apsw.Connection) -> None:
        """Set the next sequence numbers from the messages; nothing else is derived."""
        connection.execute(
            "UPDATE history_sessions SET next = MAX(next, 1 + COALESCE("
            "(SELECT MAX(sequence) FROM history_messages AS m WHERE m.session = history_sessions.key), 0))"
        )

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


def decoded(row: tuple[Any, ...]) -> HistoryRow:
    """Return a row of ``ROW``, or raise when it is not what was written."""
    namespace, session, sequence, at, text, memory, checksum = row
    if checksum_of((namespace, session), sequence, at, text) != checksum:
        raise DamageError([Finding("history", "a message is not what was written", f"{session} {sequence}")])
    return HistoryRow(namespace, session, sequence, from_json(text), from_text(at), memory)


def checksum_of(place: tuple[str, str], sequence: int, at: str, text: str) -> int:
    """Return the checksum of a message in its place."""
    parts = [part.encode() for part in (*place, str(sequence), at, text)]
    digest = blake2b(",".join(str(len(part)) for part in parts).encode(), digest_size=8)
    for part in parts:
        digest.update(part)
    return int.from_bytes(digest.digest(), "little", signed=True)
