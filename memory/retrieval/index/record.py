"""The record of one memory in the retrieval index: a pure function of its entry, its terms and the language.

Its text features are seven yes/no facts about the text alone, as bits of one byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import IntFlag

from memory.codec import text_without_caption
from memory.retrieval.languages.base import Lexicon
from memory.retrieval.languages.dates import NO_DAY, PartialDate, find_dates
from memory.timestamps import timestamp_from_text, to_zone
from vectorstore import Entry, Metadata


class TextFeature(IntFlag):
    """What a text shows at a glance."""

    ASKS = 1
    """Holds a question mark."""
    ENDS_ASKING = 2
    """Ends with a question mark, and so says little itself."""
    FIRST_PERSON = 4
    """Its speaker speaks of themself."""
    TIME = 8
    NUMBER = 16
    NAME = 32
    """A capitalised word inside a sentence."""
    CHANGE = 64
    """Says that something is no longer as it was."""


_QUESTION_MARKS = ("?", "\uff1f")


def text_features(text: str, lexicon: Lexicon) -> int:
    """Return the cues of *text*, or'ed."""
    found = 0
    if "?" in text or "\uff1f" in text:
        found |= TextFeature.ASKS
        if text.rstrip(" \t\n\"')\u201d\u2019").endswith(_QUESTION_MARKS):
            found |= TextFeature.ENDS_ASKING
    if lexicon.first_person.search(text):
        found |= TextFeature.FIRST_PERSON
    if lexicon.time.search(text):
        found |= TextFeature.TIME
    if lexicon.number.search(text):
        found |= TextFeature.NUMBER
    if lexicon.name.search(text):
        found |= TextFeature.NAME
    if lexicon.change.search(text):
        found |= TextFeature.CHANGE
    return int(found)


NEVER = -(2**62)
"""Stands for a time that is not given."""
FOREVER = 2**62
"""Stands for an end that is not given."""
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_WEEK = 7
ROLES = ("user", "assistant")
TOOL_ROLE = "tool"
MAX_SENTENCES = 63
"""Of which is kept whether they ask: what fits into a number. Longer texts are no turns of a talk."""


@dataclass(frozen=True, slots=True)
class IndexRecord:
    """One memory as recall sees it; times in microseconds since 1970, days since 1970 in the memory's
    own zone.

    *day* is when it was said, *about* the day it speaks of, where it names one ("I moved last Sunday"). *asking* has a
    bit for each of the first ``MAX_SENTENCES`` sentences, 1 where it is a question. Asked for
    another time than now, it counts from *counts_from* until before *counts_to* (``NEVER``, ``FOREVER``: no bound).
    """

    id: str
    revision: int
    session: str | None
    order: tuple[float, int, str] | None
    speaker: str
    role: str
    day: int
    about: int
    cues: int
    asking: int
    terms: tuple[tuple[str, ...], ...]
    surfaces: tuple[str, ...]
    calls: tuple[str, ...]
    disabled: bool
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
) -> IndexRecord:
    """Return what recall keeps of *entry*; *terms* are the context's, then each sentence's.

    *asking* tells for each sentence of a text that has a term whether it is a question. What a tool answered belongs to
    its session and is no part of the talk: it has no neighbours there, and asks nobody anything.
    """
    fields = entry.metadata
    role = str(fields.get("role", ""))
    talk = conversation and role != TOOL_ROLE
    occurred = stored_microseconds(fields.get("occurred_at"))
    session = fields.get("session")
    day = _local_day(fields.get("occurred_at"), fields.get("occurred_at_offset"), zone)
    cues = text_features(text_without_caption(entry), lexicon) if talk else 0
    return IndexRecord(
        id=entry.id,
        revision=entry.revision,
        session=session if isinstance(session, str) and conversation else None,
        order=None if role == TOOL_ROLE else _turn_position(entry.id, fields.get("sequence"), occurred),
        speaker=str(fields.get("speaker") or (role if role in ROLES else "")),
        role=role,
        day=day,
        about=_mentioned_day(entry.text, day, lexicon) if cues & TextFeature.TIME else NO_DAY,
        cues=cues,
        asking=_question_bits(asking(entry.text)) if cues & TextFeature.ASKS else 0,
        terms=tuple(tuple(part) for part in terms),
        surfaces=tuple(_WORD.findall(entry.text)),
        calls=tuple(lexicon.call.findall(entry.text)) if talk else (),
        disabled=fields.get("disabled") is True,
        occurred_at=occurred,
        valid_from=stored_microseconds(fields.get("valid_from")),
        valid_to=stored_microseconds(fields.get("valid_to")),
        expires_at=stored_microseconds(fields.get("expires_at")),
        recorded_at=stored_microseconds(fields.get("recorded_at")),
        retired_at=stored_microseconds(fields.get("retired_at")),
        counts_from=_counts_from(fields),
        counts_to=_counts_to(fields),
    )


def stored_microseconds(value: object) -> int:
    """Return a stored time in microseconds since 1970, ``NEVER`` where there is none."""
    return to_microseconds(timestamp_from_text(value)) if isinstance(value, str) else NEVER


def to_microseconds(moment: datetime) -> int:
    """Return an aware *moment* in microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def _question_bits(asking: Sequence[bool]) -> int:
    return sum(1 << at for at, asks in enumerate(asking[:MAX_SENTENCES]) if asks)


def _counts_from(fields: Metadata) -> int:
    """What it says of itself, else what an undo gave it, else when it was written over an earlier version."""
    by_writing = stored_microseconds(fields.get("recorded_at")) if "supersedes" in fields else NEVER
    given = (stored_microseconds(fields.get(name)) for name in ("valid_from", "counts_from"))
    return next((moment for moment in given if moment != NEVER), by_writing)


def _counts_to(fields: Metadata) -> int:
    """What it says of itself, or where the version that replaced it begins, whichever is earlier."""
    if fields.get("withdrawn") is True:
        return NEVER
    ends = (
        stored_microseconds(fields.get("valid_to")),
        stored_microseconds(fields.get("counts_to", fields.get("retired_at"))),
    )
    return min((moment for moment in ends if moment != NEVER), default=FOREVER)


def _turn_position(key: str, sequence: object, occurred: int) -> tuple[float, int, str] | None:
    if isinstance(sequence, (int, float)):
        return (float(sequence), occurred, key)
    return None if occurred == NEVER else (float("inf"), occurred, key)


def _local_day(occurred: object, offset: object, zone: tzinfo) -> int:
    if not isinstance(occurred, str):
        return NO_DAY
    moment = timestamp_from_text(occurred, offset if isinstance(offset, int) else None)
    local = moment if offset else to_zone(moment, zone)
    return local.toordinal() - _EPOCH.toordinal()


def _mentioned_day(text: str, day: int, lexicon: Lexicon) -> int:
    """Return the first day that *text* names to within a week, reckoned from the *day* on which it was said."""
    if day == NO_DAY:
        return NO_DAY
    said = date.fromordinal(day + _EPOCH.toordinal())
    for one in find_dates(text, lexicon, said):
        if isinstance(one, PartialDate):
            if one.day is None or one.month is None:
                continue
            with suppress(ValueError):  # 31 February
                return date(one.year or said.year, one.month, one.day).toordinal() - _EPOCH.toordinal()
        elif (one.last - one.first).days < _WEEK and one.first != said:
            return one.first.toordinal() - _EPOCH.toordinal()
    return NO_DAY
