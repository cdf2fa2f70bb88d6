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
_UNIT_TOLERANCE = {"day": 0, "week": 3}
"""Days by which a count of days or weeks may be off."""


@dataclass(frozen=True, slots=True)
class DateSpan:
    """The days from *first* to *last*, both of them in it."""

    first: date
    last: date


def find_relative_dates(text: str, lexicon: Lexicon, today: date) -> tuple[DateSpan, ...]:
    """Return the spans of days that *text* names from *today*; none where *lexicon* knows no months."""
    if not lexicon.months:
        return ()
    found = []
    for match in (lexicon.reckoned or _english_pattern(lexicon)).finditer(text):
        words = {name: part.lower() for name, part in match.groupdict().items() if part}
        try:
            found.append(
                _parse_span({name: lexicon.canon.get(word, word) for name, word in words.items()}, lexicon, today)
            )
        except (OverflowError, ValueError):  # before the year 1
            continue
    return tuple(found)


def _english_pattern(lexicon: Lexicon) -> re.Pattern[str]:
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


def _parse_span(said: dict[str, str], lexicon: Lexicon, today: date) -> DateSpan:
    if "day" in said:
        day = today - timedelta(days=_DAYS[said["day"]])
        return DateSpan(day, day)
    if "unit" in said:
        return _span_ago(_parse_count(said["count"]), said["unit"], today)
    if "of" in said:
        return DateSpan(_subtract_units(today, _parse_count(said.get("length", "one")), said["of"]), today)
    if "weekday" in said:
        day = today - timedelta(days=(today.weekday() - _WEEKDAYS.index(said["weekday"]) - 1) % 7 + 1)
        return DateSpan(day, day)
    if "month" in said:
        number = lexicon.months[said["month"]]
        return _month_span(today.year - (number >= today.month), number)
    if "past" in said or "last" in said:
        return _previous_span(said.get("past") or said["last"], today)
    return _calendar_span(said.get("this") or said["present"], today)


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
        return _month_span(day.year, day.month)
    monday = day - timedelta(days=day.weekday())
    return DateSpan(monday + timedelta(days=5 if unit == "weekend" else 0), monday + timedelta(days=6))


def _month_span(year: int, month: int) -> DateSpan:
    following = date(year + month // 12, month % 12 + 1, 1)
    return DateSpan(date(year, month, 1), following - timedelta(days=1))


def _subtract_units(day: date, count: int, unit: str) -> date:
    if unit in ("day", "week"):
        return day - timedelta(days=count * (7 if unit == "week" else 1))
    months = day.year * 12 + day.month - 1 - count * (12 if unit == "year" else 1)
    last = _month_span(months // 12, months % 12 + 1).last
    return last.replace(day=min(day.day, last.day))


def _parse_count(word: str) -> int:
    return int(word) if word.isdigit() else _COUNTS[word]
