"""Relative dates: "yesterday", "last March", "two weeks ago", "over the last month".

The rules are written for English words; the lexicon of another language has a pattern with the same groups, and maps
its words to the English ones. In a question, dates are relative to today; in a memory, to the day of its turn.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

from memory.retrieval.languages.base import Lexicon

_DAYS = {
    "today": 0,
    "tonight": 0,
    "this morning": 0,
    "this afternoon": 0,
    "this evening": 0,
    "yesterday": 1,
    "last night": 1,
    "the day before yesterday": 2,
}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_COUNTS = {
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "a couple of": 2,
    "a few": 3,
    "several": 4,
}
_COUNT = r"\d{1,3}|" + "|".join(sorted(_COUNTS, key=len, reverse=True))
_SPREAD = {"day": 0, "week": 3}
"""Days by which a count of days or weeks may be off."""


@dataclass(frozen=True, slots=True)
class Span:
    """The days from *first* to *last*, both of them in it."""

    first: date
    last: date


def reckoned(text: str, lexicon: Lexicon, today: date) -> tuple[Span, ...]:
    """Return the spans of days that *text* names from *today*; none where *lexicon* knows no months."""
    if not lexicon.months:
        return ()
    found = []
    for match in (lexicon.reckoned or _pattern(lexicon)).finditer(text):
        words = {name: part.lower() for name, part in match.groupdict().items() if part}
        try:
            found.append(_span({name: lexicon.canon.get(word, word) for name, word in words.items()}, lexicon, today))
        except (OverflowError, ValueError):  # before the year 1
            continue
    return tuple(found)


def _pattern(lexicon: Lexicon) -> re.Pattern[str]:
    months = "|".join(sorted(lexicon.months, key=len, reverse=True))
    return re.compile(
        rf"\b(?:(?P<day>{'|'.join(sorted(_DAYS, key=len, reverse=True))})"
        rf"|(?P<count>{_COUNT}) (?P<unit>day|week|month|year)s? ago"
        rf"|(?:in|over|during|for|within) the (?:last|past) (?:(?P<length>{_COUNT}) )?(?P<of>day|week|month|year)s?"
        rf"|(?:last|previous|past) (?:(?P<past>week|month|year|weekend)|(?P<weekday>{'|'.join(_WEEKDAYS)})"
        rf"|(?P<month>{months}))"
        rf"|this (?P<this>week|month|year|weekend))\b",
        re.IGNORECASE,
    )


def _span(said: dict[str, str], lexicon: Lexicon, today: date) -> Span:
    if "day" in said:
        day = today - timedelta(days=_DAYS[said["day"]])
        return Span(day, day)
    if "unit" in said:
        return _ago(_number(said["count"]), said["unit"], today)
    if "of" in said:
        return Span(_back(today, _number(said.get("length", "one")), said["of"]), today)
    if "weekday" in said:
        day = today - timedelta(days=(today.weekday() - _WEEKDAYS.index(said["weekday"]) - 1) % 7 + 1)
        return Span(day, day)
    if "month" in said:
        number = lexicon.months[said["month"]]
        return _month(today.year - (number >= today.month), number)
    if "past" in said or "last" in said:
        return _past(said.get("past") or said["last"], today)
    return _whole(said.get("this") or said["present"], today)


def _ago(count: int, unit: str, today: date) -> Span:
    day = _back(today, count, unit)
    if unit in _SPREAD:
        spread = timedelta(days=_SPREAD[unit])
        return Span(day - spread, day + spread)
    return _whole(unit, day)


def _past(unit: str, today: date) -> Span:
    if unit == "weekend":
        sunday = today - timedelta(days=today.weekday() + 1)
        return Span(sunday - timedelta(days=1), sunday)
    return _whole(unit, _back(_whole(unit, today).first, 1, "day"))


def _whole(unit: str, day: date) -> Span:
    """Return the week (from Monday), weekend, month or year that *day* is in."""
    if unit == "year":
        return Span(date(day.year, 1, 1), date(day.year, 12, 31))
    if unit == "month":
        return _month(day.year, day.month)
    monday = day - timedelta(days=day.weekday())
    return Span(monday + timedelta(days=5 if unit == "weekend" else 0), monday + timedelta(days=6))


def _month(year: int, month: int) -> Span:
    following = date(year + month // 12, month % 12 + 1, 1)
    return Span(date(year, month, 1), following - timedelta(days=1))


def _back(day: date, count: int, unit: str) -> date:
    if unit in ("day", "week"):
        return day - timedelta(days=count * (7 if unit == "week" else 1))
    months = day.year * 12 + day.month - 1 - count * (12 if unit == "year" else 1)
    last = _month(months // 12, months % 12 + 1).last
    return last.replace(day=min(day.day, last.day))


def _number(word: str) -> int:
    return int(word) if word.isdigit() else _COUNTS[word]
