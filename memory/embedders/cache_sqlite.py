"""The embedding cache in a SQLite file: a component of a memory's own file, or the only one of a file of its own.

embedding_cache_facts   the salt of the hashes, the number of bytes of vectors, the last number given
embedding_cache         by hash, space and kind: the vector, its truncation, its last use, checksum
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np

from memory.embedders.batching import check_texts
from memory.embedders.cache import CachedKind, CachedVector
from memory.embedders.protocol import Truncation
from memory.errors import ArgumentError
from vectorstore import Connection, Database, Finding
from vectorstore.sqlite import SqliteDatabase as DatabaseFile

MAX_BYTES: Final = 256 * 1024 * 1024
SALT_LENGTH: Final = 32
_LITTLE_ENDIAN: Final = np.dtype("<f4")
_COLUMNS: Final = "hash, fingerprint, kind, vector, kept, whole, used, checksum"
_MAX_TOUCHED: Final = 4096


class SqliteEmbeddingCache:
    """``EmbeddingCache`` in *database*, of at most *max_bytes* of vectors.

    That something was asked for is noted in memory and written with the next vectors, so that a hit costs no write.
    """

    def __init__(
        self, database: Database, *, max_bytes: int = MAX_BYTES, token: Callable[[int], bytes] = os.urandom
    ) -> None:
        if type(max_bytes) is not int or max_bytes < 1:
            raise ArgumentError("max_bytes", max_bytes, "a number of bytes of at least 1 is needed")
        if not isinstance(database, Database):
            expected = "a SqliteDatabase is needed; SqliteEmbeddingCache.at(path) makes a file of its own"
            raise ArgumentError("database", database, expected)
        self._database = database
        self._max_bytes = max_bytes
        self._token = token
        self._lock = threading.Lock()
        self._touched: dict[tuple[bytes, str, str], None] = {}
        self._salt: bytes | None = None
        self._owned: DatabaseFile | None = None
        database.attach(EmbeddingCacheTables())

    @classmethod
    def at(cls, path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> SqliteEmbeddingCache:
        """Open a cache in a file of its own, which is made where there is none; ``close`` closes it."""
        if not isinstance(path, (str, os.PathLike)):
            raise ArgumentError("path", path, "the path of a file is needed")
        database = DatabaseFile(Path(path))
        try:
            cache = cls(database, max_bytes=max_bytes)
        except BaseException:
            database.close()
            raise
        cache._owned = database
        return cache

    def get(self, fingerprint: str, kind: CachedKind, texts: Sequence[str]) -> list[CachedVector | None]:
        """As ``EmbeddingCache.get``."""
        check_texts(texts)
        found: list[CachedVector | None] = []
        with self._database.read() as connection:
            salt = self._salted(connection)
            for text in texts:
                key = (keyed_text_hash(salt, text), fingerprint, kind)
                kept = None if salt is None else _decode_row(_read_row(connection, key))
                found.append(kept)
                if kept is not None:
                    self._touch(key)
        return found

    def put(self, fingerprint: str, kind: CachedKind, kept: Mapping[str, CachedVector]) -> None:
        """As ``EmbeddingCache.put``."""
        check_texts(list(kept))
        if not kept:
            return
        with self._database.write() as connection:
            salt = self._salt_made(connection)
            used = self._settle_touches(connection)
            for text, one in kept.items():
                _insert_vector(connection, (keyed_text_hash(salt, text), fingerprint, kind), one, used)
            _evict_oldest(connection, self._max_bytes)

    def erase(self, texts: Sequence[str]) -> int:
        """As ``EmbeddingCache.erase``; inside this thread's ``write()`` it is part of that."""
        check_texts(texts)
        with self._database.read() as connection:
            salt = self._salted(connection)
            hashes = [] if salt is None else [keyed_text_hash(salt, text) for text in dict.fromkeys(texts)]
            hashes = [one for one in hashes if _has_hash(connection, one)]
        if not hashes:
            return 0
        removed = 0
        with self._database.write() as connection:
            for one in hashes:
                removed += _delete_vectors(connection, "hash = ?", (one,))
            self._database.mark_erasure(connection)
        if not self._database.in_write():
            self._database.finish_erasure()
        with self._lock:
            self._touched = {key: None for key in self._touched if key[0] not in hashes}
        return removed

    def clear(self, fingerprint: str | None = None) -> int:
        """As ``EmbeddingCache.clear``."""
        with self._database.write() as connection:
            removed = (
                _delete_vectors(connection, "TRUE", ())
                if fingerprint is None
                else _delete_vectors(connection, "fingerprint = ?", (fingerprint,))
            )
            self._database.mark_erasure(connection)
        if not self._database.in_write():
            self._database.finish_erasure()
        return removed

    def size(self) -> int:
        """Return how many bytes of vectors are kept, those of probes included."""
        with self._database.read() as connection:
            return int(_read_fact(connection, "bytes") or 0)

    def close(self) -> None:
        """Write down what was asked for, and close the file if it is the cache's own."""
        if self._touched and not self._database.read_only:
            with self._database.write() as connection:
                self._settle_touches(connection)
        if self._owned is not None:
            self._owned.close()

    def _salted(self, connection: Connection) -> bytes | None:
        salt: bytes | None = self._salt or _read_fact(connection, "salt")
        if not self._database.in_write():  # one that is being made may still be undone
            self._salt = salt
        return salt

    def _salt_made(self, connection: Connection) -> bytes:
        salt = _read_fact(connection, "salt")
        if salt is None:
            salt = self._token(SALT_LENGTH)
            facts = [("salt", salt), ("bytes", 0), ("used", 0)]
            connection.executemany("INSERT INTO embedding_cache_facts (name, value) VALUES (?, ?)", facts)
        return bytes(salt)

    def _touch(self, key: tuple[bytes, str, str]) -> None:
        with self._lock:
            self._touched.pop(key, None)
            self._touched[key] = None
            if len(self._touched) > _MAX_TOUCHED:
                del self._touched[next(iter(self._touched))]

    def _settle_touches(self, connection: Connection) -> int:
        """Write down what was asked for since the last time, in that order; return a number later than all."""
        with self._lock:
            touched, self._touched = list(self._touched), {}
        used = int(_read_fact(connection, "used") or 0)
        for key in touched:
            used += 1
            where = "UPDATE embedding_cache SET used = ? WHERE hash = ? AND fingerprint = ? AND kind = ?"
            connection.execute(where, (used, *key))
        _write_fact(connection, "used", used + 1)
        return used + 1


