"""Dates named in a question, and how well a memory's day matches one.

Knows dates in words (where the lexicon has months) and in figures (2023-05-08), a month, a year, and days
reckoned from today. Not dates inside the memories: their day is that on which they were said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from memory.recall.lexicon import Lexicon
from memory.recall.rows import NO_DAY

_EPOCH = date(1970, 1, 1)
_FIGURES = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2}))?\b")
_YEAR = re.compile(r"\b(?P<year>(?:19|20)\d\d)\b")
_BEFORE_TODAY = re.compile(
    r"\b(?:(?P<today>today)|(?P<yesterday>yesterday)|(?P<ago>\d{1,3}) days? ago)\b", re.IGNORECASE
)
_EARLY_DAYS = 10
_AMBIGUOUS = frozenset({"may", "march"})
_LEADS = re.compile(
    r"\b(?:in|of|during|since|by|until|till|before|after|last|next|this|early|late|mid|every|around)\s+$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Named:
    """A day, a month or a year, as far as it was named; what was not is None."""

    year: int | None = None
    month: int | None = None
    day: int | None = None


def dates_in(text: str, lexicon: Lexicon, today: date) -> tuple[Named, ...]:
    """Return the dates that *text* names."""
    found: list[Named] = []
    left = text
    for pattern in (_FIGURES, *_written(tuple(lexicon.months)), _YEAR):
        for match in list(pattern.finditer(left)):
            named = _named(match, lexicon)
            if named is not None:
                found.append(named)
                left = left[: match.start()] + "#" * len(match.group()) + left[match.end() :]
    found.extend(_reckoned(text, today))
    return tuple(found)


def date_match(days: NDArray[np.int32], dates: tuple[Named, ...]) -> NDArray[np.float64]:
    """Return how well each of *days* (since 1970, ``NO_DAY`` for none) fits the best of *dates*, in [0,
    1].
    """
    best = np.zeros(len(days))
    given = days != NO_DAY
    for named in dates if given.any() else ():
        best[given] = np.maximum(best[given], _fit(days[given].astype(np.int64), named))
    return best


def _fit(days: NDArray[np.int64], named: Named) -> NDArray[np.float64]:
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
        apart = days - _days(year, named.month, named.day)
        near = np.where((apart >= 1) & (apart <= 3), 0.7, np.where((apart >= -1) & (apart <= 10), 0.5, 0.0))
        best = np.maximum(best, np.where(apart == 0, 1.0, near))
    return best


def _days(year: int, month: int, day: int) -> int:
    first = date(year, month, 1)
    return (first - _EPOCH).days + day - 1


@lru_cache(maxsize=8)
def _written(months: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    if not months:
        return ()
    names = "|".join(sorted(months, key=len, reverse=True))
    month = rf"(?P<name>{names})\b\.?"
    day = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\b"
    year = r"(?:,? (?:of )?(?P<year>(?:19|20)\d\d))"
    forms = (rf"\b{day}(?: of)?,? {month}{year}?", rf"\b{month} {day}(?!:){year}?", rf"\b{month}{year}?")
    return tuple(re.compile(form, re.IGNORECASE) for form in forms)


def _named(match: re.Match[str], lexicon: Lexicon) -> Named | None:
    parts = match.groupdict()
    word = parts.get("name")
    day = int(parts["day"]) if parts.get("day") else None
    year = int(parts["year"]) if parts.get("year") else None
    month = int(parts["month"]) if parts.get("month") else lexicon.months[word.lower()] if word else None
    if word and day is None and year is None and word.lower() in _AMBIGUOUS and not _month_here(match, word):
        return None
    if (month is not None and not 1 <= month <= 12) or (day is not None and not 1 <= day <= 31):
        return None
    return Named(year, month, day)


def _month_here(match: re.Match[str], word: str) -> bool:
    return word[0].isupper() and _LEADS.search(match.string[: match.start()]) is not None


def _reckoned(text: str, today: date) -> Iterator[Named]:
    for match in _BEFORE_TODAY.finditer(text):
        back = 0 if match["today"] else 1 if match["yesterday"] else int(match["ago"])
        day = today - timedelta(days=back)
        yield Named(day.year, day.month, day.day)
