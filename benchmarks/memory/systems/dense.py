"""The cosine of one embedder, and its fusion with BM25 by reciprocal ranks (Cormack et al., SIGIR 2009, k = 60)."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from benchmarks.memory.protocol import Item, Question, Settings
from benchmarks.memory.systems.baselines import Baseline
from benchmarks.memory.systems.lexical import Bm25
from tellback.memory import Embedder, OpenAICompatibleEmbedder, local_embedder, run_sync

_RANK_CONSTANT, _DEPTH = 60, 100


def embedder_of(settings: Settings) -> Embedder:
    """Return the shared embedder of the run, else the local one."""
    if settings.embedder:
        return OpenAICompatibleEmbedder(settings.embedder, settings.model)
    return local_embedder()


class Cosine(Baseline):
    """Exact cosine of the lines of items and the whole question."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._embedder = embedder_of(settings)

    def ready(self) -> None:
        self._vectors = run_sync(self._embedder.embed([item.line for item in self.items]))

    def ranked(self, question: Question, k: int) -> list[Item]:
        scores = self._vectors @ run_sync(self._embedder.embed([question.text], "query"))[0]
        return [self.items[place] for place in np.argsort(-scores, kind="stable")[:k]]


class Hybrid(Baseline):
    """BM25 and the cosine, the ranks of a hundred each."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._parts = (Bm25(settings), Cosine(settings))

    def ready(self) -> None:
        for part in self._parts:
            part.items = self.items
            part.ready()

    def ranked(self, question: Question, k: int) -> list[Item]:
        scores: dict[Item, float] = defaultdict(float)
        for part in self._parts:
            for rank, item in enumerate(part.ranked(question, _DEPTH), 1):
                scores[item] += 1 / (_RANK_CONSTANT + rank)
        return sorted(scores, key=lambda item: -scores[item])[:k]
