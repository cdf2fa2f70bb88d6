"""Retention: how long a storage keeps the messages of a session, and its application to the tables of history.

    Retention(messages=500, idle=timedelta(days=90), unremembered="keep")

Nothing is dropped by default. Retention is about conversation history alone: memories made of the messages stay, and
stay findable. Forgetting is ``LongTermMemory.forget``.

Messages beyond a limit are hidden first (``history_bounds.first``), so that a limit holds at once and for every
reader; the rows that long-term memory has still to take are deleted when it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from tellback.memory.errors import ArgumentError
from tellback.memory.history.codec import message_from_json
from tellback.memory.timestamps import timestamp_to_text
from tellback.vectorstore import Connection

if TYPE_CHECKING:
    from tellback.memory.messages import Message

LOOK_AHEAD = 256
"""Messages beyond those that go that are looked at, so that no call is parted from its results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Bounds of every session of a storage; at least one of *messages* and *idle*.

    - *messages*: the newest so many, whole groups (``tellback.memory.messages.groups``), the newest group always.
      System messages neither count nor go.
    - *idle*: a session to which nothing was added for longer is empty, its system messages gone too; one that is
      taken up again begins anew.
    - *unremembered*: what becomes of a message over these limits that long-term memory has not taken yet. "keep":
      no reading shows it, and its row waits until it was taken; without a long-term memory, for ever. "drop": it
      goes with the others, and nothing will ever recall it.
    """

    unremembered: Literal["keep", "drop"]
    messages: int | None = None
    idle: timedelta | None = None

    def __post_init__(self) -> None:
        if self.unremembered not in ("keep", "drop"):
            raise ArgumentError("unremembered", self.unremembered, '"keep" or "drop" is needed')
        if self.messages is None and self.idle is None:
            raise ArgumentError("messages, idle", None, "at least one of the two is needed")
        if self.messages is not None and (type(self.messages) is not int or self.messages < 1):
            raise ArgumentError("messages", self.messages, "a whole number of at least 1 is needed")
        if self.idle is not None and not (isinstance(self.idle, timedelta) and self.idle > timedelta(0)):
            raise ArgumentError("idle", self.idle, "a timedelta above 0 is needed")


def checked_retention(retention: object) -> Retention | None:
    """Return *retention* if it can be one of a storage."""
    if retention is not None and not isinstance(retention, Retention):
        raise ArgumentError("retention", retention, "a Retention is needed, or None to keep everything")
    return retention


def session_cutoff(retention: Retention | None, now: datetime) -> str:
    """Return the time at or before which a session must have been used last to be over, or "" without one."""
    if retention is None or retention.idle is None:
        return ""
    try:
        return timestamp_to_text(now - retention.idle)
    except OverflowError:  # longer than there are years
        return ""


def first_retained(head: Sequence[tuple[int, Message]], excess: int, *, whole: bool) -> int | None:
    """Return the sequence number of the first message that stays when at least *excess* of *head* go.

    *head* are the oldest messages of a session without its system messages; *whole*: they are all it has, and the
    newest group stays whatever it is. None: more of them are needed to say it.
    """
    from tellback.memory.messages import message_groups

    groups = message_groups([message for _, message in head])
    dropped = 0
    for group in groups[:-1]:
        if dropped >= excess:
            break
        dropped += len(group)
    return head[dropped][0] if whole or dropped + len(groups[-1]) < len(head) else None


_NOT_SYSTEM = "session = ? AND role <> 'system'"


def note_session_use(connection: Connection, session: int, time: str, *, unless_later: bool = False) -> None:
    """Note that something was added to *session*; with *unless_later* a later use stays noted."""
    earlier = " WHERE history_bounds.used_at IS NULL OR history_bounds.used_at < excluded.used_at"
    connection.execute(
        "INSERT INTO history_bounds (session, first, used_at) VALUES (?, 1, ?) "
        f"ON CONFLICT (session) DO UPDATE SET used_at = excluded.used_at{earlier if unless_later else ''}",
        (session, time),
    )


def end_idle_sessions(connection: Connection, retention: Retention | None, now: datetime) -> None:
    """End the sessions that were idle for too long."""
    before = session_cutoff(retention, now)
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
        delete_hidden_messages(connection, session, drop=retention.unremembered == "drop")


def hide_excess_messages(connection: Connection, retention: Retention | None, session: int) -> None:
    """Hide the oldest groups of *session* that are too many."""
    if retention is None or retention.messages is None:
        return
    visible = f"{_NOT_SYSTEM} AND sequence >= (SELECT first FROM history_bounds WHERE session = ?)"
    bound = (session, session)
    ((count,),) = connection.execute(f"SELECT COUNT(*) FROM history_messages WHERE {visible}", bound)
    excess = count - retention.messages
    if excess <= 0:
        return
    first = None
    for limit in (excess + LOOK_AHEAD, count):
        rows = connection.execute(
            f"SELECT sequence, role, message FROM history_messages WHERE {visible} ORDER BY sequence LIMIT ?",
            (*bound, limit),
        )
        head = [(sequence, _read_message(role, text)) for sequence, role, text in rows]
        first = first_retained(head, excess, whole=len(head) == count)
        if first is not None:
            break
    connection.execute("UPDATE history_bounds SET first = ? WHERE session = ?", (first, session))
    delete_hidden_messages(connection, session, drop=retention.unremembered == "drop")


def delete_hidden_messages(connection: Connection, session: int, *, drop: bool = False) -> None:
    """Delete what is hidden and settled; with *drop* what is not settled too.

    The memories that summaries still mention are recorded, so that forgetting one of them erases the summary.
    """
    settled = "" if drop else " AND settled = 1"
    hidden = f"{_NOT_SYSTEM}{settled} AND sequence < (SELECT first FROM history_bounds WHERE session = ?)"
    connection.execute(
        "INSERT INTO history_left (session, sequence, memory) "
        f"SELECT session, sequence, memory FROM history_messages WHERE {hidden} AND memory <> '' "
        "AND sequence <= (SELECT MAX(through) FROM history_summaries WHERE session = ?) ON CONFLICT DO NOTHING",
        (session, session, session),
    )
    connection.execute(f"DELETE FROM history_messages WHERE {hidden}", (session, session))


def _read_message(role: Any, text: str) -> Message:
    try:
        return message_from_json(text)
    except ValueError:  # damaged: reading it will say so, adding to the session must not fail for it
        from tellback.memory.messages import Message

        return Message(role=role)
