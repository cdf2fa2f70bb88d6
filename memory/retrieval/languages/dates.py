"""Dates named in a text, absolute and relative, and how well the day of a memory fits one.

Recognised are dates in words (where the lexicon has months) and in figures (2023-05-08), a month, a year, and relative
dates ("yesterday", "last March", "two weeks ago", "over the last month"). The group that matches tells the kind of a
relative date: a "day", a "count" of a "unit" ago, a "length" "of" units until now, a "weekday" or "month" that is past,
the "past" or "last" unit, "this" or the "present" one. In a question, dates are relative to today; in a memory, to the
day of its turn.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tellback.memory.retrieval.languages.lexicon import Lexicon, alternatives, lexicon_for
from tellback.vectorstore.internals import sorted_distinct

NO_DAY = -(2**31)
"""The day of a memory without a date."""
_EPOCH = date(1970, 1, 1)
_NUMERIC_DATE = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2}))?\b")
_YEAR = re.compile(r"\b(?P<year>(?:19|20)\d\d)\b")
_EARLY_DAYS = 10
_DAYS_AFTER = 3
_MAX_SPAN_DAYS = 62
"""Days of a span that still narrows the search; a longer one fits as loosely as a year."""
_AMBIGUOUS_MONTHS = frozenset({"may", "march"})
_DATE_PREPOSITION = re.compile(
    r"\b(?:in|of|during|since|by|until|till|before|after|last|next|this|early|late|mid|every|around)\s+$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class PartialDate:
    """A day, a month or a year; parts that were not named are None."""

    year: int | None = None
    month: int | None = None
    day: int | None = None


@dataclass(frozen=True, slots=True)
class DateSpan:
    """The days from *first* to *last*, both included."""

    first: date
    last: date


DateReference: TypeAlias = PartialDate | DateSpan


def find_dates(text: str, lexicon: Lexicon, today: date) -> tuple[DateReference, ...]:
    """Return the dates that *text* names; relative ones count from *today*."""
    spans = find_relative_dates(text, lexicon, today)
    dates: list[DateReference] = []
    rest = text
    for pattern in (
        *lexicon.date_patterns,
        _NUMERIC_DATE,
        *_date_patterns(tuple(lexicon.months), lexicon.ordinal, lexicon.of),
        _YEAR,
    ):
        for match in list(pattern.finditer(rest)):
            reference = _parse_date(match, lexicon)
            if reference is not None:
                dates.append(reference)
                rest = rest[: match.start()] + "#" * len(match.group()) + rest[match.end() :]
    if any(span.first != span.last for span in spans):  # "last March" is one March, not any
        dates = [
            reference for reference in dates if not (isinstance(reference, PartialDate) and reference.year is None)
        ]
    return (*dates, *(_collapse_span(span) for span in spans))


def date_match(days: NDArray[np.int32], dates: tuple[DateReference, ...]) -> NDArray[np.float64]:
    """Return how well each of *days* (since 1970, ``NO_DAY`` for none) fits the best of *dates*, in [0, 1]."""
    best = np.zeros(len(days))
    is_dated = days != NO_DAY
    for reference in dates if is_dated.any() else ():
        best[is_dated] = np.maximum(best[is_dated], _date_fit(days[is_dated].astype(np.int64), reference))
    return best


def _collapse_span(span: DateSpan) -> DateReference:
    """Return a span of one day as that day, which also fits the days after it: one tells of a day later."""
    day = span.first
    return span if day != span.last else PartialDate(day.year, day.month, day.day)


def _date_fit(days: NDArray[np.int64], named: DateReference) -> NDArray[np.float64]:
    if isinstance(named, DateSpan):
        first, last = day_number(named.first), day_number(named.last)
        inside = (days >= first) & (days <= last)
        soon = (days > last) & (days <= last + _DAYS_AFTER)
        return np.where(inside, 1.0 if last - first <= _MAX_SPAN_DAYS else 0.3, np.where(soon, 0.4, 0.0))
    moments = days.astype("datetime64[D]")
    months = moments.astype("datetime64[M]").astype(np.int64)
    years, of_year = months // 12 + 1970, months % 12 + 1
    if named.month is None:
        return np.where(years == named.year, 0.3, 0.0)
    if named.day is None:
        in_month = of_year == named.month
        in_next = of_year == named.month % 12 + 1
        if named.year is not None:
            number = (named.year - 1970) * 12 + named.month - 1
            in_month, in_next = months == number, months == number + 1
        early = (moments - moments.astype("datetime64[M]")).astype(np.int64) < _EARLY_DAYS
        return np.where(in_month, 1.0, np.where(in_next & early, 0.4, 0.0))
    best = np.zeros(len(days))
    for year in [named.year] if named.year is not None else sorted_distinct(years).tolist():
        distance = days - day_number(date(year, named.month, 1)) - (named.day - 1)
        fit = np.where((distance >= 1) & (distance <= 3), 0.7, np.where((distance >= -1) & (distance <= 10), 0.5, 0.0))
        best = np.maximum(best, np.where(distance == 0, 1.0, fit))
    return best


def day_number(day: date) -> int:
    """Return *day* as days since 1970."""
    return day.toordinal() - _EPOCH.toordinal()


@lru_cache(maxsize=8)
def _date_patterns(months: tuple[str, ...], ordinal: str, of: str) -> tuple[re.Pattern[str], ...]:
    if not months:
        return ()
    names = alternatives(months)
    month = rf"(?P<name>{names})\b\.?"
    day = rf"(?P<day>\d{{1,2}}){ordinal}"
    year = rf"(?:,?{of} (?P<year>(?:19|20)\d\d))"
    forms = (rf"\b{day}{of},? {month}{year}?", rf"\b{month} {day}(?!:){year}?", rf"\b{month}{year}?")
    return tuple(re.compile(form, re.IGNORECASE) for form in forms)


def _parse_date(match: re.Match[str], lexicon: Lexicon) -> PartialDate | None:
    parts = match.groupdict()
    word = parts.get("name")
    day = int(parts["day"]) if parts.get("day") else None
    year = int(parts["year"]) if parts.get("year") else None
    month = int(parts["month"]) if parts.get("month") else lexicon.months[word.lower()] if word else None
    if word and day is None and year is None and word.lower() in _AMBIGUOUS_MONTHS and not _is_month(match, word):
        return None
    if (month is not None and not 1 <= month <= 12) or (day is not None and not 1 <= day <= 31):
        return None
    return PartialDate(year, month, day)


def _is_month(match: re.Match[str], word: str) -> bool:
    return word[0].isupper() and _DATE_PREPOSITION.search(match.string[: match.start()]) is not None


_UNIT_TOLERANCE = {"day": 0, "week": 3}
"""Days by which a count of days or weeks may be wrong."""


def find_relative_dates(text: str, lexicon: Lexicon, today: date) -> tuple[DateSpan, ...]:
    """Return the spans of days that *text* names relative to *today*."""
    spans = []
    for match in lexicon.relative_dates.finditer(text):
        words = {name: part.lower() for name, part in match.groupdict().items() if part}
        with suppress(OverflowError, ValueError):  # before the year 1
            spans.append(_parse_span(words, lexicon, today))
    return tuple(spans)


def with_days(text: str, language: str, today: date) -> str:
    """Return *text* with the day behind each date that is relative to *today*: "last Thursday (19 November)".

    A date that may mean several days, such as "last week", stays alone.
    """
    lexicon = lexicon_for(language)

    def dated(match: re.Match[str]) -> str:
        words = {name: part.lower() for name, part in match.groupdict().items() if part}
        with suppress(OverflowError, ValueError):  # before the year 1
            span = _parse_span(words, lexicon, today)
            year = "" if span.first.year == today.year else f" {span.first.year}"
            if span.first == span.last:
                return f"{match[0]} ({span.first.day} {span.first:%B}{year})"
        return match[0]

    return lexicon.relative_dates.sub(dated, text)


def _parse_span(words: dict[str, str], lexicon: Lexicon, today: date) -> DateSpan:
    """Return the span that the *words* of a relative date name, by the group that matched each."""
    (kind,) = (name for name in words if name not in ("count", "length"))
    word = words[kind]
    unit = lexicon.units.get(word, word)
    if kind == "day":
        day = today - timedelta(days=lexicon.days[word])
        return DateSpan(day, day)
    if kind == "weekday":
        day = today - timedelta(days=(today.weekday() - lexicon.weekdays[word] - 1) % 7 + 1)
        return DateSpan(day, day)
    if kind == "month":
        number = lexicon.months[word]
        return month_span(today.year - (number >= today.month), number)
    if kind == "unit":
        return _span_ago(_parse_count(words["count"], lexicon), unit, today)
    if kind == "of":
        count = _parse_count(words["length"], lexicon) if "length" in words else 1
        return DateSpan(_subtract_units(today, count, unit), today)
    return _previous_span(unit, today) if kind in ("past", "last") else _calendar_span(unit, today)


def _span_ago(count: int, unit: str, today: date) -> DateSpan:
    day = _subtract_units(today, count, unit)
    if unit in _UNIT_TOLERANCE:
        spread = timedelta(days=_UNIT_TOLERANCE[unit])
        return DateSpan(day - spread, day + spread)
    return _calendar_span(unit, day)


def _previous_span(unit: str, today: date) -> DateSpan:
    if unit == "weekend":
        sunday = today - timedelta(days=today.weekday() + 1)
        return DateSpan(sunday - timedelta(days=1), sunday)
    return _calendar_span(unit, _subtract_units(_calendar_span(unit, today).first, 1, "day"))


def _calendar_span(unit: str, day: date) -> DateSpan:
    """Return the week (from Monday), weekend, month or year that *day* is in."""
    if unit == "year":
        return DateSpan(date(day.year, 1, 1), date(day.year, 12, 31))
    if unit == "month":
        return month_span(day.year, day.month)
    monday = day - timedelta(days=day.weekday())
    return DateSpan(monday + timedelta(days=5 if unit == "weekend" else 0), monday + timedelta(days=6))


def month_span(year: int, month: int) -> DateSpan:
    """Return the days of a month."""
    following = date(year + month // 12, month % 12 + 1, 1)
    return DateSpan(date(year, month, 1), following - timedelta(days=1))


def _subtract_units(day: date, count: int, unit: str) -> date:
    if unit in ("day", "week"):
        return day - timedelta(days=count * (7 if unit == "week" else 1))
    months = day.year * 12 + day.month - 1 - count * (12 if unit == "year" else 1)
    last = month_span(months // 12, months % 12 + 1).last
    return last.replace(day=min(day.day, last.day))


def _parse_count(word: str, lexicon: Lexicon) -> int:
    return int(word) if word.isdigit() else lexicon.counts[word]
