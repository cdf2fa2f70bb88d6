"""What a sentence is about as a whole, beside which words it holds: its mean word vector against the question's.

It finds the sentence that says the same in other words. The vector of a whole chunk (``cosine``) is too blunt for that,
and the vectors of all its sentences would take several times its room; so the sentences of a few candidates are put
together from word vectors when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from memory.recall.index import Index
from memory.recall.matching import Words, sentences
from vectorstore import idfs

Floats = NDArray[np.float64]
_TINY = 1e-9


def sentence_meaning(
    words: Words, rows: NDArray[np.int64], index: Index, df: Callable[[Sequence[str]], list[int]], count: int
) -> Floats:
    """Return, for each of *rows*, the cosine of its best sentence with the question, not below 0.

    Both are sums of centred word vectors by idf (*df* of *count* memories). 0 everywhere without word vectors.
    """
    best = np.zeros(len(rows))
    if words.vectors is None or not len(rows):
        return best
    terms, starts = index.text_terms(rows)
    distinct, at = np.unique(terms, return_inverse=True)
    counts = np.array(df([index.stems.name(number) for number in distinct.tolist()]), dtype=np.float64)
    vectors = index.vectors.unit(distinct) * idfs(count, counts)[:, None]
    asked = (words.vectors * words.weights[:, None]).sum(axis=0)
    firsts, _ = sentences(terms)
    said = np.add.reduceat(vectors[at], firsts, axis=0)
    lengths = np.sqrt((said * said).sum(axis=1) * (asked * asked).sum())
    cosines = (said * asked).sum(axis=1) / np.maximum(lengths, _TINY)
    return np.maximum(np.maximum.reduceat(cosines, np.searchsorted(firsts, starts)), best)
