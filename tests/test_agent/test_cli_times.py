"""Times and durations as users type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import typer

from tellback.agent.assistant.cli.times import parse_duration, parse_time
from tests.support.command_line import CommandLine

SUNDAY = datetime(2026, 11, 22, 21, 30).astimezone()


@pytest.mark.parametrize(
    ("text", "behind", "ahead"),
    [
        ("now", "2026-11-22 21:30", None),
        ("today", "2026-11-22 00:00", None),
        ("yesterday", "2026-11-21 00:00", None),
        (" Yesterday  at 18:30 ", "2026-11-21 18:30", None),
        ("tomorrow 9:00", "2026-11-23 09:00", None),
        ("tomorrow 9am", "2026-11-23 09:00", None),
        ("9:15", "2026-11-22 09:15", None),
        ("12 am", "2026-11-22 00:00", None),
        ("friday", "2026-11-20 00:00", "2026-11-27 00:00"),
        ("sun 8:15", "2026-11-15 08:15", "2026-11-29 08:15"),
        ("last friday", "2026-11-20 00:00", None),
        ("next monday", "2026-11-23 00:00", None),
        ("30d", "2026-10-23 21:30", "2026-12-22 21:30"),
        ("90 minutes", "2026-11-22 20:00", "2026-11-22 23:00"),
        ("2 weeks ago", "2026-11-08 21:30", None),
        ("in 3 days", "2026-11-25 21:30", None),
        ("a month ago", "2026-10-22 21:30", None),
        ("in 1 year", "2027-11-22 21:30", None),
        ("2026-05-03", "2026-05-03 00:00", None),
        ("2026-05-03 18:30", "2026-05-03 18:30", None),
    ],
)
def test_relative_and_spoken_times_are_parsed(text: str, behind: str, ahead: str | None) -> None:
    for wanted, forward in ((behind, False), (ahead or behind, True)):
        moment = parse_time(text, name="--at", ahead=forward, now=SUNDAY)
        assert moment == datetime.fromisoformat(wanted).astimezone()


def test_a_month_after_the_last_of_january_is_the_last_of_february() -> None:
    moment = parse_time("in 1 month", name="--at", now=datetime(2026, 1, 31, 12).astimezone())
    assert moment == datetime(2026, 2, 28, 12).astimezone()


def test_a_time_with_an_offset_is_that_moment() -> None:
    assert parse_time("2026-05-03T18:30+01:00", name="--at") == datetime(2026, 5, 3, 17, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        *("soon", "", "30", "yesterday 25:00", "13 pm", "friday friday", "tomorrow 9", "in 2 weeks ago"),
        *("2026-13-01", "99999999999d", "9999999 years ago"),
    ],
)
def test_an_invalid_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a time such as 2026-05-03"):
        parse_time(text, name="--at")


def test_a_duration_is_a_number_and_a_unit() -> None:
    assert parse_duration("12h", name="--grace") == timedelta(hours=12)
    assert parse_duration("6 Weeks", name="--grace") == timedelta(weeks=6)
    for text in ("soon", "3", "2 months", "99999999999d"):
        with pytest.raises(typer.BadParameter):
            parse_duration(text, name="--grace")


def test_options_of_commands_take_relative_times(tellback: CommandLine) -> None:
    old = tellback.json("remember", "The boat was sold.", "--at", "5 weeks ago")["id"]
    new = tellback.json("remember", "The car was sold.", "--at", "yesterday", "--expires", "30d")["id"]
    assert [memory["id"] for memory in tellback.json("list", "--since", "2 weeks ago")["memories"]] == [new]
    expires = datetime.fromisoformat(tellback.json("show", new)["expires_at"])
    assert timedelta(days=29) < expires - datetime.now(UTC) < timedelta(days=31)
    assert tellback.json("forget", "--older-than", "30d", "--yes")["memories"] == [old]
    assert tellback("memories", "expire", new, "--at", "tomorrow 9:00").code == 0
