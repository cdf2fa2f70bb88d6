"""Own attributes: statements that tell the name, the home or the work of the person who asks for it.

"What is my name?" shares no word with "Hi, I'm Clara". Which attribute a statement tells is part of its analysis.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.index.record import TextFeature
from memory.retrieval.index.retrieval_index import RetrievalIndex
from memory.retrieval.languages.question_time import TimeKind
from memory.retrieval.languages.statements import NOT_FACTUAL
from memory.retrieval.scoring.features import AnalyzedQuestion
from memory.retrieval.scoring.newer_statements import own_speakers
from memory.retrieval.scoring.superseded import TIE_STEP, statement_times

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
_LEAST_SCORE = 0.1
"""Best score where no other feature found anything."""


def tells_own(index: RetrievalIndex, rows: Rows, question: AnalyzedQuestion) -> NDArray[np.bool_]:
    """Return which of *rows* tell what *question* asks of its asker, as a fact and in their own words."""
    if not question.own:
        return np.zeros(len(rows), dtype=np.bool_)
    columns = index.fields(rows)
    features = columns["statement_features"]
    tells = ((features & int(question.own)) != 0) & ((features & int(NOT_FACTUAL)) == 0)
    tells &= (columns["text_features"] & int(TextFeature.ENDS_ASKING)) == 0
    return np.asarray(tells & np.isin(columns["speaker"], own_speakers(index)) & ~columns["assistant"])


def own_candidates(index: RetrievalIndex, question: AnalyzedQuestion, count: int) -> Rows:
    """Return the latest *count* rows that tell what *question* asks of its asker."""
    rows = np.flatnonzero(index.alive.rows) if question.own else np.zeros(0, dtype=np.int64)
    rows = rows[tells_own(index, rows, question)]
    return rows[np.argsort(-index.columns["day"][rows], kind="stable")[:count]]


def own_scores(
    index: RetrievalIndex, rows: Rows, ids: Sequence[str], question: AnalyzedQuestion, totals: Floats
) -> Floats:
    """Return by how much the scores *totals* of *rows* rise so that those which tell it lead, in their order.

    A person has one name, home and work at a time: asked about now or a period, the newest leads.
    """
    change = np.zeros(len(rows))
    tells = np.flatnonzero(tells_own(index, rows, question)).tolist()
    by_time = question.time.kind == TimeKind.NOW or question.time.period is not None
    times = statement_times(index, rows) if by_time else np.zeros(len(rows), dtype=np.int64)
    last_first = sorted(tells, key=lambda i: (times[i], totals[i], ids[i]))
    best = max(float(totals.max(initial=0.0)), _LEAST_SCORE)
    for step, i in enumerate(last_first, 1):
        change[i] = best + step * TIE_STEP - totals[i]
    return change
