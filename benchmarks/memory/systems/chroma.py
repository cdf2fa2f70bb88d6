"""Chroma: a persistent collection in cosine space, ``add`` and ``query``, an OpenAI-compatible embedding function."""

from __future__ import annotations

from collections.abc import Sequence

import chromadb
from chromadb.utils.embedding_functions import OpenAIEmbeddingFunction

from benchmarks.memory.protocol import Adapter, Found, Hit, Item, Question, Settings

_BATCH = 1_000


class Chroma(Adapter):
    def __init__(self, settings: Settings) -> None:
        self._client = chromadb.PersistentClient(str(settings.folder))
        self._embed = OpenAIEmbeddingFunction(api_key="none", api_base=settings.embedder, model_name=settings.model)

    def reset(self) -> None:
        for collection in self._client.list_collections():
            self._client.delete_collection(collection.name)
        self._collection = self._client.create_collection(
            "memory", embedding_function=self._embed, configuration={"hnsw": {"space": "cosine"}}
        )

    def ingest(self, items: Sequence[Item]) -> None:
        for start in range(0, len(items), _BATCH):
            part = items[start : start + _BATCH]
            self._collection.add(ids=[item.id for item in part], documents=[item.line for item in part])

    def search(self, question: Question, k: int, tokens: int) -> Found:
        found = self._collection.query(query_texts=[question.text], n_results=k)
        pairs = zip(found["ids"][0], found["distances"][0], strict=True)
        return Found([Hit(id, 1 - distance) for id, distance in pairs])
