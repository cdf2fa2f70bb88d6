"""mem0 with ``infer=False``: the items as they are, in its vector store (Qdrant in a folder), ids in the metadata."""

from __future__ import annotations

from collections.abc import Sequence

from mem0 import Memory

from benchmarks.memory.protocol import Adapter, Found, Hit, Item, Question, Settings

_USER = "bench"


class Mem0(Adapter):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._memory = Memory.from_config(self.configuration())

    def configuration(self) -> dict[str, object]:
        settings = self.settings
        openai = {"model": settings.model, "openai_base_url": settings.embedder, "api_key": "none"}
        return {
            "embedder": {"provider": "openai", "config": {**openai, "embedding_dims": settings.dimensions}},
            "vector_store": {
                "provider": "qdrant",
                "config": {
                    "path": str(settings.folder / "qdrant"),
                    "embedding_model_dims": settings.dimensions,
                    "on_disk": True,
                },
            },
            "llm": {"provider": "openai", "config": openai},
            "history_db_path": str(settings.folder / "history.db"),
        }

    def reset(self) -> None:
        self._memory.delete_all(user_id=_USER)

    def ingest(self, items: Sequence[Item]) -> None:
        for item in items:
            message = {"role": "user", "content": item.line}
            self._memory.add([message], user_id=_USER, infer=False, metadata={"item": item.id})

    def search(self, question: Question, k: int, tokens: int) -> Found:
        found = self._memory.search(question.text, filters={"user_id": _USER}, top_k=k)["results"]
        return Found([Hit((hit.get("metadata") or {}).get("item", ""), hit["score"], hit["memory"]) for hit in found])


class Mem0Extraction(Mem0):
    """mem0 as it is meant: a model extracts facts from each item, and these are found, by their texts."""

    def ingest(self, items: Sequence[Item]) -> None:
        for item in items:
            self._memory.add([{"role": "user", "content": item.line}], user_id=_USER)
