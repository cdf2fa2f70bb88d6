"""Candidates for scoring: the best memories by BM25, by vector and by date, with their neighbouring turns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.index.retrieval_index import RetrievalIndex
from memory.retrieval.index.turn_links import NO_ROW
from memory.retrieval.index.validity import ValidityFilter
from memory.retrieval.scoring.features import date_fit
from memory.retrieval.scoring.neighbour_window import neighbour_window
from memory.retrieval.scoring.question import AnalyzedQuestion
from vectorstore import Filter, Vector, View

Rows = NDArray[np.int64]
_MIN_DATE_FIT = 0.7
"""A date that fits less well names no candidate by itself: every memory of that year would be one."""


def text_and_vector_candidates(
    view: View, namespace: str, *, text: str, vector: Vector | None, count: int, where: Filter | None
) -> list[str]:
    """Return the ids of the *count* best by BM25 of *text* and the *count* nearest to *vector*."""
    found = dict.fromkeys(one for one, _ in view.matching(text, count, where=where, namespace=namespace))
    if vector is not None:
        found.update(dict.fromkeys(one for one, _ in view.nearest(vector, count, where=where, namespace=namespace)))
    return list(found)


def date_candidates(index: RetrievalIndex, question: AnalyzedQuestion, count: int) -> Rows:
    """Return the *count* rows that fit a date of *question* best, the latest first among equals; none that do not."""
    if not question.dates:
        return np.zeros(0, dtype=np.int64)
    rows = np.flatnonzero(index.alive.rows)
    fit = date_fit(index, rows, question)
    rows, fit = rows[fit >= _MIN_DATE_FIT], fit[fit >= _MIN_DATE_FIT]
    latest_first = np.lexsort((-index.day.rows[rows], -fit))[:count]
    return np.asarray(rows[latest_first], dtype=np.int64)


def add_neighbours(
    index: RetrievalIndex,
    rows: Rows,
    *,
    standing: ValidityFilter,
    passing: Callable[[list[str]], NDArray[np.bool_]] | None = None,
) -> Rows:
    """Return *rows* and the two turns before and after each, in order of their number.

    Those that do not stand are left out, and those that *passing* refuses.
    """
    surroundings = neighbour_window(index.order, rows)
    every = np.unique(np.concatenate([rows, *surroundings.sides]))
    every = every[every != NO_ROW]
    every = every[~standing.hidden(index, every)]
    if passing is not None and len(every):
        every = every[passing([index.ids[row] for row in every.tolist()])]
    return np.asarray(every)
