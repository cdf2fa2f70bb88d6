"""BM25's constants and the weight of a term, for every place that ranks by words.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BM25_K1: Final = 0.9
"""Saturation: no term counts more than its weight times ``BM25_K1 + 1``. 0.9 and 0.4 are Anserini's for short texts."""
BM25_B: Final = 0.4
"""How far the length of a text counts: 0 not at all, 1 in full."""


def idf(count: int, frequency: int) -> float:
    """Return the inverse document frequency of a term that *frequency* of *count* texts have."""
    return math.log(1.0 + (count - frequency + 0.5) / (frequency + 0.5))


def idfs(count: int, frequencies: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``idf`` for each of *frequencies*, float64 of the same shape."""
    import numpy as np

    return np.asarray(np.log(1 + (count - frequencies + 0.5) / (frequencies + 0.5)))
