"""The question that a memory answers against the one that is asked: who was asked nearly the same, answered it here.

An answer seldom repeats the words of its question ("Biscuit, after the old one."). ``window`` lends it those words one
by one; this asks how near the two questions are as a whole, words that only one of them holds included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from memory.recall.index import Index
from memory.recall.matching import Words, sentences
from memory.recall.order import NO_ROW
from memory.recall.rows import SENTENCES
from memory.recall.stems import NOTHING
from vectorstore import idfs

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
_TINY = 1e-9


def question_match(
    words: Words, answered: Rows, index: Index, df: Callable[[Sequence[str]], list[int]], count: int
) -> Floats:
    """Return how near the questions in each of the rows *answered* are to that of *words*, in [0, 1].

    The cosine of sums by idf (*df* of *count* memories): of word vectors, or without them of the words themselves. 0
    for ``NO_ROW``, and where nothing is asked.
    """
    near = np.zeros(len(answered))
    rows = np.unique(answered[answered != NO_ROW])
    rows = rows[index.asking.rows[rows] != 0]
    if not len(rows) or not len(words.numbers):
        return near
    terms, owners = _asked_terms(rows, index)
    if not len(terms):
        return near
    distinct, at = np.unique(terms, return_inverse=True)
    frequencies = np.array(df([index.stems.name(number) for number in distinct.tolist()]), dtype=np.float64)
    weights = idfs(count, frequencies)
    asking, starts = np.unique(owners, return_index=True)
    if words.vectors is None:
        own = np.where(terms[:, None] == words.numbers[None, :], words.weights, 0.0).sum(axis=1) * weights[at]
        inner = np.add.reduceat(own, starts)
        squares = np.add.reduceat(weights[at] ** 2, starts) * (words.weights**2).sum()
    else:
        vectors = index.vectors.unit(distinct) * weights[:, None]
        question = (words.vectors * words.weights[:, None]).sum(axis=0)
        sums = np.add.reduceat(vectors[at], starts, axis=0)
        inner = (sums * question).sum(axis=1)
        squares = (sums * sums).sum(axis=1) * (question * question).sum()
    found = np.maximum(inner / np.maximum(np.sqrt(squares), _TINY), 0.0)
    there = np.isin(answered, rows[asking])
    near[there] = found[np.searchsorted(rows[asking], answered[there])]
    return near


def _asked_terms(rows: Rows, index: Index) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the terms of the questions in *rows*, each once a row and in the order of the text, and their places in
    *rows*.
    """
    terms, starts = index.text_terms(rows)
    firsts, ends = sentences(terms)
    owner = np.searchsorted(starts, firsts, side="right") - 1
    place = np.minimum(np.arange(len(firsts)) - np.searchsorted(firsts, starts)[owner], SENTENCES)
    asks = (index.asking.rows[rows][owner] >> place) & 1
    wanted = np.repeat(asks == 1, ends - firsts + 1) & (terms != NOTHING)
    of_term = np.repeat(owner, ends - firsts + 1)[wanted]
    terms = terms[wanted]
    _, once = np.unique(of_term * (len(index.stems) + 1) + terms, return_index=True)
    once.sort()
    return terms[once], of_term[once]
