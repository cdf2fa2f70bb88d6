"""LangGraph's ``InMemoryStore`` with an index: what LangMem's tools and many agents on LangGraph search."""

from __future__ import annotations

from collections.abc import Sequence

from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore

from benchmarks.memory.protocol import Adapter, Found, Hit, Item, Question
from benchmarks.memory.systems.openai_vectors import embed

_NAMESPACE = ("memories", "user")


class LangGraphStore(Adapter):
    def reset(self) -> None:
        def vectors(texts: Sequence[str]) -> list[list[float]]:
            return embed(self.settings, texts)

        self._store = InMemoryStore(index={"dims": self.settings.dimensions, "embed": vectors, "fields": ["text"]})

    def ingest(self, items: Sequence[Item]) -> None:
        self._store.batch([PutOp(_NAMESPACE, item.id, {"text": item.line}) for item in items])

    def search(self, question: Question, k: int, tokens: int) -> Found:
        found = self._store.search(_NAMESPACE, query=question.text, limit=k)
        return Found([Hit(item.key, item.score or 0.0) for item in found])
