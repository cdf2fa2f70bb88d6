"""Our own engines through the public face of ``vectorstore``: in memory, in a file, and in other modes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.stores.adapter import Adapter, Found, Row
from tellback.vectorstore import Entry, LifecycleStore, Match, Space, open_store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FIELDS = ("kind",)


class TellbackSqlite(Adapter):
    """One file, everything durable; the matrix in memory."""

    batch = 10_000
    imports: tuple[str, ...] = ("numpy", "apsw", "sqlite_vec", "tellback.vectorstore.engines.sqlite_store")
    mode = "exact"

    def __init__(self, folder: Path, dimension: int, rows: int) -> None:
        self._store = self._open(folder, Space("benchmark", dimension), rows)

    def add(self, rows: Sequence[Row]) -> None:
        self._store.upsert(Entry(row.id, row.vector, row.text, metadata=row.metadata) for row in rows)

    def search(self, vector: NDArray[np.float32], k: int, kind: str | None = None) -> list[Match]:
        where = None if kind is None else {"kind": kind}
        return self._store.search(vector, k, where=where)

    def search_many(self, vectors: NDArray[np.float32], k: int) -> list[list[Match]]:
        return self._store.search_many(vectors, k)

    def search_text(self, words: str, k: int) -> list[Match]:
        return self._store.search_text(words, k)

    def delete(self, ids: Sequence[str]) -> None:
        self._store.delete(ids)

    def plain(self, answer: list[Match]) -> list[Found]:
        return [Found(m.entry.id, m.score, m.entry.text, dict(m.entry.metadata)) for m in answer]

    def close(self) -> None:
        self._store.close()

    def _open(self, folder: Path, space: Space, rows: int) -> LifecycleStore:
        return open_store(f"sqlite:///{folder / 'rows.db'}", space=space, fields=_FIELDS, search=self.mode)


class TellbackSqliteFaster(TellbackSqlite):
    """The same file, searched by sign bits first."""

    mode = "fast"


class TellbackSqliteTenth(TellbackSqlite):
    """The same file, the matrix limited to a tenth of the vectors: it is searched in SQL."""

    def _open(self, folder: Path, space: Space, rows: int) -> LifecycleStore:
        limit = rows * space.dimension * 4 // 10
        return open_store(f"sqlite:///{folder / 'rows.db'}", space=space, fields=_FIELDS, matrix_limit=limit)


class TellbackNumpy(TellbackSqlite):
    """Store in memory; on disk when it is closed."""

    imports = ("numpy", "tellback.vectorstore.engines.numpy_store")

    def close(self) -> None:
        self._store.save()  # type: ignore[attr-defined]
        self._store.close()

    def _open(self, folder: Path, space: Space, rows: int) -> LifecycleStore:
        return open_store(f"numpy:///{folder / 'rows.snapshot'}", space=space, fields=_FIELDS, search=self.mode)


class TellbackNumpyFaster(TellbackNumpy):
    """The same snapshot, searched by sign bits first."""

    mode = "fast"
