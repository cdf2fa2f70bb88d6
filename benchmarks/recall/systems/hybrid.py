"""BM25 and the cosine of sentences, joined by reciprocal rank fusion (Cormack et al., SIGIR 2009, k = 60)."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from benchmarks.recall.system import Answered, Options
from benchmarks.recall.systems.bm25 import Bm25
from benchmarks.recall.systems.cosine import CosineOfSentences
from benchmarks.recall.task import Asked, Corpus

_RANK_CONSTANT = 60
_DEPTH = 100


class Hybrid:
    def __init__(self, folder: Path, options: Options) -> None:
        self._parts = (Bm25(folder, options), CosineOfSentences(folder, options))

    def fill(self, corpus: Corpus) -> None:
        for part in self._parts:
            part.fill(corpus)

    def ask(self, asked: Asked, k: int) -> Answered:
        scores: dict[str, float] = defaultdict(float)
        for part in self._parts:
            for rank, (id, _) in enumerate(part.ask(asked, _DEPTH).hits, start=1):
                scores[id] += 1 / (_RANK_CONSTANT + rank)
        return Answered(tuple(sorted(scores.items(), key=lambda hit: -hit[1])[:k]))

    def close(self) -> None:
        for part in self._parts:
            part.close()
