"""Tombstones: what was forgotten, by id and by a keyed hash of its text, never by the text.

They keep crash recovery, ingest and import from bringing back what was forgotten. The key of the hash is a secret of
the file, so that the hashes of one file say nothing in another. Messages have tombstones, too: keyed hashes of their
places.

memory_facts       the secret key of the file
tombstones         ids that were forgotten, by partition
tombstone_words    keyed hashes of texts that were forgotten, by namespace
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Final, Protocol

from memory.history.sync_history import HistoryRow
from memory.partitions import store_namespace
from memory.timestamps import timestamp_from_text, timestamp_to_text
from vectorstore import Connection, Database, Finding


class Tombstones(Protocol):
    """What was forgotten. Each call is one transaction, or part of the one its thread is in."""

    @property
    def key(self) -> bytes:
        """The secret of this file, 32 bytes: for hashes that must say nothing elsewhere."""
        ...

    def which(self, store_namespace: str, ids: Iterable[str]) -> set[str]:
        """Return those of *ids* that were forgotten in a lane (a namespace of the store)."""
        ...

    def words_at(self, namespace: str, text: str) -> datetime | None:
        """Return when these very words were last forgotten in a user's namespace; None if never."""
        ...

    def add(self, store_namespace: str, ids: Iterable[str], at: datetime) -> None:
        """Note ids of a lane as forgotten."""
        ...

    def add_words(self, namespace: str, texts: Iterable[str], at: datetime) -> None:
        """Note words as forgotten in a user's namespace."""
        ...

    def lift(self, store_namespace: str, ids: Iterable[str]) -> None:
        """Take ids back: their owner has said the thing afresh."""
        ...

    def lift_words(self, namespace: str, texts: Iterable[str]) -> None:
        """Take words back: what was forgotten with them is there again."""
        ...

    def ids(self, store_namespace: str, *, after: str = "", limit: int = 1000) -> list[tuple[str, datetime]]:
        """Return ids forgotten in a lane with when, in order, those after the id *after*."""
        ...

    def lanes(self) -> list[str]:
        """Return the lanes in which something was forgotten, sorted."""
        ...


def text_hash(key: bytes, text: str) -> bytes:
    """Return the keyed hash of *text*, blanks at its ends not counted."""
    return blake2b(text.strip().encode(), digest_size=16, key=key).digest()


class InMemoryTombstones:
    """``Tombstones`` for a store without a file; there is no file to keep secret, so its key is nothing."""

    key = bytes(32)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: dict[tuple[str, str], datetime] = {}
        self._words: dict[tuple[str, bytes], datetime] = {}

    def which(self, store_namespace: str, ids: Iterable[str]) -> set[str]:
        """As ``Tombstones.which``."""
        with self._lock:
            return {one for one in ids if (store_namespace, one) in self._ids}

    def words_at(self, namespace: str, text: str) -> datetime | None:
        """As ``Tombstones.words_at``."""
        with self._lock:
            return self._words.get((namespace, text_hash(self.key, text)))

    def add(self, store_namespace: str, ids: Iterable[str], at: datetime) -> None:
        """As ``Tombstones.add``."""
        with self._lock:
            self._ids.update({(store_namespace, one): at for one in ids})

    def add_words(self, namespace: str, texts: Iterable[str], at: datetime) -> None:
        """As ``Tombstones.add_words``."""
        with self._lock:
            self._words.update({(namespace, text_hash(self.key, text)): at for text in texts})

    def lift(self, store_namespace: str, ids: Iterable[str]) -> None:
        """As ``Tombstones.lift``."""
        with self._lock:
            for one in ids:
                self._ids.pop((store_namespace, one), None)

    def lift_words(self, namespace: str, texts: Iterable[str]) -> None:
        """As ``Tombstones.lift_words``."""
        with self._lock:
            for text in texts:
                self._words.pop((namespace, text_hash(self.key, text)), None)

    def ids(self, store_namespace: str, *, after: str = "", limit: int = 1000) -> list[tuple[str, datetime]]:
        """As ``Tombstones.ids``."""
        with self._lock:
            held = [(one, at) for (lane, one), at in self._ids.items() if lane == store_namespace and one > after]
        return sorted(held)[:limit]

    def lanes(self) -> list[str]:
        """As ``Tombstones.lanes``."""
        with self._lock:
            return sorted({lane for lane, _ in self._ids})


