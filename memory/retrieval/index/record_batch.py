"""Batches of records in columns, and their extraction from the entries of a store.

A segment of the index cache is one batch, and an index is extended by batches. Each distinct text is kept once in a
list, and its number, from 0, everywhere else. In *words*, a term is its number plus 1, and 0 ends a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import cache
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tellback.memory.analysis.texts import analyze_texts
from tellback.memory.codec import TIME_FIELDS, text_without_caption
from tellback.memory.retrieval.index.record import IndexRecord, build_record
from tellback.memory.retrieval.index.vocabulary import renumber
from tellback.memory.retrieval.languages.lexicon import Lexicon
from tellback.vectorstore import Analyzer, Entry
from tellback.vectorstore.internals import GrowableArray

NO_SESSION = -1
NO_LINE = 0
Ints: TypeAlias = NDArray[np.integer]
RECORD_DTYPE = np.dtype(
    [
        ("revision", "<i8"),
        ("session", "<i4"),
        ("speaker", "<i4"),
        ("placed", "?"),
        ("sequence", "<f8"),
        ("assistant", "?"),
        ("day", "<i4"),
        ("mentioned_day", "<i4"),
        ("text_features", "u1"),
        ("question_bits", "<i8"),
        ("statement_features", "<u2"),
        ("subject", "<i4"),
        ("importance", "<f8"),
        ("label_words", "<u2"),
        ("disabled", "?"),
        ("demotion", "u1"),
        ("trust", "u1"),
        ("line", "<i4"),
        *((name, "<i8") for name in TIME_FIELDS),
    ]
)
"""The fields of ``IndexRecord`` with one value a memory; sessions, speakers and subjects by number,
lines by number from 1."""
_MAX_LABEL_WORDS = 2**16 - 1
_AS_BYTES = np.dtype((np.void, RECORD_DTYPE.itemsize))
"""Whole records: numpy copies them at once, and records with fields field by field, a hundred times as slowly."""
_PLAIN_FIELDS = tuple(
    name for name in RECORD_DTYPE.names or () if name not in ("session", "speaker", "subject", "line")
)


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records in columns; the words of row i lie between ``starts[i]`` and ``starts[i + 1]``.

    The terms of its context come first, until ``texts[i]``, and end with those of its labels. *marks*, between
    ``mark_starts``, are the occurrences of surface forms: twice the position in *forms*, and 1 more where the word
    began with a small letter. *form_terms* has the term of each form. *calls* are positions in *called*, each of the
    row in *call_rows*.
    """

    ids: tuple[str, ...]
    values: NDArray[np.void]
    sessions: tuple[str, ...]
    speakers: tuple[str, ...]
    lines: tuple[str, ...]
    subjects: tuple[str, ...]
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
        values = self.values.view(_AS_BYTES)[rows].view(RECORD_DTYPE)
        positions = np.full(len(self), -1)
        positions[rows] = np.arange(len(rows))
        is_taken = positions[self.call_rows] >= 0
        in_session, is_term = values["session"] != NO_SESSION, words > 0
        sessions, values["session"][in_session] = renumber(values["session"][in_session], len(self.sessions))
        speakers, values["speaker"] = renumber(values["speaker"], len(self.speakers))
        has_line = values["line"] != NO_LINE
        lines, line_numbers = renumber(values["line"][has_line] - 1, len(self.lines))
        values["line"][has_line] = line_numbers + 1
        subjects, values["subject"] = renumber(values["subject"], len(self.subjects))
        forms, mark_forms = renumber(marks >> 1, len(self.forms))
        used_terms = np.concatenate([words[is_term] - 1, self.form_terms[forms]])
        terms, numbers = renumber(used_terms, len(self.terms))
        words[is_term] = numbers[: len(numbers) - len(forms)] + 1
        called, calls = renumber(self.calls[is_taken], len(self.called))
        return RecordBatch(
            ids=_pick(self.ids, rows),
            values=values,
            sessions=_pick(self.sessions, sessions),
            speakers=_pick(self.speakers, speakers),
            lines=_pick(self.lines, lines),
            subjects=_pick(self.subjects, subjects),
            terms=_pick(self.terms, terms),
            words=words,
            starts=starts,
            texts=starts[:-1] + (self.texts - self.starts[:-1])[rows],
            forms=_pick(self.forms, forms),
            form_terms=numbers[len(numbers) - len(forms) :],
            marks=mark_forms * 2 + (marks & 1),
            mark_starts=mark_starts,
            called=_pick(self.called, called),
            calls=calls,
            call_rows=positions[self.call_rows[is_taken]],
        )


