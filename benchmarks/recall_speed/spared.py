"""Vectors for more texts than an encoder embeds in an hour: real ones for some, and ones near to these for the rest.

The speed of a search depends on how many vectors there are and how they lie, not on whose they are.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tellback.memory import Embedder, local_embedder

_EMBEDDED = 256
_NOISE = 0.5
"""Length of what is added to a vector: about the distance of two notes on one topic."""


class SparingEmbedder:
    """The everyday encoder for questions and for the first 256 texts; other texts get one of their vectors, with noise.

    It goes by the encoder's name, so that a later process opens the memory with the encoder itself.
    """

    remote = False
    names_weights = True

    def __init__(self) -> None:
        self._inner: Embedder = local_embedder()
        self._known = np.zeros((0, self._inner.dimension), np.float32)
        self.dimension, self.fingerprint = self._inner.dimension, self._inner.fingerprint

    async def embed(self, texts: Sequence[str], kind: str = "document") -> NDArray[np.float32]:
        """As the protocol says."""
        if kind == "query":
            return np.asarray(await self._inner.embed(texts, "query"))
        if len(self._known) < _EMBEDDED:
            self._known = np.concatenate([self._known, await self._inner.embed(list(texts)[:_EMBEDDED])])
        return np.array(list(map(self._near, texts)), np.float32)

    def _near(self, text: str) -> NDArray[np.float32]:
        number = zlib.crc32(text.encode("utf-8", "replace"))
        noise = np.random.default_rng(number).normal(0.0, _NOISE / np.sqrt(self.dimension), self.dimension)
        vector = self._known[number % len(self._known)] + noise
        return np.asarray(vector / np.linalg.norm(vector), np.float32)
