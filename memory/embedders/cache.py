"""The embedding cache, keyed by space, kind and a keyed hash of the text, and the embedder that asks it first.

embedder = CachedEmbedder(OpenAICompatibleEmbedder(…), SqliteEmbeddingCache.at("vectors.db"))

Its tables are a component of a memory's own database, or the only one of a file of its own:

embedding_cache_facts   the salt of the hashes, the number of bytes of vectors, the last number given
embedding_cache         by hash, space and kind: the vector, its truncation, its last use, checksum
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from memory.embedders.batching import check_embedder_input, check_texts, distinct_texts
from memory.embedders.fingerprint import PROBES, is_same_model, probe_embedder
from memory.embedders.protocol import (
    Embedder,
    EmbeddingKind,
    Embeddings,
    Truncation,
    checked_embedder,
    embed_detailed,
    forget_texts,
)
from memory.errors import ArgumentError
from memory.http.requests import is_remote
from vectorstore import Connection, Database, Finding, TableComponent, VectorStoreError

if TYPE_CHECKING:
    from vectorstore.sqlite import SqliteDatabase

_log = logging.getLogger(__name__)

MAX_BYTES: Final = 256 * 1024 * 1024
SALT_LENGTH: Final = 32
_LITTLE_ENDIAN: Final = np.dtype("<f4")
_COLUMNS: Final = "hash, fingerprint, kind, vector, kept, whole, used, checksum"
_KEY_CONDITION: Final = "hash = ? AND fingerprint = ? AND kind = ?"
_MAX_TOUCHED: Final = 4096

CachedKind: TypeAlias = Literal["document", "query", "probe"]
"""The use of a vector; those of probes are never evicted."""


@dataclass(frozen=True, slots=True, eq=False)
class CachedVector:
    """Vector, shape (d,), float32, and the truncation of its text."""

    vector: NDArray[np.float32]
    truncation: Truncation | None = None


@runtime_checkable
class EmbeddingCache(Protocol):
    """Keeps vectors between calls and runs, in bounded room: what was asked for longest ago goes first.

    Any thread and process may use it. It may lose what it keeps at any time, and gives nothing that is not whole.
    """

    def get(self, fingerprint: str, kind: CachedKind, texts: Sequence[str]) -> list[CachedVector | None]:
        """Return what is kept for each of *texts*."""
        ...

    def put(self, fingerprint: str, kind: CachedKind, kept: Mapping[str, CachedVector]) -> None:
        """Keep vectors by their texts; others make room for them."""
        ...

    def erase(self, texts: Sequence[str]) -> int:
        """Remove, for good, what is kept for *texts*, of every space and kind; return how many vectors that were."""
        ...

    def clear(self, fingerprint: str | None = None) -> int:
        """Remove what is kept of one space, or (None) everything; return how many vectors that were."""
        ...


class CachedEmbedder:
    """Keeps the vectors of *inner* in *cache*; equal to it in every answer.

    Questions are passed on unless *queries*: nobody forgets a question by its id, so what is kept of it stays until
    there is no more room. A model changed under the same name is noticed before the first new vector is used, and what
    was kept of it goes. A cache that cannot be read or written costs its use, never the answer.
    """

    def __init__(self, inner: Embedder, cache: EmbeddingCache, *, queries: bool = False) -> None:
        checked_embedder(inner, "inner")
        if isinstance(cache, type) or not isinstance(cache, EmbeddingCache):
            raise ArgumentError("cache", cache, "an EmbeddingCache is needed")
        self._inner = inner
        self._cache = cache
        self._kinds = {"document", "query"} if queries else {"document"}
        self._dimension = 0
        self._known = False

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the embedder inside."""
        return self._inner.fingerprint

    @property
    def dimension(self) -> int:
        """Length of the vectors; 0 until there was one."""
        return self._inner.dimension or self._dimension

    @property
    def remote(self) -> bool:
        """Whether the embedder inside is somewhere else, or does not say."""
        return is_remote(self._inner)

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> NDArray[np.float32]:
        """As the protocol says; what the embedder inside raises, or would have raised, is raised."""
        check_embedder_input(texts, kind)
        if kind not in self._kinds:
            return await self._inner.embed(texts, kind)
        distinct, positions = distinct_texts(texts)
        found, refused = await self._look_up(distinct, kind, strict=True)
        return self._spread(len(texts), positions, found, refused).vectors

    async def embed_detailed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> Embeddings:
        """As ``DetailedEmbedder``; truncations of kept vectors are reported, too."""
        check_embedder_input(texts, kind)
        if kind not in self._kinds:
            return await embed_detailed(self._inner, texts, kind)
        distinct, positions = distinct_texts(texts)
        found, refused = await self._look_up(distinct, kind, strict=False)
        return self._spread(len(texts), positions, found, refused)

    async def probe(self) -> NDArray[np.float32]:
        """Return the probes of the embedder inside, asked now; what was kept of another model of its name goes."""
        probes = await probe_embedder(self._inner)
        known = await asyncio.to_thread(self._read_cache, PROBES, "probe")
        if any(text not in known for text in PROBES):
            await asyncio.to_thread(
                self._write_cache, dict(zip(PROBES, map(CachedVector, probes), strict=True)), "probe"
            )
        elif not is_same_model(np.stack([known[text].vector for text in PROBES]), probes):
            _log.warning("the model of %s was changed: its kept vectors are dropped", self.fingerprint)
            await asyncio.to_thread(self._cache.clear, self.fingerprint)
            await asyncio.to_thread(
                self._write_cache, dict(zip(PROBES, map(CachedVector, probes), strict=True)), "probe"
            )
        self._known = True
        return probes

    def forget(self, texts: Sequence[str]) -> int:
        """Remove what is kept for *texts*, and what the embedder inside keeps; return how many vectors. In a thread."""
        return self._cache.erase(texts) + forget_texts(self._inner, texts)

    async def _look_up(
        self, texts: Sequence[str], kind: EmbeddingKind, *, strict: bool
    ) -> tuple[dict[str, CachedVector], dict[str, str]]:
        """Return the vectors of *texts*, kept or made now, and why others were refused."""
        found = await asyncio.to_thread(self._read_cache, texts, kind)
        missing = [text for text in texts if text not in found]
        if not missing:
            return found, {}
        if not self._known:
            await self.probe()
            found = await asyncio.to_thread(self._read_cache, texts, kind)  # nothing is left of another model
            missing = [text for text in texts if text not in found]
        if strict:
            embedded = Embeddings(await self._inner.embed(missing, kind))
        else:
            embedded = await embed_detailed(self._inner, missing, kind)
        new = {
            text: CachedVector(row.copy(), embedded.truncated.get(position))
            for position, (text, row) in enumerate(zip(missing, embedded.vectors, strict=True))
            if row.any()
        }
        await asyncio.to_thread(self._write_cache, new, kind)
        return {**found, **new}, {missing[position]: reason for position, reason in embedded.refused.items()}

    def _spread(
        self, count: int, positions: dict[str, list[int]], found: dict[str, CachedVector], refused: dict[str, str]
    ) -> Embeddings:
        """Return vectors and reasons of distinct texts at the *positions* of each."""
        self._dimension = next((len(cached.vector) for cached in found.values()), self._dimension)
        vectors = np.zeros((count, self.dimension), np.float32)
        truncated: dict[int, Truncation] = {}
        for text, cached in found.items():
            vectors[positions[text]] = cached.vector
            if cached.truncation is not None:
                truncated.update(dict.fromkeys(positions[text], cached.truncation))
        reasons = {position: reason for text, reason in refused.items() for position in positions[text]}
        return Embeddings(vectors, truncated, reasons)

    def _read_cache(self, texts: Sequence[str], kind: str) -> dict[str, CachedVector]:
        try:
            kept = self._cache.get(self.fingerprint, cast("CachedKind", kind), texts)
        except VectorStoreError as error:
            _log.warning("the cache of vectors cannot be read: %s", type(error).__name__)
            return {}
        length = self.dimension
        whole = {text: cached for text, cached in zip(texts, kept, strict=True) if cached is not None}
        length = length or next((len(cached.vector) for cached in whole.values()), 0)
        return {text: cached for text, cached in whole.items() if len(cached.vector) == length}

    def _write_cache(self, kept: dict[str, CachedVector], kind: str) -> None:
        try:
            self._cache.put(self.fingerprint, cast("CachedKind", kind), kept)
        except VectorStoreError as error:
            _log.warning("the cache of vectors cannot be written: %s", type(error).__name__)

    def __repr__(self) -> str:
        return f"CachedEmbedder({self._inner!r})"


