"""Embedding cache: equal vectors, fewer embedder calls, bounded size, erasure of forgotten texts.

Inner parts, on no face: ``tellback.memory.embedders.batching``, ``tellback.memory.embedders.cache``,
``tellback.memory.embedders.protocol``.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tellback.memory import (
    ArgumentError,
    CachedEmbedder,
    DatabaseEmbeddingCache,
    EmbedderError,
    EmbeddingSettings,
    HashingEmbedder,
    KnowledgeBase,
    open_memory,
    run_sync,
)
from tellback.memory.embedders.batching import TextVector
from tellback.memory.embedders.cache import EmbeddingCache, keyed_text_hash
from tellback.memory.embedders.protocol import Truncation
from tellback.memory.internals import PROBES, Embeddings
from tellback.memory.testing import EmbedderContract
from tellback.vectorstore import StorageFull

HASHING = HashingEmbedder(dimension=32)
ROW = 32 * 4


class Model:
    """Hashing under a name; it counts what it is asked, can be down, and can become another model."""

    dimension = 32

    def __init__(self, fingerprint: str = "model/1", *, turn: int = 0) -> None:
        self.fingerprint, self.turn, self.down = fingerprint, turn, False
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str], kind: Any = "document") -> np.ndarray:
        if self.down:
            raise EmbedderError("it is down")
        self.asked.extend(text for text in texts if text not in PROBES)
        return np.roll(await HASHING.embed(texts, kind), self.turn, axis=1)


class Detailed(Model):
    async def embed_detailed(self, texts: Sequence[str], kind: Any = "document") -> Embeddings:
        vectors = (await self.embed(texts, kind)).copy()
        refused = {place: "no" for place, text in enumerate(texts) if "bad" in text}
        vectors[list(refused)] = 0
        return Embeddings(vectors, {p: Truncation(3, 9) for p, text in enumerate(texts) if "long" in text}, refused)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vectors.db"


@pytest.fixture
def cache(path: Path) -> Iterator[DatabaseEmbeddingCache]:
    made = DatabaseEmbeddingCache.at(path)
    yield made
    made.close()


class TestCachedEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self, cache: DatabaseEmbeddingCache) -> CachedEmbedder:
        return CachedEmbedder(Model(), cache, queries=True)


class TestCachedEmbedderWithoutQuestions(EmbedderContract):
    @pytest.fixture
    def embedder(self, cache: DatabaseEmbeddingCache) -> CachedEmbedder:
        return CachedEmbedder(Model(), cache)


def test_a_cached_text_is_not_embedded_again_in_this_run_or_the_next(path: Path) -> None:
    model = Model()
    texts = ["one", "two", "one", ""]
    with_cache = DatabaseEmbeddingCache.at(path)
    first = run_sync(CachedEmbedder(model, with_cache).embed(texts))
    assert model.asked == ["one", "two"]
    with_cache.close()
    again = DatabaseEmbeddingCache.at(path)
    model.down = True
    assert np.array_equal(run_sync(CachedEmbedder(model, again).embed(texts)), first)
    with pytest.raises(EmbedderError, match="down"):
        run_sync(CachedEmbedder(model, again).embed(["three"]))
    model.down = False
    run_sync(CachedEmbedder(model, again).embed(["two", "three"]))
    assert model.asked == ["one", "two", "three"]
    again.close()


def test_query_vectors_are_cached_only_with_queries_enabled(cache: DatabaseEmbeddingCache) -> None:
    for queries, times in ((False, 2), (True, 1)):
        model = Model(f"model/{queries}")
        embedder = CachedEmbedder(model, cache, queries=queries)
        for _ in range(2):
            run_sync(embedder.embed(["where?"], "query"))
        assert model.asked == ["where?"] * times


def test_query_and_document_vectors_of_one_text_are_cached_apart(cache: DatabaseEmbeddingCache) -> None:
    model = Model()
    embedder = CachedEmbedder(model, cache, queries=True)
    run_sync(embedder.embed(["same"]))
    run_sync(embedder.embed(["same"], "query"))
    assert model.asked == ["same", "same"]


def test_embedders_of_different_fingerprints_share_no_cached_vectors(cache: DatabaseEmbeddingCache) -> None:
    item, other = Model("a/1"), Model("b/1", turn=1)
    first, second = (run_sync(CachedEmbedder(model, cache).embed(["text"])) for model in (item, other))
    assert not np.allclose(first, second)
    assert np.array_equal(run_sync(CachedEmbedder(other, cache).embed(["text"])), second)


def test_a_cached_truncation_is_reported_again_and_a_refused_text_is_not_cached(cache: DatabaseEmbeddingCache) -> None:
    model = Detailed()
    embedder = CachedEmbedder(model, cache)
    for _ in range(2):
        made = run_sync(embedder.embed_detailed(["a long one", "a bad one", "fine", "a long one"]))
        assert made.truncated == {0: Truncation(3, 9), 3: Truncation(3, 9)}
        assert made.refused == {1: "no"}
        assert made.vectors.any(axis=1).tolist() == [True, False, True, True]
    assert model.asked == ["a long one", "a bad one", "fine", "a bad one"]


def test_a_model_changed_under_the_same_name_gets_no_cached_vectors(cache: DatabaseEmbeddingCache) -> None:
    run_sync(CachedEmbedder(Model(), cache).embed(["one", "two"]))
    changed = Model(turn=1)
    embedder = CachedEmbedder(changed, cache)
    answer = run_sync(embedder.embed(["one", "new"]))
    assert np.array_equal(answer, run_sync(Model(turn=1).embed(["one", "new"])))
    assert changed.asked == ["one", "new"]


def test_the_embedding_cache_evicts_the_least_recently_used_vectors_at_max_bytes(path: Path) -> None:
    limit = ROW * 13
    cache = DatabaseEmbeddingCache.at(path, max_bytes=limit)
    embedder = CachedEmbedder(Model(), cache)
    for number in range(10):
        run_sync(embedder.embed([f"text {number}"]))
    run_sync(embedder.embed(["text 0"]))  # asked for again: it stays
    cache.close()
    cache = DatabaseEmbeddingCache.at(path, max_bytes=limit)
    model = Model()
    embedder = CachedEmbedder(model, cache)
    run_sync(embedder.embed([f"more {number}" for number in range(5)]))
    assert cache.size() == limit
    kept = cache.get("model/1", "document", [f"text {number}" for number in range(10)])
    assert [item is not None for item in kept] == [True, *[False] * 5, *[True] * 4]
    assert all(item is not None for item in cache.get("model/1", "probe", PROBES))
    cache.close()


def test_a_cache_smaller_than_a_vector_still_embeds(path: Path) -> None:
    cache = DatabaseEmbeddingCache.at(path, max_bytes=1)
    vectors = run_sync(CachedEmbedder(Model(), cache).embed(["one", "two"]))
    assert np.array_equal(vectors, run_sync(HASHING.embed(["one", "two"])))
    assert cache.size() == ROW * len(PROBES)
    cache.close()


def test_a_text_erased_from_the_embedding_cache_leaves_no_hash_and_no_bytes(
    path: Path, cache: DatabaseEmbeddingCache
) -> None:
    vectors = run_sync(CachedEmbedder(Model(), cache, queries=True).embed(["secret", "open"]))
    run_sync(CachedEmbedder(Model(), cache, queries=True).embed(["secret"], "query"))
    salt = cache._salt
    assert cache.erase(["secret", "never there"]) == 2
    assert cache.erase(["secret"]) == 0
    data = b"".join(item.read_bytes() for item in path.parent.iterdir())
    assert vectors[0].tobytes() not in data
    assert keyed_text_hash(salt, "secret") not in data
    assert vectors[1].tobytes() in data
    assert b"secret" not in data


def test_text_hashes_of_two_embedding_caches_differ_by_their_salt(path: Path, tmp_path: Path) -> None:
    hashes = []
    for name in ("a.db", "b.db"):
        cache = DatabaseEmbeddingCache.at(tmp_path / name)
        run_sync(CachedEmbedder(Model(), cache).embed(["yes"]))
        with cache._database.read() as connection:
            hashes.append({row[0] for row in connection.execute("SELECT hash FROM embedding_cache")})
        cache.close()
    assert hashes[0].isdisjoint(hashes[1])
    assert keyed_text_hash(None, "yes") not in hashes[0]


def test_a_damaged_cached_vector_is_a_finding_and_is_embedded_again(path: Path, cache: DatabaseEmbeddingCache) -> None:
    model = Model()
    truth = run_sync(CachedEmbedder(model, cache).embed(["one"]))
    database = cache._database
    with database.write() as connection:
        connection.execute("UPDATE embedding_cache SET vector = zeroblob(128) WHERE kind = 'document'")
    assert [finding.part for finding in database.verify()] == ["embedding_cache"]
    assert np.array_equal(run_sync(CachedEmbedder(model, cache).embed(["one"])), truth)
    assert model.asked == ["one", "one"]
    assert database.verify() == []
    with database.write() as connection:
        connection.execute("UPDATE embedding_cache SET vector = x'00' WHERE kind = 'document'")
    database.rebuild()
    assert database.verify() == []


def test_a_failing_embedding_cache_does_not_fail_the_embedding() -> None:
    class Full:
        def get(self, *_: Any) -> list[TextVector | None]:
            raise StorageFull("full")

        def put(self, *_: Any) -> None:
            raise StorageFull("full")

        def erase(self, texts: Sequence[str]) -> int:
            return 0

        def clear(self, fingerprint: str | None = None) -> int:
            return 0

    assert isinstance(Full(), EmbeddingCache)
    vectors = run_sync(CachedEmbedder(Model(), Full()).embed(["one"]))
    assert np.array_equal(vectors, run_sync(HASHING.embed(["one"])))


@pytest.mark.slow
def test_several_processes_share_one_embedding_cache(path: Path, cache: DatabaseEmbeddingCache) -> None:
    code = (
        "import sys; from tellback.memory import CachedEmbedder, HashingEmbedder, DatabaseEmbeddingCache, run_sync\n"
        "cache = DatabaseEmbeddingCache.at(sys.argv[1])\n"
        "embedder = CachedEmbedder(HashingEmbedder(dimension=32), cache)\n"
        "for n in range(30): run_sync(embedder.embed([f'text {n}', f'{sys.argv[2]} {n}']))\n"
        "cache.close()"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    children = [subprocess.Popen([sys.executable, "-c", code, str(path), name], env=env) for name in ("a", "b")]
    assert [child.wait() for child in children] == [0, 0]
    assert cache.size() == ROW * (90 + len(PROBES))
    assert cache._database.verify() == []


@pytest.mark.parametrize("limit", [0, -1, True, 1.5])
def test_an_unusable_byte_limit_of_the_embedding_cache_is_an_argument_error(path: Path, limit: Any) -> None:
    with pytest.raises(ArgumentError, match="max_bytes"):
        DatabaseEmbeddingCache.at(path, max_bytes=limit)
    with pytest.raises(ArgumentError, match="cache_bytes"):
        EmbeddingSettings(cache_bytes=limit or -1)


@pytest.mark.parametrize(("inner", "kept", "named"), [(None, 1, "inner"), (HASHING, None, "cache")])
def test_a_cached_embedder_refuses_an_invalid_embedder_or_cache(inner: Any, kept: Any, named: str) -> None:
    with pytest.raises(ArgumentError, match=named):
        CachedEmbedder(inner, kept)


# --- in a memory's file


def test_forgetting_a_memory_erases_its_cached_vectors(tmp_path: Path) -> None:
    model = Model()
    memory = open_memory(tmp_path / "m.db", embedder=model, embedding_settings=EmbeddingSettings(cache_bytes=10**6))
    first = run_sync(memory.remember("The canary sings in Turin."))
    run_sync(memory.correct(first.id, "The canary sings in Milan."))
    run_sync(memory.correct(first.id, "The canary sings in Turin."))
    assert model.asked == ["The canary sings in Turin.", "The canary sings in Milan."]
    vectors = run_sync(HASHING.embed(model.asked))
    run_sync(memory.forget([first.id]))
    data = b"".join(item.read_bytes() for item in tmp_path.iterdir())
    assert b"canary" not in data
    assert all(vector.tobytes() not in data for vector in vectors)
    run_sync(memory.remember("The canary sings in Turin."))
    assert len(model.asked) == 3
    assert memory.store.verify() == []  # type: ignore[attr-defined]
    run_sync(memory.close())


def test_the_embedder_of_a_finished_reembedding_is_cached_too(tmp_path: Path) -> None:
    settings = EmbeddingSettings(cache_bytes=10**6)
    memory = open_memory(tmp_path / "m.db", embedder=HashingEmbedder(dimension=32), embedding_settings=settings)
    run_sync(memory.remember("The archive is in Turin."))
    run_sync(memory.reembed(HashingEmbedder(dimension=64)))
    assert isinstance(memory.embedder, CachedEmbedder)
    assert memory.embedder.dimension == 64
    run_sync(memory.close())


def test_forgetting_erases_cached_vectors_of_an_earlier_run_when_caching_is_off(tmp_path: Path) -> None:
    memory = open_memory(tmp_path / "m.db", embedder=Model(), embedding_settings=EmbeddingSettings(cache_bytes=10**6))
    report = run_sync(memory.remember("The canary sings."))
    run_sync(memory.close())
    plain = open_memory(tmp_path / "m.db", embedder=Model())
    run_sync(plain.forget([report.id]))
    vector = run_sync(HASHING.embed(["The canary sings."]))[0]
    assert vector.tobytes() not in b"".join(item.read_bytes() for item in tmp_path.iterdir())
    run_sync(plain.close())


def test_removing_a_document_erases_its_cached_vectors(tmp_path: Path) -> None:
    memory = open_memory(tmp_path / "m.db", embedder=Model(), embedding_settings=EmbeddingSettings(cache_bytes=10**6))
    document = tmp_path / "note.txt"
    document.write_text("The canary sings.")
    base = KnowledgeBase(memory)
    run_sync(base.ingest(document))
    document.unlink()
    vector = run_sync(HASHING.embed(["The canary sings."]))[0]
    assert vector.tobytes() in b"".join(item.read_bytes() for item in tmp_path.iterdir())
    (item,) = run_sync(base.documents())
    run_sync(base.remove(item.source))
    run_sync(memory.close())
    assert vector.tobytes() not in b"".join(item.read_bytes() for item in tmp_path.iterdir())


def test_a_failing_forget_leaves_the_embedding_cache_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    memory = open_memory(tmp_path / "m.db", embedder=model, embedding_settings=EmbeddingSettings(cache_bytes=10**6))
    report = run_sync(memory.remember("The canary sings."))

    def fail(*_: Any, **__: Any) -> None:
        raise StorageFull("full")

    monkeypatch.setattr(type(memory.store), "erase", fail)
    with pytest.raises(StorageFull):
        run_sync(memory.forget([report.id]))
    assert asyncio.run(memory.embedder.embed(["The canary sings."])).any()  # type: ignore[union-attr]
    assert model.asked == ["The canary sings."]
    run_sync(memory.close())
