"""Fake embedders: vectors from the text alone, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from tellback.memory import EmbedderError
from tellback.memory.internals import PROBES


class FakeEmbedder:
    """Gives each text a random unit vector of its own, notes the texts but the probes, and fails while *broken*."""

    def __init__(self, dimension: int = 16, fingerprint: str = "fake/1") -> None:
        self.dimension, self.fingerprint = dimension, fingerprint
        self.texts: list[str] = []
        self.broken = False

    async def embed(self, texts: Sequence[str], kind: str = "document") -> NDArray[np.float32]:
        if self.broken:
            raise EmbedderError("no connection")
        self.texts.extend(text for text in texts if text not in PROBES)
        seeds = [int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) for text in texts]
        rows = np.array([np.random.default_rng(seed).normal(size=self.dimension) for seed in seeds])
        rows = rows.reshape(-1, self.dimension)
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


class LetterEmbedder:
    """Counts the letters of a text, so that texts of like letters are near; on this machine."""

    remote = False
    fingerprint = "letters/26"
    dimension = 26

    async def embed(self, texts: Sequence[str], kind: str = "document") -> NDArray[np.float32]:
        rows = np.array([[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts], np.float32)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
