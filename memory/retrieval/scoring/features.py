"""Features of a conversation turn beyond its words: pure functions of the question and columns of the index.

Each returns one value per row; weighing them is the scorer's business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.index.participants import NOBODY
from memory.retrieval.index.record import TextFeature
from memory.retrieval.index.record_batch import NO_SESSION
from memory.retrieval.index.retrieval_index import RetrievalIndex
from memory.retrieval.index.vocabulary import NO_TERM
from memory.retrieval.languages.dates import date_match
from memory.retrieval.scoring.question import AnalyzedQuestion
from vectorstore.internals import idf

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
_FEEDBACK_TERMS = 10


def speaker_match(index: RetrievalIndex, rows: Rows, question: AnalyzedQuestion) -> Floats:
    """1 where the question names the speaker; nothing where there is but one speaker."""
    if not question.people or len(index.people.present()) < 2:
        return np.zeros(len(rows))
    return np.isin(index.speaker.rows[rows], question.people).astype(np.float64)


def participant_share(index: RetrievalIndex, rows: Rows, question: AnalyzedQuestion) -> Floats:
    """The share of those the question names who take part in the session; of a single memory, its speaker."""
    if not question.people:
        return np.zeros(len(rows))
    sessions = index.session.rows[rows]
    speakers = index.speaker.rows[rows]
    alone = sessions == NO_SESSION
    size = int(sessions.max(initial=-1)) + 1
    total = np.zeros(len(rows))
    for person in question.people:
        there = index.people.sessions(person, index.session_count)[:size] if size else np.zeros(0, dtype=np.bool_)
        total[~alone] += there[sessions[~alone]]
    share = total / len(question.people)
    share[alone] = (speakers[alone] == NOBODY) | np.isin(speakers[alone], question.people)
    return np.asarray(share)


def date_fit(index: RetrievalIndex, rows: Rows, question: AnalyzedQuestion) -> Floats:
    """How well a date that the question names fits the day on which each was said, or the day it speaks of."""
    said = date_match(index.day.rows[rows], question.dates)
    return np.maximum(said, date_match(index.about.rows[rows], question.dates))


def has_text_feature(index: RetrievalIndex, rows: Rows, wanted: TextFeature) -> Floats:
    """1 where the text shows the cue."""
    return np.asarray((index.cues.rows[rows] & int(wanted)) != 0, dtype=np.float64)


def relevance_feedback(
    index: RetrievalIndex, rows: Rows, best: Rows, df: Callable[[Sequence[str]], list[int]], count: int
) -> Floats:
    """The share of the weightiest words of the *best* turns, in order, that each of *rows* holds.

    A word weighs its idf by the place of each of the best that hold it.
    """
    weights: Counter[int] = Counter()
    terms_of = [sorted(set(index.text_terms(best[at : at + 1])[0].tolist()) - {NO_TERM}) for at in range(len(best))]
    every = sorted({term for terms in terms_of for term in terms})
    weight_of = {
        term: idf(count, df_of)
        for term, df_of in zip(every, df([index.stems.name(term) for term in every]), strict=True)
    }
    for place, terms in enumerate(terms_of, 1):
        for term in terms:
            weights[term] += weight_of[term] / place  # type: ignore[assignment]  # a Counter of floats
    ranked = sorted(weights, key=lambda term: (-weights[term], index.stems.name(term)))[:_FEEDBACK_TERMS]
    terms_there, starts = index.text_terms(rows)
    share = np.zeros(len(rows))
    for term in ranked:
        share += np.maximum.reduceat(terms_there == term, starts)
    return np.asarray(share / max(len(ranked), 1))


def scale_to_maximum(values: Floats) -> Floats:
    """Return *values* divided by the largest, at least -1; all zero where none is above 0.

    Where all are near 0, the largest must not blow up one that is a little below.
    """
    top = float(values.max(initial=0.0))
    return np.maximum(values / top, -1.0) if top > 0 else np.zeros(len(values))
