"""How sure a mean, or the difference of two paired means, is: questions drawn anew, with a seed.

The percentile bootstrap (Efron 1979): the 2.5th and 97.5th percentile of the mean over as many questions drawn with
replacement. Drawn by *corpus*, whole memories are drawn, which is wider and more honest where questions of one
conversation are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DRAWS = 2_000
_BLOCK = 200


class Interval(NamedTuple):
    """A mean with its 95 per cent interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def interval(
    values: Sequence[float], *, seed: int, corpora: Sequence[str] | None = None, draws: int = DRAWS
) -> Interval:
    """Return the mean of *values* and its interval; for paired runs hand in the differences.

    *corpora* names the corpus of each value: whole corpora are drawn then. Nothing to draw gives zeros.
    """
    given = np.asarray(values, dtype=np.float64)
    if not len(given):
        return Interval(0.0, 0.0, 0.0)
    sums, counts = (given, np.ones(len(given))) if corpora is None else _by_corpus(given, corpora)
    rng = np.random.default_rng(seed)
    means = []
    for start in range(0, draws, _BLOCK):
        drawn = rng.integers(0, len(sums), (min(_BLOCK, draws - start), len(sums)))
        means.append(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    low, high = np.percentile(np.concatenate(means), (2.5, 97.5))
    return Interval(float(given.mean()), float(low), float(high))


def _by_corpus(values: NDArray[np.float64], corpora: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sum and the number of values of each corpus."""
    if len(corpora) != len(values):
        raise ValueError(f"corpora: one for each of {len(values)} values is needed, not {len(corpora)}")
    _, places = np.unique(np.asarray(corpora), return_inverse=True)
    return np.asarray(np.bincount(places, values), dtype=np.float64), np.bincount(places).astype(np.float64)
