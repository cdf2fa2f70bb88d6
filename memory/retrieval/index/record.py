"""The record of one memory in the retrieval index: a pure function of its entry, its terms and the language.

Its text features are seven yes/no facts about the text alone, as bits of one byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import IntFlag

from tellback.memory.analysis.people import relations_of_line
from tellback.memory.analysis.texts import AnalyzedText, Trait, analyze_text, is_judged
from tellback.memory.codec import TIME_FIELDS, text_without_caption
from tellback.memory.embedders.lines import passages_of
from tellback.memory.models import DEFAULT_IMPORTANCE, Trust, Utterance, UtteranceKind
from tellback.memory.retrieval.languages.dates import NO_DAY, PartialDate, day_number, find_dates
from tellback.memory.retrieval.languages.lexicon import Lexicon
from tellback.memory.timestamps import timestamp_from_text, to_zone
from tellback.vectorstore import Entry, Metadata


class TextFeature(IntFlag):
    """Features of a text that patterns find."""

    ASKS = 1
    """Has a question mark."""
    ENDS_ASKING = 2
    """Ends with a question mark, and so states little itself."""
    FIRST_PERSON = 4
    """Its speaker speaks of themselves."""
    TIME = 8
    NUMBER = 16
    LONG = 32
    """Has passages with vectors of their own."""


_QUESTION_MARKS = ("?", "\uff1f")


_FEATURE_PATTERNS = {
    "first_person": TextFeature.FIRST_PERSON,
    "time": TextFeature.TIME,
    "number": TextFeature.NUMBER,
}
"""The feature that each of these patterns of a lexicon finds."""


def text_features(text: str, lexicon: Lexicon) -> int:
    """Return the features of *text* as bits (``TextFeature``)."""
    features = 0
    for name, feature in _FEATURE_PATTERNS.items():
        if getattr(lexicon, name).search(text):
            features |= feature
    if any(mark in text for mark in _QUESTION_MARKS):
        features |= TextFeature.ASKS
        if text.rstrip(" \t\n\"')\u201d\u2019").endswith(_QUESTION_MARKS):
            features |= TextFeature.ENDS_ASKING
    if passages_of(text):
        features |= TextFeature.LONG
    return int(features)


NEVER = -(2**62)
"""A time that is not given."""
FOREVER = 2**62
"""An end that is not given."""
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_WEEK = 7
ROLES = ("user", "assistant")
TOOL_ROLE = "tool"
_NO_STATEMENT = AnalyzedText(Utterance(UtteranceKind.STATEMENT))
MAX_SENTENCES = 63
"""Sentences of which a record tells whether they are questions: as many as a number has bits."""


@dataclass(frozen=True, slots=True)
class IndexRecord:
    """The record of one memory; times in microseconds since 1970, days since 1970 in the memory's own zone.

    *day* is that of its turn, *mentioned_day* the day that its text names ("I moved last Sunday"). A turn that is
    *placed* has a *sequence* in its session, an infinite one if only its time is known. *text_features* are bits of
    ``TextFeature``. *question_bits* has a bit for each of the first ``MAX_SENTENCES`` sentences, 1 for a question.
    *statement_features* are bits of ``Trait``, *subject* is that of ``AnalyzedText``, "" for None.
    *terms* are those of the context (heading, caption; *label_words* of them, the last, are those of its labels:
    tags, and the line that says what it is about), then of each sentence; *surfaces* the words of the text, *calls*
    words by which somebody is addressed. *demotion* tells that it states nothing. *trust* is the rank of its
    ``Trust``, 0 the most trusted. *line* says what it is about, without case and spacing; "" for none.

    For a query about another time than now, the memory is valid from *counts_from* until before *counts_to*
    (``NEVER``, ``FOREVER``: no bound).
    """

    id: str
    revision: int
    session: str | None
    speaker: str
    placed: bool
    sequence: float
    assistant: bool
    day: int
    mentioned_day: int
    text_features: int
    question_bits: int
    statement_features: int
    importance: float
    label_words: int
    terms: tuple[tuple[str, ...], ...]
    surfaces: tuple[str, ...]
    calls: tuple[str, ...]
    subject: str
    disabled: bool
    demotion: int
    trust: int
    line: str
    occurred_at: int
    valid_from: int
    valid_to: int
    expires_at: int
    recorded_at: int
    retired_at: int
    counts_from: int
    counts_to: int


def build_record(
    entry: Entry,
    terms: Sequence[Sequence[str]],
    *,
    asking: Callable[[str], Sequence[bool]],
    lexicon: Lexicon,
    zone: tzinfo,
    conversation: bool,
    label_terms: Sequence[str] = (),
) -> IndexRecord:
    """Return the record of *entry*; *terms* are those of its context, then of each sentence; *label_terms* of labels.

    *asking* tells for each sentence of a text that has a term whether it is a question. A tool's answer belongs to its
    session, but is no turn of the conversation: it has no neighbours and no text features.
    """
    fields = entry.metadata
    times = {name: _stored_microseconds(fields.get(name)) for name in TIME_FIELDS}
    role = str(fields.get("role", ""))
    is_turn = conversation and role != TOOL_ROLE
    session = fields.get("session")
    sequence = None if role == TOOL_ROLE else _turn_sequence(fields.get("sequence"), times["occurred_at"])
    times["occurred_at"] = max(times["occurred_at"], _last_repetition(fields))
    day = _local_day(fields.get("occurred_at"), fields.get("occurred_at_offset"), zone)
    statement_text = text_without_caption(entry) if is_turn else ""
    features = text_features(statement_text, lexicon) if is_turn else 0
    statement = analyze_text(statement_text) if is_turn else _NO_STATEMENT
    about = str(fields.get("about", "")) if conversation else ""
    relates = Trait.RELATES if relations_of_line(about) else Trait(0)
    questions = asking(entry.text)[:MAX_SENTENCES] if features & TextFeature.ASKS else ()
    return IndexRecord(
        id=entry.id,
        revision=entry.revision,
        session=session if isinstance(session, str) and conversation else None,
        speaker=str(fields.get("speaker") or (role if role in ROLES else "")),
        placed=sequence is not None,
        sequence=sequence or 0.0,
        assistant=role == "assistant",
        day=day,
        mentioned_day=_mentioned_day(entry.text, day, lexicon) if features & TextFeature.TIME else NO_DAY,
        text_features=features,
        statement_features=int(statement.traits | relates),
        question_bits=sum(1 << i for i, asks in enumerate(questions) if asks),
        importance=stored_importance(fields),
        label_words=len(label_terms),
        terms=((*terms[0], *label_terms), *(tuple(sentence) for sentence in terms[1:])),
        surfaces=tuple(_WORD.findall(entry.text)),
        calls=tuple(lexicon.call.findall(entry.text)) if is_turn else (),
        subject=statement.subject or "",
        disabled=fields.get("disabled") is True,
        demotion=demotion(entry) if conversation else 0,
        trust=Trust(fields.get("trust", Trust.USER)).rank,
        line=" ".join(about.casefold().split()),
        **{**times, "counts_from": _counts_from(fields, times), "counts_to": _counts_to(fields, times)},
    )


DEMOTED_BY_RULES = 1
DEMOTED_BY_CALLER = 2


def demotion(entry: Entry) -> int:
    """Return who demoted *entry*: the analysis, since it states nothing, or a caller; 0 for nobody."""
    fields = entry.metadata
    if isinstance(promoted := fields.get("evidence"), bool):
        return 0 if promoted else DEMOTED_BY_CALLER
    stored = fields.get("utterance")
    if stored is None and is_judged(fields.get("kind"), fields.get("role")):
        stored = analyze_text(text_without_caption(entry)).utterance.kind
    return 0 if stored is None or UtteranceKind(stored).is_evidence else DEMOTED_BY_RULES


def stored_importance(fields: Metadata) -> float:
    """Return the importance in the metadata of an entry, ``DEFAULT_IMPORTANCE`` where there is none."""
    importance = fields.get("importance")
    return float(importance) if isinstance(importance, (int, float)) else DEFAULT_IMPORTANCE


def _last_repetition(fields: Metadata) -> int:
    """Return when the memory was said for the last time again, ``NEVER`` where it was not."""
    repeated = fields.get("repeated")
    return (
        max((_stored_microseconds(repetition["at"]) for repetition in repeated), default=NEVER) if repeated else NEVER
    )


def _stored_microseconds(value: object) -> int:
    """Return a stored time in microseconds since 1970, ``NEVER`` where there is none."""
    return to_microseconds(timestamp_from_text(value)) if isinstance(value, str) else NEVER


def to_microseconds(moment: datetime) -> int:
    """Return an aware *moment* in microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def _counts_from(fields: Metadata, times: Mapping[str, int]) -> int:
    """Return valid_from, else the time that an undo gave the memory, else when it superseded an earlier version."""
    superseding = times["recorded_at"] if "supersedes" in fields else NEVER
    return next((times[name] for name in ("valid_from", "counts_from") if times[name] != NEVER), superseding)


