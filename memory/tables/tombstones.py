"""Tombstones: ids and words that were forgotten, words only as keyed hashes.

They keep crash recovery, ingest and import from bringing back what was forgotten. The key of the hash is a secret of
the database, so that the hashes of one say nothing in another. Messages have tombstones, too: keyed hashes of their
session, number and time.

memory_facts       the secret key of the database
tombstones         ids that were forgotten, by partition
tombstone_words    keyed hashes of texts that were forgotten, by namespace
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from tellback.memory.history.protocol import HistoryRow
from tellback.memory.partitions import store_namespace
from tellback.memory.timestamps import timestamp_from_text, timestamp_to_text
from tellback.vectorstore import Connection, Database, Finding, TableComponent

if TYPE_CHECKING:
    from tellback.vectorstore.sqlite import SalvageSource

KEY_LENGTH: Final = 32
_GROUP_SIZE: Final = 500
_HASH_BYTES: Final = 16


class Tombstones:
    """Forgotten ids and words, in tables of *database*. Each call is one transaction, or part of its thread's.

    *token* gives the random bytes of a new database's key.
    """

    def __init__(self, database: Database, *, token: Callable[[int], bytes] = os.urandom) -> None:
        self._database = database
        database.attach(TombstoneTables())
        with database.read() as connection:
            key = _read_key(connection)
        if key is None:
            with database.write() as connection:
                connection.execute(
                    "INSERT INTO memory_facts (name, value) VALUES ('key', ?) ON CONFLICT DO NOTHING",
                    (token(KEY_LENGTH),),
                )
                key = _read_key(connection)
        self.key: bytes = key or b""
        """The secret of the database, 32 bytes: for hashes that must say nothing elsewhere."""

    def which(self, store_namespace: str, ids: Iterable[str]) -> set[str]:
        """Return those of *ids* that were forgotten in a partition (a namespace of the store)."""
        wanted: list[str] = list(ids)
        forgotten: set[str] = set()
        with self._database.read() as connection:
            for start in range(0, len(wanted), _GROUP_SIZE):
                group = wanted[start : start + _GROUP_SIZE]
                sql = f"SELECT id FROM tombstones WHERE namespace = ? AND id IN ({', '.join('?' * len(group))})"
                forgotten.update(id for (id,) in connection.execute(sql, (store_namespace, *group)))
        return forgotten

    def words_at(self, namespace: str, text: str) -> datetime | None:
        """Return when these very words were last forgotten in a user's namespace; None if never."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT at FROM tombstone_words WHERE namespace = ? AND hash = ?",
                (namespace, text_hash(self.key, text)),
            ).fetchone()
        return None if row is None else timestamp_from_text(row[0])

    def add(self, store_namespace: str, ids: Iterable[str], at: datetime) -> None:
        """Add tombstones of *ids* in a partition."""
        with self._database.write(lock=store_namespace) as connection:
            connection.executemany(
                "INSERT INTO tombstones (namespace, id, at) VALUES (?, ?, ?)"
                " ON CONFLICT (namespace, id) DO UPDATE SET at = excluded.at",
                [(store_namespace, id, timestamp_to_text(at)) for id in ids],
            )

    def add_words(self, namespace: str, texts: Iterable[str], at: datetime) -> None:
        """Add tombstones of *texts* in a user's namespace."""
        with self._database.write(lock=namespace) as connection:
            connection.executemany(
                "INSERT INTO tombstone_words (namespace, hash, at) VALUES (?, ?, ?)"
                " ON CONFLICT (namespace, hash) DO UPDATE SET at = excluded.at",
                [(namespace, text_hash(self.key, text), timestamp_to_text(at)) for text in texts],
            )

    def lift(self, store_namespace: str, ids: Iterable[str]) -> None:
        """Remove the tombstones of *ids*: their owner has stated the memory afresh."""
        with self._database.write(lock=store_namespace) as connection:
            connection.executemany(
                "DELETE FROM tombstones WHERE namespace = ? AND id = ?", [(store_namespace, id) for id in ids]
            )

    def lift_words(self, namespace: str, texts: Iterable[str]) -> None:
        """Remove the tombstones of words: what was forgotten with them is stored again."""
        with self._database.write(lock=namespace) as connection:
            connection.executemany(
                "DELETE FROM tombstone_words WHERE namespace = ? AND hash = ?",
                [(namespace, text_hash(self.key, text)) for text in texts],
            )

    def ids(self, store_namespace: str, *, after: str = "", limit: int = 1000) -> list[tuple[str, datetime]]:
        """Return ids forgotten in a partition with their times, in order, from behind the id *after*."""
        sql = "SELECT id, at FROM tombstones WHERE namespace = ? AND id > ? ORDER BY id LIMIT ?"
        with self._database.read() as connection:
            rows = connection.execute(sql, (store_namespace, after, limit))
            return [(id, timestamp_from_text(time)) for id, time in rows]

    def partitions(self) -> list[str]:
        """Return the partitions in which something was forgotten, sorted."""
        with self._database.read() as connection:
            rows = connection.execute("SELECT DISTINCT namespace FROM tombstones")
            return sorted(partition for (partition,) in rows)


def text_hash(key: bytes, text: str) -> bytes:
    """Return the keyed hash of *text*, blanks at its ends not counted."""
    return blake2b(text.strip().encode(), digest_size=_HASH_BYTES, key=key).digest()


def history_partition(namespace: str) -> str:
    """Return the partition that has the tombstones of messages; no entry of the store is in it."""
    return store_namespace(namespace, "history")


def message_hashes(key: bytes, rows: Iterable[HistoryRow]) -> list[str]:
    """Return a keyed hash for each message: of its session, number and time."""
    hashes = []
    for row in rows:
        digest = blake2b(digest_size=_HASH_BYTES, key=key, person=b"message")
        for part in (row.session, str(row.sequence), row.at.isoformat()):
            digest.update(len(part.encode()).to_bytes(8, "little") + part.encode())
        hashes.append(digest.hexdigest())
    return hashes


class TombstoneTables(TableComponent):
    """The tables of tombstones as a component of a database."""

    def __init__(self) -> None:
        super().__init__("tombstones", (m001_tombstones,), ("memory_facts", "tombstones", "tombstone_words"))

    def verify(self, connection: Connection) -> list[Finding]:
        """Check that the key is whole: without it, hashes match nothing."""
        key = _read_key(connection)
        if key is not None and len(key) != KEY_LENGTH:
            return [Finding(self.name, "the key of the file is not whole", "memory_facts")]
        if key is None and connection.execute("SELECT 1 FROM tombstone_words").fetchone():
            return [Finding(self.name, "the key of the file is missing", "memory_facts")]
        return []

    def salvage(self, source: SalvageSource, target: Connection) -> None:
        """Copy the key and every tombstone; hashes under a key that was lost match nothing and are left out."""

        def check_fact(row: Mapping[str, Any]) -> str | None:
            broken = row["name"] == "key" and len(row["value"]) != KEY_LENGTH
            return "the key of the file is not whole" if broken else None

        def check(row: Mapping[str, Any]) -> str | None:
            timestamp_from_text(row["at"])
            return None

        source.copy(target, "memory_facts", check_fact)
        source.copy(target, "tombstones", check)
        lost = None if _read_key(target) else "the key of the file was lost"
        source.copy(target, "tombstone_words", lambda row: lost or check(row))


def m001_tombstones(connection: Connection) -> None:
    """Create the first tables."""
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


def _read_key(connection: Connection) -> bytes | None:
    for (value,) in connection.execute("SELECT value FROM memory_facts WHERE name = 'key'"):
        return bytes(value)
    return None
