"""The order of turns inside their sessions: who comes before and after, and which question a turn may
answer.

A turn may answer the last question in the run of turns of someone else just before its own run. Appending
costs the same however long the session is; a late arrival relinks what follows it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TypeAlias

import numpy as np

from memory.recall.growing import Growing

Place: TypeAlias = tuple[float, int, str]
NO_ROW = -1


class Order:
    """Links between rows, kept as arrays: ``before``, ``after`` and ``answers`` hold a row or ``NO_ROW``."""

    def __init__(self) -> None:
        self.before = Growing(np.int32)
        self.after = Growing(np.int32)
        self.answers = Growing(np.int32)
        self._asked = Growing(np.int32)
        self._speaker = Growing(np.int32)
        self._asks = Growing(np.bool_)
        self._placed: dict[int, list[tuple[Place, int]]] = {}

    def add(self, session: int, place: Place | None, *, speaker: int, asks: bool) -> None:
        """Add the next row; without a session or a place it has no neighbours."""
        row = len(self.before)
        for column in (self.before, self.after, self.answers, self._asked):
            column.append(NO_ROW)
        self._speaker.append(speaker)
        self._asks.append(asks)
        if session < 0 or place is None:
            return
        placed = self._placed.setdefault(session, [])
        at = len(placed)
        if placed and (place, row) < placed[-1]:
            at = bisect_left(placed, (place, row))
            insort(placed, (place, row))
        else:
            placed.append((place, row))
        self._relink(placed, at)

    def remove(self, row: int, session: int, place: Place | None) -> None:
        """Take *row* out; its neighbours become each other's."""
        if session < 0 or place is None:
            return
        placed = self._placed[session]
        at = bisect_left(placed, (place, row))
        del placed[at]
        if not placed:
            del self._placed[session]
        for column in (self.before, self.after, self.answers):
            column.values[row] = NO_ROW
        self._relink(placed, at)

    def _relink(self, placed: list[tuple[Place, int]], start: int) -> None:
        before, after, answers, asked = (
            column.values for column in (self.before, self.after, self.answers, self._asked)
        )
        speaker, asks = self._speaker.values, self._asks.values
        previous = placed[start - 1][1] if start else NO_ROW
        for _, row in placed[start:]:
            same = previous >= 0 and speaker[row] == speaker[previous]
            before[row] = previous
            if previous >= 0:
                after[previous] = row
                answers[row] = answers[previous] if same else asked[previous]
            else:
                answers[row] = NO_ROW
            asked[row] = row if asks[row] else asked[previous] if same else NO_ROW
            previous = row
        if previous >= 0:
            after[previous] = NO_ROW
