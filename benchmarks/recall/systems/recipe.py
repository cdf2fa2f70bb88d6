"""The plain recipe: BM25 and the cosine of a sentence encoder, added; nothing in it was fitted to any data set.

BM25 (k1 .9, b .4) over the terms of the product's analyzer is divided by its 90th percentile among the memories that
have a word of the question; the cosine, less its mean over all memories, by one spread for all questions.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.recall.system import Answered, Options, question_of, text_of
from benchmarks.recall.task import Asked, Corpus
from tellback.memory import SentenceEncoder
from tellback.vectorstore import Analyzer

_K1, _B = 0.9, 0.4
_SPREAD = 0.1
_WORDS = 1.0
"""Weight of the words, where a cosine that is a spread above the mean counts 1."""

Floats = NDArray[np.float64]


class Recipe:
    def __init__(self, folder: Path, options: Options) -> None:
        self._encoder, self._analyzer = SentenceEncoder(), Analyzer()
        self._ids: list[str] = []

    def fill(self, corpus: Corpus) -> None:
        texts = [text_of(item) for item in corpus.items]
        self._ids = [item.id for item in corpus.items]
        self._vectors = asyncio.run(self._encoder.embed(texts))
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

    def ask(self, asked: Asked, k: int) -> Answered:
        question = question_of(asked)
        cosines = self._vectors @ asyncio.run(self._encoder.embed([question], "query"))[0]
        found = [self._terms[term] for term in dict.fromkeys(self._analyzer.terms(question)) if term in self._terms]
        words: Floats = self._weights[:, found].sum(axis=1)
        if (words > 0).any():
            words = words / np.percentile(words[words > 0], 90)
        scores = (cosines - cosines.mean()) / _SPREAD + _WORDS * words
        best = np.argsort(-scores, kind="stable")[:k]
        return Answered(tuple((self._ids[i], float(scores[i])) for i in best), float(cosines.max()))

    def close(self) -> None:
        self._ids = []