_HASH_BYTES: Final = 16


def history_partition(namespace: str) -> str:
    """Return under which lane the tombstones of messages are; no entry of the store is there."""
    return store_namespace(namespace, "history")


def message_hashes(key: bytes, rows: Iterable[HistoryRow]) -> list[str]:
    """Return a mark for each message: of its session, number and time, under the secret of the file."""
    return [_message_hash(key, row) for row in rows]


def _message_hash(key: bytes, row: HistoryRow) -> str:
    digest = blake2b(digest_size=_HASH_BYTES, key=key, person=b"message")
    for part in (row.session, str(row.sequence), row.at.isoformat()):
        digest.update(len(part.encode()).to_bytes(8, "little") + part.encode())
    return digest.hexdigest()


KEY_LENGTH = 32
_TABLES = ("memory_facts", "tombstones", "tombstone_words")


class SqliteTombstones:
    """``Tombstones`` in a database's file. *token* gives the random bytes of a new file's key."""

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
                (namespace, text_hash(self.key, text)),
            ).fetchone()
        return None if found is None else timestamp_from_text(found[0])

    def add(self, store_namespace: str, ids: Iterable[str], at: datetime) -> None:
        """As ``Tombstones.add``."""
        with self._database.write() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO tombstones (namespace, id, at) VALUES (?, ?, ?)",
                [(store_namespace, one, timestamp_to_text(at)) for one in ids],
            )

    def add_words(self, namespace: str, texts: Iterable[str], at: datetime) -> None:
        """As ``Tombstones.add_words``."""
        with self._database.write() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO tombstone_words (namespace, hash, at) VALUES (?, ?, ?)",
                [(namespace, text_hash(self.key, text), timestamp_to_text(at)) for text in texts],
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
                [(namespace, text_hash(self.key, text)) for text in texts],
            )

    def ids(self, store_namespace: str, *, after: str = "", limit: int = 1000) -> list[tuple[str, datetime]]:
        """As ``Tombstones.ids``."""
        sql = "SELECT id, at FROM tombstones WHERE namespace = ? AND id > ? ORDER BY id LIMIT ?"
        with self._database.read() as connection:
            return [
                (one, timestamp_from_text(at)) for one, at in connection.execute(sql, (store_namespace, after, limit))
            ]

    def lanes(self) -> list[str]:
        """As ``Tombstones.lanes``."""
        with self._database.read() as connection:
            return sorted(lane for (lane,) in connection.execute("SELECT DISTINCT namespace FROM tombstones"))


class TombstoneTables:
    """The tables as a component of a database."""

    name = "tombstones"

    @property
    def migrations(self) -> Sequence[Callable[[Connection], None]]:
        """What has been done to the tables, in order."""
        return (m001_tombstones,)

    def verify(self, connection: Connection) -> list[Finding]:
        """Look whether the key of the file is whole: without it, hashes match nothing."""
        key = _read_key(connection)
        if key is not None and len(key) != KEY_LENGTH:
            return [Finding(self.name, "the key of the file is not whole", "memory_facts")]
        if key is None and connection.execute("SELECT 1 FROM tombstone_words").fetchone():
            return [Finding(self.name, "the key of the file is missing", "memory_facts")]
        return []

    def rebuild(self, connection: Connection) -> None:
        """Nothing here is derived."""

    def salvage(self, source: Connection, target: Connection) -> int:
        """Copy every row."""
        copied = 0
        for table in _TABLES:
            for row in source.execute(f"SELECT * FROM {table}"):
                marks = ", ".join("?" for _ in row)
                target.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)
                copied += 1
        return copied


def m001_tombstones(connection: Connection) -> None:
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


def _read_key(connection: Connection) -> bytes | None:
    for (value,) in connection.execute("SELECT value FROM memory_facts WHERE name = 'key'"):
        return bytes(value)
    return None
