"""Soft matching of a question with memories by its words, its sentences and earlier questions. Arrays in, arrays out.

A word of the question matches a memory by its nearest term there: 1 for the same term, else the cosine of word vectors,
never below 0. Sentence similarity compares sums of word vectors by idf, so that it finds the sentence that states the
same in other words; the vectors of all sentences would take several times the room, so those of a few candidates are
computed when they are needed. Question similarity does so with the question that a turn answers, because an answer
seldom repeats the words of its question ("Biscuit, after the old one.").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tellback.memory.retrieval.index.record import MAX_SENTENCES
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.index.turn_links import NO_ROW
from tellback.memory.retrieval.index.vocabulary import NO_TERM, renumber
from tellback.memory.retrieval.scoring.features import AnalyzedQuestion, TermFrequencies
from tellback.vectorstore.internals import BM25_K1, idf_array, sorted_distinct

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

PASSAGE_WORDS: Final = 10
"""Words of a passage: words that are far apart in a long sentence belong together less."""
_EPSILON = 1e-9
_BLOCK_CELLS = 1 << 20
"""Similarities computed at once: some arrays of 8 MB, whatever the question and the texts are."""

_FEW_MEMORIES, _RARE_SHARE = 3, 0.001
"""Memories that may have a rare term: so many, or this share of them."""


@dataclass(frozen=True, slots=True)
class QuestionTerms:
    """The terms of a question in a namespace, with their *numbers*, grid *vectors* and *weights* (idf) there.

    *seen* tells which of them occur in any memory. *max_weight* is the weight of a term that occurs in one memory,
    *rare_weight* that of one in very few.
    """

    numbers: NDArray[np.int64]
    vectors: NDArray[np.float32] | None
    weights: Floats
    seen: NDArray[np.bool_]
    max_weight: float
    rare_weight: float

    @property
    def bounded_weights(self) -> Floats:
        """The weights, at most *max_weight*: a term that does not occur would outweigh a small memory otherwise."""
        return np.minimum(self.weights, self.max_weight)

    @property
    def has_rare_term(self) -> bool:
        """True if a term occurs in so few memories that one with all terms is hardly there by chance."""
        return bool((self.seen & (self.weights >= self.rare_weight)).any())

    @property
    def total_weight(self) -> float:
        """The sum of the bounded weights."""
        return float(self.bounded_weights.sum())


def weigh_terms(question: AnalyzedQuestion, index: RetrievalIndex, frequencies: TermFrequencies) -> QuestionTerms:
    """Weight the terms of *question* by their idf.

    A term that no memory has gets the weight of its nearest term there, and without one the weight of the rarest.
    """
    numbers = np.array([index.vocabulary.find(term) for term in question.terms], dtype=np.int64)
    vectors = index.vectors.of_question(question.terms, question.forms)
    df = np.array(frequencies.df(question.terms), dtype=np.float64)
    seen = df > 0
    unseen = np.flatnonzero(~seen)
    if vectors is not None and len(unseen):
        df[unseen] = frequencies.df(index.vectors.nearest(vectors[unseen]))
    few = max(_FEW_MEMORIES, frequencies.count * _RARE_SHARE)
    max_weight, rare_weight = idf_array(frequencies.count, np.array([1.0, few])).tolist()
    return QuestionTerms(numbers, vectors, idf_array(frequencies.count, df), seen, max_weight, rare_weight)


def term_similarities(
    words: QuestionTerms, terms: NDArray[np.int64], index: RetrievalIndex
) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """Yield blocks of words of the question with the match of each of *terms*, shape (terms, words), in [0, 1]."""
    size = max(1, _BLOCK_CELLS // max(len(terms), 1))
    for start in range(0, len(words.numbers), size):
        block = slice(start, start + size)
        numbers = words.numbers[block]
        if words.vectors is None:
            similarities = np.zeros((len(terms), len(numbers)))
        else:
            similarities = np.maximum(index.vectors.cosines(words.vectors[block], terms), 0.0)
        similarities[(terms[:, None] == numbers[None, :]) & (terms[:, None] != NO_TERM)] = 1.0
        similarities[terms == NO_TERM] = 0.0
        yield block, similarities.astype(np.float32)


def word_match(words: QuestionTerms, rows: Rows, index: RetrievalIndex) -> NDArray[np.float32]:
    """Return how well each word of the question is matched in each of *rows*, labels too, shape (rows, words)."""
    terms, starts = index.text_terms(rows, labels=True)
    return _span_matches(words, terms, (starts, np.append(starts[1:], len(terms)) - 1), index)


def _span_matches(
    words: QuestionTerms, terms: NDArray[np.int64], spans: tuple[Rows, Rows], index: RetrievalIndex
) -> NDArray[np.float32]:
    """Return the best match of each word in each of *spans* of *terms*, shape (spans, words).

    *spans* are where each begins, ascending, and where it ends: at an end mark, or before the next term.
    """
    begin, stop = spans
    best = np.empty((len(begin), len(words.numbers)), dtype=np.float32)
    distinct, positions = renumber(terms, len(index.vocabulary))
    for block, similarities in term_similarities(words, distinct, index):
        size = _BLOCK_CELLS // similarities.shape[1]
        first = 0
        while first < len(begin):
            start = int(begin[first])
            last = max(first + 1, int(np.searchsorted(stop, start + size)))
            part = similarities[positions[start : int(stop[last - 1]) + 1]]
            bounds = np.stack([begin[first:last], stop[first:last]], axis=1).ravel() - start
            # every other span lies between two of those asked for
            best[first:last, block] = np.maximum.reduceat(part, bounds, axis=0)[::2]
            first = last
    return best


def text_match(words: QuestionTerms, rows: Rows, index: RetrievalIndex) -> tuple[Floats, Floats, Floats]:
    """Return the weighted match of each of *rows*: of its best sentence, its best ``PASSAGE_WORDS`` words in a row, and
    the whole text.
    """
    terms, starts = index.text_terms(rows)
    firsts, ends = sentence_bounds(terms)
    begin, stop = _passage_bounds(firsts, ends)
    by_passage = _span_matches(words, terms, (begin, stop), index)
    by_sentence = np.maximum.reduceat(by_passage, np.searchsorted(begin, firsts), axis=0)
    first_sentences = np.searchsorted(firsts, starts)
    whole = weighted_sum(np.maximum.reduceat(by_sentence, first_sentences, axis=0), words)
    sentence = np.maximum.reduceat(weighted_sum(by_sentence, words), first_sentences)
    passage = np.maximum.reduceat(weighted_sum(by_passage, words), np.searchsorted(begin, starts))
    return sentence, passage, whole


def sentence_bounds(terms: NDArray[np.int64]) -> tuple[Rows, Rows]:
    """Return the positions in ``RetrievalIndex.text_terms`` at which each sentence begins, and of its end mark."""
    ends = np.flatnonzero(terms == NO_TERM)
    return np.concatenate([[0], ends[:-1] + 1]), ends


def _passage_bounds(firsts: Rows, ends: Rows) -> tuple[Rows, Rows]:
    """Cut sentences into passages of at most ``PASSAGE_WORDS`` words, each half over the one before it."""
    step = PASSAGE_WORDS // 2
    counts = np.maximum(-(-(ends - firsts - PASSAGE_WORDS) // step), 0) + 1
    numbers = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    begin = np.repeat(firsts, counts) + numbers * step
    return begin, np.minimum(begin + PASSAGE_WORDS, np.repeat(ends, counts))


def pair_match(words: QuestionTerms, rows: Rows, index: RetrievalIndex) -> Floats:
    """Return for each of *rows* the weighted share of neighbouring question words that are neighbours there, in [0, 1].

    They may stand in either order, in one sentence; stop words between them do not count.
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
        adjacent = ((terms[:-1] == a) & (terms[1:] == b)) | ((terms[:-1] == b) & (terms[1:] == a))
        shares[sorted_distinct(owners[adjacent])] += weight
    return np.asarray(shares / weights.sum())


