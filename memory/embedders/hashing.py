"""Lexical stand-in for an embedder: feature hashing of words and of their character trigrams, without any meaning.

For tests and for explicit use; it is never chosen by default. "Car" and "automobile" are unrelated to it, "car" and
"cars" are not.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.batching import check_embedder_input, check_positive_number
from tellback.memory.embedders.protocol import EmbeddingKind

_WORD = re.compile(r"\w+")
_GRAM = 3
_GRAM_WEIGHT = 0.5


class HashingEmbedder:
    """Signed feature hashing of words and of their three-character pieces; equal in every process."""

    remote = False

    def __init__(self, *, dimension: int = 1024) -> None:
        check_positive_number("dimension", dimension)
        self._dimension = dimension

    @property
    def fingerprint(self) -> str:
        """The way of hashing and the dimension."""
        return f"hashing-lexical-1/{self._dimension}"

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return self._dimension

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> NDArray[np.float32]:
        """As the protocol says; a text without a letter or digit has nothing to embed."""
        check_embedder_input(texts, kind)
        vectors = np.zeros((len(texts), self._dimension), np.float32)
        for position, text in enumerate(texts):
            vectors[position] = self._vector(text)
        return vectors

    def _vector(self, text: str) -> NDArray[np.float64]:
        vector = np.zeros(self._dimension)
        words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
        padded = [f"<{word}>" for word in words]
        grams = [word[start : start + _GRAM] for word in padded for start in range(len(word) - _GRAM + 1)]
        for mark, features, weight in (("w:", words, 1.0), ("g:", grams, _GRAM_WEIGHT)):
            for feature, count in Counter(features).items():
                value = zlib.crc32((mark + feature).encode())
                sign = 1.0 if value >> 31 else -1.0
                vector[(value & 0x7FFFFFFF) % self._dimension] += sign * weight * count**0.5
        norm = float(np.linalg.norm(vector))
        if norm:
            return vector / norm
        if _WORD.search(text):  # every feature met another of the opposite sign
            vector[zlib.crc32(text.encode()) % len(vector)] = 1.0
        return vector

    def __repr__(self) -> str:
        return f"HashingEmbedder(dimension={self._dimension})"
