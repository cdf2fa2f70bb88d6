"""Single messages in the tables of history; the functions run inside a transaction of their caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from memory.captions import beginning
from memory.storage.rows import HistoryRow
from memory.storage.serialise import check_namespace, check_session
from memory.storage.sqlite_summaries import drop_summaries
from memory.storage.tables import FROM, ROW, SHOWN, SHOWN_FROM, checksum_of, decoded
from memory.times import to_text

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
