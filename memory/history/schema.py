"""Tables of conversation history in the database of a memory, and the checksums of their rows.

history_sessions   namespace, session, the next sequence number; a row stays when its messages go
history_messages   session, sequence, when, role, the message as JSON, its memory, whether that is settled,
                   checksum
history_bounds     session, the first number that readings show, when it was used last (NULL: it is over); a session
                   without a row is shown as a whole
history_summaries  session, name, the last number summed up, of how many messages, when, the text, checksum
history_left       session, sequence and memory of messages that a retention took and a summary still tells of
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tellback.memory.history.codec import message_from_json
from tellback.memory.history.protocol import HistoryRow, Summary
from tellback.memory.timestamps import timestamp_from_text
from tellback.vectorstore import Connection, DamageError, Finding, TableComponent

if TYPE_CHECKING:
    from tellback.vectorstore.sqlite import SalvageSource

MESSAGE_COLUMNS: Final = "s.namespace, s.session, m.sequence, m.at, m.message, m.memory, m.checksum"
_STORED_COLUMNS: Final = "session, sequence, at, role, message, memory, settled, checksum"
INSERT_MESSAGE: Final = f"INSERT INTO history_messages ({_STORED_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
MESSAGES_FROM: Final = "FROM history_messages AS m JOIN history_sessions AS s ON s.key = m.session"
VISIBLE_FROM: Final = f"{MESSAGES_FROM} LEFT JOIN history_bounds AS b ON b.session = m.session"
VISIBLE_CONDITION: Final = "(b.session IS NULL OR (b.used_at > ? AND (m.sequence >= b.first OR m.role = 'system')))"
"""The messages that readings show; bound is the session cutoff of a retention, or ''."""
SUMMARY_COLUMNS: Final = "s.namespace, s.session, y.name, y.through, y.messages, y.at, y.text, y.checksum"
SUMMARY_FROM: Final = "FROM history_summaries AS y JOIN history_sessions AS s ON s.key = y.session"

LOST_NAME: Final = "name-lost-session-{}"
"""Name of a session, and of its namespace, whose own cannot be read any more."""


class HistoryTables(TableComponent):
    """The tables of history as a component of a database."""

    def __init__(self) -> None:
        super().__init__("history", (m001_history_tables, m002_bounds_and_summaries))

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
        newest = "(SELECT MAX(sequence) FROM history_messages AS m WHERE m.session = history_sessions.key)"
        connection.execute(f"UPDATE history_sessions SET next = 1 + {newest} WHERE next <= {newest}")
        for row in list(connection.execute(f"SELECT {SUMMARY_COLUMNS}, y.session {SUMMARY_FROM}")):
            if summary_checksum(row[:7]) != row[7]:
                connection.execute("DELETE FROM history_summaries WHERE session = ? AND name = ?", (row[8], row[2]))

    def salvage(self, source: SalvageSource, target: Connection) -> None:
        """Copy every session, and every message, bound and summary that is what was written."""
        owners = _salvage_sessions(source, target)
        _salvage_messages(source, target, owners)
        source.copy(target, "history_bounds", _check_bound)
        source.copy(target, "history_left")

        def check_summary(row: Mapping[str, Any]) -> str | None:
            columns = (row["name"], row["through"], row["messages"], row["at"], row["text"])
            checksums = (summary_checksum((*owner, *columns)) for owner in owners.get(row["session"], ()))
            return None if row["checksum"] in checksums else "a summary is not what was written"

        source.copy(target, "history_summaries", check_summary)
        self.rebuild(target)


_Owner: TypeAlias = tuple[str, str]


def _salvage_sessions(source: SalvageSource, target: Connection) -> dict[int, list[_Owner]]:
    """Copy the sessions; return by key the namespaces and names that they may have, from the table and its index."""
    source.copy(target, "history_sessions")
    owners: defaultdict[int, list[_Owner]] = defaultdict(list)
    for key, *owner in target.execute("SELECT key, namespace, session FROM history_sessions").fetchall():
        owners[key].append((owner[0], owner[1]))
    columns, index = "key, namespace, session", "sqlite_autoindex_history_sessions_1"
    for key, *owner in source.index_rows("history_sessions", columns, index):
        if [*map(type, (key, *owner))] == [int, str, str]:
            owners[key].append((owner[0], owner[1]))
    return owners


def _salvage_messages(source: SalvageSource, target: Connection, owners: dict[int, list[_Owner]]) -> None:
    """Copy the messages whose checksum holds; by it a session whose name is lost, or changed, gets it back.

    Where the name of a session is lost for good, its messages cannot be compared; those that can be read are saved in
    a session and namespace of their own.
    """
    owner_of: dict[int, _Owner] = {}
    doubtful: defaultdict[int, list[Any]] = defaultdict(list)
    for row in source.rows("history_messages", f"key, {_STORED_COLUMNS}"):
        key, session, sequence, time, _, text, *_, checksum = row
        try:
            holding = [
                candidate
                for candidate in owners.get(session, ())
                if history_checksum(candidate, sequence, time, text) == checksum
            ]
        except (AttributeError, TypeError):  # a value of another type
            holding = []
        if not holding:
            doubtful[session].append(row)
            continue
        if session not in owner_of:
            owner_of[session] = holding[0]
            _put_session(target, session, holding[0])
        _put_message(source, target, row)
    for session, rows in doubtful.items():
        nameless = session not in owner_of and (not owners.get(session) or len(rows) > 1)
        owner = (LOST_NAME.format(session), LOST_NAME.format(session))
        if nameless:
            source.lose("history_sessions", f"a name was lost; its messages are in the namespace {owner[0]!r}")
        for row in rows:
            key, _, sequence, time, role, text, memory, _, _ = row
            if not nameless or not _is_message(time, text):
                source.lose("history_messages", "a message is not what was written")
                continue
            _put_session(target, session, owner)
            checksum = history_checksum(owner, sequence, time, text)
            _put_message(source, target, (key, session, sequence, time, role, text, memory, 1, checksum))


def _put_session(target: Connection, key: int, owner: _Owner) -> None:
    sql = "UPDATE history_sessions SET namespace = ?, session = ? WHERE key = ?"
    target.execute(sql, (*owner, key))
    if not target.changes():
        target.execute(
            "INSERT INTO history_sessions (key, namespace, session, next) VALUES (?, ?, ?, 1)", (key, *owner)
        )


def _put_message(source: SalvageSource, target: Connection, row: tuple[Any, ...]) -> None:
    sql = f"INSERT OR IGNORE INTO history_messages (key, {_STORED_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    target.execute(sql, row)
    if not target.changes():
        source.lose("history_messages", "a message is there twice, or a value is missing")


def _is_message(time: object, text: object) -> bool:
    try:
        timestamp_from_text(time)  # type: ignore[arg-type]
        message_from_json(text)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return False
    return True


def _check_bound(row: Mapping[str, Any]) -> str | None:
    if row["used_at"] is not None:
        timestamp_from_text(row["used_at"])
    return None


def m001_history_tables(connection: Connection) -> None:
    """Create the first tables."""
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
    """Create the tables of retention bounds and of summaries."""
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
    namespace, session, sequence, time, text, memory, checksum = row
    if history_checksum((namespace, session), sequence, time, text) != checksum:
        raise DamageError([Finding("history", "a message is not what was written", f"{session} {sequence}")])
    return HistoryRow(namespace, session, sequence, message_from_json(text), timestamp_from_text(time), memory)


def decode_summary_row(row: tuple[Any, ...]) -> Summary:
    """Return a row of ``SUMMARY_COLUMNS``, or raise when it is not what was written."""
    _, session, name, through, messages, time, text, checksum = row
    if summary_checksum(row[:7]) != checksum:
        raise DamageError([Finding("history", "a summary is not what was written", f"{session} {name}")])
    return Summary(name, text, through, messages, timestamp_from_text(time))


def summary_checksum(columns: tuple[Any, ...]) -> int:
    """Return the checksum of a summary; *columns* are those of ``SUMMARY_COLUMNS`` before it."""
    namespace, session, name, through, messages, time, text = columns
    return history_checksum((namespace, session, name, str(messages)), through, time, text)


def history_checksum(owner: tuple[str, ...], sequence: int, time: str, text: str) -> int:
    """Return the checksum of a message; *owner* is its namespace and session."""
    parts = [part.encode() for part in (*owner, str(sequence), time, text)]
    digest = blake2b(",".join(str(len(part)) for part in parts).encode(), digest_size=8)
    for part in parts:
        digest.update(part)
    return int.from_bytes(digest.digest(), "little", signed=True)