class SqliteEmbeddingCache:
    """``EmbeddingCache`` in *database*, of at most *max_bytes* of vectors.

    Uses are noted in memory and written with the next vectors, so that a hit costs no write.
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
        self._owned: SqliteDatabase | None = None
        database.attach(EmbeddingCacheTables())

    @classmethod
    def at(cls, path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> SqliteEmbeddingCache:
        """Open a cache in a file of its own, which is made where there is none; ``close`` closes it."""
        if not isinstance(path, (str, os.PathLike)):
            raise ArgumentError("path", path, "the path of a file is needed")
        from vectorstore.sqlite import SqliteDatabase

        database = SqliteDatabase(Path(path))
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
            salt = self._read_salt(connection)
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
            salt = self._make_salt(connection)
            used = self._write_touches(connection)
            for text, cached in kept.items():
                used += 1
                _insert_vector(connection, (keyed_text_hash(salt, text), fingerprint, kind), cached, used)
            _write_fact(connection, "used", used)
            _evict_oldest(connection, self._max_bytes)

    def erase(self, texts: Sequence[str]) -> int:
        """As ``EmbeddingCache.erase``; inside this thread's ``write()`` it is part of that."""
        check_texts(texts)
        with self._database.read() as connection:
            salt = self._read_salt(connection)
            hashes = [] if salt is None else [keyed_text_hash(salt, text) for text in dict.fromkeys(texts)]
            hashes = [digest for digest in hashes if _has_hash(connection, digest)]
        if not hashes:
            return 0
        removed = 0
        with self._database.write() as connection:
            for digest in hashes:
                removed += _delete_vectors(connection, "hash = ?", (digest,))
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
                self._write_touches(connection)
        if self._owned is not None:
            self._owned.close()

    def _read_salt(self, connection: Connection) -> bytes | None:
        salt: bytes | None = self._salt or _read_fact(connection, "salt")
        if not self._database.in_write():  # one that is being made may still be undone
            self._salt = salt
        return salt

    def _make_salt(self, connection: Connection) -> bytes:
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

    def _write_touches(self, connection: Connection) -> int:
        """Write down the keys asked for since the last time, in that order; return the latest number of use."""
        with self._lock:
            touched, self._touched = list(self._touched), {}
        used = int(_read_fact(connection, "used") or 0)
        for key in touched:
            used += 1
            connection.execute(f"UPDATE embedding_cache SET used = ? WHERE {_KEY_CONDITION}", (used, *key))
        _write_fact(connection, "used", used)
        return used


