"""Words of a question for a time that is past.

A period is named by a year, a season or month of it, a part of it ("early 2024", "the end of 2023"), a month alone (the
latest that is past), a day, or relative to today ("last spring", "two years ago"). The patterns are in
``statements.ini``; those of months and of relative dates are the language's own.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import lru_cache

from tellback.memory.retrieval.languages.dates import DateSpan, PartialDate, find_dates, month_span
from tellback.memory.retrieval.languages.lexicon import Lexicon, alternatives
from tellback.memory.retrieval.languages.statement_patterns import seasons, statement_pattern, statement_words

_PARTS = {"early": (1, 4), "middle": (5, 8), "late": (9, 12)}
"""Months of the parts of a year, the first and the last."""
_SEASON_MONTHS = 3
_DAY = timedelta(days=1)


def without_past_time(text: str, lexicon: Lexicon, today: date) -> str:
    """Return the question *text* without its words for a time before *today*; *text* where it names none.

    A question for an event (when, how long, why) keeps "then" and "before": they are part of what it asks.
    """
    period, rest = _find_period(text, lexicon, today)
    is_past = period is not None and period.last < today
    asks_event = statement_pattern("asks_event").match(text.lstrip(" ¿¡\"'")) is not None
    if not asks_event and (is_past or statement_pattern("then").search(text) or _was_before(rest)):
        rest = statement_pattern("then").sub(" ", _before_clause().sub(" ", rest) if _was_before(rest) else rest)
    elif not is_past:
        return text
    return " ".join(rest.split())


def asks_about_now(text: str, lexicon: Lexicon, today: date) -> bool:
    """Return whether the question *text* asks how things are on the day *today*: not when, how long or why something
    happened, and neither for a time before nor in the past tense."""
    if statement_pattern("asks_event").match(text.lstrip(" ¿¡\"'")) or without_past_time(text, lexicon, today) != text:
        return False
    return bool(statement_pattern("now").search(text)) or not statement_pattern("past").search(text)


def _find_period(text: str, lexicon: Lexicon, today: date) -> tuple[DateSpan | None, str]:
    """Return the period that *text* names, and the text without it; None and *text* where it names none."""
    for pattern in _period_patterns(tuple(lexicon.months.items())):
        match = pattern.search(text)
        if match is not None:
            span = _span_of(match, lexicon, today)
            return _bounded(span, match["bound"]), text[: match.start()] + " " + text[match.end() :]
    for reference in find_dates(text, lexicon, today):
        if isinstance(reference, DateSpan):
            return reference, lexicon.relative_dates.sub(" ", text)
        if reference.day is not None and reference.month is not None:
            return _span_of_day(reference, today), text
    return None, text


def _bounded(span: DateSpan, bound: str | None) -> DateSpan | None:
    """Return *span*, or all days before it ("before", "until"); None after it ("since")."""
    if bound is None:
        return span
    if statement_pattern("after").fullmatch(bound):
        return None
    return DateSpan(date.min, span.first - _DAY)


def _span_of(match: re.Match[str], lexicon: Lexicon, today: date) -> DateSpan:
    words = {name: word.lower() for name, word in match.groupdict().items() if word}
    if "season" in words:
        first = seasons()[words["season"]]
        if "year" in words:
            return _months(int(words["year"]), first, first + _SEASON_MONTHS - 1)
        ended = _months(today.year, first, first + _SEASON_MONTHS - 1).last < today
        return _months(today.year - (not ended), first, first + _SEASON_MONTHS - 1)
    month = lexicon.months[words["month"]] if "month" in words else int(words.get("number", 0))
    if month:
        year = int(words["year"]) if "year" in words else today.year - (month >= today.month)
        return _months(year, month, month)
    part = next((months for name, months in _PARTS.items() if _is_part(words.get("part", ""), name)), (1, 12))
    return _months(int(words["year"]), *part)


def _is_part(text: str, name: str) -> bool:
    return statement_pattern(name).fullmatch(text) is not None


def _months(year: int, first: int, last: int) -> DateSpan:
    """Return the days from the month *first* of *year* to the month *last*, which may be of the year after."""
    end_year, end = year + (last - 1) // 12, (last - 1) % 12 + 1
    return DateSpan(date(year, first, 1), month_span(end_year, end).last)


def _span_of_day(named: PartialDate, today: date) -> DateSpan | None:
    year, month = named.year, named.month
    if month is None or named.day is None:
        return None
    if year is None:
        year = today.year - ((month, named.day) > (today.month, today.day))
    try:
        day = date(year, month, named.day)
    except ValueError:  # 31 February
        return None
    return DateSpan(day, day)


@lru_cache(maxsize=8)
def _period_patterns(months: tuple[tuple[str, int], ...]) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of a period with a year, of "last spring", and of a month alone after a preposition."""
    season = f"(?P<season>{alternatives(seasons())})"
    month = f"(?P<month>{alternatives(dict(months))})" if months else "(?!)(?P<month>)"
    part = rf"(?:\b(?P<part>{'|'.join(map(statement_words, _PARTS))})[\s-]+(?:the\s+)?)"
    preposition = rf"(?:\b(?:{statement_words('preposition')})\s+)"
    bound = rf"(?:\b(?P<bound>{statement_words('before')}|{statement_words('after')})\s+)?"
    lead = rf"{bound}{preposition}?(?:\bthe\s+)?"
    year = r"\b(?P<year>(?:19|20)\d\d)"
    texts = (
        rf"{lead}{year}-(?P<number>1[0-2]|0[1-9])\b(?!-)",
        rf"{lead}{part}?(?:\b(?:{season}|{month})\b[\s,.]*(?:of\s+|de\s+)?)?{year}\b(?!-)",
        rf"{bound}\b(?:{statement_words('last_season')})\s+{season}\b",
        rf"(?:{lead}{part}|{preposition}){month}\b(?!\s+\d)",
    )
    return tuple(re.compile(text, re.IGNORECASE) for text in texts)


def _was_before(text: str) -> bool:
    """Return whether *text* asks for what was before something, and not for what is usual before it."""
    return bool(_before_clause().search(text) and statement_pattern("past").search(text))


@lru_cache(maxsize=1)
def _before_clause() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{statement_words('before')})\s+[^?.!,;]*", re.IGNORECASE)
