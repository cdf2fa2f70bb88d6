"""Bootstrap confidence intervals of a mean, or of the difference of two paired means, with a seed.

The percentile bootstrap (Efron 1979): the 2.5th and 97.5th percentile of the mean of as many values drawn with
replacement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.batching import check_positive_number
from tellback.memory.errors import ArgumentError

DRAWS = 2_000
_DRAWS_AT_ONCE = 200


class ConfidenceInterval(NamedTuple):
    """A mean with its 95 per cent interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"

    @property
    def excludes_zero(self) -> bool:
        """True if the interval excludes 0."""
        return not self.low <= 0 <= self.high


def bootstrap(
    values: Sequence[float], *, seed: int = 0, groups: Sequence[str] | None = None, draws: int = DRAWS
) -> ConfidenceInterval:
    """Return the mean of *values* and its interval; for paired runs hand in the differences.

    *groups* names the group of each value: whole groups are drawn then, which gives a wider and more honest interval
    where values of one group are alike. No values give zeros. *draws* is the number of samples.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise ArgumentError("values", values, "a list of finite numbers is needed")
    check_positive_number("draws", draws)
    if groups is not None and len(groups) != len(numbers):
        raise ArgumentError("groups", len(groups), f"one for each of {len(numbers)} values is needed")
    if not len(numbers):
        return ConfidenceInterval(0.0, 0.0, 0.0)
    sums, counts = (numbers, np.ones(len(numbers))) if groups is None else _group_sums(numbers, groups)
    rng = np.random.default_rng(seed)
    means = []
    for start in range(0, draws, _DRAWS_AT_ONCE):
        samples = rng.integers(0, len(sums), (min(_DRAWS_AT_ONCE, draws - start), len(sums)))
        means.append(sums[samples].sum(axis=1) / counts[samples].sum(axis=1))
    low, high = np.percentile(np.concatenate(means), (2.5, 97.5))
    return ConfidenceInterval(float(numbers.mean()), float(low), float(high))


def paired_difference(
    ours: Mapping[str, float], theirs: Mapping[str, float], *, seed: int = 0, groups: Mapping[str, str] | None = None
) -> ConfidenceInterval:
    """Return the mean of *ours* less *theirs* over the questions of both, with its 95 per cent interval.

    *groups* names the group of each question: whole groups are drawn then.
    """
    both = [id for id in ours if id in theirs]
    drawn = None if groups is None else [groups[id] for id in both]
    return bootstrap([ours[id] - theirs[id] for id in both], seed=seed, groups=drawn)


def _group_sums(values: NDArray[np.float64], groups: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sum and the count of the values of each group."""
    _, group_numbers = np.unique(np.asarray(groups), return_inverse=True)
    return np.asarray(np.bincount(group_numbers, values), dtype=np.float64), np.bincount(group_numbers).astype(
        np.float64
    )
