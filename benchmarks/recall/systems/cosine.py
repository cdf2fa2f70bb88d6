"""A local embedder and a product in numpy: what vectors alone find."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import numpy as np

from benchmarks.recall.system import Answered, NotAvailable, Options, question_of, text_of
from benchmarks.recall.task import Asked, Corpus
from tellback.memory import Embedder, LocalEmbedder, SentenceEncoder


class Cosine:
    def __init__(self, folder: Path, options: Options) -> None:
        self._embedder = self.embedder()
        self._loop = asyncio.new_event_loop()
        self._ids: list[str] = []
        self._vectors = np.zeros((0, 1), dtype=np.float32)

    def embedder(self) -> Embedder:
        return LocalEmbedder()

    def fill(self, corpus: Corpus) -> None:
        self._ids = [item.id for item in corpus.items]
        texts = [text_of(item) for item in corpus.items]
        self._vectors = self._loop.run_until_complete(self._embedder.embed(texts))

    def ask(self, asked: Asked, k: int) -> Answered:
        vector = self._loop.run_until_complete(self._embedder.embed([question_of(asked)], "query"))[0]
        scores = self._vectors @ vector
        best = np.argsort(-scores, kind="stable")[:k]
        return Answered(tuple((self._ids[position], float(scores[position])) for position in best.tolist()))

    def close(self) -> None:
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class CosineOfSentences(Cosine):
    """Cosine with the sentence encoder."""

    def embedder(self) -> Embedder:
        return SentenceEncoder()


class CosineOfOnnx(Cosine):
    """Cosine with the ONNX model in the folder that ``TELLBACK_BENCH_ONNX`` names."""

    def embedder(self) -> Embedder:
        return onnx_embedder()


def onnx_embedder() -> Embedder:
    """Return the embedder of the model in the folder that ``TELLBACK_BENCH_ONNX`` names."""
    from tellback.memory.onnx import OnnxEmbedder

    folder = os.environ.get("TELLBACK_BENCH_ONNX")
    if not folder:
        raise NotAvailable("TELLBACK_BENCH_ONNX names no folder with an ONNX model")
    return OnnxEmbedder(folder)
