"""Made-up rows: a seeded mixture of clusters, and texts of words with Zipf's frequencies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.stores.data import EXTRA, About, write

_CLUSTERS = 256
_SPREAD = 0.7
_WORDS = 20_000
_WORDS_A_TEXT = 28
_QUESTION_RANKS = (100, 3_000)
_BLOCK = 20_000


def make(folder: Path, *, n: int, d: int, seed: int, queries: int) -> None:
    """Write *n* rows (and the extra ones) of a mixture of 256 clusters; queries are other points of the same."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((_CLUSTERS, d), dtype=np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0].astype(np.float32)
    spectrum = (1 / np.sqrt(np.arange(1, d + 1))).astype(np.float32)
    shape = (spectrum / np.linalg.norm(spectrum) * _SPREAD)[:, np.newaxis] * rotation

    def points(count: int) -> NDArray[np.float32]:
        made = np.empty((count, d), np.float32)
        for start in range(0, count, _BLOCK):
            size = min(_BLOCK, count - start)
            block = centres[rng.integers(_CLUSTERS, size=size)] + rng.standard_normal((size, d), np.float32) @ shape
            made[start : start + size] = block / np.linalg.norm(block, axis=1, keepdims=True)
        return made

    vectors, asked = points(n + EXTRA), points(queries)
    words = _vocabulary(rng)
    frequency = 1 / np.arange(1, _WORDS + 1)
    drawn = rng.choice(_WORDS, size=(n + EXTRA, _WORDS_A_TEXT), p=frequency / frequency.sum())
    low, high = np.log(_QUESTION_RANKS)
    ranks = np.exp(rng.uniform(low, high, size=(queries, 6))).astype(int)
    made = f"mixture of {_CLUSTERS} clusters, noise falling as 1/sqrt(rank); texts of {_WORDS_A_TEXT} Zipf words"
    write(
        folder,
        About("clustered", n, d, seed, made),
        vectors=vectors,
        queries=asked,
        texts=[" ".join(words[item] for item in row) for row in drawn],
        questions=[" ".join(words[item] for item in row) for row in ranks],
    )


def _vocabulary(rng: np.random.Generator) -> list[str]:
    """Return distinct made-up words of three consonants and three vowels, which no stop list and no stemmer knows."""
    consonants, vowels = "bcdfgklmnprtvz", "aiou"
    words: dict[str, None] = {}
    while len(words) < _WORDS:
        first, second = rng.integers(len(consonants), size=3), rng.integers(len(vowels), size=3)
        words["".join(consonants[c] + vowels[v] for c, v in zip(first, second, strict=True))] = None
    return list(words)
