"""Mnemosyne: ``remember`` and ``recall`` with their defaults; vectors from the shared server where there is one."""

from __future__ import annotations

import os
from collections.abc import Sequence

from benchmarks.memory.protocol import Adapter, Found, Hit, Item, Question, Settings


class Mnemosyne(Adapter):
    def __init__(self, settings: Settings) -> None:
        if settings.embedder:  # read when the package is imported
            os.environ |= {
                "MNEMOSYNE_EMBEDDINGS_VIA_API": "1", "MNEMOSYNE_EMBEDDING_API_URL": settings.embedder,
                "MNEMOSYNE_EMBEDDING_API_KEY": "none", "MNEMOSYNE_EMBEDDING_MODEL": settings.model,
                "MNEMOSYNE_EMBEDDING_DIM": str(settings.dimensions),
            }  # fmt: skip
        else:
            os.environ["MNEMOSYNE_NO_EMBEDDINGS"] = "1"
        from mnemosyne.core.memory import Mnemosyne as Memory

        self._memory = Memory(session_id="bench", db_path=settings.folder / "mnemosyne.db")
        self._names: dict[str, str] = {}

    def reset(self) -> None:
        self._names.clear()

    def ingest(self, items: Sequence[Item]) -> None:
        for item in items:
            self._names[self._memory.remember(item.line, source="conversation")] = item.id

    def search(self, question: Question, k: int, tokens: int) -> Found:
        found = self._memory.recall(question.text, top_k=k)
        return Found([Hit(self._names.get(hit["id"], ""), hit["score"], hit.get("content", "")) for hit in found])
