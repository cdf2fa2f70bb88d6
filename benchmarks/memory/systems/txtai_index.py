"""txtai: an index of keywords (its BM25), and its hybrid index with vectors of a function."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from txtai import Embeddings

from benchmarks.memory.protocol import Adapter, Found, Hit, Item, Question, Settings
from benchmarks.memory.systems.openai_vectors import embed


class KeywordIndex(Adapter):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._items: list[Item] = []

    def configuration(self) -> dict[str, object]:
        return {"keyword": True}

    def reset(self) -> None:
        self._items.clear()

    def ingest(self, items: Sequence[Item]) -> None:
        self._items += items

    def ready(self) -> None:
        self._index = Embeddings(self.configuration())
        self._index.index((place, item.line, None) for place, item in enumerate(self._items))

    def search(self, question: Question, k: int, tokens: int) -> Found:
        return Found([Hit(self._items[place].id, score) for place, score in self._index.search(question.text, k)])


class HybridIndex(KeywordIndex):
    def configuration(self) -> dict[str, object]:
        def vectors(texts: Sequence[str]) -> object:
            return np.array(embed(self.settings, texts), dtype=np.float32)

        return {"hybrid": True, "method": "external", "transform": vectors, "backend": "numpy"}
