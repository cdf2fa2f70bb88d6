"""numpy by hand: a matrix that grows, a list of rows, a code for each kind. Its answers check the others.

It keeps nothing on disk until it is closed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.stores.adapter import Found, Row


class NumpyByHand:
    batch = 10_000
    imports = ("numpy", "json")

    def __init__(self, folder: Path, dimension: int, rows: int) -> None:
        self._vectors_file, self._rows_file = folder / "vectors.npy", folder / "rows.json"
        self._codes: dict[str, int] = {}
        self._rows: list[tuple[str, str, dict[str, Any]]] = []
        self._at: dict[str, int] = {}
        self._matrix = np.zeros((rows + rows // 8 + 16, dimension), np.float32)
        self._kinds = np.zeros(len(self._matrix), np.uint8)
        if self._vectors_file.exists():
            known = [tuple(row) for row in json.loads(self._rows_file.read_text("utf-8"))]
            self._take(known, np.load(self._vectors_file))

    def add(self, rows: Sequence[Row]) -> None:
        self._take([(row.id, row.text, row.metadata) for row in rows], np.stack([row.vector for row in rows]))

    def finish(self) -> None:
        pass

    def search(self, vector: NDArray[np.float32], k: int, kind: str | None = None) -> Any:
        n = len(self._rows)
        if kind is None:
            scores = self._matrix[:n] @ vector
            chosen = _best(scores, k)
            return [(*self._rows[position], float(scores[position])) for position in chosen]
        passing = np.flatnonzero(self._kinds[:n] == self._codes.get(kind, 255))
        scores = self._matrix[passing] @ vector if len(passing) * 7 < n else (self._matrix[:n] @ vector)[passing]
        return [(*self._rows[passing[position]], float(scores[position])) for position in _best(scores, k)]

    def search_many(self, vectors: NDArray[np.float32], k: int) -> Sequence[Any]:
        scores = vectors @ self._matrix[: len(self._rows)].T
        return [[(*self._rows[position], float(row[position])) for position in _best(row, k)] for row in scores]

    def search_text(self, words: str, k: int) -> Any:
        raise NotImplementedError

    def delete(self, ids: Sequence[str]) -> None:
        for id in ids:
            hole, last = self._at.pop(id), len(self._rows) - 1
            moved = self._rows.pop()
            if hole != last:
                self._rows[hole] = moved
                self._at[moved[0]] = hole
                self._matrix[hole], self._kinds[hole] = self._matrix[last], self._kinds[last]

    def plain(self, answer: Any) -> list[Found]:
        return [Found(id, score, text, metadata) for id, text, metadata, score in answer]

    def close(self) -> None:
        np.save(self._vectors_file, self._matrix[: len(self._rows)])
        self._rows_file.write_text(json.dumps(self._rows), "utf-8")

    def _take(self, rows: Sequence[tuple[str, str, dict[str, Any]]], vectors: NDArray[np.float32]) -> None:
        start, end = len(self._rows), len(self._rows) + len(rows)
        while end > len(self._matrix):
            more = len(self._matrix) // 2
            self._matrix = np.concatenate([self._matrix, np.zeros((more, self._matrix.shape[1]), np.float32)])
            self._kinds = np.concatenate([self._kinds, np.zeros(more, np.uint8)])
        self._matrix[start:end] = vectors
        self._rows += rows
        for position, (id, _, metadata) in enumerate(rows, start):
            self._at[id] = position
            self._kinds[position] = self._codes.setdefault(metadata["kind"], len(self._codes))


def _best(scores: NDArray[np.float32], k: int) -> list[int]:
    best = np.argpartition(scores, len(scores) - k)[-k:] if k < len(scores) else np.arange(len(scores))
    return list(best[np.argsort(-scores[best])])