def exact_match_shares(scores: Floats, words: QuestionTerms) -> Floats:
    """Return BM25 *scores* for the question of *words* as shares of the highest possible score, in [0, 1]."""
    highest = words.total_weight * (BM25_K1 + 1)
    return np.clip(scores / highest, 0.0, 1.0) if highest > 0 else np.zeros(len(scores))


def weighted_sum(match: NDArray[np.float32], words: QuestionTerms) -> Floats:
    """Return the sum of each row's matches by the weights of the words; a row's sum does not depend on other rows."""
    sums, size = np.empty(len(match)), max(1, _BLOCK_CELLS // max(match.shape[1], 1))
    for start in range(0, len(match), size):
        sums[start : start + size] = (match[start : start + size] * words.weights).sum(axis=1)
    return sums


def question_similarity(
    words: QuestionTerms, answered: Rows, index: RetrievalIndex, frequencies: TermFrequencies
) -> Floats:
    """Return the similarity of the questions in each of the rows *answered* with that of *words*, in [0, 1].

    It is the cosine of sums by idf: of word vectors, or without them of the words themselves. 0 for ``NO_ROW``, and for
    a row that asks nothing.
    """
    similarities = np.zeros(len(answered))
    rows = sorted_distinct(answered[answered != NO_ROW])
    rows = rows[index.columns["question_bits"][rows] != 0]
    if not len(rows) or not len(words.numbers):
        return similarities
    terms, owners = _question_terms(rows, index)
    if not len(terms):
        return similarities
    distinct, positions = renumber(terms, len(index.vocabulary))
    weights = frequencies.idf([index.vocabulary.term(number) for number in distinct.tolist()])
    starts = np.flatnonzero(np.append(True, owners[1:] != owners[:-1]))  # owners ascend
    asking = owners[starts]
    if words.vectors is None:
        shared = np.where(terms[:, None] == words.numbers[None, :], words.weights, 0.0).sum(axis=1) * weights[positions]
        inner = np.add.reduceat(shared, starts)
        squares = np.add.reduceat(weights[positions] ** 2, starts) * (words.weights**2).sum()
    else:
        vectors = index.vectors.unit(distinct) * weights[:, None]
        question = (words.vectors * words.weights[:, None]).sum(axis=0)
        sums = np.add.reduceat(vectors[positions], starts, axis=0)
        inner = (sums * question).sum(axis=1)
        squares = (sums * sums).sum(axis=1) * (question * question).sum()
    cosines = np.maximum(inner / np.maximum(np.sqrt(squares), _EPSILON), 0.0)
    is_asking = np.isin(answered, rows[asking])
    similarities[is_asking] = cosines[np.searchsorted(rows[asking], answered[is_asking])]
    return similarities


def _question_terms(rows: Rows, index: RetrievalIndex) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the terms of the questions in *rows*, and the position in *rows* of each.

    Each term comes once a row, in the order of the text.
    """
    terms, starts = index.text_terms(rows)
    firsts, ends = sentence_bounds(terms)
    owners = np.searchsorted(starts, firsts, side="right") - 1
    numbers = np.minimum(np.arange(len(firsts)) - np.searchsorted(firsts, starts)[owners], MAX_SENTENCES)
    asks = (index.columns["question_bits"][rows][owners] >> numbers) & 1
    in_question = np.repeat(asks == 1, ends - firsts + 1) & (terms != NO_TERM)
    term_owners = np.repeat(owners, ends - firsts + 1)[in_question]
    terms = terms[in_question]
    keys = term_owners * (len(index.vocabulary) + 1) + terms
    order = np.argsort(keys, kind="stable")
    first_positions = np.sort(order[np.append(True, keys[order][1:] != keys[order][:-1])[: len(order)]])
    return terms[first_positions], term_owners[first_positions]


def sentence_similarity(
    words: QuestionTerms, rows: Rows, index: RetrievalIndex, frequencies: TermFrequencies
) -> Floats:
    """Return for each of *rows* the cosine of its best sentence with the question, not below 0.

    Both are sums of centred word vectors by idf. 0 everywhere without word vectors.
    """
    lowest = np.zeros(len(rows))
    if words.vectors is None or not len(rows):
        return lowest
    terms, starts = index.text_terms(rows)
    distinct, positions = renumber(terms, len(index.vocabulary))
    weights = frequencies.idf([index.vocabulary.term(number) for number in distinct.tolist()])
    vectors = index.vectors.unit(distinct) * weights[:, None]
    question = (words.vectors * words.weights[:, None]).sum(axis=0)
    firsts, _ = sentence_bounds(terms)
    sums = np.add.reduceat(vectors[positions], firsts, axis=0)
    lengths = np.sqrt((sums * sums).sum(axis=1) * (question * question).sum())
    cosines = (sums * question).sum(axis=1) / np.maximum(lengths, _EPSILON)
    return np.maximum(np.maximum.reduceat(cosines, np.searchsorted(firsts, starts)), lowest)
