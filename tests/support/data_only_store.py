"""A store with the data part of the protocol alone, as a small backend would have it."""

from __future__ import annotations

from typing import Any

from tellback.vectorstore import VectorStore

_NAMES = (
    "space", "analyzer", "fields", "upsert", "patch", "put_vectors", "get", "search", "search_many",
    "search_text", "delete", "count", "scan", "namespaces", "close",
)  # fmt: skip


class DataOnlyStore:
    """Passes the data methods of *store* on, and has none of its lifecycle."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name not in _NAMES:
            raise AttributeError(name)
        return getattr(self._store, name)
