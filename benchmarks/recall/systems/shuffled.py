"""Chance: a shuffle for each question, by the seed of the run and the question's name."""

from __future__ import annotations

import random
from pathlib import Path

from benchmarks.recall.system import Answered, Options
from benchmarks.recall.task import Asked, Corpus


class Shuffled:
    def __init__(self, folder: Path, options: Options) -> None:
        self._seed = options.seed
        self._ids: list[str] = []

    def fill(self, corpus: Corpus) -> None:
        self._ids = [item.id for item in corpus.items]

    def ask(self, asked: Asked, k: int) -> Answered:
        drawn = random.Random(f"{self._seed}/{asked.id}").sample(self._ids, min(k, len(self._ids)))
        return Answered(tuple((id, 1 / place) for place, id in enumerate(drawn, 1)))

    def close(self) -> None:
        self._ids = []
