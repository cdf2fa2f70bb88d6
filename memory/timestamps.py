"""Timestamps as stored text: UTC, ISO 8601 with microseconds, so that text order is time order from year 1 to 9999."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import TypeAlias

from tellback.memory.errors import ArgumentError

Clock: TypeAlias = Callable[[], datetime]


def system_clock() -> datetime:
    """Return the present moment, aware, in UTC."""
    return datetime.now(UTC)


def to_aware(moment: datetime, zone: tzinfo | None = None, *, argument: str = "time") -> datetime:
    """Return *moment* as it is if aware, else taken in *zone* (None: the system's zone)."""
    if not isinstance(moment, datetime):
        raise ArgumentError(argument, moment, "a datetime is needed")
    if moment.tzinfo is not None and moment.utcoffset() is not None:
        return moment
    try:
        return moment.replace(tzinfo=zone) if zone is not None else moment.astimezone()
    except (OverflowError, OSError, ValueError):  # the system's zone database ends before the calendar does
        return moment.replace(tzinfo=UTC)


def aware_clock(clock: Clock, zone: tzinfo | None = None) -> Clock:
    """Return *clock* with all its times aware: naive ones are taken in *zone* (None: the system's zone)."""
    return lambda: to_aware(clock(), zone, argument="clock")


def to_zone(moment: datetime, zone: tzinfo | None) -> datetime:
    """Return an aware *moment* as read in *zone* (None: the system's); as it is where the calendar ends in between."""
    try:
        return moment.astimezone(zone)
    except OverflowError:
        return moment


def timestamp_to_text(moment: datetime) -> str:
    """Return an aware *moment* as stored text; what UTC cannot express (at the ends of the calendar) is clamped."""
    try:
        utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    except OverflowError:
        utc = datetime.max.replace(tzinfo=UTC) if moment.year > 1 else datetime.min.replace(tzinfo=UTC)
    return utc.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def timestamp_from_text(text: str, offset: int | None = None) -> datetime:
    """Return the moment that *text* stores, in the zone *offset* seconds east of UTC where that is given."""
    moment = datetime.fromisoformat(text)
    if not offset:
        return moment
    try:
        return moment.astimezone(timezone(timedelta(seconds=offset)))
    except OverflowError:
        return moment


def utc_offset(moment: datetime) -> int:
    """Return the seconds east of UTC of an aware *moment*."""
    offset = None if moment.tzinfo is UTC else moment.utcoffset()
    return 0 if offset is None else int(offset.total_seconds())
