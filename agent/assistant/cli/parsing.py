"""Parsing of option values: durations (``30d``), days and times, scopes (``project=x``), filters in JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import typer

_DURATION_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION: Final = re.compile(r"(\d+)\s*([mhdw])")


def parse_duration(text: str, *, name: str) -> timedelta:
    """Return the length of time that *text* names: a number and one of m, h, d, w."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no length of time; say 12h, 30d or 2w", param_hint=name)
    try:
        return timedelta(**{_DURATION_UNITS[match[2]]: int(match[1])})
    except OverflowError as error:
        raise typer.BadParameter(f"{text!r} is too long", param_hint=name) from error


def parse_time(text: str | None, *, name: str) -> datetime | None:
    """Return the time that *text* names, None for None; without an offset in the local zone."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        problem = f"a time such as 2026-05-03 or 2026-05-03T18:30+01:00 is needed, got {text!r}"
        raise typer.BadParameter(problem, param_hint=name) from None
    try:
        return moment.astimezone()
    except (OverflowError, OSError, ValueError):  # at the ends of the calendar
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def parse_time_or_duration(text: str, *, name: str) -> datetime | timedelta:
    """Return the time that *text* names (2026-05-01, with or without a time of day), or a length of time."""
    if _DURATION.fullmatch(text.strip().lower()):
        return parse_duration(text, name=name)
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is neither a day (2026-05-01) nor a length of time (30d)", param_hint=name
        ) from error


def parse_scopes(words: Sequence[str], *, name: str) -> dict[str, str] | None:
    """Return the scopes that *words* name, each as NAME=VALUE; None where there are none."""
    scopes: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise typer.BadParameter(f"{word!r} is not NAME=VALUE, as in project=garden", param_hint=name)
        scopes[key.strip()] = value.strip()
    return scopes or None


def parse_filter(text: str | None, *, name: str) -> Mapping[str, Any] | None:
    """Return the filter that *text* writes as a JSON object."""
    if text is None:
        return None
    try:
        where = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"is not JSON ({error})", param_hint=name) from error
    if not isinstance(where, dict):
        raise typer.BadParameter('is not a JSON object, as in {"kind": "event"}', param_hint=name)
    return where
