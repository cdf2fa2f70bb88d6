"""Times and lengths of time as people type them: ``yesterday``, ``tomorrow 9:00``, ``last friday``, ``30d``, ISO 8601.

A time without an offset is in the local zone; a day without a time of day is its beginning.
"""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime, time, timedelta
from typing import Final

import typer

from tellback.agent.assistant.local_time import as_local, local_now, to_local

TIME_EXAMPLES: Final = "2026-05-03, 2026-05-03T18:30+01:00, yesterday, tomorrow 9:00, friday, 30d or 2 weeks ago"

_DAYS_OF_UNIT: Final = {
    **dict.fromkeys(("m", "min", "minute"), 1 / 1440),
    **dict.fromkeys(("h", "hour"), 1 / 24),
    **dict.fromkeys(("d", "day"), 1),
    **dict.fromkeys(("w", "week"), 7),
}
_MONTHS_OF_UNIT: Final = {"month": 1, "y": 12, "year": 12}
_LENGTH: Final = re.compile(r"(\d+|an?|one)\s*([a-z]+?)s?")
_AGO: Final = re.compile(r"(?:(in)\s+)?(.+?)(?:\s+(ago))?")
_DAY_TIME: Final = re.compile(r"(.+?)(?:\s+at)?\s+(\d{1,2})(?::(\d\d)(?::(\d\d))?)?\s*(am|pm)?")
_CLOCK: Final = re.compile(r"(?:at\s+)?(\d{1,2})(?::(\d\d)(?::(\d\d))?\s*(am|pm)?|\s*(am|pm))")
_WEEKDAY: Final = re.compile(r"(?:(last|next|this)\s+)?([a-z]{3,9})")
_NAMED_DAYS: Final = {"today": 0, "yesterday": -1, "tomorrow": 1}
_WEEKDAYS: Final = [name.lower() for name in calendar.day_name]


def parse_duration(text: str, *, name: str) -> timedelta:
    """Return the length of time that *text* names, such as 12h, 30d, 2w or "6 weeks"."""
    length = _parse_length(" ".join(text.strip().lower().split()))
    if length is None or length[1]:
        raise typer.BadParameter(f"{text!r} is not a length of time such as 12h, 30d or 2w", param_hint=name)
    try:
        return timedelta(days=length[0])
    except OverflowError as error:
        raise typer.BadParameter(f"{text!r} is too long", param_hint=name) from error


def parse_time(text: str | None, *, name: str, ahead: bool = False, now: datetime | None = None) -> datetime | None:
    """Return the time that *text* names, None for None.

    A bare length of time (``30d``) and a bare weekday lie before *now*, or with *ahead* after it.
    """
    if text is None:
        return None
    words = " ".join(text.strip().lower().split())
    present = now or local_now()
    try:
        moment = (
            _iso_time(text)
            or _relative_time(words, present, ahead=ahead)
            or _time_of_named_day(words, present, ahead=ahead)
        )
    except (OverflowError, ValueError):
        moment = None
    if moment is None:
        raise typer.BadParameter(f"{text!r} is not a time such as {TIME_EXAMPLES}", param_hint=name)
    try:
        return to_local(as_local(moment))
    except (OverflowError, OSError, ValueError):  # at the ends of the calendar
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _iso_time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        return None


def _relative_time(words: str, now: datetime, *, ahead: bool) -> datetime | None:
    """Return *now* for "now", else the time that lies a length of time from it: "30d", "in 3 hours", "2 weeks ago"."""
    if words == "now":
        return now
    match = _AGO.fullmatch(words)
    length = None if match is None else _parse_length(match[2])
    if match is None or length is None or (match[1] and match[3]):
        return None
    sign = 1 if match[1] or (ahead and not match[3]) else -1
    start = now if length[0] % 1 else now.replace(tzinfo=None)  # whole days keep the time of day over summer time
    return _months_later(start, sign * length[1]) + sign * timedelta(days=length[0])


def _parse_length(words: str) -> tuple[float, int] | None:
    """Return the days and the months that *words* name: a number and a unit."""
    match = _LENGTH.fullmatch(words)
    if match is None:
        return None
    count = int(match[1]) if match[1].isdigit() else 1
    if (days := _DAYS_OF_UNIT.get(match[2])) is not None:
        return count * days, 0
    months = _MONTHS_OF_UNIT.get(match[2])
    return None if months is None else (0, count * months)


def _months_later(moment: datetime, months: int) -> datetime:
    """Return the same day *months* later, or the last one of a shorter month."""
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    day = min(moment.day, calendar.monthrange(year, month + 1)[1])
    return moment.replace(year=year, month=month + 1, day=day)


def _time_of_named_day(words: str, now: datetime, *, ahead: bool) -> datetime | None:
    """Return the time that a day's name and a time of day mean; either alone is enough."""
    day, clock = words, time()
    if (match := _CLOCK.fullmatch(words)) is not None:
        day, clock = "today", _clock(match[1], match[2], match[3], match[4] or match[5])
    elif (match := _DAY_TIME.fullmatch(words)) is not None and (match[3] or match[5]):
        day, clock = match[1], _clock(*match.groups()[1:])
    distance = _NAMED_DAYS.get(day)
    if distance is None:
        distance = _days_to_weekday(day, now.weekday(), ahead=ahead)
    if distance is not None:
        date = now.date() + timedelta(days=distance)
    else:
        dated = _iso_time(day)
        if dated is None or day == words:
            return None
        date = dated.date()
    return datetime.combine(date, clock)  # naive, hence local: the zone applies its summer time to that day


def _clock(hour: str, minute: str | None, second: str | None, half: str | None) -> time:
    hours = int(hour)
    if half is not None:
        if not 1 <= hours <= 12:
            raise ValueError(f"no hour {hour} {half}")
        hours = hours % 12 + 12 * (half == "pm")
    return time(hours, int(minute or 0), int(second or 0))


def _days_to_weekday(words: str, today: int, *, ahead: bool) -> int | None:
    match = _WEEKDAY.fullmatch(words)
    if match is None:
        return None
    days = [number for number, name in enumerate(_WEEKDAYS) if name == match[2] or name[:3] == match[2]]
    if not days:
        return None
    forward = match[1] in ("next", "this") or (ahead and match[1] is None)
    if forward:
        return (days[0] - today - 1) % 7 + 1
    return -((today - days[0] - 1) % 7 + 1)
