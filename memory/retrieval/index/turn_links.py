"""Links between the turns of a session: the turn before, the turn after, and the question that a turn may answer.

A turn may answer the last question in the run of turns of another speaker just before its own run. Appending a turn
costs the same however long the session is; a late arrival or a removal relinks the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vectorstore.internals import GrowableArray

TurnPosition: TypeAlias = tuple[float, int, str]
Rows: TypeAlias = NDArray[np.int64]
NO_ROW = -1
_MAX_SINGLE_LINKS = 4
"""So many new turns at the end of a session are linked one by one; more are cheaper together with all before them."""


class TurnLinks:
    """Links between rows, kept as arrays: ``before``, ``after`` and ``answers`` hold a row or ``NO_ROW``.

    A row's place is its sequence, then its time, then its id: *occurred* and *ids* hold those of all rows.
    """

    def __init__(self, occurred: GrowableArray[np.int64], ids: Sequence[str]) -> None:
        self.before = GrowableArray(np.int32)
        self.after = GrowableArray(np.int32)
        self.answers = GrowableArray(np.int32)
        self.sequence = GrowableArray(np.float64)
        self._asked = GrowableArray(np.int32)
        self._speaker = GrowableArray(np.int32)
        self._asks = GrowableArray(np.bool_)
        self._occurred = occurred
        self._ids = ids
        self._lines: dict[int, list[int]] = {}

    def extend(
        self,
        sessions: NDArray[np.int32],
        *,
        placed: NDArray[np.bool_],
        sequence: NDArray[np.float64],
        speakers: NDArray[np.int32],
        asks: NDArray[np.bool_],
    ) -> None:
        """Add the next rows; one without a session (below 0), or not *placed*, has no neighbours."""
        first = len(self.before)
        for column in (self.before, self.after, self.answers, self._asked):
            column.extend(np.full(len(sessions), NO_ROW, dtype=np.int32))
        self.sequence.extend(sequence)
        self._speaker.extend(speakers)
        self._asks.extend(asks)
        new = np.flatnonzero(placed & (sessions >= 0))
        if not len(new):
            return
        rows = self._sorted(new + first, sessions[new])
        of_row = sessions[rows - first]
        cuts = np.flatnonzero(of_row[1:] != of_row[:-1]) + 1
        relinked = []
        for session, group in zip(of_row[np.append(0, cuts)].tolist(), np.split(rows, cuts), strict=True):
            if not self._appended(session, group.tolist()):
                relinked.append(self._lines[session])
        if relinked:
            self._link(relinked)

    def remove(self, row: int, session: int) -> None:
        """Take *row* out; its neighbours become each other's."""
        line = self._lines.get(session)
        if line is None or row not in line:
            return
        line.remove(row)
        for column in (self.before, self.after, self.answers):
            column.rows[row] = NO_ROW
        if line:
            self._link([line])
        else:
            del self._lines[session]

    def _place(self, row: int) -> TurnPosition:
        return (float(self.sequence.rows[row]), int(self._occurred.rows[row]), self._ids[row])

    def _sorted(self, rows: Rows, sessions: NDArray[np.int32]) -> Rows:
        """Return *rows* by session and place; ids are looked at only where all else is equal."""
        sequence, occurred = self.sequence.rows[rows], self._occurred.rows[rows]
        order = np.lexsort((occurred, sequence, sessions))
        rows, keys = rows[order], np.stack([sessions[order], sequence[order], occurred[order]])
        same = np.append((keys[:, 1:] == keys[:, :-1]).all(axis=0), False)
        at = 0
        while at < len(rows) and same[at:].any():
            at += int(np.argmax(same[at:]))
            end = at + int(np.argmin(same[at:])) + 1
            rows[at:end] = sorted(rows[at:end].tolist(), key=lambda row: self._ids[row])
            at = end
        return rows

    def _appended(self, session: int, rows: list[int]) -> bool:
        """Put *rows* into the line of *session*; say whether they are linked already."""
        line = self._lines.setdefault(session, [])
        behind = not line or self._place(rows[0]) > self._place(line[-1])
        few = behind and len(rows) <= _MAX_SINGLE_LINKS
        for row in rows if few else ():
            self._append(line[-1] if line else NO_ROW, row)
            line.append(row)
        if not few:
            line.extend(rows)
        if not behind:
            line.sort(key=self._place)
        return few

    def _append(self, previous: int, row: int) -> None:
        asked, answers, speaker = self._asked.rows, self.answers.rows, self._speaker.rows
        same = previous >= 0 and speaker[row] == speaker[previous]
        if previous >= 0:
            self.before.rows[row] = previous
            self.after.rows[previous] = row
            answers[row] = answers[previous] if same else asked[previous]
        asked[row] = row if self._asks.rows[row] else asked[previous] if same else NO_ROW

    def _link(self, lines: Sequence[Sequence[int]]) -> None:
        """Link the rows of whole sessions anew."""
        rows = np.array([row for line in lines for row in line], dtype=np.int64)
        opening = np.zeros(len(rows), dtype=np.bool_)
        opening[np.cumsum([0, *map(len, lines[:-1])])] = True
        closing = np.append(opening[1:], True)
        self.before.rows[rows] = np.where(opening, NO_ROW, np.roll(rows, 1))
        self.after.rows[rows] = np.where(closing, NO_ROW, np.roll(rows, -1))
        speakers = self._speaker.rows[rows]
        at = np.arange(len(rows))
        begins = opening | (speakers != np.roll(speakers, 1))
        run = np.maximum.accumulate(np.where(begins, at, 0))
        last = np.maximum.accumulate(np.where(self._asks.rows[rows], at, NO_ROW))
        asked = np.where(last >= run, rows[last], NO_ROW)
        self._asked.rows[rows] = asked
        self.answers.rows[rows] = np.where(opening[run], NO_ROW, asked[run - 1])
