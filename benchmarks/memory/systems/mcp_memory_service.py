"""mcp-memory-service: ``store`` and ``retrieve`` of its SQLite storage, with an external embedding server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence

from benchmarks.memory.protocol import Found, Hit, Item, Question, Settings, Unavailable


class McpMemoryService:
    def __init__(self, settings: Settings) -> None:
        os.environ |= {  # read when the package is imported
            "MCP_EXTERNAL_EMBEDDING_URL": f"{settings.embedder}/embeddings",
            "MCP_EXTERNAL_EMBEDDING_MODEL": settings.model,
            "MCP_MEMORY_BASE_DIR": str(settings.folder),
        }
        from mcp_memory_service.models.memory import Memory
        from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage
        from mcp_memory_service.utils.hashing import generate_content_hash

        self._memory, self._hash = Memory, generate_content_hash
        self._loop = asyncio.new_event_loop()
        self._storage = SqliteVecMemoryStorage(str(settings.folder / "service.db"))
        try:
            self._loop.run_until_complete(self._storage.initialize())
        except RuntimeError as error:  # a Python whose sqlite3 loads no extensions
            raise Unavailable(str(error)) from error

    def reset(self) -> None: ...

    def ingest(self, items: Sequence[Item]) -> None:
        for item in items:
            kept = self._memory(content=item.line, content_hash=self._hash(item.line), metadata={"item": item.id})
            self._loop.run_until_complete(self._storage.store(kept))

    def ready(self) -> None: ...

    def search(self, question: Question, k: int, tokens: int) -> Found:
        found = self._loop.run_until_complete(self._storage.retrieve(question.text, k))
        return Found([Hit(hit.memory.metadata["item"], float(hit.relevance_score)) for hit in found])

    def usage(self) -> Mapping[str, float]:
        return {}

    def close(self) -> None:
        self._loop.close()
