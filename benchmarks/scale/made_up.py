"""Made-up texts and vectors, equal in every process; numpy alone, since programs of other environments import it.

Vectors lie around centres, as those of an encoder do, and a question is near to one that is there. Words are as rare
as in a language.
"""

from __future__ import annotations

import hashlib
import re
import statistics
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

DIMENSION = 256
_WORDS = 30_000
_CENTRES = 2_000


def texts(count: int, seed: int) -> list[str]:
    """Return *count* notes of twelve words."""
    random = np.random.default_rng(seed)
    words = np.minimum(random.zipf(1.25, size=(count, 12)), _WORDS)
    return [f"note {' '.join(f'word{word}' for word in row)}" for row in words.tolist()]


def vectors(count: int, seed: int) -> NDArray[np.float32]:
    """Return *count* vectors of length 1."""
    centres = np.random.default_rng(0).normal(size=(_CENTRES, DIMENSION))
    random = np.random.default_rng(seed)
    rows = centres[random.integers(_CENTRES, size=count)] + 0.8 * random.normal(size=(count, DIMENSION))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def medians(written: Sequence[float], found: Sequence[float]) -> dict[str, float]:
    """Return how many were *written*, and the medians of a write and of a search without their first tenth."""
    kept = statistics.median(written[len(written) // 10 :])
    return {"writes": len(written), "write_ms": kept, "search_ms": statistics.median(found[len(found) // 10 :])}


def embed(lines: Sequence[str]) -> list[list[float]]:
    """Return a vector of each text, by hashing its words."""
    rows = np.zeros((len(lines), DIMENSION), dtype=np.float32)
    for place, line in enumerate(lines):
        for word in re.findall(r"\w+", line.lower()):
            digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
            rows[place, digest[0]] += 1.0 if digest[1] & 1 else -1.0
            rows[place, digest[2]] += 1.0 if digest[3] & 1 else -1.0
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    found: list[list[float]] = (rows / np.maximum(lengths, 1e-9)).tolist()
    return found
