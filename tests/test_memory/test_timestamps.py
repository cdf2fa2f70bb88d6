"""Timestamps: aware times, their order as text, and naive times of a zone.

Inner parts, on no face: ``tellback.memory.timestamps``.
"""

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.memory import ArgumentError
from tellback.memory.internals import system_clock
from tellback.memory.timestamps import timestamp_from_text, timestamp_to_text, to_aware, utc_offset

OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(
    min_value=datetime.fromisoformat("0001-01-02T00:00"),
    max_value=datetime.fromisoformat("9999-12-30T00:00"),
    timezones=st.one_of(st.just(UTC), OFFSETS),
)


@given(MOMENTS, MOMENTS)
def test_timestamp_texts_sort_in_time_order(one, other):
    assert (timestamp_to_text(one) < timestamp_to_text(other)) == (one < other)


@given(MOMENTS)
def test_a_timestamp_survives_the_round_trip_with_its_offset(moment):
    back = timestamp_from_text(timestamp_to_text(moment), utc_offset(moment))
    assert back == moment
    assert back.utcoffset() == moment.utcoffset()


def test_stored_times_are_utc_with_microseconds():
    assert (
        timestamp_to_text(datetime(2026, 5, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))))
        == "2026-05-01T00:03:00.000000Z"
    )


def test_times_beyond_the_utc_calendar_are_clamped():
    east, west = timezone(timedelta(hours=14)), timezone(timedelta(hours=-14))
    assert timestamp_to_text(datetime(1, 1, 1, tzinfo=east)) == "0001-01-01T00:00:00.000000Z"
    assert timestamp_to_text(datetime(9999, 12, 31, 23, 59, tzinfo=west)).startswith("9999-12-31T23:59:59")
    assert timestamp_from_text("9999-12-31T23:59:59.999999Z", 3600).year == 9999


def test_a_naive_time_is_read_in_the_given_zone():
    berlin = ZoneInfo("Europe/Berlin")
    moment = to_aware(datetime.fromisoformat("2026-07-01T12:00"), berlin)
    assert moment.utcoffset() == timedelta(hours=2)
    assert to_aware(datetime.fromisoformat("2026-01-01T12:00"), berlin).utcoffset() == timedelta(hours=1)


def test_a_naive_time_without_a_zone_is_read_in_the_system_zone():
    moment = to_aware(datetime.fromisoformat("2026-07-01T12:00"))
    assert moment.utcoffset() == datetime.fromisoformat("2026-07-01T12:00").astimezone().utcoffset()


def test_a_time_whose_zone_names_no_offset_is_naive():
    class Nowhere(tzinfo):
        def utcoffset(self, moment):
            return None

    moment = to_aware(datetime(2026, 7, 1, 12, tzinfo=Nowhere()), ZoneInfo("Europe/Berlin"))
    assert moment.utcoffset() == timedelta(hours=2)


def test_an_aware_time_stays_as_it_is():
    moment = datetime(2026, 7, 1, tzinfo=timezone(timedelta(hours=5)))
    assert to_aware(moment, UTC) is moment


@pytest.mark.parametrize("year", [1, 9999])
def test_naive_times_at_the_ends_of_the_calendar_are_accepted(year):
    assert to_aware(datetime.fromisoformat(f"{year:04}-01-01")).tzinfo is not None


@pytest.mark.parametrize("bad", ["2026-01-01", 5, None])
def test_to_aware_of_a_value_other_than_a_datetime_raises(bad):
    with pytest.raises(ArgumentError, match="valid_from"):
        to_aware(bad, argument="valid_from")


def test_the_system_clock_returns_aware_utc_times():
    assert system_clock().utcoffset() == timedelta(0)
