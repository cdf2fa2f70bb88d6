"""The embedding cache, keyed by space, kind and a keyed hash of the text, and the embedder that asks it first.

embedder = CachedEmbedder(OpenAICompatibleEmbedder(…), DatabaseEmbeddingCache.at("vectors.db"))

Its tables are a component of a memory's own database, or the only one of a file of its own:

embedding_cache_facts   the salt of the hashes, the number of bytes of vectors, the last number given
embedding_cache         by hash, space and kind: the vector, its truncation, its last use, checksum
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.batching import (
    TextVector,
    check_embedder_input,
    check_texts,
    distinct_texts,
    spread_vectors,
)
from tellback.memory.embedders.fingerprint import PROBES, is_same_model, names_weights, probe_embedder
from tellback.memory.embedders.protocol import (
    Embedder,
    EmbeddingKind,
    Embeddings,
    Truncation,
    checked_embedder,
    embed_detailed,
    forget_texts,
    passage_embedder,
)
from tellback.memory.errors import ArgumentError
from tellback.memory.http.requests import is_remote
from tellback.vectorstore import Connection, Database, Finding, TableComponent, VectorStoreError

if TYPE_CHECKING:
    from tellback.vectorstore.sqlite import SalvageSource, SqliteDatabase

_log = logging.getLogger(__name__)

MAX_BYTES: Final = 256 * 1024 * 1024
SALT_LENGTH: Final = 32
_LITTLE_ENDIAN: Final = np.dtype("<f4")
_COLUMNS: Final = "hash, fingerprint, kind, vector, kept, whole, used, checksum"
_LOCK: Final = "embedding cache"
_KEY: Final = "hash, fingerprint, kind"
_KEY_CONDITION: Final = "hash = ? AND fingerprint = ? AND kind = ?"
_MAX_TOUCHED: Final = 4096

CachedKind: TypeAlias = Literal["document", "query", "probe"]
"""The use of a vector; those of probes are never evicted."""


@runtime_checkable
class EmbeddingCache(Protocol):
    """Cache of vectors across calls and processes, in bounded room; the least recently used go first.

    Any thread and process may use it. It may lose what it keeps at any time, and gives nothing that is not whole.
    """

    def get(self, fingerprint: str, kind: CachedKind, texts: Sequence[str]) -> list[TextVector | None]:
        """Return what is kept for each of *texts*."""

    def put(self, fingerprint: str, kind: CachedKind, kept: Mapping[str, TextVector]) -> None:
        """Keep vectors by their texts; others make room for them."""

    def erase(self, texts: Sequence[str]) -> int:
        """Remove, for good, what is kept for *texts*, of every space and kind; return how many vectors that were."""

    def clear(self, fingerprint: str | None = None) -> int:
        """Remove what is kept of one space, or (None) everything; return how many vectors that were."""


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
        """True if the embedder inside is somewhere else, or does not say."""
        return is_remote(self._inner)

    @property
    def names_weights(self) -> bool:
        """True if the embedder inside names its weights."""
        return names_weights(self._inner)

    @property
    def passages(self) -> Embedder:
        """Embedder of passages: the one inside has it, and its vectors are not kept; else this one."""
        inner = passage_embedder(self._inner)
        return self if inner is self._inner else inner

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> NDArray[np.float32]:
        """As the protocol says; what the embedder inside raises, or would have raised, is raised."""
        return (await self._answer(texts, kind, strict=True)).vectors

    async def embed_detailed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> Embeddings:
        """As ``DetailedEmbedder``; truncations of kept vectors are reported, too."""
        return await self._answer(texts, kind, strict=False)

    async def probe(self) -> NDArray[np.float32]:
        """Return the probes of the embedder inside, asked now; what was kept of another model of its name goes."""
        probes = await probe_embedder(self._inner)
        recorded = await asyncio.to_thread(self._read_cache, PROBES, "probe")
        complete = all(text in recorded for text in PROBES)
        same = complete and is_same_model(np.stack([recorded[text].vector for text in PROBES]), probes)
        if complete and not same:
            _log.warning("the model of %s was changed: its kept vectors are dropped", self.fingerprint)
            await asyncio.to_thread(self._cache.clear, self.fingerprint)
        if not same:
            kept = dict(zip(PROBES, map(TextVector, probes), strict=True))
            await asyncio.to_thread(self._write_cache, kept, "probe")
        self._known = True
        return probes

    def forget(self, texts: Sequence[str]) -> int:
        """Remove what is kept for *texts*, and what the embedder inside keeps; return how many vectors. In a thread."""
        return self._cache.erase(texts) + forget_texts(self._inner, texts)

    async def _answer(self, texts: Sequence[str], kind: EmbeddingKind, *, strict: bool) -> Embeddings:
        """Return kept vectors, and new ones for the rest; where *strict*, a refused text raises."""
        check_embedder_input(texts, kind)

        async def embed(missing: Sequence[str]) -> Embeddings:
            if strict:
                return Embeddings(await self._inner.embed(missing, kind))
            return await embed_detailed(self._inner, missing, kind)

        if kind not in self._kinds:
            return await embed(texts)
        distinct, positions = distinct_texts(texts)
        found = await asyncio.to_thread(self._read_cache, distinct, kind)
        refused: dict[str, str] = {}
        if len(found) < len(distinct):
            if not self._known:
                await self.probe()
                found = await asyncio.to_thread(self._read_cache, distinct, kind)  # nothing is left of another model
            missing = [text for text in distinct if text not in found]
            embedded = await embed(missing)
            new = {
                text: TextVector(row.copy(), embedded.truncated.get(position))
                for position, (text, row) in enumerate(zip(missing, embedded.vectors, strict=True))
                if row.any()
            }
            await asyncio.to_thread(self._write_cache, new, kind)
            found |= new
            refused = {missing[position]: reason for position, reason in embedded.refused.items()}
        self._dimension = next((len(cached.vector) for cached in found.values()), self._dimension)
        return spread_vectors(len(texts), self.dimension, positions, found, refused)

    def _read_cache(self, texts: Sequence[str], kind: CachedKind) -> dict[str, TextVector]:
        try:
            kept = self._cache.get(self.fingerprint, kind, texts)
        except VectorStoreError as error:
            _log.warning("the cache of vectors cannot be read: %s", type(error).__name__)
            return {}
        whole = {text: cached for text, cached in zip(texts, kept, strict=True) if cached is not None}
        length = self.dimension or next((len(cached.vector) for cached in whole.values()), 0)
        return {text: cached for text, cached in whole.items() if len(cached.vector) == length}

    def _write_cache(self, kept: dict[str, TextVector], kind: CachedKind) -> None:
        try:
            self._cache.put(self.fingerprint, kind, kept)
        except VectorStoreError as error:
            _log.warning("the cache of vectors cannot be written: %s", type(error).__name__)

    def __repr__(self) -> str:
        return f"CachedEmbedder({self._inner!r})"


class DatabaseEmbeddingCache:
    """``EmbeddingCache`` in *database*, of at most *max_bytes* of vectors.

    Uses are noted in memory and written with the next vectors, so that a hit costs no write.
    """

    def __init__(
        self, database: Database, *, max_bytes: int = MAX_BYTES, token: Callable[[int], bytes] = os.urandom
    ) -> None:
        if type(max_bytes) is not int or max_bytes < 1:
            raise ArgumentError("max_bytes", max_bytes, "a number of bytes of at least 1 is needed")
        if not isinstance(database, Database):
            expected = "a SqliteDatabase is needed; DatabaseEmbeddingCache.at(path) makes a file of its own"
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
    def at(cls, path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> DatabaseEmbeddingCache:
        """Open a cache in a file of its own, which is made where there is none; ``close`` closes it."""
        if not isinstance(path, (str, os.PathLike)):
            raise ArgumentError("path", path, "the path of a file is needed")
        from tellback.vectorstore.sqlite import SqliteDatabase

        database = SqliteDatabase(Path(path))
        try:
            cache = cls(database, max_bytes=max_bytes)
        except BaseException:
            database.close()
            raise
        cache._owned = database
        return cache

    def get(self, fingerprint: str, kind: CachedKind, texts: Sequence[str]) -> list[TextVector | None]:
        """As ``EmbeddingCache.get``."""
        check_texts(texts)
        with self._database.read() as connection:
            salt = self._read_salt(connection)
            if salt is None:
                return [None] * len(texts)
            return [self._get(connection, (keyed_text_hash(salt, text), fingerprint, kind)) for text in texts]

    def put(self, fingerprint: str, kind: CachedKind, kept: Mapping[str, TextVector]) -> None:
        """As ``EmbeddingCache.put``."""
        check_texts(list(kept))
        if not kept:
            return
        with self._database.write(lock=_LOCK) as connection:
            salt = _read_fact(connection, "salt")
            if salt is None:
                salt = self._token(SALT_LENGTH)
                facts = [("salt", salt), ("bytes", b"0"), ("used", b"0")]
                connection.executemany("INSERT INTO embedding_cache_facts (name, value) VALUES (?, ?)", facts)
            used = self._write_touches(connection)
            for text, cached in kept.items():
                used += 1
                _insert_vector(connection, (keyed_text_hash(salt, text), fingerprint, kind), cached, used)
            _write_count(connection, "used", used)
            oldest = f"(SELECT {_KEY} FROM embedding_cache WHERE kind <> 'probe' ORDER BY used, hash LIMIT 1)"
            while _read_count(connection, "bytes") > self._max_bytes:
                if not _delete_vectors(connection, f"({_KEY}) = {oldest}"):
                    break

    def erase(self, texts: Sequence[str]) -> int:
        """As ``EmbeddingCache.erase``; inside this thread's ``write()`` it is part of that."""
        check_texts(texts)
        with self._database.read() as connection:
            salt = self._read_salt(connection)
            hashes = [] if salt is None else [keyed_text_hash(salt, text) for text in dict.fromkeys(texts)]
            query = "SELECT 1 FROM embedding_cache WHERE hash = ?"
            hashes = [digest for digest in hashes if connection.execute(query, (digest,)).fetchone()]
        if not hashes:
            return 0
        with self._erasing() as connection:
            removed = sum(_delete_vectors(connection, "hash = ?", (digest,)) for digest in hashes)
        with self._lock:
            self._touched = {key: None for key in self._touched if key[0] not in hashes}
        return removed

    def clear(self, fingerprint: str | None = None) -> int:
        """As ``EmbeddingCache.clear``."""
        with self._erasing() as connection:
            return _delete_vectors(connection, "fingerprint = COALESCE(?, fingerprint)", (fingerprint,))

    @contextmanager
    def _erasing(self) -> Iterator[Connection]:
        """Open a write that also erases the bytes of what it deletes from the file."""
        with self._database.write(lock=_LOCK) as connection:
            yield connection
            self._database.mark_erasure(connection)
        if not self._database.in_write():
            self._database.finish_erasure()

    def size(self) -> int:
        """Return how many bytes of vectors are kept, those of probes included."""
        with self._database.read() as connection:
            return _read_count(connection, "bytes")

    def close(self) -> None:
        """Write down what was asked for, and close the file if it is the cache's own."""
        if self._touched and not self._database.read_only:
            with self._database.write(lock=_LOCK) as connection:
                self._write_touches(connection)
        if self._owned is not None:
            self._owned.close()

    def _read_salt(self, connection: Connection) -> bytes | None:
        salt: bytes | None = self._salt or _read_fact(connection, "salt")
        if not self._database.in_write():  # one that is being made may still be undone
            self._salt = salt
        return salt

    def _get(self, connection: Connection, key: tuple[bytes, str, str]) -> TextVector | None:
        """Return the vector of *key*, if it is whole, and note its use."""
        row = connection.execute(f"SELECT {_COLUMNS} FROM embedding_cache WHERE {_KEY_CONDITION}", key).fetchone()
        if row is None or _checksum(row) != row[7] or not row[3] or len(row[3]) % 4:
            return None
        with self._lock:
            self._touched.pop(key, None)
            self._touched[key] = None
            if len(self._touched) > _MAX_TOUCHED:
                del self._touched[next(iter(self._touched))]
        vector = np.frombuffer(row[3], _LITTLE_ENDIAN).astype(np.float32)
        return TextVector(vector, None if row[4] is None or row[5] is None else Truncation(row[4], row[5]))

    def _write_touches(self, connection: Connection) -> int:
        """Write down the keys asked for since the last time, in that order; return the latest number of use."""
        with self._lock:
            touched, self._touched = list(self._touched), {}
        used = _read_count(connection, "used")
        for key in touched:
            used += 1
            connection.execute(f"UPDATE embedding_cache SET used = ? WHERE {_KEY_CONDITION}", (used, *key))
        _write_count(connection, "used", used)
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
        if total != _read_count(connection, "bytes"):
            findings.append(Finding(self.name, "the size does not agree with the vectors", "embedding_cache_facts"))
        return findings

    def rebuild(self, connection: Connection) -> None:
        """Drop what is not whole, and count the rest."""
        for row in list(connection.execute(f"SELECT {_COLUMNS} FROM embedding_cache")):
            if _checksum(row) != row[7]:
                _delete_vectors(connection, _KEY_CONDITION, row[:3])
        ((total,),) = connection.execute("SELECT COALESCE(SUM(LENGTH(vector)), 0) FROM embedding_cache")
        _write_count(connection, "bytes", total)

    def salvage(self, source: SalvageSource, target: Connection) -> None:
        """Copy the vectors that are whole; without the salt of their hashes none of them can be found again."""

        def check(row: Mapping[str, Any]) -> str | None:
            whole = _checksum([row[name] for name in _COLUMNS.split(", ")]) == row["checksum"]
            return None if whole else "a vector is not what was written"

        source.copy(target, "embedding_cache_facts")
        facts = {name for (name,) in target.execute("SELECT name FROM embedding_cache_facts")}
        lost = None if {"salt", "bytes", "used"} <= facts else "the salt of its hashes was lost"
        source.copy(target, "embedding_cache", lambda row: lost or check(row))
        if lost is not None:
            target.execute("DELETE FROM embedding_cache_facts")
        self.rebuild(target)


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


