"""LlamaIndex: a vector index as its memory blocks keep one, and the keyword table that needs no model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core import SimpleKeywordTableIndex, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode

from benchmarks.memory.protocol import Adapter, Found, Hit, Item, Question, Settings
from benchmarks.memory.systems.openai_vectors import embed


class SharedEmbedding(BaseEmbedding):
    """Embedding of the shared server, as the manual has one written."""

    settings: Any

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return embed(self.settings, texts)

    def _get_text_embedding(self, text: str) -> list[float]:
        return embed(self.settings, [text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class VectorMemory(Adapter):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._nodes: list[TextNode] = []

    def reset(self) -> None:
        self._nodes = []

    def ingest(self, items: Sequence[Item]) -> None:
        self._nodes += [TextNode(id_=item.id, text=item.line) for item in items]

    def ready(self) -> None:
        self._retrieve = self.retriever(self._nodes)

    def retriever(self, nodes: Sequence[TextNode]) -> Any:
        index = VectorStoreIndex(nodes, embed_model=SharedEmbedding(settings=self.settings, embed_batch_size=256))
        return lambda k: index.as_retriever(similarity_top_k=k)

    def search(self, question: Question, k: int, tokens: int) -> Found:
        found = self._retrieve(k).retrieve(question.text)
        return Found([Hit(hit.node.node_id, hit.score or 0.0) for hit in found])


class KeywordTable(VectorMemory):
    def retriever(self, nodes: Sequence[TextNode]) -> Any:
        index = SimpleKeywordTableIndex(nodes, llm=MockLLM())
        return lambda k: index.as_retriever(retriever_mode="simple", num_chunks_per_query=k)
