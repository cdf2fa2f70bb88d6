"""Recall in documents: the best sentence of a chunk, its words, BM25 and cosine. No window, no session,
no cues.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memory.lanes import DOCUMENTS
from memory.recall.confidence import topic
from memory.recall.index import Index
from memory.recall.matching import pair_match, sentence_match, words_of
from memory.recall.question import Question
from memory.recall.scored import Scored
from memory.recall.settings import DocumentWeights
from memory.recall.signals import largest_to_one
from vectorstore import Vector, View

_COVERAGE = 0.75


def score_documents(
    view: View,
    namespace: str,
    index: Index,
    rows: NDArray[np.int64],
    question: Question,
    vector: Vector | None,
    *,
    weights: DocumentWeights,
) -> Scored:
    """Score *rows* of *index* for *question*."""
    ids = [index.ids[row] for row in rows.tolist()]

    def df(terms: Sequence[str]) -> list[int]:
        return view.df(terms, namespace=namespace)

    words = words_of(question, index, df, view.count(namespace=namespace))
    sentence = whole = pairs = np.zeros(len(rows))
    if len(words.numbers) and len(rows):
        sentence, whole = sentence_match(words, rows, index)
        pairs = pair_match(words, rows, index)
    cosine = np.zeros(len(rows))
    if vector is not None:
        cosine = np.nan_to_num(view.similarity(vector, ids, namespace=namespace))
    parts = {
        "sentence": weights.sentence * largest_to_one(sentence),
        "words": weights.words * largest_to_one(whole),
        "pairs": weights.pairs * pairs,
        "text": weights.text * largest_to_one(view.score_text(question.text, ids, namespace=namespace)),
        "cosine": weights.cosine * largest_to_one(cosine),
    }
    coverage = float(sentence.max(initial=0.0)) / words.total if words.total > 0 else 0.0
    nearest = None if vector is None else float(cosine.max(initial=0.0))
    return Scored(namespace, DOCUMENTS, tuple(ids), parts, topic(coverage, nearest, words=_COVERAGE))
