"""Batches of records in columns, and their extraction from the entries of a store.

A segment of the cache keeps one batch, and an index takes batches in. Each distinct text is kept once in a list, and
its number, from 0, everywhere else. In *words*, a term is its number plus 1, and 0 ends a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from itertools import chain
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.index.record import IndexRecord, build_record
from memory.retrieval.languages.base import Lexicon
from vectorstore import Entry

NO_SESSION = -1
Ints = NDArray[np.int32]
_TIME_FIELDS = (
    "occurred_at",
    "valid_from",
    "valid_to",
    "expires_at",
    "recorded_at",
    "retired_at",
    "counts_from",
    "counts_to",
)
RECORD_DTYPE = np.dtype(
    [
        ("revision", "<i8"),
        ("session", "<i4"),
        ("speaker", "<i4"),
        ("placed", "?"),
        ("sequence", "<f8"),
        ("assistant", "?"),
        ("day", "<i4"),
        ("about", "<i4"),
        ("cues", "u1"),
        ("asking", "<i8"),
        ("disabled", "?"),
        *((name, "<i8") for name in _TIME_FIELDS),
    ]
)
"""What one memory has one of; as ``IndexRecord`` says, with sessions and speakers as numbers."""


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Rows in columns; the parts of row i in *words* lie between ``starts[i]`` and ``starts[i + 1]``.

    Its context's terms come first, until ``texts[i]``. *marks* are surface forms, between ``mark_starts``: twice the
    place in *forms*, and 1 where it began with a small letter; ``form_terms`` says which term a form is of. *calls* are
    places in *called*, one for each of *call_rows*.
    """

    ids: tuple[str, ...]
    values: NDArray[np.void]
    sessions: tuple[str, ...]
    speakers: tuple[str, ...]
    terms: tuple[str, ...]
    words: Ints
    starts: Ints
    texts: Ints
    forms: tuple[str, ...]
    form_terms: Ints
    marks: Ints
    mark_starts: Ints
    called: tuple[str, ...]
    calls: Ints
    call_rows: Ints

    def __len__(self) -> int:
        return len(self.ids)

    def taken(self, rows: NDArray[np.int64]) -> RecordBatch:
        """Return *rows* alone, in that order, without texts that no other row uses."""
        words, starts = gather_spans(self.words, self.starts, rows)
        marks, mark_starts = gather_spans(self.marks, self.mark_starts, rows)
        values = self.values[rows]
        place = np.full(len(self), -1, dtype=np.int32)
        place[rows] = np.arange(len(rows))
        calling = place[self.call_rows] >= 0
        forms, marks_left = _renumber(marks >> 1)
        kept_terms, numbers = _renumber(np.concatenate([words, self.form_terms[forms] + 1]), reserved=1)
        sessions, session = _renumber(values["session"] + 1, reserved=1)
        speakers, speaker = _renumber(values["speaker"])
        called, calls = _renumber(self.calls[calling])
        values["session"] = session - 1
        values["speaker"] = speaker
        return RecordBatch(
            ids=tuple(self.ids[row] for row in rows.tolist()),
            values=values,
            sessions=tuple(self.sessions[at - 1] for at in sessions.tolist()),
            speakers=tuple(self.speakers[at] for at in speakers.tolist()),
            terms=tuple(self.terms[at - 1] for at in kept_terms.tolist()),
            words=numbers[: len(words)],
            starts=starts,
            texts=starts[:-1] + (self.texts - self.starts[:-1])[rows],
            forms=tuple(self.forms[at] for at in forms.tolist()),
            form_terms=numbers[len(words) :] - 1,
            marks=marks_left * 2 + (marks & 1),
            mark_starts=mark_starts,
            called=tuple(self.called[at] for at in called.tolist()),
            calls=calls,
            call_rows=place[self.call_rows[calling]],
        )


