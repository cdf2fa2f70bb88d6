"""The retrieval index of one store namespace, in compact arrays: batches of records in, columns to compute on.

Pure: it reads no store (``index_sync`` does). Equal records give equal answers in whatever order they came. Replacing
a record leaves a gap; when there are many gaps, ``worn`` asks for a rebuild.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from tellback.memory.analysis.texts import NOT_FACTUAL, Trait
from tellback.memory.embedders.protocol import WordVectors
from tellback.memory.retrieval.index.record import DEMOTED_BY_CALLER, NEVER, ROLES
from tellback.memory.retrieval.index.record_batch import (
    NO_LINE,
    NO_SESSION,
    RecordBatch,
    RecordColumns,
    copy_values,
    gather_spans,
)
from tellback.memory.retrieval.index.session_statistics import NOBODY, Participants, SessionBm25
from tellback.memory.retrieval.index.turn_links import TurnLinks
from tellback.memory.retrieval.index.vocabulary import NO_TERM, TermVectors, Vocabulary
from tellback.vectorstore.internals import GrowableArray, distinct_counts

_MIN_WORN_GAPS = 1000
_SESSION_BITS = 32
_NOT_TOLD = ("(plan)", "(joke)")
"""Ends of parts of a line that tell of no fact."""


class RetrievalIndex:
    """Rows by number; the features read their ``columns``, one value a row.

    *ids* has an empty text for a removed row. *bounded* counts the rows that are disabled or have a time from or until
    which they are valid.
    """

    def __init__(self, word_vectors: WordVectors | None) -> None:
        self.ids: list[str] = []
        self.vocabulary = Vocabulary()
        self.vectors = TermVectors(word_vectors, self.vocabulary)
        self.participants = Participants()
        self.session_bm25 = SessionBm25()
        self.alive = GrowableArray(np.bool_)
        self.bounded = 0
        self._assistants: Counter[int] = Counter()
        self._columns = RecordColumns()
        self.links = TurnLinks(self._columns, self.ids)
        self._words = GrowableArray(np.int32)
        self._starts = GrowableArray(np.int32)
        self._texts = GrowableArray(np.int32)
        self._marks = GrowableArray(np.int32)
        self._mark_starts = GrowableArray(np.int32)
        self._rows: dict[str, int] = {}
        self._calls: dict[int, tuple[str, ...]] = {}
        self._sessions: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        self._topics: list[frozenset[str]] = [frozenset()]
        self._subjects: dict[str, int] = {}
        self._aliases: Mapping[str, int] | None = None
        self._between_people: dict[int, bool] = {}
        self._relating: NDArray[np.int64] | None = None
        self._starts.append(0)
        self._mark_starts.append(0)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def columns(self) -> NDArray[np.void]:
        """The fields of all rows (``RECORD_DTYPE``); sessions, participants, subjects and lines by number here.

        Of some rows, take ``columns[name][rows]``: to gather whole records takes hundreds of times as long.
        """
        return self._columns.rows

    @property
    def worn(self) -> bool:
        """True if more than a quarter of the rows are gaps."""
        gaps = len(self.ids) - len(self._rows)
        return gaps > _MIN_WORN_GAPS and gaps * 4 > len(self.ids)

    def aliases(self) -> Mapping[str, int]:
        """Return other names of participants (``Participants.aliases``)."""
        if self._aliases is None:
            self._aliases = self.participants.aliases(self.vocabulary.lower_case_count)
        return self._aliases

    def row(self, id: str) -> int:
        """Return the row of *id*, -1 for an unknown one."""
        return self._rows.get(id, -1)

    def rows(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the rows of *ids*, in their order, without unknown ones."""
        rows = np.array(list(map(self._rows.get, ids, repeat(-1))), dtype=np.int64)
        return rows[rows >= 0]

    def revision(self, id: str) -> int:
        """Return the revision of the entry *id* that the index holds, 0 for an unknown id."""
        return int(self.columns["revision"][self._rows[id]]) if id in self._rows else 0

    def turn(self, row: int) -> float:
        """Return the sequence number of *row* in its session, -1 where it has none."""
        return float(self.columns["sequence"][row]) if self.columns["placed"][row] else -1.0

    def between_people(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of *rows* stand in a session in which more than one person spoke; assistants are none."""
        sessions, places = np.unique(self.columns["session"][rows], return_inverse=True)
        return np.array([self._has_people(session) for session in sessions.tolist()], dtype=np.bool_)[places]

    def _has_people(self, session: int) -> bool:
        known = self._between_people.get(session)
        if known is None:
            people = [number for number in self.participants.speakers(session) if not self._assistants[number]]
            known = self._between_people[session] = len(people) > 1
        return known

    def topics(self, row: int) -> frozenset[str]:
        """Return what *row* is about by its line, whose parts are joined by ";"; none that is a plan or a joke."""
        return self._topics[int(self.columns["line"][row])]

    def relating(self) -> NDArray[np.int64]:
        """Return the rows that say who is whose relative and hold, an assistant's left out."""
        if self._relating is None:
            columns = self.columns
            relates = (columns["statement_features"] & int(Trait.RELATES | NOT_FACTUAL)) == int(Trait.RELATES)
            self._relating = np.flatnonzero(self.alive.rows & relates & ~columns["assistant"])
        return self._relating

    def spoken_alone(self, speakers: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return which of *speakers* are one person's: nobody, the user, or the only one with a name."""
        present = self.participants.present()
        named = [number for number, name in present if name not in ROLES]
        users = [number for number, name in present if name == ROLES[0]]
        return np.isin(speakers, [NOBODY, *users, *(named if len(named) == 1 else ())])

    def statement_times(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the time of each statement in microseconds: its valid_from, else when it was said, else recorded."""
        valid_from, occurred_at, recorded_at = (
            self.columns[name][rows] for name in ("valid_from", "occurred_at", "recorded_at")
        )
        return np.where(valid_from != NEVER, valid_from, np.where(occurred_at != NEVER, occurred_at, recorded_at))

    def hidden_utterances(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of *rows* state nothing and were said to an assistant, or to nobody.

        In a talk between people a question or a short word is half of what the other one answers: nothing is hidden.
        """
        demotion = self.columns["demotion"][rows]
        hidden = demotion > 0
        by_kind = hidden & (demotion != DEMOTED_BY_CALLER)
        hidden[by_kind] = ~self.between_people(rows[by_kind])
        return np.asarray(hidden)

    def extend(self, *batches: RecordBatch) -> None:
        """Add the rows of *batches*, no two of one id; they replace rows of the same ids.

        Rows that come together are counted together: that is how an index is filled quickly.
        """
        first = len(self.ids)
        self._make_room(batches)
        for batch in batches:
            self._append(batch)
        self.links.extend()
        self._count(np.arange(first, len(self.ids)), 1)

    def _make_room(self, batches: Sequence[RecordBatch]) -> None:
        rows = sum(map(len, batches))
        for column in (self.alive, self._columns, self._starts, self._texts, self._mark_starts):
            column.make_room(rows)
        self._words.make_room(sum(len(batch.words) for batch in batches))
        self._marks.make_room(sum(len(batch.marks) for batch in batches))

    def _append(self, batch: RecordBatch) -> None:
        """Append the rows of *batch*, which are neither linked nor counted yet."""
        for id in self._rows.keys() & batch.ids:
            self.remove(id)
        first, columns = len(self.ids), copy_values(batch)
        self.ids.extend(batch.ids)
        self._rows.update(zip(batch.ids, range(first, len(self.ids)), strict=True))
        sessions = [self._sessions.setdefault(name, len(self._sessions)) for name in batch.sessions]
        columns["session"] = np.array([*sessions, NO_SESSION])[columns["session"]]
        speakers = [self.participants.number(name) for name in batch.speakers]
        columns["speaker"] = np.array(speakers, dtype=np.int32)[columns["speaker"]]
        for line in batch.lines:
            if line not in self._lines:
                self._lines[line] = len(self._topics)
                parts = (part.strip() for part in line.split(";"))
                self._topics.append(frozenset(part for part in parts if part and not part.endswith(_NOT_TOLD)))
        lines = [self._lines[line] for line in batch.lines]
        columns["line"] = np.array([NO_LINE, *lines], dtype=np.int32)[columns["line"]]
        subjects = [self._subjects.setdefault(person, len(self._subjects)) for person in batch.subjects]
        columns["subject"] = np.array(subjects, dtype=np.int32)[columns["subject"]]
        self.alive.extend(np.ones(len(batch), dtype=np.bool_))
        self._columns.extend(columns)
        self._extend_words(batch)
        for row, word in zip((batch.call_rows + first).tolist(), batch.calls.tolist(), strict=True):
            self._calls[row] = (*self._calls.get(row, ()), batch.called[word])

    def remove(self, id: str) -> None:
        """Remove the row of *id*; an unknown id is no error."""
        row = self._rows.pop(id, None)
        if row is None:
            return
        self._count(np.array([row]), -1)
        self.links.remove(row)
        self._calls.pop(row, None)
        self.alive.rows[row] = False
        self.ids[row] = ""

    def text_terms(
        self, rows: NDArray[np.int64], *, labels: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the terms of the texts of *rows* end to end, ``NO_TERM`` after each sentence, and the start of each.

        Every text has at least one end mark, so that none is empty. With *labels*, those of a memory stand before
        its text: it is found by them, and states nothing by them.
        """
        begins, ends = self._texts.rows[rows], self._starts.rows[rows + 1]
        if labels:
            begins = begins - self.columns["label_words"][rows]
        lengths = ends - begins
        offsets = np.cumsum(lengths) - lengths
        positions = np.arange(int(lengths.sum())) + np.repeat(begins - offsets, lengths)
        return self._words.rows[positions].astype(np.int64), offsets

    def _extend_words(self, batch: RecordBatch) -> None:
        numbers = np.array([NO_TERM, *self.vocabulary.numbers(batch.terms)], dtype=np.int32)
        forms = self.vocabulary.form_numbers(batch.forms, numbers[batch.form_terms + 1].tolist())
        words, marks = len(self._words), len(self._marks)
        self._words.extend(numbers[batch.words])
        self._starts.extend(batch.starts[1:] + words)
        self._texts.extend(batch.texts + words)
        self._marks.extend(forms[batch.marks >> 1] * 2 + (batch.marks & 1))
        self._mark_starts.extend(batch.mark_starts[1:] + marks)

    def _count(self, rows: NDArray[np.int64], sign: int) -> None:
        """Add *rows* to all counts of the namespace, or subtract them with *sign* -1."""
        self._aliases = self._relating = None
        self._between_people.clear()
        columns = self.columns
        bounded = columns["disabled"][rows]
        for name in ("valid_from", "valid_to", "expires_at"):
            bounded = bounded | (columns[name][rows] != NEVER)
        self.bounded += sign * int(np.count_nonzero(bounded))
        self.vocabulary.count(gather_spans(self._marks.rows, self._mark_starts.rows, rows)[0], sign)
        self._count_participants(rows, sign)
        in_session = rows[columns["session"][rows] != NO_SESSION]
        terms, starts = gather_spans(self._words.rows, self._starts.rows, in_session)
        sessions = np.repeat(columns["session"][in_session], np.diff(starts))
        is_term = terms != NO_TERM
        self.session_bm25.add(sessions[is_term].astype(np.int64), terms[is_term].astype(np.int64), sign)

    def _count_participants(self, rows: NDArray[np.int64], sign: int) -> None:
        assistants = self.columns["speaker"][rows[self.columns["assistant"][rows]]]
        for speaker, count in Counter(assistants.tolist()).items():
            self._assistants[speaker] += sign * count
        speakers, sessions = self.columns["speaker"], self.columns["session"]
        calls: dict[tuple[int, int], dict[str, int]] = {}
        for row in rows.tolist():
            if row in self._calls:
                words = calls.setdefault((int(speakers[row]), int(sessions[row])), {})
                for word in self._calls[row]:
                    words[word] = words.get(word, 0) + sign
        keys, counts = distinct_counts((speakers[rows].astype(np.int64) << _SESSION_BITS) + sessions[rows])
        numbers = (keys - NO_SESSION) >> _SESSION_BITS
        pairs = zip(numbers.tolist(), (keys - (numbers << _SESSION_BITS)).tolist(), strict=True)
        for (speaker, session), count in zip(pairs, counts.tolist(), strict=True):
            self.participants.add(speaker, session, sign * count, calls.get((speaker, session), {}))
