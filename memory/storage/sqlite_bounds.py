"""A retention carried out in the tables of history: what readings no longer show, and what goes.

What goes is hidden first (``history_bounds.first``), so that a limit holds at once and for every reader; the rows
that long-term memory has still to take are deleted when it has.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import apsw
from pydantic import ValidationError

from memory.messages import Message
from memory.storage.retention import LOOK_AHEAD, Retention, begins_at, idle_since
from memory.storage.serialise import from_json
from memory.times import to_text

_BESIDE_SYSTEM = "session = ? AND role <> 'system'"


def over_before(retention: Retention | None, now: datetime) -> str:
    """Return the time at or before which a session must have been used last to be over, as ``SHOWN`` binds it."""
    since = idle_since(retention, now)
    return "" if since is None else to_text(since)


def used(connection: apsw.Connection, session: int, at: str) -> None:
    """Note that something was added to *session*."""
    connection.execute(
        "INSERT INTO history_bounds (session, first, used_at) VALUES (?, 1, ?) "
        "ON CONFLICT (session) DO UPDATE SET used_at = excluded.used_at",
        (session, at),
    )


def end_idle(connection: apsw.Connection, retention: Retention | None, now: datetime) -> None:
    """End the sessions that were idle for too long."""
    before = over_before(retention, now)
    if retention is None or not before:
        return
    for (session,) in list(connection.execute("SELECT session FROM history_bounds WHERE used_at <= ?", (before,))):
        connection.execute(
            "UPDATE history_bounds SET used_at = NULL, "
            "first = (SELECT next FROM history_sessions WHERE key = history_bounds.session) WHERE session = ?",
            (session,),
        )
        connection.execute("DELETE FROM history_messages WHERE session = ? AND role = 'system'", (session,))
        connection.execute("DELETE FROM history_summaries WHERE session = ?", (session,))
        connection.execute("DELETE FROM history_left WHERE session = ?", (session,))
        take_hidden(connection, session, drop=retention.unremembered == "drop")


def trim(connection: apsw.Connection, retention: Retention | None, session: int) -> None:
    """Hide the oldest groups of *session* that are too many."""
    if retention is None or retention.messages is None:
        return
    shown = f"{_BESIDE_SYSTEM} AND sequence >= (SELECT first FROM history_bounds WHERE session = ?)"
    bound = (session, session)
    ((count,),) = connection.execute(f"SELECT COUNT(*) FROM history_messages WHERE {shown}", bound)
    excess = count - retention.messages
    if excess <= 0:
        return
    first = None
    for limit in (excess + LOOK_AHEAD, count):
        rows = connection.execute(
            f"SELECT sequence, role, message FROM history_messages WHERE {shown} ORDER BY sequence LIMIT ?",
            (*bound, limit),
        )
        head = [(sequence, _read(role, text)) for sequence, role, text in rows]
        first = begins_at(head, excess, whole=len(head) == count)
        if first is not None:
            break
    connection.execute("UPDATE history_bounds SET first = ? WHERE session = ?", (first, session))
    take_hidden(connection, session, drop=retention.unremembered == "drop")


def take_hidden(connection: apsw.Connection, session: int, *, drop: bool = False) -> None:
    """Delete what is hidden and settled; with *drop* what is not settled too.

    Noted is of which memories summaries still tell, so that they can be erased with one of these.
    """
    settled = "" if drop else " AND settled = 1"
    hidden = f"{_BESIDE_SYSTEM}{settled} AND sequence < (SELECT first FROM history_bounds WHERE session = ?)"
    connection.execute(
        "INSERT OR IGNORE INTO history_left (session, sequence, memory) "
        f"SELECT session, sequence, memory FROM history_messages WHERE {hidden} AND memory <> '' "
        "AND sequence <= (SELECT MAX(through) FROM history_summaries WHERE session = ?)",
        (session, session, session),
    )
    connection.execute(f"DELETE FROM history_messages WHERE {hidden}", (session, session))


def _read(role: Any, text: str) -> Message:
    try:
        return from_json(text)
    except ValidationError:  # damaged: reading it will say so, adding to the session must not fail for it
        return Message(role=role)
