"""A memory of one's own, whole: ``python -m benchmarks memory run --systems benchmarks.memory.example:RareWords``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks.memory.protocol import Found, Hit, Item, Question, Settings


class RareWords:
    """Finds the items that share most words with the question, rare words first."""

    def __init__(self, settings: Settings) -> None:
        self._items: list[tuple[str, set[str]]] = []

    def reset(self) -> None:
        self._items.clear()

    def ingest(self, items: Sequence[Item]) -> None:
        self._items += [(item.id, set(item.line.lower().split())) for item in items]

    def ready(self) -> None:
        self._counts = Counter(word for _, words in self._items for word in words)

    def search(self, question: Question, k: int, tokens: int) -> Found:
        asked = set(question.text.lower().split())
        scores = [(sum(1 / self._counts[word] for word in sorted(words & asked)), id) for id, words in self._items]
        best = sorted((score for score in scores if score[0]), key=lambda score: -score[0])[:k]
        return Found([Hit(id, score) for score, id in best], abstains=not best)

    def usage(self) -> Mapping[str, float]:
        return {}

    def close(self) -> None: ...
