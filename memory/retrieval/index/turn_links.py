"""Links between the turns of a session: the turn before, the turn after, and the question that a turn may answer.

A turn may answer the last question in the run of turns of another speaker just before its own run. Appending a turn
costs the same however long the session is; a late arrival or a removal relinks the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tellback.memory.retrieval.index.record import TextFeature
from tellback.memory.retrieval.index.record_batch import NO_SESSION, RecordColumns
from tellback.vectorstore.internals import GrowableArray

Rows: TypeAlias = NDArray[np.int64]
NO_ROW = -1
_ORDER = ("session", "sequence", "occurred_at")
_MAX_SINGLE_LINKS = 4
"""New turns at the end of a session that are linked one by one; more are cheaper to link with the whole session."""


class TurnLinks:
    """Links between rows in columns: ``before``, ``after`` and ``answers`` have a row or ``NO_ROW``.

    *columns* (``RECORD_DTYPE``) and *ids* are those of all rows. A turn's position in its session is its sequence
    number, then its time, then its id.
    """

    def __init__(self, columns: RecordColumns, ids: Sequence[str]) -> None:
        self.before = GrowableArray(np.int32)
        self.after = GrowableArray(np.int32)
        self.answers = GrowableArray(np.int32)
        self._open_question = GrowableArray(np.int32)
        self._columns = columns
        self._ids = ids
        self._sessions: dict[int, list[int]] = {}

    def extend(self) -> None:
        """Add the next rows of the columns; one without a session, or that is not placed, has no neighbours."""
        first = len(self.before)
        added = self._columns.rows[first:]
        for column in (self.before, self.after, self.answers, self._open_question):
            column.extend(np.full(len(added), NO_ROW, dtype=np.int32))
        new = np.flatnonzero(added["placed"] & (added["session"] != NO_SESSION))
        if not len(new):
            return
        rows = self._sorted(new + first)
        sessions = added["session"][rows - first]
        cuts = np.flatnonzero(sessions[1:] != sessions[:-1]) + 1
        relinked = []
        for session, group in zip(sessions[np.append(0, cuts)].tolist(), np.split(rows, cuts), strict=True):
            if not self._append_to(session, group.tolist()):
                relinked.append(self._sessions[session])
        if relinked:
            self._link(relinked)

    def remove(self, row: int) -> None:
        """Remove *row*; its neighbours are linked with each other."""
        session = int(self._columns.rows["session"][row])
        turns = self._sessions.get(session)
        if turns is None or row not in turns:
            return
        turns.remove(row)
        for column in (self.before, self.after, self.answers):
            column.rows[row] = NO_ROW
        if turns:
            self._link([turns])
        else:
            del self._sessions[session]

    def _position(self, row: int) -> tuple[float, int, str]:
        columns = self._columns.rows
        return (float(columns["sequence"][row]), int(columns["occurred_at"][row]), self._ids[row])

    def _sorted(self, rows: Rows) -> Rows:
        """Return *rows* by session and position; ids are compared only where all else is equal."""
        sessions, sequence, occurred = (self._columns.rows[name][rows] for name in _ORDER)
        order = np.lexsort((occurred, sequence, sessions))
        rows, keys = rows[order], np.stack([sessions[order], sequence[order], occurred[order]])
        is_tied = np.append((keys[:, 1:] == keys[:, :-1]).all(axis=0), False)
        start = 0
        while start < len(rows) and is_tied[start:].any():
            start += int(np.argmax(is_tied[start:]))
            end = start + int(np.argmin(is_tied[start:])) + 1
            rows[start:end] = sorted(rows[start:end].tolist(), key=lambda row: self._ids[row])
            start = end
        return rows

    def _append_to(self, session: int, rows: list[int]) -> bool:
        """Add *rows* to the turns of *session*; return whether they are linked already."""
        turns = self._sessions.setdefault(session, [])
        is_end = not turns or self._position(rows[0]) > self._position(turns[-1])
        few = is_end and len(rows) <= _MAX_SINGLE_LINKS
        for row in rows if few else ():
            self._link_last(turns[-1] if turns else NO_ROW, row)
            turns.append(row)
        if not few:
            turns.extend(rows)
        if not is_end:
            turns.sort(key=self._position)
        return few

    def _link_last(self, previous: int, row: int) -> None:
        """Link *row* as the turn after *previous*, the last turn of its session so far (``NO_ROW``: there is none)."""
        open_question, answers, speaker = self._open_question.rows, self.answers.rows, self._columns.rows["speaker"]
        same_run = previous >= 0 and speaker[row] == speaker[previous]
        if previous >= 0:
            self.before.rows[row] = previous
            self.after.rows[previous] = row
            answers[row] = answers[previous] if same_run else open_question[previous]
        if self._columns.rows["text_features"][row] & TextFeature.ASKS:
            open_question[row] = row
        else:
            open_question[row] = open_question[previous] if same_run else NO_ROW

    def _link(self, sessions: Sequence[Sequence[int]]) -> None:
        """Link all turns of whole sessions, each given by its rows in order."""
        rows = np.array([row for turns in sessions for row in turns], dtype=np.int64)
        opening = np.zeros(len(rows), dtype=np.bool_)
        opening[np.cumsum([0, *map(len, sessions[:-1])])] = True
        closing = np.append(opening[1:], True)
        self.before.rows[rows] = np.where(opening, NO_ROW, np.roll(rows, 1))
        self.after.rows[rows] = np.where(closing, NO_ROW, np.roll(rows, -1))
        speakers, features = (self._columns.rows[name][rows] for name in ("speaker", "text_features"))
        positions = np.arange(len(rows))
        begins_run = opening | (speakers != np.roll(speakers, 1))
        run = np.maximum.accumulate(np.where(begins_run, positions, 0))
        last_question = np.maximum.accumulate(np.where(features & TextFeature.ASKS, positions, NO_ROW))
        open_question = np.where(last_question >= run, rows[last_question], NO_ROW)
        self._open_question.rows[rows] = open_question
        self.answers.rows[rows] = np.where(opening[run], NO_ROW, open_question[run - 1])
