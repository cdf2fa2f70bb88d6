"""The neighbour window of a turn: matches and scores of neighbouring turns count in part. Arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.index.turn_links import NO_ROW, TurnLinks

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NeighbourWindow:
    """Rows, and for each the row one before, one after, two before and two after, and the question it may
    answer.

    ``NO_ROW`` where there is none in its session.
    """

    rows: Rows
    sides: tuple[Rows, Rows, Rows, Rows]
    answers: Rows

    def every(self) -> Rows:
        """Return all rows named, once each, in order of their number."""
        found = np.unique(np.concatenate([self.rows, *self.sides, self.answers]))
        return np.asarray(found[found != NO_ROW])

    def without(self, hidden: NDArray[np.bool_]) -> NeighbourWindow:
        """Return the same without neighbours that are *hidden* (one value a row number)."""
        first, second, third, fourth = (_without_hidden(side, hidden) for side in self.sides)
        return NeighbourWindow(self.rows, (first, second, third, fourth), _without_hidden(self.answers, hidden))


def neighbour_window(order: TurnLinks, rows: Rows) -> NeighbourWindow:
    """Return the surroundings of *rows*."""
    before, after, answers = order.before.rows, order.after.rows, order.answers.rows
    one_before, one_after = _linked_rows(before, rows), _linked_rows(after, rows)
    sides = (one_before, one_after, _linked_rows(before, one_before), _linked_rows(after, one_after))
    return NeighbourWindow(rows, sides, _linked_rows(answers, rows))


def smooth_word_matches(
    match: NDArray[np.float32], surroundings: NeighbourWindow, place: Rows, parts: Sequence[float]
) -> NDArray[np.float32]:
    """Return for each row and word the best of its own match, its neighbours' in *parts*, and its question's.

    *match* has a row for each that *place* points to, and a last one of zeros for ``NO_ROW``.
    """
    best = match[place[surroundings.rows]]
    for part, side in zip(parts, surroundings.sides, strict=True):
        best = np.maximum(best, np.float32(part) * match[place[side]])
    return np.asarray(np.maximum(best, match[place[surroundings.answers]]))


def smooth_scores(
    scores: NDArray[np.float64], surroundings: NeighbourWindow, place: Rows, parts: Sequence[float]
) -> NDArray[np.float64]:
    """Return each row's score with its neighbours' added in *parts*; *scores* and *place* as for the
    words.
    """
    total = scores[place[surroundings.rows]]
    for part, side in zip(parts, surroundings.sides, strict=True):
        total = total + part * scores[place[side]]
    return np.asarray(total)


def row_positions(rows: Rows, size: int) -> Rows:
    """Return where each row number stands among *rows*; the place after the last for all others,
    ``NO_ROW`` too.
    """
    place = np.full(size + 1, len(rows), dtype=np.int64)
    place[rows] = np.arange(len(rows))
    return place


def _linked_rows(links: NDArray[np.int32], rows: Rows) -> Rows:
    return np.where(rows == NO_ROW, NO_ROW, links[rows]).astype(np.int64)


def _without_hidden(rows: Rows, hidden: NDArray[np.bool_]) -> Rows:
    return np.where((rows != NO_ROW) & ~hidden[rows], rows, NO_ROW)