def _counts_to(fields: Metadata, times: Mapping[str, int]) -> int:
    """Return the memory's valid_to or the start of the version that superseded it, whichever is earlier."""
    if fields.get("withdrawn") is True:
        return NEVER
    ends = times["valid_to"], times["counts_to" if "counts_to" in fields else "retired_at"]
    return min((moment for moment in ends if moment != NEVER), default=FOREVER)


def _turn_sequence(stored: object, occurred: int) -> float | None:
    """Return the place of a turn in its session, an infinite one where only its time is known, None for no turn."""
    if isinstance(stored, (int, float)):
        return float(stored)
    return None if occurred == NEVER else float("inf")


def _local_day(occurred: object, offset: object, zone: tzinfo) -> int:
    if not isinstance(occurred, str):
        return NO_DAY
    moment = timestamp_from_text(occurred, offset if isinstance(offset, int) else None)
    local = moment if offset else to_zone(moment, zone)
    return day_number(local)


def _mentioned_day(text: str, day: int, lexicon: Lexicon) -> int:
    """Return the first day that *text* names to within a week; relative dates count from *day*, that of the turn."""
    if day == NO_DAY:
        return NO_DAY
    today = date.fromordinal(day + _EPOCH.toordinal())
    for reference in find_dates(text, lexicon, today):
        if isinstance(reference, PartialDate):
            if reference.day is None or reference.month is None:
                continue
            with suppress(ValueError):  # 31 February
                day_named = date(reference.year or today.year, reference.month, reference.day)
                return day_number(day_named)
        elif (reference.last - reference.first).days < _WEEK and reference.first != today:
            return day_number(reference.first)
    return NO_DAY
