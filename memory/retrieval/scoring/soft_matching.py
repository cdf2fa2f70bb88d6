"""Soft matching of a question with memories by its words, its sentences and earlier questions. Arrays in, arrays out.

A word of the question matches a memory by its nearest term there: 1 for the same term, else the cosine of word vectors,
never below 0. Sentence similarity compares sums of word vectors by idf, so that it finds the sentence that states the
same in other words; the vectors of all sentences would take several times the room, so those of a few candidates are
computed when they are needed. Question similarity does so with the question that a turn answers, because an answer
seldom repeats the words of its question ("Biscuit, after the old one.").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.index.record import MAX_SENTENCES
from memory.retrieval.index.retrieval_index import RetrievalIndex
from memory.retrieval.index.turn_links import NO_ROW
from memory.retrieval.index.vocabulary import NO_TERM
from memory.retrieval.scoring.question import AnalyzedQuestion
from vectorstore.internals import BM25_K1, idf_array

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

PASSAGE_WORDS: Final = 10
"""Words of a passage: what stands in a long sentence far apart belongs together less."""


@dataclass(frozen=True, slots=True)
class QuestionTerms:
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


def weigh_terms(
    question: AnalyzedQuestion, index: RetrievalIndex, df: Callable[[Sequence[str]], list[int]], count: int
) -> QuestionTerms:
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
    return QuestionTerms(numbers, vectors, idf_array(count, counts), seen, float(idf_array(count, np.ones(1))[0]))


def term_similarities(words: QuestionTerms, terms: NDArray[np.int64], index: RetrievalIndex) -> NDArray[np.float32]:
    """Return the match of each of *terms* with each word of the question, shape (terms, words), in [0, 1]."""
    if words.vectors is None:
        found = np.zeros((len(terms), len(words.numbers)))
    else:
        found = np.maximum(index.vectors.cosines(words.vectors, terms), 0.0)
    found[(terms[:, None] == words.numbers[None, :]) & (terms[:, None] != NO_TERM)] = 1.0
    found[terms == NO_TERM] = 0.0
    return found.astype(np.float32)


def word_match(words: QuestionTerms, rows: Rows, index: RetrievalIndex) -> NDArray[np.float32]:
    """Return how well each word of the question is matched in each of *rows*, shape (rows, words)."""
    terms, starts = index.text_terms(rows)
    found, at = _distinct_terms(terms, len(index.stems))
    return np.maximum.reduceat(term_similarities(words, found, index)[at], starts, axis=0)


@dataclass(frozen=True, slots=True)
class TextMatch:
    """The weighted match of each row: its best *sentence*, its best *passage* and the *whole* text."""

    sentence: Floats
    passage: Floats
    whole: Floats


def text_match(words: QuestionTerms, rows: Rows, index: RetrievalIndex) -> TextMatch:
    """Match each of *rows* by its best sentence, by its best ``PASSAGE_WORDS`` words in a row, and whole."""
    terms, starts = index.text_terms(rows)
    found, at = _distinct_terms(terms, len(index.stems))
    near = term_similarities(words, found, index)[at]
    firsts, ends = sentence_bounds(terms)
    of_row = np.searchsorted(firsts, starts)
    by_sentence = np.maximum.reduceat(near, firsts, axis=0)
    whole = weighted_sum(np.maximum.reduceat(by_sentence, of_row, axis=0), words)
    sentence = np.maximum.reduceat(weighted_sum(by_sentence, words), of_row)
    begin, stop = _passage_bounds(firsts, ends)
    bounds = np.stack([begin, stop], axis=1).ravel()  # every other span lies between two passages
    by_passage = weighted_sum(np.maximum.reduceat(near, bounds, axis=0)[::2], words)
    return TextMatch(sentence, np.maximum.reduceat(by_passage, np.searchsorted(begin, starts)), whole)


def sentence_bounds(terms: NDArray[np.int64]) -> tuple[Rows, Rows]:
    """Return where each sentence of ``RetrievalIndex.text_terms`` begins, and where its end mark stands."""
    ends = np.flatnonzero(terms == NO_TERM)
    return np.concatenate([[0], ends[:-1] + 1]), ends


def _passage_bounds(firsts: Rows, ends: Rows) -> tuple[Rows, Rows]:
    """Cut sentences into runs of at most ``PASSAGE_WORDS`` words, each beginning in the middle of the one before."""
    step = PASSAGE_WORDS // 2
    counts = np.maximum(-(-(ends - firsts - PASSAGE_WORDS) // step), 0) + 1
    place = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    begin = np.repeat(firsts, counts) + place * step
    return begin, np.minimum(begin + PASSAGE_WORDS, np.repeat(ends, counts))


def pair_match(words: QuestionTerms, rows: Rows, index: RetrievalIndex) -> Floats:
    """Return, for each of *rows*, the weighted share of the question's neighbouring words that stand side by side
    in one of its sentences, in [0, 1]; words that say nothing do not part neighbours.
    """
    first, second = words.numbers[:-1], words.numbers[1:]
    weights = words.weights[:-1] + words.weights[1:]
    known = (first > NO_TERM) & (second > NO_TERM)
    shares = np.zeros(len(rows))
    if not known.any():
        return shares
    terms, starts = index.text_terms(rows)
    owners = np.searchsorted(starts, np.arange(len(terms) - 1), side="right") - 1
    for a, b, weight in zip(first[known], second[known], weights[known], strict=True):
        beside = ((terms[:-1] == a) & (terms[1:] == b)) | ((terms[:-1] == b) & (terms[1:] == a))
        shares[np.unique(owners[beside])] += weight
    return np.asarray(shares / weights.sum())


def exact_match_shares(scores: Floats, words: QuestionTerms) -> Floats:
    """Return BM25 *scores* for the question of *words* as shares of the most that they could be, in [0, 1]."""
    most = words.total * (BM25_K1 + 1)
    return np.clip(scores / most, 0.0, 1.0) if most > 0 else np.zeros(len(scores))


def weighted_sum(match: NDArray[np.float32], words: QuestionTerms) -> Floats:
    """Return the sum of each row's matches by the weight of the words; each row by itself, whatever
    stands beside.
    """
    return np.asarray((match * words.weights).sum(axis=1))


def _distinct_terms(terms: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct *terms*, and the place of each of *terms* among them."""
    there = np.zeros(size, dtype=np.bool_)
    there[terms] = True
    found = np.flatnonzero(there)
    place = np.empty(size, dtype=np.int64)
    place[found] = np.arange(len(found))
    return found, place[terms]


