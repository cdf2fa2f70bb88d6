"""Batches of records in columns, and their extraction from the entries of a store.

A segment of the index cache is one batch, and an index is extended by batches. Each distinct text is kept once in a
list, and its number, from 0, everywhere else. In *words*, a term is its number plus 1, and 0 ends a sentence.
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
from memory.retrieval.languages.lexicon import Lexicon
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
"""The fields of ``IndexRecord`` with one value a memory, sessions and speakers by number.

The names are those of the cache in a file: "about" is *mentioned_day*, "cues" *text_features*, "asking"
*question_bits*.
"""


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records in columns; the words of row i lie between ``starts[i]`` and ``starts[i + 1]``.

    The terms of its context come first, until ``texts[i]``. *marks*, between ``mark_starts``, are the occurrences of
    surface forms: twice the position in *forms*, and 1 more where the word began with a small letter. *form_terms* has
    the term of each form. *calls* are positions in *called*, each of the row in *call_rows*.
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

    def take(self, rows: NDArray[np.int64]) -> RecordBatch:
        """Return a batch of *rows* in that order, without texts that none of them uses."""
        words, starts = gather_spans(self.words, self.starts, rows)
        marks, mark_starts = gather_spans(self.marks, self.mark_starts, rows)
        values = self.values[rows]
        positions = np.full(len(self), -1, dtype=np.int32)
        positions[rows] = np.arange(len(rows))
        is_taken = positions[self.call_rows] >= 0
        forms, marks_left = _renumber(marks >> 1)
        kept_terms, numbers = _renumber(np.concatenate([words, self.form_terms[forms] + 1]), reserved=1)
        sessions, session = _renumber(values["session"] + 1, reserved=1)
        speakers, speaker = _renumber(values["speaker"])
        called, calls = _renumber(self.calls[is_taken])
        values["session"] = session - 1
        values["speaker"] = speaker
        return RecordBatch(
            ids=tuple(self.ids[row] for row in rows.tolist()),
            values=values,
            sessions=tuple(self.sessions[number - 1] for number in sessions.tolist()),
            speakers=tuple(self.speakers[number] for number in speakers.tolist()),
            terms=tuple(self.terms[number - 1] for number in kept_terms.tolist()),
            words=numbers[: len(words)],
            starts=starts,
            texts=starts[:-1] + (self.texts - self.starts[:-1])[rows],
            forms=tuple(self.forms[number] for number in forms.tolist()),
            form_terms=numbers[len(words) :] - 1,
            marks=marks_left * 2 + (marks & 1),
            mark_starts=mark_starts,
            called=tuple(self.called[number] for number in called.tolist()),
            calls=calls,
            call_rows=positions[self.call_rows[is_taken]],
        )


def build_batch(records: Sequence[IndexRecord], term_of: Callable[[str], str | None]) -> RecordBatch:
    """Return the batch of *records*, no two of one id.

    *term_of* gives the term of a small-letter word, None for a word that is not exactly one term.
    """
    sessions, speakers, terms, called = _TextNumbers(), _TextNumbers(), _TextNumbers(), _TextNumbers()
    surface_marks = _SurfaceMarks(term_of, terms)
    values = np.empty(len(records), dtype=RECORD_DTYPE)
    words: list[int] = []
    marks: list[int] = []
    starts, texts, mark_starts = [0], [], [0]
    calls: list[tuple[int, int]] = []
    for i, record in enumerate(records):
        values[i] = (
            record.revision,
            NO_SESSION if record.session is None else sessions[record.session],
            speakers[record.speaker],
            record.position is not None,
            record.position[0] if record.position is not None else 0.0,
            record.role == "assistant",
            record.day,
            record.mentioned_day,
            record.text_features,
            record.question_bits,
            record.disabled,
            *(getattr(record, name) for name in _TIME_FIELDS),
        )
        context, *sentences = record.terms
        words += [terms[term] + 1 for term in context]
        texts.append(len(words))
        for sentence in sentences or [()]:
            words += [terms[term] + 1 for term in sentence]
            words.append(0)
        starts.append(len(words))
        marks += [mark for word in record.surfaces if (mark := surface_marks[word]) >= 0]
        mark_starts.append(len(marks))
        calls += [(i, called[word]) for word in record.calls]
    return RecordBatch(
        ids=tuple(record.id for record in records),
        values=values,
        sessions=tuple(sessions),
        speakers=tuple(speakers),
        terms=tuple(terms),
        words=_int_array(words),
        starts=_int_array(starts),
        texts=_int_array(texts),
        forms=tuple(surface_marks.forms),
        form_terms=_int_array(surface_marks.form_terms),
        marks=_int_array(marks),
        mark_starts=_int_array(mark_starts),
        called=tuple(called),
        calls=_int_array([word for _, word in calls]),
        call_rows=_int_array([i for i, _ in calls]),
    )


def concatenate_batches(batches: Sequence[RecordBatch]) -> RecordBatch:
    """Return the rows of all *batches*, no two of one id, one after the other."""
    if not batches:
        return build_batch([], lambda form: None)
    if len(batches) == 1:
        return batches[0]
    sessions, speakers, terms, called, forms = (_TextNumbers() for _ in range(5))
    form_terms: dict[int, int] = {}
    renumbered = []
    words = marks = rows = 0
    for batch in batches:
        term_numbers = np.concatenate([[0], terms.numbers(batch.terms) + 1]).astype(np.int32)
        form_numbers = forms.numbers(batch.forms)
        form_terms.update(zip(form_numbers.tolist(), (term_numbers[batch.form_terms + 1] - 1).tolist(), strict=True))
        values = batch.values.copy()
        values["session"] = np.concatenate([sessions.numbers(batch.sessions), [NO_SESSION]])[batch.values["session"]]
        values["speaker"] = speakers.numbers(batch.speakers)[batch.values["speaker"]]
        renumbered.append(
            replace(
                batch,
                values=values,
                words=term_numbers[batch.words],
                starts=batch.starts[:-1] + words,
                texts=batch.texts + words,
                marks=form_numbers[batch.marks >> 1] * 2 + (batch.marks & 1),
                mark_starts=batch.mark_starts[:-1] + marks,
                calls=called.numbers(batch.called)[batch.calls],
                call_rows=batch.call_rows + rows,
            )
        )
        words, marks, rows = words + len(batch.words), marks + len(batch.marks), rows + len(batch)

    def concatenated(name: str, *end: int) -> Ints:
        return np.concatenate([*(getattr(batch, name) for batch in renumbered), np.array(end, np.int32)])

    return RecordBatch(
        ids=tuple(chain.from_iterable(batch.ids for batch in batches)),
        values=np.concatenate([batch.values for batch in renumbered]),
        sessions=tuple(sessions),
        speakers=tuple(speakers),
        terms=tuple(terms),
        words=concatenated("words"),
        starts=concatenated("starts", words),
        texts=concatenated("texts"),
        forms=tuple(forms),
        form_terms=_int_array(form_terms[number] for number in range(len(forms))),
        marks=concatenated("marks"),
        mark_starts=concatenated("mark_starts", marks),
        called=tuple(called),
        calls=concatenated("calls"),
        call_rows=concatenated("call_rows"),
    )


def gather_spans(values: NDArray[np.int32], starts: Ints, rows: NDArray[np.int64]) -> tuple[Ints, Ints]:
    """Return the spans of *rows* in *values* end to end, and their starts with the end of the last."""
    first, lengths = starts[rows], starts[rows + 1] - starts[rows]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    positions = np.arange(int(ends[-1])) + np.repeat(first - ends[:-1], lengths)
    return values[positions], ends


def _renumber(numbers: Ints, *, reserved: int = 0) -> tuple[Ints, Ints]:
    """Return the distinct *numbers* in ascending order, and *numbers* as positions in them.

    Numbers below *reserved* are left as they are.
    """
    distinct = np.unique(numbers)
    distinct = distinct[distinct >= reserved]
    positions = np.zeros(int(distinct[-1]) + 1 if len(distinct) else reserved, dtype=np.int32)
    positions[:reserved] = np.arange(min(reserved, len(positions)))
    positions[distinct] = np.arange(reserved, reserved + len(distinct))
    return distinct.astype(np.int32), positions[numbers]


def _int_array(values: Iterable[int]) -> Ints:
    return np.array(list(values), dtype=np.int32)


class _TextNumbers(dict[str, int]):
    """Numbers of texts, given in the order in which the texts come."""

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self)
        return number

    def numbers(self, texts: Sequence[str]) -> Ints:
        """Return the numbers of *texts*; a new text gets the next one."""
        return _int_array(self[text] for text in texts)


class _SurfaceMarks(dict[str, int]):
    """Marks of written words; -1 for a word that is not exactly one term: a stop word, a compound."""

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
"""Goes up with each change of what ``build_record`` or ``build_batch`` derives from an entry."""


class TextAnalyzer(Protocol):
    """The analyzer of a store, as far as extraction needs it."""

    @property
    def fingerprint(self) -> str:
        """The name and version of the rules that make the terms."""
        ...

    def terms(self, text: str) -> list[str]:
        """Return the terms of *text*."""
        ...

    def asking(self, text: str) -> list[bool]:
        """Return for each sentence of *text* that has a term whether it is a question."""
        ...


class RecordExtractor:
    """Extracts record batches from entries; equal entries give equal batches. *zone* is that of days."""

    def __init__(self, *, analyzer: TextAnalyzer, lexicon: Lexicon, zone: tzinfo) -> None:
        self.fingerprint = f"{_EXTRACTION_VERSION}/{analyzer.fingerprint}/{zone}"
        """The rules of the extraction: batches are comparable where this is equal."""
        self._analyzer = analyzer
        self._lexicon = lexicon
        self._zone = zone
        self._term_of: dict[str, str | None] = {}

    def extract(
        self, entries: Sequence[Entry], terms: Sequence[Sequence[Sequence[str]]], *, conversation: bool
    ) -> RecordBatch:
        """Return the batch of *entries*, no two of one id; *terms* as ``View.terms`` returns them."""
        records = [
            build_record(
                entry,
                entry_terms,
                asking=self._analyzer.asking,
                lexicon=self._lexicon,
                zone=self._zone,
                conversation=conversation,
            )
            for entry, entry_terms in zip(entries, terms, strict=True)
        ]
        return build_batch(records, self.term_of)

    def term_of(self, form: str) -> str | None:
        """Return the term of the small-letter word *form*; None for a stop word or a compound."""
        if form not in self._term_of:
            terms = self._analyzer.terms(form)
            self._term_of[form] = terms[0] if len(terms) == 1 else None
        return self._term_of[form]
