"""Unusable arguments are refused by name, where they are given: embedders, caches and the embedding service.

Inner part, on no face: ``tellback.memory.embedders.local``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tellback.memory import (
    ArgumentError,
    CachedEmbedder,
    DatabaseEmbeddingCache,
    EstimatingCounter,
    FunctionEmbedder,
    HashingEmbedder,
    LocalEmbedder,
    LongTermMemory,
    OllamaEmbedder,
    OpenAICompatibleEmbedder,
    open_memory,
)
from tellback.memory.embedders.local import LocalWordVectors
from tellback.memory.internals import local_available

HERE = "http://127.0.0.1:9"
EMBEDDERS: dict[str, Callable[[Path], Any]] = {
    "hashing": lambda path: HashingEmbedder(),
    "local": lambda path: LocalEmbedder() if local_available() else HashingEmbedder(),
    "function": lambda path: FunctionEmbedder(lambda texts: [[1.0]] * len(texts), fingerprint="ones/1"),
    "openai": lambda path: OpenAICompatibleEmbedder(HERE, "m"),
    "ollama": lambda path: OllamaEmbedder("m", base_url=HERE),
    "cached": lambda path: CachedEmbedder(HashingEmbedder(), DatabaseEmbeddingCache.at(path / "c.db")),
}


@pytest.mark.parametrize("name", EMBEDDERS)
@pytest.mark.parametrize(
    "texts",
    [None, 7, "one text", b"bytes", {"a": 1}, {"a"}, pytest.param(iter(["a"]), id="iterator"), ["a", None], [b"a"]],
    ids=repr,
)
def test_an_embedder_refuses_anything_but_a_list_of_texts(name: str, texts: Any, tmp_path: Path) -> None:
    embedder = EMBEDDERS[name](tmp_path)
    for call in (embedder.embed, getattr(embedder, "embed_detailed", embedder.embed)):
        with pytest.raises(ArgumentError, match=r"^texts"):
            asyncio.run(call(texts))


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: OpenAICompatibleEmbedder(None, "m"), "base_url"),
        (lambda: OpenAICompatibleEmbedder("", "m"), "base_url"),
        (lambda: OpenAICompatibleEmbedder("localhost:11434/v1", "m"), "base_url: .* got 'localhost:11434/v1'"),
        (lambda: OllamaEmbedder("m", base_url=None), "base_url"),
        (lambda: OllamaEmbedder("m", base_url="localhost:11434"), "base_url"),
        (lambda: OpenAICompatibleEmbedder(HERE, None), "model"),
        (lambda: OpenAICompatibleEmbedder(HERE, "m", query_prefix=None), "query_prefix"),
        (lambda: OpenAICompatibleEmbedder(HERE, "m", document_prefix=7), "document_prefix"),
        (lambda: OpenAICompatibleEmbedder(HERE, "m", fingerprint=7), "fingerprint"),
        (lambda: OpenAICompatibleEmbedder(HERE, "m", fingerprint=" "), "fingerprint"),
        (lambda: OpenAICompatibleEmbedder(HERE, "m", client="httpx"), "client"),
        (lambda: OpenAICompatibleEmbedder(HERE, "m", counter=EstimatingCounter), "counter"),
        (lambda: OllamaEmbedder("m", options="num_ctx=1"), "options"),
        (lambda: FunctionEmbedder(len, fingerprint="f", remote="no"), "remote"),
        (lambda: CachedEmbedder(HashingEmbedder, None), "inner"),
        (lambda: DatabaseEmbeddingCache("vectors.db"), "database"),
        (lambda: DatabaseEmbeddingCache.at(7), "path"),
    ],
)
def test_unusable_settings_of_embedders_and_caches_are_refused_at_construction(
    make: Callable[[], Any], argument: str
) -> None:
    with pytest.raises(ArgumentError, match=f"^{argument}"):
        make()


@pytest.mark.parametrize("key", ["sk-secret\n", " sk-secret", "sk-secret-ü", 7])
def test_an_unsendable_api_key_is_refused_and_not_shown_in_the_error(key: Any) -> None:
    for make in (lambda: OpenAICompatibleEmbedder(HERE, "m", api_key=key), lambda: OllamaEmbedder("m", api_key=key)):
        with pytest.raises(ArgumentError, match=r"^api_key: .* got '\(not shown\)'") as caught:
            make()
        assert "secret" not in str(caught.value)


@pytest.mark.skipif(not local_available(), reason="the extra 'local' has the table")
@pytest.mark.parametrize("words", ["abc", None, [7]])
def test_local_word_vectors_refuse_anything_but_a_list_of_words(words: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^words"):
        LocalWordVectors().words(words)


@pytest.mark.parametrize("texts", ["abc", None, [7], ["\ud800"]])
def test_the_embedding_cache_refuses_anything_but_a_list_of_texts(tmp_path: Path, texts: Any) -> None:
    cache = DatabaseEmbeddingCache.at(tmp_path / "c.db")
    with pytest.raises(ArgumentError, match=r"^texts"):
        cache.get("f", "document", texts)
    with pytest.raises(ArgumentError, match=r"^texts"):
        cache.erase(texts)
    cache.close()


@pytest.mark.parametrize("embedder", ["local", 7, HashingEmbedder])
def test_open_memory_refuses_an_invalid_embedder_and_creates_no_file(tmp_path: Path, embedder: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^embedder"):
        open_memory(tmp_path / "m.db", embedder=embedder)
    assert not any(tmp_path.iterdir())


def test_open_memory_refuses_invalid_embedding_settings_and_creates_no_file(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"^embedding_settings"):
        open_memory(tmp_path / "m.db", embedding_settings={"rest": 1})  # type: ignore[arg-type]  # bad on purpose
    assert not any(tmp_path.iterdir())


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[LongTermMemory]:
    memory = open_memory(tmp_path / "m.db", embedder=HashingEmbedder())
    yield memory
    asyncio.run(memory.close())


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda memory: memory.pending(namespace=7), "namespace"),
        (lambda memory: memory.flush(namespace=7), "namespace"),
        (lambda memory: memory.reembed("local"), "embedder"),
        (lambda memory: memory.reembed(HashingEmbedder), "embedder"),
        (lambda memory: memory.reembed(HashingEmbedder(dimension=8), on_progress="bar"), "on_progress"),
    ],
)
def test_pending_flush_and_reembed_refuse_a_bad_argument_by_name(
    memory: LongTermMemory, call: Any, argument: str
) -> None:
    asyncio.run(memory.remember("The gate is green."))
    with pytest.raises(ArgumentError, match=f"^{argument}"):
        asyncio.run(call(memory))
    assert asyncio.run(memory.reembedding()) is None