def build_batch(records: Sequence[IndexRecord], term_of: Callable[[str], str | None]) -> RecordBatch:
    """Return the batch of *records*, no two of one id.

    *term_of* gives the term of a small-letter word, None for a word that is not exactly one term.
    """
    sessions, speakers, subjects, lines, terms, called = (_TextNumbers() for _ in range(6))
    surface_marks = _SurfaceMarks(term_of, terms)
    values = np.empty(len(records), dtype=RECORD_DTYPE)
    words: list[int] = []
    marks: list[int] = []
    starts, texts, mark_starts = [0], [], [0]
    calls: list[tuple[int, int]] = []
    values["session"] = [NO_SESSION if record.session is None else sessions[record.session] for record in records]
    values["speaker"] = [speakers[record.speaker] for record in records]
    values["line"] = [lines[record.line] + 1 if record.line else NO_LINE for record in records]
    values["subject"] = [subjects[record.subject] for record in records]
    for name in _PLAIN_FIELDS:
        values[name] = [getattr(record, name) for record in records]
    for i, record in enumerate(records):
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
        lines=tuple(lines),
        subjects=tuple(subjects),
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
    sessions, speakers, subjects, lines, terms, called, forms = (_TextNumbers() for _ in range(7))
    form_terms: dict[int, int] = {}
    values, words, marks, calls, call_rows = [], [], [], [], []
    count = 0
    for batch in batches:
        term_numbers, form_numbers = np.append(terms.numbers(batch.terms), -1), forms.numbers(batch.forms)
        form_terms.update(zip(form_numbers.tolist(), term_numbers[batch.form_terms].tolist(), strict=True))
        renumbered = copy_values(batch)
        renumbered["session"] = np.append(sessions.numbers(batch.sessions), NO_SESSION)[renumbered["session"]]
        renumbered["speaker"] = speakers.numbers(batch.speakers)[renumbered["speaker"]]
        renumbered["line"] = np.append(NO_LINE, lines.numbers(batch.lines) + 1)[renumbered["line"]]
        renumbered["subject"] = subjects.numbers(batch.subjects)[renumbered["subject"]]
        values.append(renumbered)
        words.append(term_numbers[batch.words - 1] + 1)  # the end of a sentence stays 0
        marks.append(form_numbers[batch.marks >> 1] * 2 + (batch.marks & 1))
        calls.append(called.numbers(batch.called)[batch.calls])
        call_rows.append(batch.call_rows + count)
        count += len(batch)
    starts = _join_starts([batch.starts for batch in batches])
    return RecordBatch(
        ids=tuple(chain.from_iterable(batch.ids for batch in batches)),
        values=np.concatenate([array.view(_AS_BYTES) for array in values]).view(RECORD_DTYPE),
        sessions=tuple(sessions),
        speakers=tuple(speakers),
        lines=tuple(lines),
        subjects=tuple(subjects),
        terms=tuple(terms),
        words=np.concatenate(words),
        starts=starts,
        texts=starts[:-1] + np.concatenate([batch.texts - batch.starts[:-1] for batch in batches]),
        forms=tuple(forms),
        form_terms=_int_array(form_terms[number] for number in range(len(forms))),
        marks=np.concatenate(marks),
        mark_starts=_join_starts([batch.mark_starts for batch in batches]),
        called=tuple(called),
        calls=np.concatenate(calls),
        call_rows=np.concatenate(call_rows),
    )


def copy_values(batch: RecordBatch) -> NDArray[np.void]:
    """Return a copy of the values of *batch*."""
    return batch.values.view(_AS_BYTES).copy().view(RECORD_DTYPE)


class RecordColumns:
    """The values of rows of batches, one behind the other; ``rows`` is to be read anew after each ``extend``."""

    def __init__(self) -> None:
        self._values = GrowableArray(_AS_BYTES)
        self._rows: NDArray[np.void] | None = None

    def __len__(self) -> int:
        return len(self._values)

    @property
    def rows(self) -> NDArray[np.void]:
        """All rows (``RECORD_DTYPE``)."""
        if self._rows is None:
            self._rows = self._values.rows.view(RECORD_DTYPE)
        return self._rows

    def make_room(self, more: int) -> None:
        """Make room for *more* rows."""
        self._rows = None
        self._values.make_room(more)

    def extend(self, values: NDArray[np.void]) -> None:
        """Add the rows *values*."""
        self._rows = None
        self._values.extend(values.view(_AS_BYTES))


