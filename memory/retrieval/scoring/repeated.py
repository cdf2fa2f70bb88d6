"""Repeated statements: what a person says again, with no word that was not in the first saying, follows the first.

Only turns of a conversation with an assistant are compared: between people, words that repeat may answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tellback.memory.retrieval.index.record_batch import NO_SESSION
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.index.vocabulary import NO_TERM
from tellback.memory.retrieval.scoring.scores import top_positions

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
_COMPARED_STATEMENTS = 16
_MIN_TERMS = 2
"""Terms of a repetition; a single word may answer another question."""
_TIE_STEP = 1e-6


def repetition_scores(
    index: RetrievalIndex, rows: Rows, ids: Sequence[str], totals: Floats
) -> tuple[Floats, dict[int, int]]:
    """Return what is taken off each row's score, and for each repetition the position of the first saying.

    *totals* are the scores so far; a repetition that scored higher than the first saying comes right behind it.
    """
    change = np.zeros(len(rows))
    first_of: dict[int, int] = {}
    columns = index.columns
    best = [i for i in top_positions(ids, totals, _COMPARED_STATEMENTS) if columns["session"][rows[i]] != NO_SESSION]
    if len(best) < 2:
        return change, first_of
    text_terms, starts = index.text_terms(rows[best])
    sets = (frozenset(of_text.tolist()) - {NO_TERM} for of_text in np.split(text_terms, starts[1:]))
    terms = dict(zip(best, sets, strict=True))
    ordered = sorted(best, key=lambda i: (int(columns["occurred_at"][rows[i]]), index.turn(int(rows[i])), ids[i]))
    for place, i in enumerate(ordered):
        if len(terms[i]) < _MIN_TERMS or index.between_people(int(columns["session"][rows[i]])):
            continue
        speaker = columns["speaker"][rows[i]]
        first = next(
            (j for j in ordered[:place] if columns["speaker"][rows[j]] == speaker and terms[i] <= terms[j]), None
        )
        if first is not None:
            first_of[i] = first
            change[i] = min(0.0, float(totals[first] + change[first] - totals[i]) - _TIE_STEP)
    return change, first_of