def build_batch(rows: Sequence[IndexRecord], term_of: Callable[[str], str | None]) -> RecordBatch:
    """Return *rows*, no two of one id, in columns; *term_of* gives the one term of a small-letter word, None if it is
    not one.
    """
    sessions, speakers, terms, called = _TextNumbers(), _TextNumbers(), _TextNumbers(), _TextNumbers()
    counted = _SurfaceMarks(term_of, terms)
    values = np.empty(len(rows), dtype=RECORD_DTYPE)
    words: list[int] = []
    marks: list[int] = []
    starts, texts, mark_starts = [0], [], [0]
    calls: list[tuple[int, int]] = []
    for at, row in enumerate(rows):
        placed = row.order is not None
        values[at] = (
            row.revision,
            NO_SESSION if row.session is None else sessions[row.session],
            speakers[row.speaker],
            placed,
            row.order[0] if row.order is not None else 0.0,
            row.role == "assistant",
            row.day,
            row.about,
            row.cues,
            row.asking,
            row.disabled,
            *(getattr(row, name) for name in _TIME_FIELDS),
        )
        context, *sentences = row.terms
        words += [terms[term] + 1 for term in context]
        texts.append(len(words))
        for sentence in sentences or [()]:
            words += [terms[term] + 1 for term in sentence]
            words.append(0)
        starts.append(len(words))
        marks += [mark for word in row.surfaces if (mark := counted[word]) >= 0]
        mark_starts.append(len(marks))
        calls += [(at, called[word]) for word in row.calls]
    return RecordBatch(
        ids=tuple(row.id for row in rows),
        values=values,
        sessions=tuple(sessions),
        speakers=tuple(speakers),
        terms=tuple(terms),
        words=_int_array(words),
        starts=_int_array(starts),
        texts=_int_array(texts),
        forms=tuple(counted.forms),
        form_terms=_int_array(counted.form_terms),
        marks=_int_array(marks),
        mark_starts=_int_array(mark_starts),
        called=tuple(called),
        calls=_int_array([word for _, word in calls]),
        call_rows=_int_array([at for at, _ in calls]),
    )


def concatenate_batches(parts: Sequence[RecordBatch]) -> RecordBatch:
    """Return the rows of all *parts*, no two of one id, one after the other."""
    if not parts:
        return build_batch([], lambda form: None)
    if len(parts) == 1:
        return parts[0]
    sessions, speakers, terms, called, forms = (_TextNumbers() for _ in range(5))
    form_terms: dict[int, int] = {}
    renumbered = []
    words = marks = rows = 0
    for part in parts:
        of_term = np.concatenate([[0], terms.all(part.terms) + 1]).astype(np.int32)
        of_form = forms.all(part.forms)
        form_terms.update(zip(of_form.tolist(), (of_term[part.form_terms + 1] - 1).tolist(), strict=True))
        values = part.values.copy()
        values["session"] = np.concatenate([sessions.all(part.sessions), [NO_SESSION]])[part.values["session"]]
        values["speaker"] = speakers.all(part.speakers)[part.values["speaker"]]
        renumbered.append(
            replace(
                part,
                values=values,
                words=of_term[part.words],
                starts=part.starts[:-1] + words,
                texts=part.texts + words,
                marks=of_form[part.marks >> 1] * 2 + (part.marks & 1),
                mark_starts=part.mark_starts[:-1] + marks,
                calls=called.all(part.called)[part.calls],
                call_rows=part.call_rows + rows,
            )
        )
        words, marks, rows = words + len(part.words), marks + len(part.marks), rows + len(part)

    def together(name: str, *more: int) -> Ints:
        return np.concatenate([*(getattr(part, name) for part in renumbered), np.array(more, np.int32)])

    return RecordBatch(
        ids=tuple(chain.from_iterable(part.ids for part in parts)),
        values=np.concatenate([part.values for part in renumbered]),
        sessions=tuple(sessions),
        speakers=tuple(speakers),
        terms=tuple(terms),
        words=together("words"),
        starts=together("starts", words),
        texts=together("texts"),
        forms=tuple(forms),
        form_terms=_int_array(form_terms[at] for at in range(len(forms))),
        marks=together("marks"),
        mark_starts=together("mark_starts", marks),
        called=tuple(called),
        calls=together("calls"),
        call_rows=together("call_rows"),
    )


