"""The base line: the numpy product and ``argpartition`` alone. Positions and scores out, no rows, nothing kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.stores.adapter import Adapter, Found, Row


class Bare(Adapter):
    batch = 10_000
    imports = ("numpy",)

    def __init__(self, folder: Path, dimension: int, rows: int) -> None:
        self._file, self._ids_file = folder / "matrix.npy", folder / "ids.txt"
        self._blocks: list[NDArray[np.float32]] = []
        self._ids: list[str] = []
        self._matrix = np.zeros((0, dimension), np.float32)
        if self._file.exists():
            self._matrix = np.load(self._file)
            self._ids = self._ids_file.read_text("utf-8").split("\n")

    def add(self, rows: Sequence[Row]) -> None:
        self._blocks.append(np.stack([row.vector for row in rows]))
        self._ids += [row.id for row in rows]

    def finish(self) -> None:
        self._matrix = np.concatenate([self._matrix, *self._blocks])
        self._blocks = []

    def search(self, vector: NDArray[np.float32], k: int, kind: str | None = None) -> Any:
        scores = self._matrix @ vector
        best = np.argpartition(scores, len(scores) - k)[-k:] if k < len(scores) else np.arange(len(scores))
        best = best[np.argsort(-scores[best])]
        return best, scores[best]

    def plain(self, answer: Any) -> list[Found]:
        return [Found(self._ids[position], float(score)) for position, score in zip(*answer, strict=True)]

    def close(self) -> None:
        np.save(self._file, self._matrix)
        self._ids_file.write_text("\n".join(self._ids), "utf-8")