class EmbeddingCacheTables(TableComponent):
    """The tables of the embedding cache as a component of a database."""

    def __init__(self) -> None:
        super().__init__("embedding_cache", (m001_embedding_cache,))

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
                _delete_vectors(connection, _KEY_CONDITION, row[:3])
        total = "(SELECT COALESCE(SUM(LENGTH(vector)), 0) FROM embedding_cache)"
        connection.execute(f"UPDATE embedding_cache_facts SET value = {total} WHERE name = 'bytes'")


def m001_embedding_cache(connection: Connection) -> None:
    """Create the first tables."""
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
    sql = f"SELECT {_COLUMNS} FROM embedding_cache WHERE {_KEY_CONDITION}"
    row: tuple[Any, ...] | None = connection.execute(sql, key).fetchone()
    return row


def _decode_row(row: tuple[Any, ...] | None) -> CachedVector | None:
    if row is None or _checksum(row) != row[7] or not row[3] or len(row[3]) % 4:
        return None
    vector = np.frombuffer(row[3], _LITTLE_ENDIAN).astype(np.float32)
    return CachedVector(vector, None if row[4] is None or row[5] is None else Truncation(row[4], row[5]))


def _insert_vector(connection: Connection, key: tuple[bytes, str, str], cached: CachedVector, used: int) -> None:
    _delete_vectors(connection, _KEY_CONDITION, key)
    cut = (None, None) if cached.truncation is None else (cached.truncation.kept, cached.truncation.of)
    row = (*key, np.ascontiguousarray(cached.vector, _LITTLE_ENDIAN).tobytes(), *cut, used)
    connection.execute(
        f"INSERT INTO embedding_cache ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, _checksum(row))
    )
    _add_to_size(connection, len(row[3]))


def _evict_oldest(connection: Connection, limit: int) -> None:
    oldest = (
        "SELECT hash, fingerprint, kind, LENGTH(vector) FROM embedding_cache WHERE kind <> 'probe'"
        " ORDER BY used, hash LIMIT 256"
    )
    excess = int(_read_fact(connection, "bytes") or 0) - limit
    while excess > 0 and (rows := list(connection.execute(oldest))):
        for *key, size in rows:
            if excess <= 0:
                break
            _delete_vectors(connection, _KEY_CONDITION, key)
            excess -= size


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
