"""The plain recipe: BM25 and the cosine of a sentence encoder, added; nothing in it was fitted to any data set.

BM25 (k1 .9, b .4) over the terms of the product's analyzer is divided by its 90th percentile among the memories that
have a word of the question; the cosine, less its mean over all memories, by one spread for all questions.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from benchmarks.memory.protocol import Found, Hit, Question, Settings
from benchmarks.memory.systems.baselines import Baseline
from tellback.memory import SentenceEncoder, run_sync
from tellback.vectorstore import Analyzer

_K1, _B = 0.9, 0.4
_SPREAD = 0.1
_WORDS = 1.0
"""Weight of the words, where a cosine that is a spread above the mean counts 1."""

Floats = NDArray[np.float64]


class Recipe(Baseline):
    """Indexes the text of an item alone."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._encoder, self._analyzer = SentenceEncoder(), Analyzer()

    def ready(self) -> None:
        texts = [item.text for item in self.items]
        self._vectors = run_sync(self._encoder.embed(texts))
        counts = [Counter(self._analyzer.terms(text)) for text in texts]
        self._terms = {term: number for number, term in enumerate(dict.fromkeys(t for c in counts for t in c))}
        frequencies = np.zeros((len(texts), len(self._terms)))
        for row, count in enumerate(counts):
            frequencies[row, [self._terms[term] for term in count]] = list(count.values())
        lengths = frequencies.sum(axis=1, keepdims=True)
        norm = _K1 * (1 - _B + _B * lengths / max(lengths.mean(), 1e-9))
        df = (frequencies > 0).sum(axis=0)
        self._weights = (
            np.log(1 + (len(texts) - df + 0.5) / (df + 0.5)) * frequencies * (_K1 + 1) / (frequencies + norm)
        )

    def search(self, question: Question, k: int, tokens: int) -> Found:
        cosines = self._vectors @ run_sync(self._encoder.embed([question.text], "query"))[0]
        terms = dict.fromkeys(self._analyzer.terms(question.text))
        found = [self._terms[term] for term in terms if term in self._terms]
        words: Floats = self._weights[:, found].sum(axis=1)
        if (words > 0).any():
            words = words / np.percentile(words[words > 0], 90)
        scores = (cosines - cosines.mean()) / _SPREAD + _WORDS * words
        best = np.argsort(-scores, kind="stable")[:k]
        return Found([Hit(self.items[place].id, float(scores[place])) for place in best], float(cosines.max()))
