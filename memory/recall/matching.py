"""The soft match of words: how near the words of a question are to those of each memory. Arrays in, arrays
out.

A word of the question matches a memory by its nearest stem there: 1 for the same stem, else the cosine of
word vectors, never below 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.recall.index import Index
from memory.recall.question import Question
from memory.recall.stems import NOTHING
from vectorstore import BM25_K1, idfs

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

PASSAGE: Final = 10
"""Words of a passage: what stands in a long sentence far apart belongs together less."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a question in a namespace: grid vectors, their numbers there, what each weighs (idf), and which
    of them any memory holds. *most* is what a word weighs that stands in one memory.
    """

    numbers: NDArray[np.int64]
    vectors: NDArray[np.float32] | None
    weights: Floats
    seen: NDArray[np.bool_]
    most: float

    @property
    def bounded(self) -> Floats:
        """The weights, none above that of a word that is there: else one that is not would outweigh a small memory."""
        return np.minimum(self.weights, self.most)

    @property
    def total(self) -> float:
        """The bounded weight of all words."""
        return float(self.bounded.sum())


def words_of(question: Question, index: Index, df: Callable[[Sequence[str]], list[int]], count: int) -> Words:
    """Weigh the words of *question* by how few of *count* memories hold them (*df*).

    A word that the namespace does not know weighs what its nearest stem weighs, and without one as the
    rarest.
    """
    numbers = np.array([index.stems.find(term) for term in question.terms], dtype=np.int64)
    vectors = index.vectors.of_question(question.terms, question.forms)
    counts = np.array(df(question.terms), dtype=np.float64)
    seen = counts > 0
    unknown = np.flatnonzero(~seen)
    if vectors is not None and len(unknown):
        counts[unknown] = df(index.vectors.nearest(vectors[unknown]))
    return Words(numbers, vectors, idfs(count, counts), seen, float(idfs(count, np.ones(1))[0]))


def similarities(words: Words, terms: NDArray[np.int64], index: Index) -> NDArray[np.float32]:
    """Return the match of each of *terms* with each word of the question, shape (terms, words), in [0, 1]."""
    if words.vectors is None:
        found = np.zeros((len(terms), len(words.numbers)))
    else:
        found = np.maximum(index.vectors.cosines(words.vectors, terms), 0.0)
    found[(terms[:, None] == words.numbers[None, :]) & (terms[:, None] != NOTHING)] = 1.0
    found[terms == NOTHING] = 0.0
    return found.astype(np.float32)


def word_match(words: Words, rows: Rows, index: Index) -> NDArray[np.float32]:
    """Return how well each word of the question is matched in each of *rows*, shape (rows, words)."""
    terms, starts = index.text_terms(rows)
    found, at = _distinct(terms, len(index.stems))
    return np.maximum.reduceat(similarities(words, found, index)[at], starts, axis=0)


@dataclass(frozen=True, slots=True)
class TextMatch:
    """The weighted match of each row: its best *sentence*, its best *passage* and the *whole* text."""

    sentence: Floats
    passage: Floats
    whole: Floats


def text_match(words: Words, rows: Rows, index: Index) -> TextMatch:
    """Match each of *rows* by its best sentence, by its best ``PASSAGE`` words in a row, and whole."""
    terms, starts = index.text_terms(rows)
    found, at = _distinct(terms, len(index.stems))
    near = similarities(words, found, index)[at]
    firsts, ends = sentences(terms)
    of_row = np.searchsorted(firsts, starts)
    by_sentence = np.maximum.reduceat(near, firsts, axis=0)
    whole = weighed(np.maximum.reduceat(by_sentence, of_row, axis=0), words)
    sentence = np.maximum.reduceat(weighed(by_sentence, words), of_row)
    begin, stop = _passages(firsts, ends)
    bounds = np.stack([begin, stop], axis=1).ravel()  # every other span lies between two passages
    by_passage = weighed(np.maximum.reduceat(near, bounds, axis=0)[::2], words)
    return TextMatch(sentence, np.maximum.reduceat(by_passage, np.searchsorted(begin, starts)), whole)


def sentences(terms: NDArray[np.int64]) -> tuple[Rows, Rows]:
    """Return where each sentence of ``Index.text_terms`` begins, and where its end mark stands."""
    ends = np.flatnonzero(terms == NOTHING)
    return np.concatenate([[0], ends[:-1] + 1]), ends


def _passages(firsts: Rows, ends: Rows) -> tuple[Rows, Rows]:
    """Cut sentences into runs of at most ``PASSAGE`` words, each beginning in the middle of the one before."""
    step = PASSAGE // 2
    counts = np.maximum(-(-(ends - firsts - PASSAGE) // step), 0) + 1
    place = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    begin = np.repeat(firsts, counts) + place * step
    return begin, np.minimum(begin + PASSAGE, np.repeat(ends, counts))


def pair_match(words: Words, rows: Rows, index: Index) -> Floats:
    """Return, for each of *rows*, the weighted share of the question's neighbouring words that stand side by side
    in one of its sentences, in [0, 1]; words that say nothing do not part neighbours.
    """
    first, second = words.numbers[:-1], words.numbers[1:]
    weights = words.weights[:-1] + words.weights[1:]
    known = (first > NOTHING) & (second > NOTHING)
    shares = np.zeros(len(rows))
    if not known.any():
        return shares
    terms, starts = index.text_terms(rows)
    owners = np.searchsorted(starts, np.arange(len(terms) - 1), side="right") - 1
    for a, b, weight in zip(first[known], second[known], weights[known], strict=True):
        beside = ((terms[:-1] == a) & (terms[1:] == b)) | ((terms[:-1] == b) & (terms[1:] == a))
        shares[np.unique(owners[beside])] += weight
    return np.asarray(shares / weights.sum())


def exact_shares(scores: Floats, words: Words) -> Floats:
    """Return BM25 *scores* for the question of *words* as shares of the most that they could be, in [0, 1]."""
    most = words.total * (BM25_K1 + 1)
    return np.clip(scores / most, 0.0, 1.0) if most > 0 else np.zeros(len(scores))


def weighed(match: NDArray[np.float32], words: Words) -> Floats:
    """Return the sum of each row's matches by the weight of the words; each row by itself, whatever
    stands beside.
    """
    return np.asarray((match * words.weights).sum(axis=1))


def _distinct(terms: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct *terms*, and the place of each of *terms* among them."""
    there = np.zeros(size, dtype=np.bool_)
    there[terms] = True
    found = np.flatnonzero(there)
    place = np.empty(size, dtype=np.int64)
    place[found] = np.arange(len(found))
    return found, place[terms]
