"""The plain recipe: BM25 and the cosine of a sentence encoder, added; nothing in it was fitted to any data set.

BM25 (k1 .9, b .4) over the terms of the product's analyzer is divided by its 90th percentile among the memories that
have a word of the question; the cosine, less its mean over all memories, by one spread for all questions.
"""

from __future__ import annotations

import numpy as np

from benchmarks.memory.protocol import Found, Hit, Question, Settings
from benchmarks.memory.systems.lexical import Bm25
from tellback.memory import SentenceEncoder, run_sync

_SPREAD = 0.1
_WORDS = 1.0
"""Weight of the words, where a cosine that is a spread above the mean counts 1."""


class Recipe(Bm25):
    """Indexes the text of an item alone."""

    field = "text"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._encoder = SentenceEncoder()

    def ready(self) -> None:
        super().ready()
        self._vectors = run_sync(self._encoder.embed([item.text for item in self.items]))

    def search(self, question: Question, k: int, tokens: int) -> Found:
        cosines = self._vectors @ run_sync(self._encoder.embed([question.text], "query"))[0]
        found = self.scores(question)
        words = np.zeros(len(self.items))
        words[list(found)] = list(found.values())
        if found:
            words /= np.percentile(list(found.values()), 90)
        scores = (cosines - cosines.mean()) / _SPREAD + _WORDS * words
        best = np.argsort(-scores, kind="stable")[:k]
        return Found([Hit(self.items[place].id, float(scores[place])) for place in best], float(cosines.max()))
