"""What recall derives from one store namespace, in compact arrays: rows in and out, columns to compute on.

Pure: it reads no store (``following`` does). Equal rows give equal answers in whatever order they came. A
row that is replaced leaves a gap; when gaps are many, ``worn`` asks for the index to be built anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from memory.embedders.protocol import WordVectors
from memory.recall.cues import Cue
from memory.recall.growing import Growing
from memory.recall.order import Order, Place
from memory.recall.people import People
from memory.recall.rows import NEVER, Row
from memory.recall.session_terms import SessionTerms
from memory.recall.stems import NOTHING, Stems

NO_SESSION = -1
_WORN_FROM = 1000


class Index:
    """Rows by number; public columns are read by the signals, one value a row.

    *bounded* counts the rows that may not hold at some time or are disabled.
    """

    def __init__(self, word_vectors: WordVectors | None, stem: Callable[[str], Sequence[str]]) -> None:
        self.ids: list[str] = []
        self.stems = Stems(word_vectors, stem)
        self.order = Order()
        self.people = People()
        self.session_terms = SessionTerms()
        self.alive = Growing(np.bool_)
        self.session = Growing(np.int32)
        self.speaker = Growing(np.int32)
        self.assistant = Growing(np.bool_)
        self.day = Growing(np.int32)
        self.about = Growing(np.int32)
        self.cues = Growing(np.uint8)
        self.asking = Growing(np.int64)
        self.disabled = Growing(np.bool_)
        self.occurred_at = Growing(np.int64)
        self.valid_from = Growing(np.int64)
        self.valid_to = Growing(np.int64)
        self.expires_at = Growing(np.int64)
        self.recorded_at = Growing(np.int64)
        self.retired_at = Growing(np.int64)
        self.counts_from = Growing(np.int64)
        self.counts_to = Growing(np.int64)
        self.bounded = 0
        self._revision = Growing(np.int64)
        self._terms = Growing(np.int32)
        self._start = Growing(np.int64)
        self._text = Growing(np.int64)
        self._marked = Growing(np.int32)
        self._marked_start = Growing(np.int64)
        self._rows: dict[str, int] = {}
        self._places: dict[int, Place | None] = {}
        self._calls: dict[int, tuple[str, ...]] = {}
        self._sessions: dict[str, int] = {}
        self._start.append(0)
        self._marked_start.append(0)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def session_count(self) -> int:
        """How many sessions were ever seen; their numbers are below it."""
        return len(self._sessions)

    @property
    def worn(self) -> bool:
        """Whether more than a quarter of the rows are gaps."""
        gaps = len(self.ids) - len(self._rows)
        return gaps > _WORN_FROM and gaps * 4 > len(self.ids)

    def row(self, key: str) -> int:
        """Return the row of the id *key*, -1 where there is none."""
        return self._rows.get(key, -1)

    def rows(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the rows of those of *ids* that are here."""
        found = (self._rows.get(key, -1) for key in ids)
        return np.array([row for row in found if row >= 0], dtype=np.int64)

    def revision(self, key: str) -> int:
        """Return the revision that the id *key* was put with, 0 where there is none."""
        row = self._rows.get(key, -1)
        return 0 if row < 0 else int(self._revision.values[row])

    def turn(self, row: int) -> float:
        """Return the place of *row* in its session, -1 where it has none."""
        place = self._places.get(row)
        return -1.0 if place is None else place[0]

    def put(self, row: Row) -> None:
        """Add *row*, in the place of the one with its id."""
        self.remove(row.id)
        at = len(self.ids)
        session = NO_SESSION if row.session is None else self._sessions.setdefault(row.session, len(self._sessions))
        speaker = self.people.number(row.speaker)
        self.ids.append(row.id)
        self._rows[row.id] = at
        for column, value in (
            (self.alive, True),
            (self.session, session),
            (self.speaker, speaker),
            (self.assistant, row.role == "assistant"),
            (self.day, row.day),
            (self.about, row.about),
            (self.cues, row.cues),
            (self.asking, row.asking),
            (self.disabled, row.disabled),
            (self.occurred_at, row.occurred_at),
            (self.valid_from, row.valid_from),
            (self.valid_to, row.valid_to),
            (self.expires_at, row.expires_at),
            (self.recorded_at, row.recorded_at),
            (self.retired_at, row.retired_at),
            (self.counts_from, row.counts_from),
            (self.counts_to, row.counts_to),
            (self._revision, row.revision),
        ):
            column.append(value)
        self._put_terms(row)
        self.order.add(session, row.order, speaker=speaker, asks=bool(row.cues & Cue.ASKS))
        self._places[at] = row.order
        if row.calls:
            self._calls[at] = row.calls
        self._count(at, 1)

    def remove(self, key: str) -> None:
        """Take the row of the id *key* out; an unknown one is no error."""
        at = self._rows.pop(key, None)
        if at is None:
            return
        self._count(at, -1)
        self.order.remove(at, int(self.session.values[at]), self._places.pop(at))
        self._calls.pop(at, None)
        self.alive.values[at] = False
        self.ids[at] = ""

    def text_terms(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the terms of the texts of *rows* end to end, ``NOTHING`` after each sentence, and where
        each starts.

        No text is without an end mark, so that none is empty.
        """
        return spans(self._terms.values, self._text.values[rows], self._start.values[rows + 1])

    def _put_terms(self, row: Row) -> None:
        number = self.stems.number
        numbers = [number(term) for term in row.terms[0]]
        self._text.append(len(self._terms) + len(numbers))
        for sentence in row.terms[1:]:
            numbers.extend(number(term) for term in sentence)
            numbers.append(NOTHING)
        if len(row.terms) < 2:
            numbers.append(NOTHING)
        self._terms.extend(numbers)
        self._start.append(len(self._terms))
        self._marked.extend(self.stems.marked(row.surfaces))
        self._marked_start.append(len(self._marked))

    def _count(self, at: int, sign: int) -> None:
        times = (self.valid_from, self.valid_to, self.expires_at)
        self.bounded += sign * bool(self.disabled.values[at] or any(time.values[at] != NEVER for time in times))
        start, end = self._marked_start.values[at : at + 2].tolist()
        self.stems.count(self._marked.values[start:end].tolist(), sign)
        session = int(self.session.values[at])
        self.people.add(int(self.speaker.values[at]), session, self._calls.get(at, ()), sign)
        if session != NO_SESSION:
            start, end = self._start.values[at : at + 2].tolist()
            terms = self._terms.values[start:end]
            self.session_terms.add(session, terms[terms != NOTHING].tolist(), sign)


def spans(
    values: NDArray[np.int32], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return values[start:end] of each span end to end, and where each begins in that."""
    lengths = ends - starts
    offsets = np.cumsum(lengths) - lengths
    places = np.arange(int(lengths.sum())) + np.repeat(starts - offsets, lengths)
    return values[places].astype(np.int64), offsets
