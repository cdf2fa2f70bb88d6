"""A second space in the file: begun, counted, switched to or dropped, in the caller's transaction.

What entries are given in it is written by ``writing``, together with everything else of an entry.
"""

from __future__ import annotations

import apsw

from vectorstore.errors import DamageError
from vectorstore.filling import check_begun, check_complete, check_filling
from vectorstore.sqlite.checksums import added, entry_checksum
from vectorstore.sqlite.query import each, every, only
from vectorstore.sqlite.rows import UNFILLED
from vectorstore.sqlite.settings import NEXT_SPACE, put_space, read_space
from vectorstore.types import Filling, Finding, Space


def begin(connection: apsw.Connection, space: Space) -> None:
    """Record that *space* is being filled."""
    check_begun(space, read_space(connection), read_space(connection, NEXT_SPACE))
    put_space(connection, space, NEXT_SPACE)


def filling(connection: apsw.Connection) -> Filling | None:
    """Return how far the second space is."""
    space = read_space(connection, NEXT_SPACE)
    if space is None:
        return None
    (filled,) = only(connection, "SELECT count(*) FROM next_vectors")
    checksums = each(connection, "SELECT checksum FROM next_vectors UNION ALL SELECT checksum FROM next_no_vector")
    tallies = each(connection, "SELECT next_tally FROM namespaces")
    if added(0, *(one for (one,) in checksums)) != added(0, *(one for (one,) in tallies)):
        raise DamageError([Finding("next_vectors", "some are missing: the sum of checksums differs")])
    pending = every(
        connection,
        "SELECT n.name, count(*) FROM entries AS e JOIN namespaces AS n ON n.key = e.namespace"
        f" WHERE {UNFILLED} GROUP BY n.key ORDER BY n.name",
    )
    return Filling(space, filled, dict(pending))


def drop(connection: apsw.Connection) -> None:
    """Forget the second space and all that it has."""
    connection.execute("DELETE FROM next_vectors")
    connection.execute("DELETE FROM next_no_vector")
    connection.execute("UPDATE namespaces SET next_tally = 0 WHERE next_tally <> 0")
    put_space(connection, None, NEXT_SPACE)


def switch(connection: apsw.Connection, space: Space) -> None:
    """Make the second space the one in use, and drop what was; every core then loads afresh."""
    check_filling(read_space(connection, NEXT_SPACE), space)
    check_complete(filling(connection))
    _write_reasons(connection)
    for namespace, checksum in every(connection, "SELECT namespace, checksum FROM next_no_vector"):
        _add(connection, "next_tally", namespace, -checksum)
    for old, new in (("vectors", "old_vectors"), ("next_vectors", "vectors"), ("old_vectors", "next_vectors")):
        connection.execute(f"ALTER TABLE {old} RENAME TO {new}")
    connection.execute("DELETE FROM changes")
    connection.execute(
        "UPDATE namespaces SET vector_tally = next_tally, revision = revision + 1, pruned = revision + 1"
    )
    drop(connection)
    put_space(connection, space)


def _write_reasons(connection: apsw.Connection) -> None:
    """Let *no_vector* and the checksum of each entry say what holds in the second space."""
    changed = every(
        connection,
        "SELECT key, reason FROM next_no_vector UNION ALL"
        " SELECT n.key, NULL FROM next_vectors AS n LEFT JOIN vectors AS v ON v.key = n.key WHERE v.key IS NULL",
    )
    for key, reason in changed:
        namespace, before, id, revision, text, context, metadata = only(
            connection,
            "SELECT namespace, checksum, id, revision, text, context, metadata FROM entries WHERE key = ?",
            (key,),
        )
        checksum = entry_checksum(id, revision, text, context, metadata, reason, has_vector=reason is None)
        _add(connection, "tally", namespace, checksum, -before)
        connection.execute("UPDATE entries SET no_vector = ?, checksum = ? WHERE key = ?", (reason, checksum, key))


def _add(connection: apsw.Connection, column: str, namespace: int, *checksums: int) -> None:
    (tally,) = only(connection, f"SELECT {column} FROM namespaces WHERE key = ?", (namespace,))
    connection.execute(f"UPDATE namespaces SET {column} = ? WHERE key = ?", (added(tally, *checksums), namespace))
