"""FAISS, ``IndexFlatIP``: exact, in memory, ids alone; nothing is on disk until it is written whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.stores.adapter import Found, Row


class FaissFlat:
    batch = 10_000
    imports = ("numpy", "faiss")

    def __init__(self, folder: Path, dimension: int, rows: int) -> None:
        self._file, self._ids_file = folder / "flat.faiss", folder / "ids.json"
        self._ids: list[str] = []
        self._kinds: dict[str, list[int]] = {}
        self._index = faiss.IndexIDMap2(faiss.IndexFlatIP(dimension))
        if self._file.exists():
            self._index = faiss.read_index(str(self._file))
            self._ids, self._kinds = json.loads(self._ids_file.read_text("utf-8"))
        self._numbers = {id: number for number, id in enumerate(self._ids)}
        self._selectors: dict[str, Any] = {}

    def add(self, rows: Sequence[Row]) -> None:
        start = len(self._ids)
        self._index.add_with_ids(np.stack([row.vector for row in rows]), np.arange(start, start + len(rows)))
        for number, row in enumerate(rows, start):
            self._ids.append(row.id)
            self._numbers[row.id] = number
            self._kinds.setdefault(row.metadata["kind"], []).append(number)
        self._selectors.clear()

    def finish(self) -> None:
        pass

    def search(self, vector: NDArray[np.float32], k: int, kind: str | None = None) -> Any:
        options = faiss.SearchParameters(sel=self._selector(kind)) if kind is not None else None
        scores, numbers = self._index.search(vector[np.newaxis], k, params=options)
        return [(self._ids[number], score) for number, score in zip(numbers[0], scores[0], strict=True) if number >= 0]

    def search_many(self, vectors: NDArray[np.float32], k: int) -> Sequence[Any]:
        scores, numbers = self._index.search(vectors, k)
        return [[(self._ids[n], s) for n, s in zip(*item, strict=True)] for item in zip(numbers, scores, strict=True)]

    def search_text(self, words: str, k: int) -> Any:
        raise NotImplementedError

    def delete(self, ids: Sequence[str]) -> None:
        self._index.remove_ids(np.array([self._numbers.pop(id) for id in ids], np.int64))

    def plain(self, answer: Any) -> list[Found]:
        return [Found(id, float(score)) for id, score in answer]

    def close(self) -> None:
        faiss.write_index(self._index, str(self._file))
        self._ids_file.write_text(json.dumps([self._ids, self._kinds]), "utf-8")

    def _selector(self, kind: str) -> Any:
        if kind not in self._selectors:
            mask = np.zeros(len(self._ids), bool)
            mask[self._kinds.get(kind, [])] = True
            self._selectors[kind] = faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
        return self._selectors[kind]
