"""The scorer of document chunks: best passage, words, word pairs, sentence similarity, BM25 and cosine.

Neighbours, sessions and the text features of turns do not count here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memory.partitions import DOCUMENTS
from memory.retrieval.index.retrieval_index import Index
from memory.retrieval.scoring.confidence import about, of_words
from memory.retrieval.scoring.features import largest_to_one
from memory.retrieval.scoring.question import Question
from memory.retrieval.scoring.scores import Scored, at_least_kth, summed
from memory.retrieval.scoring.settings import DocumentWeights, Doubt
from memory.retrieval.scoring.soft_matching import (
    TextMatch,
    exact_shares,
    pair_match,
    sentence_meaning,
    text_match,
    words_of,
)
from vectorstore import Vector, View

_LOOKED_INTO = 32
"""Candidates whose sentences are looked into: those that could still come first."""


def score_documents(
    view: View,
    namespace: str,
    index: Index,
    rows: NDArray[np.int64],
    question: Question,
    vector: Vector | None,
    *,
    weights: DocumentWeights,
    doubt: Doubt,
) -> Scored:
    """Score *rows* of *index* for *question*."""
    ids = [index.ids[row] for row in rows.tolist()]

    def df(terms: Sequence[str]) -> list[int]:
        return view.df(terms, namespace=namespace)

    count = view.count(namespace=namespace)
    words = words_of(question, index, df, count)
    asked = len(words.numbers) > 0 and len(rows) > 0
    none = np.zeros(len(rows))
    match = text_match(words, rows, index) if asked else TextMatch(none, none, none)
    own = None if vector is None else view.similarity(vector, ids, namespace=namespace)
    cosine = none if own is None else np.nan_to_num(own)
    text = view.score_text(question.text, ids, namespace=namespace)
    parts = {
        "passage": weights.passage * largest_to_one(match.passage),
        "words": weights.words * largest_to_one(match.whole),
        "pairs": weights.pairs * (pair_match(words, rows, index) if asked else none),
        "text": weights.text * largest_to_one(text),
        "cosine": weights.cosine * largest_to_one(cosine),
    }
    if asked and weights.meaning:
        likely = at_least_kth(summed(parts, len(rows)), _LOOKED_INTO)
        meaning = np.zeros(len(rows))
        meaning[likely] = sentence_meaning(words, rows[likely], index, df, count)
        parts["meaning"] = weights.meaning * largest_to_one(meaning)
    topic = about(
        match.sentence / words.total if words.total > 0 else none,
        exact_shares(text, words),
        own,
        more=of_words(words.bounded, words.seen, question.named, documents=True),
        bounds=doubt.of_documents(count),
    )
    return Scored(namespace, DOCUMENTS, tuple(ids), parts, topic)
