"""Attributes of people: statements that tell the name, home, work or age of who asks, or the same of somebody else.

"What is my name?" shares no word with "Hi, I'm Clara", nor "Where does Ana live?" with "My sister moved to Ghent". The
attribute that a statement tells, and of whom, is part of its analysis.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tellback.memory.retrieval.index.record import TextFeature
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.languages.question_time import TimeKind
from tellback.memory.retrieval.languages.statements import NOT_FACTUAL, StatementFeature, is_kin, people_of
from tellback.memory.retrieval.scoring.features import AnalyzedQuestion
from tellback.memory.retrieval.scoring.newer_statements import spoken_alone
from tellback.memory.retrieval.scoring.superseded import TIE_STEP, statement_times

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
THEIRS = StatementFeature.THEIR_HOME | StatementFeature.THEIR_WORK | StatementFeature.THEIR_AGE
_OWN = ~THEIRS
_LEAST_SCORE = 0.1
"""Best score where no other feature found anything."""


def tells_attribute(index: RetrievalIndex, rows: Rows, question: AnalyzedQuestion) -> NDArray[np.bool_]:
    """Return which of *rows* tell what *question* asks of its asker or a person, as a fact and in the asker's words."""
    if not question.own:
        return np.zeros(len(rows), dtype=np.bool_)
    columns = index.fields(rows)
    features = columns["statement_features"]
    tells = (features & int(question.own & _OWN)) != 0
    of_person = np.flatnonzero((features & int(question.own & THEIRS)) != 0)
    if len(of_person):
        # "my friend Anna" is no other friend
        names = [person for person in people_of(question.text) if not is_kin(person)]
        people = index.people.with_relations(names) if names else question.people
        tells[[i for i in of_person.tolist() if index.people.of(int(rows[i]))[0] in people]] = True
    tells &= (features & int(NOT_FACTUAL)) == 0
    tells &= (columns["text_features"] & int(TextFeature.ENDS_ASKING)) == 0
    return np.asarray(tells & spoken_alone(index, columns["speaker"]) & ~columns["assistant"])


def attribute_candidates(index: RetrievalIndex, question: AnalyzedQuestion, count: int) -> Rows:
    """Return the latest *count* rows that tell what *question* asks of its asker."""
    rows = np.flatnonzero(index.alive.rows) if question.own else np.zeros(0, dtype=np.int64)
    rows = rows[tells_attribute(index, rows, question)]
    return rows[np.argsort(-index.columns["day"][rows], kind="stable")[:count]]


def attribute_scores(
    index: RetrievalIndex, rows: Rows, ids: Sequence[str], question: AnalyzedQuestion, totals: Floats
) -> Floats:
    """Return the additions to the scores *totals* of *rows* by which those that tell it lead, in their order.

    A person has one name, home and work at a time: asked about now or a period, the newest leads.
    """
    change = np.zeros(len(rows))
    tells = np.flatnonzero(tells_attribute(index, rows, question)).tolist()
    by_time = question.time.kind == TimeKind.NOW or question.time.period is not None
    times = statement_times(index, rows) if by_time else np.zeros(len(rows), dtype=np.int64)
    last_first = sorted(tells, key=lambda i: (times[i], totals[i], ids[i]))
    best = max(float(totals.max(initial=0.0)), _LEAST_SCORE)
    for step, i in enumerate(last_first, 1):
        change[i] = best + step * TIE_STEP - totals[i]
    return change


def changed_attribute(index: RetrievalIndex, rows: Rows, tells: NDArray[np.bool_]) -> dict[int, int]:
    """Return the position of the newest statement for each older one, where it says that the attribute changed.

    *tells* is that of ``tells_attribute`` for *rows*.
    """
    positions = np.flatnonzero(tells)
    times = dict(zip(positions.tolist(), statement_times(index, rows[positions]).tolist(), strict=True))
    newest = max(times, key=times.__getitem__, default=None)
    if newest is None or not index.columns["statement_features"][rows[newest]] & int(StatementFeature.CHANGE):
        return {}
    return {i: newest for i, time in times.items() if time < times[newest]}
