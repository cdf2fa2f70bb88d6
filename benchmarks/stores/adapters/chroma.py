"""Chroma, a persistent client in the process, vectors given: no embedding function, no telemetry, its own defaults."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.stores.adapter import Adapter, Found, Row

os.environ["ANONYMIZED_TELEMETRY"] = "False"


class Chroma(Adapter):
    batch = 5_000
    imports = ("numpy", "chromadb")

    def __init__(self, folder: Path, dimension: int, rows: int) -> None:
        import chromadb
        from chromadb.config import Settings

        self._client = chromadb.PersistentClient(path=str(folder), settings=Settings(anonymized_telemetry=False))
        self._rows = self._client.get_or_create_collection(
            "rows", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )

    def add(self, rows: Sequence[Row]) -> None:
        self._rows.add(
            ids=[row.id for row in rows],
            embeddings=[row.vector for row in rows],
            documents=[row.text for row in rows],
            metadatas=[row.metadata for row in rows],
        )

    def search(self, vector: NDArray[np.float32], k: int, kind: str | None = None) -> Any:
        return self._query(vector[np.newaxis], k, None if kind is None else {"kind": kind})

    def search_many(self, vectors: NDArray[np.float32], k: int) -> Sequence[Any]:
        answer = self._query(vectors, k, None)
        parts = ("ids", "documents", "metadatas", "distances")
        return [{part: [answer[part][number]] for part in parts} for number in range(len(vectors))]

    def delete(self, ids: Sequence[str]) -> None:
        self._rows.delete(ids=list(ids))

    def plain(self, answer: Any) -> list[Found]:
        found = zip(*(answer[part][0] for part in ("ids", "documents", "metadatas", "distances")), strict=True)
        return [Found(id, 1.0 - far, text, dict(metadata)) for id, text, metadata, far in found]

    def close(self) -> None:
        del self._rows
        self._client.close()

    def _query(self, vectors: NDArray[np.float32], k: int, where: Any) -> Any:
        return self._rows.query(
            query_embeddings=vectors, n_results=k, where=where, include=["documents", "metadatas", "distances"]
        )
