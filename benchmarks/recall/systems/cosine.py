"""A local embedder and a product in numpy: what vectors alone find."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np

from benchmarks.recall.system import Answered, Options, question_of, text_of
from benchmarks.recall.task import Asked, Corpus
from memory import Embedder, LocalEmbedder, SentenceEncoder


class Cosine:
    embedder: type[LocalEmbedder] | type[SentenceEncoder] = LocalEmbedder

    def __init__(self, folder: Path, options: Options) -> None:
        self._embedder: Embedder = self.embedder()
        self._loop = asyncio.new_event_loop()
        self._ids: list[str] = []
        self._vectors = np.zeros((0, self._embedder.dimension), dtype=np.float32)

    def fill(self, corpus: Corpus) -> None:
        self._ids = [item.id for item in corpus.items]
        texts = [text_of(item) for item in corpus.items]
        self._vectors = self._loop.run_until_complete(self._embedder.embed(texts))

    def ask(self, asked: Asked, k: int) -> Answered:
        vector = self._loop.run_until_complete(self._embedder.embed([question_of(asked)], "query"))[0]
        scores = self._vectors @ vector
        best = np.argsort(-scores, kind="stable")[:k]
        return Answered(tuple((self._ids[at], float(scores[at])) for at in best.tolist()))

    def close(self) -> None:
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class CosineOfSentences(Cosine):
    """With the sentence encoder."""

    embedder = SentenceEncoder
