"""The scorer of document chunks: best passage, words, word pairs, sentence similarity, BM25 and cosine.

Neighbours, sessions and the text features of turns do not count here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tellback.memory.retrieval.scoring.confidence import (
    TopicConfidence,
    abstention_bounds,
    question_bonus,
    topic_confidence,
)
from tellback.memory.retrieval.scoring.features import NamespaceQuery, scale_to_maximum
from tellback.memory.retrieval.scoring.scores import ScoredCandidates, positions_from_kth, sum_features
from tellback.memory.retrieval.scoring.settings import AbstentionBounds, Weights
from tellback.memory.retrieval.scoring.soft_matching import (
    exact_match_shares,
    pair_match,
    sentence_similarity,
    text_match,
    weigh_terms,
)

_RESCORED_CANDIDATES = 32
"""Candidates whose sentences are compared with the question: those that could still come first."""


def score_documents(
    query: NamespaceQuery, rows: NDArray[np.int64], *, weights: Weights, abstention: AbstentionBounds
) -> ScoredCandidates:
    """Score the chunks in *rows* of the index for the question."""
    index, question, frequencies = query.index, query.question, query.frequencies
    ids = query.ids(rows)
    words = weigh_terms(question, index, frequencies)
    has_words = len(words.numbers) > 0 and len(rows) > 0
    zeros = np.zeros(len(rows))
    sentence, passage, whole = text_match(words, rows, index) if has_words else (zeros, zeros, zeros)
    cosine_or_nan = query.cosines(rows)
    cosine = zeros if cosine_or_nan is None else np.nan_to_num(cosine_or_nan)
    text = query.text_scores(question.text, ids)
    parts = {
        "passage": weights["passage"] * scale_to_maximum(passage),
        "words": weights["words"] * scale_to_maximum(whole),
        "pairs": weights["pairs"] * (pair_match(words, rows, index) if has_words else zeros),
        "text": weights["text"] * scale_to_maximum(text),
        "cosine": weights["cosine"] * scale_to_maximum(cosine),
    }
    if has_words and weights["meaning"]:
        likely = positions_from_kth(sum_features(parts, len(rows)), _RESCORED_CANDIDATES)
        meaning = np.zeros(len(rows))
        meaning[likely] = sentence_similarity(words, rows[likely], index, frequencies)
        parts["meaning"] = weights["meaning"] * scale_to_maximum(meaning)
    topic = topic_confidence(
        sentence / words.total_weight if words.total_weight > 0 else zeros,
        exact_match_shares(text, words),
        cosine_or_nan,
        bonus=question_bonus(words.bounded_weights, words.seen, question.is_proper, documents=True),
        bounds=abstention_bounds(abstention, frequencies.count, documents=True),
    )
    is_near = TopicConfidence.of(topic, documents=True).is_near
    return ScoredCandidates(query.namespace, query.partition, tuple(ids), parts, topic, is_near=is_near)
