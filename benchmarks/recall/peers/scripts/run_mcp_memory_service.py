"""mcp-memory-service in its own process: ``store`` and ``retrieve`` of its SQLite storage.

Its embedder is a downloaded model. Where that cannot be had it takes a hash of the words instead, which is not what its
manual promises: then it is not measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from mcp_memory_service.models.memory import Memory
from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage
from mcp_memory_service.utils.hashing import generate_content_hash
from serving import Unavailable, serve


class Service:
    def __init__(self, folder: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._storage = SqliteVecMemoryStorage(str(Path(folder, "service.db")))
        self._loop.run_until_complete(self._storage.initialize())
        if "Hash" in type(self._storage.embedding_model).__name__:
            raise Unavailable("its embedder must be downloaded, and it fell back to a hash of the words")

    def fill(self, lines: Sequence[tuple[str, str]]) -> None:
        for id, text in lines:
            kept = Memory(content=text, content_hash=generate_content_hash(text), metadata={"line": id})
            self._loop.run_until_complete(self._storage.store(kept))

    def ask(self, question: str, k: int) -> list[tuple[str, float]]:
        found = self._loop.run_until_complete(self._storage.retrieve(question, k))
        return [(hit.memory.metadata["line"], float(hit.relevance_score)) for hit in found]


if __name__ == "__main__":
    serve(Service)