class EmbeddingCacheTables:
    """The tables as a component of a database."""

    name = "embedding_cache"

    @property
    def migrations(self) -> Sequence[Callable[[Connection], None]]:
        """What has been done to the tables, in order."""
        return (m001_embedding_cache,)

    def verify(self, connection: Connection) -> list[Finding]:
        """Compare each vector with its checksum, and the bytes with their sum."""
        findings, total = [], 0
        for row in connection.execute(f"SELECT {_COLUMNS} FROM embedding_cache"):
            total += len(row[3])
            if _checksum(row) != row[7]:
                findings.append(Finding(self.name, "a vector is not what was written", row[1]))
        if total != (_read_fact(connection, "bytes") or 0):
            findings.append(Finding(self.name, "the size does not agree with the vectors", "embedding_cache_facts"))
        return findings

    def rebuild(self, connection: Connection) -> None:
        """Drop what is not whole, and count the rest."""
        for row in list(connection.execute(f"SELECT {_COLUMNS} FROM embedding_cache")):
            if _checksum(row) != row[7]:
                _delete_vectors(connection, "hash = ? AND fingerprint = ? AND kind = ?", row[:3])
        total = "(SELECT COALESCE(SUM(LENGTH(vector)), 0) FROM embedding_cache)"
        connection.execute(f"UPDATE embedding_cache_facts SET value = {total} WHERE name = 'bytes'")

    def salvage(self, source: Connection, target: Connection) -> int:
        """Copy nothing: what a cache had is made again."""
        return 0


