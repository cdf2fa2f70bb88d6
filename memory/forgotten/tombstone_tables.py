"""Tombstones in the memory's file: a component of the same database as the store.

memory_facts       the secret key of the file
tombstones         ids that were forgotten, by lane
tombstone_words    keyed hashes of words that were forgotten, by namespace
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import apsw

from memory.forgotten.tombstones import words_hash
from memory.times import from_text, to_text
from vectorstore import Database, Finding

KEY_LENGTH = 32
_TABLES = ("memory_facts", "tombstones", "tombstone_words")


class SqliteTombstones:
    """``Tombstones`` in a database's file. *token* gives the random bytes of a new file's key."""

    def __init__(self, database: Database, *, token: Callable[[int], bytes] = os.urandom) -> None:
        self._database = database
        database.attach(TombstoneTables())
        with database.read() as connection:
            key = _key_in(connection)
        if key is None:
            with database.write() as connection:
                connection.execute(
                    "INSERT INTO memory_facts (name, value) VALUES ('key', ?) ON CONFLICT DO NOTHING",
                    (token(KEY_LENGTH),),
                )
                key = _key_in(connection)
        self.key: bytes = key or b""

    def which(self, store_namespace: str, ids: Iterable[str]) -> set[str]:
        """As ``Tombstones.which``."""
        with self._database.read() as connection:
            return {
                one
                for one in ids
                if connection.execute(
                    "SELECT 1 FROM tombstones WHERE namespace = ? AND id = ?", (store_namespace, one)
                ).fetchone()
            }

    def words_at(self, namespace: str, text: str) -> datetime | None:
        """As ``Tombstones.words_at``."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT at FROM tombstone_words WHERE namespace = ? AND hash = ?",
                (namespace, words_hash(self.key, text)),
            ).fetchone()
        return None if found is None else from_text(found[0])

    def add(self, store_namespace: str, ids: Iterable[str], at: datetime) -> None:
        """As ``Tombstones.add``."""
        with self._database.write() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO tombstones (namespace, id, at) VALUES (?, ?, ?)",
                [(store_namespace, one, to_text(at)) for one in ids],
            )

    def add_words(self, namespace: str, texts: Iterable[str], at: datetime) -> None:
        """As ``Tombstones.add_words``."""
        with self._database.write() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO tombstone_words (namespace, hash, at) VALUES (?, ?, ?)",
                [(namespace, words_hash(self.key, text), to_text(at)) for text in texts],
            )

    def lift(self, store_namespace: str, ids: Iterable[str]) -> None:
        """As ``Tombstones.lift``."""
        with self._database.write() as connection:
            connection.executemany(
                "DELETE FROM tombstones WHERE namespace = ? AND id = ?",
                [(store_namespace, one) for one in ids],
            )

    def lift_words(self, namespace: str, texts: Iterable[str]) -> None:
        """As ``Tombstones.lift_words``."""
        with self._database.write() as connection:
            connection.executemany(
                "DELETE FROM tombstone_words WHERE namespace = ? AND hash = ?",
                [(namespace, words_hash(self.key, text)) for text in texts],
            )

    def ids(self, store_namespace: str, *, after: str = "", limit: int = 1000) -> list[tuple[str, datetime]]:
        """As ``Tombstones.ids``."""
        sql = "SELECT id, at FROM tombstones WHERE namespace = ? AND id > ? ORDER BY id LIMIT ?"
        with self._database.read() as connection:
            return [(one, from_text(at)) for one, at in connection.execute(sql, (store_namespace, after, limit))]

    def lanes(self) -> list[str]:
        """As ``Tombstones.lanes``."""
        with self._database.read() as connection:
            return sorted(lane for (lane,) in connection.execute("SELECT DISTINCT namespace FROM tombstones"))


class TombstoneTables:
    """The tables as a component of a database."""

    name = "tombstones"

    @property
    def migrations(self) -> Sequence[Callable[[apsw.Connection], None]]:
        """What has been done to the tables, in order."""
        return (m001_tables,)

    def verify(self, connection: apsw.Connection) -> list[Finding]:
        """Look whether the key of the file is whole: without it, hashes match nothing."""
        key = _key_in(connection)
        if key is not None and len(key) != KEY_LENGTH:
            return [Finding(self.name, "the key of the file is not whole", "memory_facts")]
        if key is None and connection.execute("SELECT 1 FROM tombstone_words").fetchone():
            return [Finding(self.name, "the key of the file is missing", "memory_facts")]
        return []

    def rebuild(self, connection: apsw.Connection) -> None:
        """Nothing here is derived."""

    def salvage(self, source: apsw.Connection, target: apsw.Connection) -> int:
        """Copy every row."""
        copied = 0
        for table in _TABLES:
            for row in source.execute(f"SELECT * FROM {table}"):
                marks = ", ".join("?" for _ in row)
                target.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)
                copied += 1
        return copied


def m001_tables(connection: apsw.Connection) -> None:
    """Make the first tables."""
    for statement in (
        "CREATE TABLE memory_facts (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID",
        """
        CREATE TABLE tombstones (
            namespace TEXT NOT NULL,
            id TEXT NOT NULL,
            at TEXT NOT NULL,
            PRIMARY KEY (namespace, id)
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE tombstone_words (
            namespace TEXT NOT NULL,
            hash BLOB NOT NULL,
            at TEXT NOT NULL,
            PRIMARY KEY (namespace, hash)
        ) STRICT, WITHOUT ROWID
        """,
    ):
        connection.execute(statement)


def _key_in(connection: apsw.Connection) -> bytes | None:
    for (value,) in connection.execute("SELECT value FROM memory_facts WHERE name = 'key'"):
        return bytes(value)
    return None