_EPSILON = 1e-9


def question_similarity(
    words: QuestionTerms, answered: Rows, index: RetrievalIndex, df: Callable[[Sequence[str]], list[int]], count: int
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
    terms, owners = _question_terms(rows, index)
    if not len(terms):
        return near
    distinct, at = np.unique(terms, return_inverse=True)
    frequencies = np.array(df([index.stems.name(number) for number in distinct.tolist()]), dtype=np.float64)
    weights = idf_array(count, frequencies)
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
    found = np.maximum(inner / np.maximum(np.sqrt(squares), _EPSILON), 0.0)
    there = np.isin(answered, rows[asking])
    near[there] = found[np.searchsorted(rows[asking], answered[there])]
    return near


def _question_terms(rows: Rows, index: RetrievalIndex) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the terms of the questions in *rows*, each once a row and in the order of the text, and their places in
    *rows*.
    """
    terms, starts = index.text_terms(rows)
    firsts, ends = sentence_bounds(terms)
    owner = np.searchsorted(starts, firsts, side="right") - 1
    place = np.minimum(np.arange(len(firsts)) - np.searchsorted(firsts, starts)[owner], MAX_SENTENCES)
    asks = (index.asking.rows[rows][owner] >> place) & 1
    wanted = np.repeat(asks == 1, ends - firsts + 1) & (terms != NO_TERM)
    of_term = np.repeat(owner, ends - firsts + 1)[wanted]
    terms = terms[wanted]
    _, once = np.unique(of_term * (len(index.stems) + 1) + terms, return_index=True)
    once.sort()
    return terms[once], of_term[once]


def sentence_similarity(
    words: QuestionTerms,
    rows: NDArray[np.int64],
    index: RetrievalIndex,
    df: Callable[[Sequence[str]], list[int]],
    count: int,
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
    vectors = index.vectors.unit(distinct) * idf_array(count, counts)[:, None]
    asked = (words.vectors * words.weights[:, None]).sum(axis=0)
    firsts, _ = sentence_bounds(terms)
    said = np.add.reduceat(vectors[at], firsts, axis=0)
    lengths = np.sqrt((said * said).sum(axis=1) * (asked * asked).sum())
    cosines = (said * asked).sum(axis=1) / np.maximum(lengths, _EPSILON)
    return np.maximum(np.maximum.reduceat(cosines, np.searchsorted(firsts, starts)), best)