def _insert_vector(connection: Connection, key: tuple[bytes, str, str], cached: TextVector, used: int) -> None:
    _delete_vectors(connection, _KEY_CONDITION, key)
    cut = (None, None) if cached.truncation is None else (cached.truncation.kept, cached.truncation.of)
    row = (*key, np.ascontiguousarray(cached.vector, _LITTLE_ENDIAN).tobytes(), *cut, used)
    connection.execute(
        f"INSERT INTO embedding_cache ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, _checksum(row))
    )
    _add_to_size(connection, len(row[3]))


def _delete_vectors(connection: Connection, where: str, values: Sequence[Any] = ()) -> int:
    """Delete vectors and count them off the size; return how many there were."""
    sql = f"DELETE FROM embedding_cache WHERE {where} RETURNING LENGTH(vector)"
    lengths = [length for (length,) in connection.execute(sql, values)]
    if lengths:
        _add_to_size(connection, -sum(lengths))
    return len(lengths)


def _add_to_size(connection: Connection, size: int) -> None:
    _write_count(connection, "bytes", _read_count(connection, "bytes") + size)


def _read_fact(connection: Connection, name: str) -> Any:
    row = connection.execute("SELECT value FROM embedding_cache_facts WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0]


def _read_count(connection: Connection, name: str) -> int:
    """Return a count among the facts: digits in bytes, since a home may have one type a column; once a number."""
    return int(_read_fact(connection, name) or 0)


def _write_count(connection: Connection, name: str, value: int) -> None:
    connection.execute("UPDATE embedding_cache_facts SET value = ? WHERE name = ?", (b"%d" % value, name))


def _checksum(row: Sequence[Any]) -> bytes:
    digest = blake2b(row[0], digest_size=8)
    for part in (row[1], row[2], repr(row[4]), repr(row[5])):
        digest.update(part.encode() + b"\0")
    digest.update(row[3])
    return digest.digest()
