"""LanceDB in the process: flat, and with its index (IVF_HNSW_SQ, one partition, ef 128, refined twice).

Both have indexes on the id and on the kind, and LanceDB's own index of words. A row written after the index was built
is searched beside it, as LanceDB does until somebody calls ``optimize``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.stores.adapter import Adapter, Found, Row

os.environ.setdefault("LANCE_LOG", "error")
os.environ.setdefault("RUST_LOG", "error")
_COLUMNS = ["id", "text", "kind", "session", "ts"]


class LanceFlat(Adapter):
    batch = 20_000
    imports = ("numpy", "pyarrow", "lancedb")
    indexed = False

    def __init__(self, folder: Path, dimension: int, rows: int) -> None:
        import lancedb
        import pyarrow as pa

        self._dimension = dimension
        fields = [("id", pa.string()), ("vector", pa.list_(pa.float32(), dimension)), ("text", pa.string())]
        self._schema = pa.schema([*fields, ("kind", pa.string()), ("session", pa.string()), ("ts", pa.int64())])
        self._database = lancedb.connect(str(folder), read_consistency_interval=timedelta(0))
        self._table = self._database.create_table("rows", schema=self._schema, exist_ok=True)

    def add(self, rows: Sequence[Row]) -> None:
        import pyarrow as pa

        values = pa.array(np.concatenate([row.vector for row in rows]))
        columns = [
            pa.array([row.id for row in rows]),
            pa.FixedSizeListArray.from_arrays(values, self._dimension),
            pa.array([row.text for row in rows]),
            *(pa.array([row.metadata[name] for row in rows]) for name in ("kind", "session", "ts")),
        ]
        self._table.add(pa.Table.from_arrays(columns, schema=self._schema))

    def finish(self) -> None:
        from lancedb.index import FTS, Bitmap, BTree, HnswSq

        self._table.create_index("id", config=BTree())
        self._table.create_index("kind", config=Bitmap())
        self._table.create_index("text", config=FTS())
        if self.indexed:
            graph = HnswSq(distance_type="cosine", num_partitions=1, m=16, ef_construction=100)
            self._table.create_index("vector", config=graph)

    def search(self, vector: NDArray[np.float32], k: int, kind: str | None = None) -> Any:
        query = self._query(vector, k)
        return (query if kind is None else query.where(f"kind = '{kind}'", prefilter=True)).to_list()

    def search_many(self, vectors: NDArray[np.float32], k: int) -> Sequence[Any]:
        answers: list[list[dict[str, Any]]] = [[] for _ in vectors]
        for row in self._query(list(vectors), k).to_list():
            answers[row["query_index"]].append(row)
        return answers

    def search_text(self, words: str, k: int) -> Any:
        query = self._table.search(words, query_type="fts", fts_columns="text").limit(k)
        return query.select([*_COLUMNS, "_score"]).to_list()

    def delete(self, ids: Sequence[str]) -> None:
        self._table.delete(f"id IN ({', '.join(repr(id) for id in ids)})")

    def plain(self, answer: Any) -> list[Found]:
        return [
            Found(row["id"], -row.get("_distance", 0.0), row["text"], {name: row[name] for name in _COLUMNS[2:]})
            for row in answer
        ]

    def _query(self, vectors: Any, k: int) -> Any:
        query = self._table.search(vectors, vector_column_name="vector").distance_type("cosine").limit(k)
        if self.indexed:
            query = query.ef(128).refine_factor(2)
        return query.select([*_COLUMNS, "_distance"])


class LanceIndexed(LanceFlat):
    indexed = True
