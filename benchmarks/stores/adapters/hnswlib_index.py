"""hnswlib: a graph in memory (M 16, construction 100, ef 64), approximate, ids alone; on disk only when it is saved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hnswlib
import numpy as np
from numpy.typing import NDArray

from benchmarks.stores.adapter import Found, Row


class HnswlibIndex:
    batch = 10_000
    imports = ("numpy", "hnswlib")

    def __init__(self, folder: Path, dimension: int, rows: int) -> None:
        self._file, self._rows_file = folder / "graph.bin", folder / "rows.json"
        self._ids: list[str] = []
        self._kinds: list[str] = []
        self._index = hnswlib.Index(space="cosine", dim=dimension)
        if self._file.exists():
            self._ids, self._kinds = json.loads(self._rows_file.read_text("utf-8"))
            self._index.load_index(str(self._file), max_elements=len(self._ids) + rows // 8 + 5_000)
        else:
            self._index.init_index(max_elements=rows + rows // 8 + 5_000, M=16, ef_construction=100)
        self._index.set_ef(64)
        self._numbers = {id: number for number, id in enumerate(self._ids)}

    def add(self, rows: Sequence[Row]) -> None:
        start = len(self._ids)
        if start + len(rows) > self._index.get_max_elements():
            self._index.resize_index((start + len(rows)) * 3 // 2)
        self._index.add_items(np.stack([row.vector for row in rows]), np.arange(start, start + len(rows)))
        for number, row in enumerate(rows, start):
            self._ids.append(row.id)
            self._kinds.append(row.metadata["kind"])
            self._numbers[row.id] = number

    def finish(self) -> None:
        pass

    def search(self, vector: NDArray[np.float32], k: int, kind: str | None = None) -> Any:
        kinds = self._kinds
        passes = None if kind is None else lambda number: kinds[number] == kind
        numbers, distances = self._index.knn_query(vector, k=k, num_threads=1, filter=passes)
        return [(self._ids[number], 1.0 - far) for number, far in zip(numbers[0], distances[0], strict=True)]

    def search_many(self, vectors: NDArray[np.float32], k: int) -> Sequence[Any]:
        numbers, distances = self._index.knn_query(vectors, k=k)
        both = zip(numbers, distances, strict=True)
        return [[(self._ids[n], 1.0 - far) for n, far in zip(*item, strict=True)] for item in both]

    def search_text(self, words: str, k: int) -> Any:
        raise NotImplementedError

    def delete(self, ids: Sequence[str]) -> None:
        for id in ids:
            self._index.mark_deleted(self._numbers.pop(id))

    def plain(self, answer: Any) -> list[Found]:
        return [Found(id, float(score)) for id, score in answer]

    def close(self) -> None:
        self._index.save_index(str(self._file))
        self._rows_file.write_text(json.dumps([self._ids, self._kinds]), "utf-8")
