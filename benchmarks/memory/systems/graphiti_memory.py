"""Graphiti in a file of Kùzu with any OpenAI-compatible model: an episode an item, and facts by its search."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from graphiti_core import Graphiti
from graphiti_core.cross_encoder.openai_reranker_client import OpenAIRerankerClient
from graphiti_core.driver.driver import GraphProvider
from graphiti_core.driver.kuzu_driver import KuzuDriver
from graphiti_core.embedder.openai import OpenAIEmbedder, OpenAIEmbedderConfig
from graphiti_core.graph_queries import get_fulltext_indices
from graphiti_core.llm_client.config import LLMConfig
from graphiti_core.llm_client.openai_generic_client import OpenAIGenericClient
from graphiti_core.nodes import EpisodeType

from benchmarks.memory.protocol import Adapter, Found, Hit, Item, Question, Settings


class GraphitiMemory(Adapter):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._loop, self._number = asyncio.new_event_loop(), 0

    def reset(self) -> None:
        self._number += 1
        settings, model = self.settings, LLMConfig("none", self.settings.model, self.settings.embedder)
        vectors = OpenAIEmbedderConfig(
            embedding_dim=settings.dimensions,
            embedding_model=settings.model,
            api_key="none",
            base_url=settings.embedder,
        )
        self._graph = Graphiti(
            graph_driver=KuzuDriver(str(settings.folder / f"graph-{self._number}")),
            llm_client=OpenAIGenericClient(model),
            embedder=OpenAIEmbedder(vectors),
            cross_encoder=OpenAIRerankerClient(model),
        )
        self._loop.run_until_complete(self._graph.build_indices_and_constraints())
        for query in get_fulltext_indices(GraphProvider.KUZU):  # its driver for Kùzu leaves them to the caller
            self._loop.run_until_complete(self._graph.driver.execute_query(query))

    def ingest(self, items: Sequence[Item]) -> None:
        for item in items:
            at = datetime.fromisoformat(item.at) if item.at else datetime.now(UTC)
            told = f"{item.speaker or item.role}: {item.text}"
            episode = self._graph.add_episode(item.id, told, "chat", at, source=EpisodeType.message)
            self._loop.run_until_complete(episode)

    def search(self, question: Question, k: int, tokens: int) -> Found:
        edges = self._loop.run_until_complete(self._graph.search(question.text, num_results=k))
        return Found([Hit(score=1 / place, text=edge.fact) for place, edge in enumerate(edges, 1)])

    def close(self) -> None:
        self._loop.run_until_complete(self._graph.close())
