"""The ids of keys in the memory's file: a component of the same database as the store.

keys   by namespace and the id that a key would have: the id that it has
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import apsw

from vectorstore import Database, Finding

_AT_ONCE: Final = 500


class SqliteKeys:
    """``Keys`` in a database's file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.attach(KeyTables())

    def get(self, namespace: str, name: str) -> str | None:
        """As ``Keys.get``."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT id FROM keys WHERE namespace = ? AND name = ?", (namespace, name)
            ).fetchone()
        return None if row is None else str(row[0])

    def put(self, namespace: str, name: str, id: str) -> None:
        """As ``Keys.put``."""
        with self._database.write() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO keys (namespace, name, id) VALUES (?, ?, ?)", (namespace, name, id)
            )

    def of(self, namespace: str, ids: Sequence[str]) -> list[tuple[str, str]]:
        """As ``Keys.of``."""
        found: list[tuple[str, str]] = []
        with self._database.read() as connection:
            for start in range(0, len(ids), _AT_ONCE):
                some = ids[start : start + _AT_ONCE]
                marks = ", ".join("?" * len(some))
                sql = f"SELECT name, id FROM keys WHERE namespace = ? AND id IN ({marks})"
                found += [(str(name), str(id)) for name, id in connection.execute(sql, (namespace, *some))]
        return sorted(found)

    def remove(self, namespace: str, ids: Sequence[str] | None) -> int:
        """As ``Keys.remove``."""
        if ids is not None and not self.of(namespace, ids):
            return 0
        with self._database.write() as connection:
            before = connection.total_changes()
            if ids is None:
                connection.execute("DELETE FROM keys WHERE namespace = ?", (namespace,))
            else:
                connection.executemany(
                    "DELETE FROM keys WHERE namespace = ? AND id = ?", [(namespace, one) for one in ids]
                )
            gone = connection.total_changes() - before
            if gone:
                self._database.mark_erasure(connection)
        return gone


class KeyTables:
    """The table as a component of a database."""

    name = "keys"

    @property
    def migrations(self) -> Sequence[Callable[[apsw.Connection], None]]:
        """What has been done to the table, in order."""
        return (m001_table,)

    def verify(self, connection: apsw.Connection) -> list[Finding]:
        """Nothing in it can be told to be wrong."""
        return []

    def rebuild(self, connection: apsw.Connection) -> None:
        """Nothing here is derived."""

    def salvage(self, source: apsw.Connection, target: apsw.Connection) -> int:
        """Copy every row."""
        rows = list(source.execute("SELECT namespace, name, id FROM keys"))
        target.executemany("INSERT OR REPLACE INTO keys (namespace, name, id) VALUES (?, ?, ?)", rows)
        return len(rows)


def m001_table(connection: apsw.Connection) -> None:
    """Make the table."""
    connection.execute(
        "CREATE TABLE keys (namespace TEXT NOT NULL, name TEXT NOT NULL, id TEXT NOT NULL,"
        " PRIMARY KEY (namespace, name)) STRICT, WITHOUT ROWID"
    )
    connection.execute("CREATE INDEX keys_by_id ON keys (namespace, id)")
