"""The latest items for every question, like a window over the conversation."""

from __future__ import annotations

from pathlib import Path

from benchmarks.recall.system import Answered, Options
from benchmarks.recall.task import Asked, Corpus


class Last:
    def __init__(self, folder: Path, options: Options) -> None:
        self._ids: list[str] = []

    def fill(self, corpus: Corpus) -> None:
        self._ids = [item.id for item in corpus.items]

    def ask(self, asked: Asked, k: int) -> Answered:
        latest = self._ids[-k:][::-1]
        return Answered(tuple((id, 1 / place) for place, id in enumerate(latest, 1)))

    def close(self) -> None:
        self._ids = []
