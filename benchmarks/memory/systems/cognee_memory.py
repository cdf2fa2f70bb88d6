"""Cognee: ``add``, then ``cognify``, by which a model makes its graph and summaries; its chunks by search, as texts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

_TABLES = Path(find_spec("litellm").origin).parent / "litellm_core_utils" / "tokenizers"
os.environ |= {
    "TIKTOKEN_CACHE_DIR": str(_TABLES),
    "TELEMETRY_DISABLED": "1",
    "COGNEE_SKIP_CONNECTION_TEST": "true",
    "ENABLE_BACKEND_ACCESS_CONTROL": "false",
}

import cognee  # noqa: E402 (it reads the environment as it is imported)
from cognee import SearchType  # noqa: E402

from benchmarks.memory.protocol import Adapter, Found, Hit, Item, Question, Settings  # noqa: E402


class CogneeMemory(Adapter):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._loop = asyncio.new_event_loop()
        cognee.config.system_root_directory(str(settings.folder / "system"))
        cognee.config.data_root_directory(str(settings.folder / "data"))
        model = {
            "provider": "openai",
            "model": f"openai/{settings.model}",
            "endpoint": settings.embedder,
            "api_key": "none",
        }
        cognee.config.set_llm_config({f"llm_{name}": value for name, value in model.items()})
        vectors = {**model, "provider": "openai_compatible", "model": settings.model, "dimensions": settings.dimensions}
        cognee.config.set_embedding_config({f"embedding_{name}": value for name, value in vectors.items()})

    def reset(self) -> None:
        self._loop.run_until_complete(cognee.prune.prune_data())
        self._loop.run_until_complete(cognee.prune.prune_system(metadata=True))

    def ingest(self, items: Sequence[Item]) -> None:
        self._loop.run_until_complete(cognee.add([item.line for item in items]))

    def ready(self) -> None:
        self._loop.run_until_complete(cognee.cognify())

    def search(self, question: Question, k: int, tokens: int) -> Found:
        chunks = self._loop.run_until_complete(cognee.search(question.text, SearchType.CHUNKS, top_k=k))
        return Found([Hit(score=1 / place, text=chunk["text"]) for place, chunk in enumerate(chunks, 1)])
