"""Dates named in a text, and how well the day of a memory fits one.

Recognised are dates in words (where the lexicon has months) and in figures (2023-05-08), a month, a year, and relative
dates (``relative_dates``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.languages.base import Lexicon
from memory.retrieval.languages.relative_dates import DateSpan, find_relative_dates

NO_DAY = -(2**31)
"""The day of what has none."""
_EPOCH = date(1970, 1, 1)
_NUMERIC_DATE = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2}))?\b")
_YEAR = re.compile(r"\b(?P<year>(?:19|20)\d\d)\b")
_EARLY_DAYS = 10
_DAYS_AFTER = 3
_MAX_SPAN_DAYS = 62
"""A span of more days says little, as a year does."""
_AMBIGUOUS_MONTHS = frozenset({"may", "march"})
_DATE_PREPOSITION = re.compile(
    r"\b(?:in|of|during|since|by|until|till|before|after|last|next|this|early|late|mid|every|around)\s+$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class PartialDate:
    """A day, a month or a year, as far as it was named; what was not is None."""

    year: int | None = None
    month: int | None = None
    day: int | None = None


DateReference: TypeAlias = PartialDate | DateSpan


def find_dates(text: str, lexicon: Lexicon, today: date) -> tuple[DateReference, ...]:
    """Return the dates that *text* names; those reckoned from another day from *today*."""
    spans = find_relative_dates(text, lexicon, today)
    found: list[DateReference] = []
    left = text
    for pattern in (
        *lexicon.dates,
        _NUMERIC_DATE,
        *_date_patterns(tuple(lexicon.months), lexicon.ordinal, lexicon.of),
        _YEAR,
    ):
        for match in list(pattern.finditer(left)):
            named = _parse_date(match, lexicon)
            if named is not None:
                found.append(named)
                left = left[: match.start()] + "#" * len(match.group()) + left[match.end() :]
    if any(span.first != span.last for span in spans):  # "last March" is that one, not any
        found = [one for one in found if not (isinstance(one, PartialDate) and one.year is None)]
    return (*found, *(_collapse_span(span) for span in spans))


def date_match(days: NDArray[np.int32], dates: tuple[DateReference, ...]) -> NDArray[np.float64]:
    """Return how well each of *days* (since 1970, ``NO_DAY`` for none) fits the best of *dates*, in [0,
    1].
    """
    best = np.zeros(len(days))
    given = days != NO_DAY
    for named in dates if given.any() else ():
        best[given] = np.maximum(best[given], _date_fit(days[given].astype(np.int64), named))
    return best


def _collapse_span(span: DateSpan) -> DateReference:
    """Return a span of one day as that day: what happened on it may be told in those that follow."""
    day = span.first
    return span if day != span.last else PartialDate(day.year, day.month, day.day)


def _date_fit(days: NDArray[np.int64], named: DateReference) -> NDArray[np.float64]:
    if isinstance(named, DateSpan):
        first, last = (day.toordinal() - _EPOCH.toordinal() for day in (named.first, named.last))
        inside = (days >= first) & (days <= last)
        soon = (days > last) & (days <= last + _DAYS_AFTER)
        return np.where(inside, 1.0 if last - first <= _MAX_SPAN_DAYS else 0.3, np.where(soon, 0.4, 0.0))
    moments = days.astype("datetime64[D]")
    months = moments.astype("datetime64[M]").astype(np.int64)
    years, of_year = months // 12 + 1970, months % 12 + 1
    if named.month is None:
        return np.where(years == named.year, 0.3, 0.0)
    if named.day is None:
        right = of_year == named.month
        following = of_year == named.month % 12 + 1
        if named.year is not None:
            at = (named.year - 1970) * 12 + named.month - 1
            right, following = months == at, months == at + 1
        early = (moments - moments.astype("datetime64[M]")).astype(np.int64) < _EARLY_DAYS
        return np.where(right, 1.0, np.where(following & early, 0.4, 0.0))
    best = np.zeros(len(days))
    for year in [named.year] if named.year is not None else np.unique(years).tolist():
        apart = days - _days_since_epoch(year, named.month, named.day)
        near = np.where((apart >= 1) & (apart <= 3), 0.7, np.where((apart >= -1) & (apart <= 10), 0.5, 0.0))
        best = np.maximum(best, np.where(apart == 0, 1.0, near))
    return best


def _days_since_epoch(year: int, month: int, day: int) -> int:
    first = date(year, month, 1)
    return (first - _EPOCH).days + day - 1


@lru_cache(maxsize=8)
def _date_patterns(months: tuple[str, ...], ordinal: str, of: str) -> tuple[re.Pattern[str], ...]:
    if not months:
        return ()
    names = "|".join(sorted(months, key=len, reverse=True))
    month = rf"(?P<name>{names})\b\.?"
    day = rf"(?P<day>\d{{1,2}}){ordinal}"
    year = rf"(?:,?(?:{of})? (?P<year>(?:19|20)\d\d))"
    forms = (rf"\b{day}(?:{of})?,? {month}{year}?", rf"\b{month} {day}(?!:){year}?", rf"\b{month}{year}?")
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
