"""Summaries in the tables of history; the functions run inside a transaction of their caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import apsw

from memory.storage.summaries import Summary
from memory.storage.tables import SUMMARY, SUMMARY_FROM, checksum_of, decoded_summary

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