def gather_spans(values: Ints, starts: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return the spans of *rows* in *values* end to end, and their starts with the end of the last."""
    if len(rows) > 1 and rows[-1] - rows[0] == len(rows) - 1 and bool((np.diff(rows) == 1).all()):
        bounds = starts[rows[0] : rows[-1] + 2]
        return values[bounds[0] : bounds[-1]].copy(), bounds.astype(np.int64) - bounds[0]
    first, lengths = starts[rows], starts[rows + 1] - starts[rows]
    ends = np.append(0, np.cumsum(lengths))
    positions = np.arange(int(ends[-1])) + np.repeat(first - ends[:-1], lengths)
    return values[positions], ends


def _join_starts(parts: Sequence[Ints]) -> Ints:
    """Return the starts of spans, with the end of the last, after the spans of all *parts* were put end to end."""
    return np.append(0, np.cumsum(np.concatenate([np.diff(starts) for starts in parts])))


def _pick(texts: Sequence[str], numbers: Ints) -> tuple[str, ...]:
    return tuple(texts[number] for number in numbers.tolist())


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


FOLDERS_OF_RULES = (Path(__file__).parents[1] / "languages", Path(__file__).parents[2] / "analysis")


@cache
def rules_fingerprint(folders: tuple[Path, ...] = FOLDERS_OF_RULES) -> str:
    """Return a hash of the modules, word lists and weights by which records are derived; those in *folders* too.

    A change of any rule thus derives the indexes of old files again. It takes a third of a millisecond, once a process.
    """
    digest = blake2b(digest_size=8)
    rules = sorted(file for folder in folders for file in folder.iterdir() if file.suffix in (".py", ".ini", ".npz"))
    for file in (Path(__file__).with_name("record.py"), Path(__file__), *rules):
        digest.update(file.read_bytes())
    return digest.hexdigest()


class RecordExtractor:
    """Extracts record batches from entries; equal entries give equal batches. *zone* is that of days."""

    def __init__(self, *, analyzer: Analyzer, lexicon: Lexicon, zone: tzinfo) -> None:
        self.fingerprint = f"{rules_fingerprint()}/{analyzer.fingerprint}/{zone}"
        """The rules of the extraction: batches are comparable where this is equal."""
        self._analyzer = analyzer
        self._lexicon = lexicon
        self._zone = zone
        self._term_of: dict[str, str | None] = {}

    def extract(
        self, entries: Sequence[Entry], terms: Sequence[Sequence[Sequence[str]]], *, conversation: bool
    ) -> RecordBatch:
        """Return the batch of *entries*, no two of one id; *terms* as ``View.terms`` returns them."""
        if conversation:
            analyze_texts(list(map(text_without_caption, entries)))  # many at once: the records find them known
        records = [
            build_record(
                entry,
                entry_terms,
                asking=self._analyzer.asking,
                lexicon=self._lexicon,
                zone=self._zone,
                conversation=conversation,
                label_terms=self._label_terms(entry) if conversation else (),
            )
            for entry, entry_terms in zip(entries, terms, strict=True)
        ]
        return build_batch(records, self.term_of)

    def _label_terms(self, entry: Entry) -> list[str]:
        tags, about = entry.metadata.get("tags"), entry.metadata.get("about")
        labels = [*(tags if isinstance(tags, list) else ()), *([about] if isinstance(about, str) else ())]
        return self._analyzer.terms(", ".join(labels))[:_MAX_LABEL_WORDS]

    def terms(self, entry: Entry) -> list[list[str]]:
        """Return the terms of *entry* as ``View.terms`` does: those of its context, then of each sentence."""
        return [self._analyzer.terms(entry.context), *self._analyzer.sentences(entry.text)]

    def term_of(self, form: str) -> str | None:
        """Return the term of the small-letter word *form*; None for a stop word or a compound."""
        if form not in self._term_of:
            terms = self._analyzer.terms(form)
            self._term_of[form] = terms[0] if len(terms) == 1 else None
        return self._term_of[form]