def gather_spans(values: NDArray[np.int32], starts: Ints, rows: NDArray[np.int64]) -> tuple[Ints, Ints]:
    """Return the parts of *rows* in *values* end to end, and where each begins, one more for the end."""
    first, lengths = starts[rows], starts[rows + 1] - starts[rows]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    places = np.arange(int(ends[-1])) + np.repeat(first - ends[:-1], lengths)
    return values[places], ends


def _renumber(numbers: Ints, *, reserved: int = 0) -> tuple[Ints, Ints]:
    """Return which numbers occur, in order, and *numbers* as places among them; those below *reserved* stay."""
    found = np.unique(numbers)
    found = found[found >= reserved]
    place = np.zeros(int(found[-1]) + 1 if len(found) else reserved, dtype=np.int32)
    place[:reserved] = np.arange(min(reserved, len(place)))
    place[found] = np.arange(reserved, reserved + len(found))
    return found.astype(np.int32), place[numbers]


def _int_array(values: Iterable[int]) -> Ints:
    return np.array(list(values), dtype=np.int32)


class _TextNumbers(dict[str, int]):
    """Texts with their numbers, given in the order in which they came."""

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self)
        return number

    def all(self, texts: Sequence[str]) -> Ints:
        return _int_array(self[text] for text in texts)


class _SurfaceMarks(dict[str, int]):
    """Words as they are counted; -1 for what is not one term: a stop word, a compound."""

    def __init__(self, term_of: Callable[[str], str | None], terms: _TextNumbers) -> None:
        super().__init__()
        self.forms = _TextNumbers()
        self.form_terms: list[int] = []
        self._term_of = term_of
        self._terms = terms

    def __missing__(self, word: str) -> int:
        form = word.lower()
        if form not in self.forms:
            term = self._term_of(form)
            if term is None:
                self[word] = -1
                return -1
            self.form_terms.append(self._terms[term])
        mark = self[word] = 2 * self.forms[form] + word[:1].islower()
        return mark


_EXTRACTION_VERSION = 3
"""Goes up with each change of what is derived from an entry, by ``build_record`` or ``build_batch``."""


class TextAnalyzer(Protocol):
    """The analyzer of a store, as far as recall needs it."""

    @property
    def fingerprint(self) -> str:
        """What makes the terms."""
        ...

    def terms(self, text: str) -> list[str]:
        """Return the terms of *text*."""
        ...

    def asking(self, text: str) -> list[bool]:
        """Return for each sentence of *text* that has a term whether it is a question."""
        ...


class RecordExtractor:
    """Derives columns; equal entries give equal ones. *zone* is that of days."""

    def __init__(self, *, analyzer: TextAnalyzer, lexicon: Lexicon, zone: tzinfo) -> None:
        self.fingerprint = f"{_EXTRACTION_VERSION}/{analyzer.fingerprint}/{zone}"
        """What made the columns: they are comparable where this is equal."""
        self._analyzer = analyzer
        self._lexicon = lexicon
        self._zone = zone
        self._term_of: dict[str, str | None] = {}

    def columns(
        self, entries: Sequence[Entry], terms: Sequence[Sequence[Sequence[str]]], *, conversation: bool
    ) -> RecordBatch:
        """Return the columns of *entries*, no two of one id; *terms* as ``View.terms`` gives them."""
        rows = [
            build_record(
                entry,
                of_entry,
                asking=self._analyzer.asking,
                lexicon=self._lexicon,
                zone=self._zone,
                conversation=conversation,
            )
            for entry, of_entry in zip(entries, terms, strict=True)
        ]
        return build_batch(rows, self.term_of)

    def term_of(self, form: str) -> str | None:
        """Return the one term that the small-letter word *form* is; None for a stop word or a compound."""
        if form not in self._term_of:
            terms = self._analyzer.terms(form)
            self._term_of[form] = terms[0] if len(terms) == 1 else None
        return self._term_of[form]