def m001_embedding_cache(connection: Connection) -> None:
    """Make the first tables."""
    connection.execute("CREATE TABLE embedding_cache_facts (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT")
    connection.execute(
        """
        CREATE TABLE embedding_cache (
            hash BLOB NOT NULL,
            fingerprint TEXT NOT NULL,
            kind TEXT NOT NULL,
            vector BLOB NOT NULL,
            kept INTEGER,
            whole INTEGER,
            used INTEGER NOT NULL,
            checksum BLOB NOT NULL,
            UNIQUE (hash, fingerprint, kind)
        ) STRICT
        """
    )
    connection.execute("CREATE INDEX embedding_cache_used ON embedding_cache (used) WHERE kind <> 'probe'")


def keyed_text_hash(salt: bytes | None, text: str) -> bytes:
    """Return the keyed hash of *text*: without the salt of the file nobody can guess a short text by it."""
    return blake2b(text.encode(), digest_size=16, key=salt or b"").digest()


def _read_row(connection: Connection, key: tuple[bytes, str, str]) -> tuple[Any, ...] | None:
    where = f"SELECT {_COLUMNS} FROM embedding_cache WHERE hash = ? AND fingerprint = ? AND kind = ?"
    row: tuple[Any, ...] | None = connection.execute(where, key).fetchone()
    return row


def _decode_row(row: tuple[Any, ...] | None) -> CachedVector | None:
    if row is None or _checksum(row) != row[7] or not row[3] or len(row[3]) % 4:
        return None
    vector = np.frombuffer(row[3], _LITTLE_ENDIAN).astype(np.float32)
    return CachedVector(vector, None if row[4] is None or row[5] is None else Truncation(row[4], row[5]))


def _insert_vector(connection: Connection, key: tuple[bytes, str, str], one: CachedVector, used: int) -> None:
    _delete_vectors(connection, "hash = ? AND fingerprint = ? AND kind = ?", key)
    cut = (None, None) if one.truncation is None else (one.truncation.kept, one.truncation.of)
    row = (*key, np.ascontiguousarray(one.vector, _LITTLE_ENDIAN).tobytes(), *cut, used)
    connection.execute(
        f"INSERT INTO embedding_cache ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, _checksum(row))
    )
    _add_to_size(connection, len(row[3]))


def _evict_oldest(connection: Connection, limit: int) -> None:
    oldest = "SELECT rowid, LENGTH(vector) FROM embedding_cache WHERE kind <> 'probe' ORDER BY used, rowid LIMIT 256"
    over = int(_read_fact(connection, "bytes") or 0) - limit
    while over > 0 and (rows := list(connection.execute(oldest))):
        for rowid, size in rows:
            if over <= 0:
                break
            _delete_vectors(connection, "rowid = ?", (rowid,))
            over -= size


def _delete_vectors(connection: Connection, where: str, values: Sequence[Any]) -> int:
    lengths = [
        row[0] for row in connection.execute(f"SELECT LENGTH(vector) FROM embedding_cache WHERE {where}", values)
    ]
    if lengths:
        connection.execute(f"DELETE FROM embedding_cache WHERE {where}", values)
        _add_to_size(connection, -sum(lengths))
    return len(lengths)


def _has_hash(connection: Connection, digest: bytes) -> bool:
    return connection.execute("SELECT 1 FROM embedding_cache WHERE hash = ?", (digest,)).fetchone() is not None


def _add_to_size(connection: Connection, size: int) -> None:
    connection.execute("UPDATE embedding_cache_facts SET value = value + ? WHERE name = 'bytes'", (size,))


def _read_fact(connection: Connection, name: str) -> Any:
    row = connection.execute("SELECT value FROM embedding_cache_facts WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0]


def _write_fact(connection: Connection, name: str, value: int) -> None:
    connection.execute("UPDATE embedding_cache_facts SET value = ? WHERE name = ?", (value, name))


def _checksum(row: Sequence[Any]) -> bytes:
    digest = blake2b(row[0], digest_size=8)
    for part in (row[1], row[2], repr(row[4]), repr(row[5])):
        digest.update(part.encode() + b"\0")
    digest.update(row[3])
    return digest.digest()
