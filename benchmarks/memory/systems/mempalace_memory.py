"""MemPalace: a drawer an item through its own ``add_drawer``, and ``search_memories`` with its defaults."""

from __future__ import annotations

import os
from collections.abc import Sequence

from benchmarks.memory.protocol import Adapter, Found, Hit, Item, Question, Settings


class MemPalace(Adapter):
    def __init__(self, settings: Settings) -> None:
        os.environ |= {  # read when the package is imported
            "MEMPALACE_EMBEDDING_MODEL": "openai-compat",
            "MEMPALACE_EMBEDDING_API_URL": settings.embedder,
            "MEMPALACE_EMBEDDING_API_MODEL": settings.model,
            "MEMPALACE_PALACE_PATH": str(settings.folder),
        }
        from mempalace import miner, palace, searcher

        self._add, self._search = miner.add_drawer, searcher.search_memories
        self._palace = str(settings.folder)
        self._drawers = palace.get_collection(self._palace, create=True)
        self._names: dict[str, str] = {}

    def reset(self) -> None:
        self._names.clear()

    def ingest(self, items: Sequence[Item]) -> None:
        for number, item in enumerate(items):
            source = f"{number}.txt"
            self._names[source] = item.id
            self._add(self._drawers, "bench", item.session or "notes", item.line, source, 0, "bench")

    def search(self, question: Question, k: int, tokens: int) -> Found:
        found = self._search(question.text, self._palace, n_results=k)
        if "error" in found:
            raise RuntimeError(found["error"])
        hits = found["results"]
        return Found(
            [Hit(self._names.get(hit["source_file"], ""), hit.get("similarity") or 0.0, hit["text"]) for hit in hits]
        )
