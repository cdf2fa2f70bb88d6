"""BM25 (Robertson), k1 .9 and b .4, over Snowball stems without stop words: our own analyzer, given to the baseline."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import log

from benchmarks.memory.protocol import Item, Question, Settings
from benchmarks.memory.systems.baselines import Baseline
from tellback.vectorstore import Analyzer

_K1, _B = 0.9, 0.4


class Bm25(Baseline):
    """The lines of items, date and speaker included."""

    field = "line"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._analyzer = Analyzer()
        self._postings: dict[str, list[tuple[int, int]]] = {}

    def ready(self) -> None:
        self._postings = defaultdict(list)
        self._lengths: list[int] = []
        for place, item in enumerate(self.items):
            counts = Counter(self._analyzer.terms(getattr(item, self.field)))
            self._lengths.append(counts.total())
            for term, count in counts.items():
                self._postings[term].append((place, count))

    def ranked(self, question: Question, k: int) -> list[Item]:
        scores = self.scores(question)
        return [self.items[place] for place in sorted(scores, key=lambda place: (-scores[place], place))[:k]]

    def scores(self, question: Question) -> dict[int, float]:
        """Return the score of each item that has a word of *question*, by its place."""
        mean = sum(self._lengths) / max(len(self._lengths), 1)
        scores: dict[int, float] = defaultdict(float)
        for term in dict.fromkeys(self._analyzer.terms(question.text)):
            found = self._postings.get(term, [])
            weight = log(1 + (len(self.items) - len(found) + 0.5) / (len(found) + 0.5))
            for place, count in found:
                norm = _K1 * (1 - _B + _B * self._lengths[place] / mean)
                scores[place] += weight * count * (_K1 + 1) / (count + norm)
        return scores
