"""The retrieval index of one store namespace, in compact arrays: batches of records in, columns to compute on.

Pure: it reads no store (``index_sync`` does). Equal records give equal answers in whatever order they came. Replacing
a record leaves a gap; when there are many gaps, ``worn`` asks for a rebuild.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from memory.embedders.protocol import WordVectors
from memory.retrieval.index.participants import Participants
from memory.retrieval.index.record import NEVER, TextFeature
from memory.retrieval.index.record_batch import NO_SESSION, RecordBatch, gather_spans
from memory.retrieval.index.session_bm25 import SessionBm25
from memory.retrieval.index.term_vectors import TermVectors
from memory.retrieval.index.turn_links import TurnLinks
from memory.retrieval.index.vocabulary import NO_TERM, Vocabulary
from vectorstore.internals import GrowableArray

_MIN_WORN_GAPS = 1000


class RetrievalIndex:
    """Rows by number; public columns are read by the signals, one value a row.

    *bounded* counts the rows that may not hold at some time or are disabled.
    """

    def __init__(self, word_vectors: WordVectors | None) -> None:
        self.ids: list[str] = []
        self.stems = Vocabulary()
        self.vectors = TermVectors(word_vectors, self.stems)
        self.people = Participants()
        self.session_terms = SessionBm25()
        self.alive = GrowableArray(np.bool_)
        self.session = GrowableArray(np.int32)
        self.speaker = GrowableArray(np.int32)
        self.assistant = GrowableArray(np.bool_)
        self.day = GrowableArray(np.int32)
        self.about = GrowableArray(np.int32)
        self.cues = GrowableArray(np.uint8)
        self.asking = GrowableArray(np.int64)
        self.disabled = GrowableArray(np.bool_)
        self.occurred_at = GrowableArray(np.int64)
        self.valid_from = GrowableArray(np.int64)
        self.valid_to = GrowableArray(np.int64)
        self.expires_at = GrowableArray(np.int64)
        self.recorded_at = GrowableArray(np.int64)
        self.retired_at = GrowableArray(np.int64)
        self.counts_from = GrowableArray(np.int64)
        self.counts_to = GrowableArray(np.int64)
        self.order = TurnLinks(self.occurred_at, self.ids)
        self.bounded = 0
        self._revision = GrowableArray(np.int64)
        self._placed = GrowableArray(np.bool_)
        self._words = GrowableArray(np.int32)
        self._starts = GrowableArray(np.int32)
        self._texts = GrowableArray(np.int32)
        self._marks = GrowableArray(np.int32)
        self._mark_starts = GrowableArray(np.int32)
        self._rows: dict[str, int] = {}
        self._calls: dict[int, tuple[str, ...]] = {}
        self._sessions: dict[str, int] = {}
        self._aliases: Mapping[str, int] | None = None
        self._starts.append(0)
        self._mark_starts.append(0)

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
        return gaps > _MIN_WORN_GAPS and gaps * 4 > len(self.ids)

    def aliases(self) -> Mapping[str, int]:
        """Return other names of speakers, as ``Participants.aliases`` says."""
        if self._aliases is None:
            self._aliases = self.people.aliases(self.stems.small)
        return self._aliases

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
        return 0 if row < 0 else int(self._revision.rows[row])

    def turn(self, row: int) -> float:
        """Return the place of *row* in its session, -1 where it has none."""
        return float(self.order.sequence.rows[row]) if self._placed.rows[row] else -1.0

    def extend(self, columns: RecordBatch) -> None:
        """Add the rows of *columns*, in the place of those with their ids."""
        for key in columns.ids:
            self.remove(key)
        first, values = len(self.ids), columns.values
        self.ids.extend(columns.ids)
        self._rows.update(zip(columns.ids, range(first, len(self.ids)), strict=True))
        sessions = [self._sessions.setdefault(name, len(self._sessions)) for name in columns.sessions]
        session = np.array([*sessions, NO_SESSION], dtype=np.int32)[values["session"]]
        speaker = np.array([self.people.number(name) for name in columns.speakers], dtype=np.int32)[values["speaker"]]
        self.alive.extend(np.ones(len(columns), dtype=np.bool_))
        self.session.extend(session)
        self.speaker.extend(speaker)
        self._revision.extend(values["revision"])
        self._placed.extend(values["placed"])
        for column, name in (
            (self.assistant, "assistant"),
            (self.day, "day"),
            (self.about, "about"),
            (self.cues, "cues"),
            (self.asking, "asking"),
            (self.disabled, "disabled"),
            (self.occurred_at, "occurred_at"),
            (self.valid_from, "valid_from"),
            (self.valid_to, "valid_to"),
            (self.expires_at, "expires_at"),
            (self.recorded_at, "recorded_at"),
            (self.retired_at, "retired_at"),
            (self.counts_from, "counts_from"),
            (self.counts_to, "counts_to"),
        ):
            column.extend(values[name])
        self._extend_words(columns)
        self.order.extend(
            session,
            placed=values["placed"],
            sequence=values["sequence"],
            speakers=speaker,
            asks=values["cues"] & TextFeature.ASKS > 0,
        )
        for at, word in zip(columns.call_rows.tolist(), columns.calls.tolist(), strict=True):
            self._calls[first + at] = (*self._calls.get(first + at, ()), columns.called[word])
        self._count(np.arange(first, len(self.ids)), 1)

    def remove(self, key: str) -> None:
        """Take the row of the id *key* out; an unknown one is no error."""
        at = self._rows.pop(key, None)
        if at is None:
            return
        self._count(np.array([at]), -1)
        self.order.remove(at, int(self.session.rows[at]))
        self._calls.pop(at, None)
        self.alive.rows[at] = False
        self.ids[at] = ""

    def text_terms(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the terms of the texts of *rows* end to end, ``NO_TERM`` after each sentence, and where
        each starts.

        No text is without an end mark, so that none is empty.
        """
        begins, ends = self._texts.rows[rows], self._starts.rows[rows + 1]
        lengths = ends - begins
        offsets = np.cumsum(lengths) - lengths
        places = np.arange(int(lengths.sum())) + np.repeat(begins - offsets, lengths)
        return self._words.rows[places].astype(np.int64), offsets

    def _extend_words(self, columns: RecordBatch) -> None:
        numbers = [NO_TERM, *map(self.stems.number, columns.terms)]
        of_form = [numbers[term + 1] for term in columns.form_terms.tolist()]
        surfaces = np.array(
            [self.stems.surface(form, term) for form, term in zip(columns.forms, of_form, strict=True)], dtype=np.int32
        )
        words, marks = len(self._words), len(self._marks)
        self._words.extend(np.array(numbers, dtype=np.int32)[columns.words])
        self._starts.extend(columns.starts[1:] + words)
        self._texts.extend(columns.texts + words)
        self._marks.extend(surfaces[columns.marks >> 1] * 2 + (columns.marks & 1))
        self._mark_starts.extend(columns.mark_starts[1:] + marks)

    def _count(self, rows: NDArray[np.int64], sign: int) -> None:
        self._aliases = None
        bounded = self.disabled.rows[rows].copy()
        for column in (self.valid_from, self.valid_to, self.expires_at):
            bounded |= column.rows[rows] != NEVER
        self.bounded += sign * int(np.count_nonzero(bounded))
        self.stems.count(gather_spans(self._marks.rows, self._mark_starts.rows, rows)[0], sign)
        self._count_people(rows, sign)
        in_session = rows[self.session.rows[rows] != NO_SESSION]
        terms, starts = gather_spans(self._words.rows, self._starts.rows, in_session)
        sessions = np.repeat(self.session.rows[in_session], np.diff(starts))
        said = terms != NO_TERM
        self.session_terms.add(sessions[said].astype(np.int64), terms[said].astype(np.int64), sign)

    def _count_people(self, rows: NDArray[np.int64], sign: int) -> None:
        speakers, sessions = self.speaker.rows[rows], self.session.rows[rows]
        turns = Counter(zip(speakers.tolist(), sessions.tolist(), strict=True))
        calls: dict[tuple[int, int], Counter[str]] = {}
        for at in rows.tolist() if self._calls else ():
            if at in self._calls:
                who = int(self.speaker.rows[at]), int(self.session.rows[at])
                for word in self._calls[at]:
                    calls.setdefault(who, Counter())[word] += sign
        for who, count in turns.items():
            self.people.add(*who, sign * count, calls.get(who, {}))
