"""Dates in questions and how days match them."""

from datetime import date

import numpy as np
import pytest

from memory.retrieval.languages.base import NEUTRAL
from memory.retrieval.languages.dates import NO_DAY, DateSpan, PartialDate, date_match, find_dates
from memory.retrieval.languages.english import ENGLISH

TODAY = date(2026, 3, 2)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("What happened on 8 May, 2023?", PartialDate(2023, 5, 8)),
        ("What happened on May 8th, 2023?", PartialDate(2023, 5, 8)),
        ("on the 8th of May 2023", PartialDate(2023, 5, 8)),
        ("on 2023-05-08", PartialDate(2023, 5, 8)),
        ("in May 2023", PartialDate(2023, 5, None)),
        ("in 2023-05", PartialDate(2023, 5, None)),
        ("in May", PartialDate(None, 5, None)),
        ("on 3 december", PartialDate(None, 12, 3)),
        ("in 2023", PartialDate(2023, None, None)),
        ("what did I do yesterday", PartialDate(2026, 3, 1)),
        ("what did I say 3 days ago", PartialDate(2026, 2, 27)),
    ],
)
def test_a_date_is_read(text: str, named: PartialDate) -> None:
    assert find_dates(text, ENGLISH, TODAY) == (named,)


@pytest.mark.parametrize(
    "text",
    ["May I ask you something?", "she may come", "they march on", "at 10:30", "99 bottles", "v1.2023x"],
)
def test_what_is_no_date_is_not_read_as_one(text: str) -> None:
    assert find_dates(text, ENGLISH, TODAY) == ()


def test_two_dates_are_both_read() -> None:
    assert find_dates("between 8 May 2023 and June 2024", ENGLISH, TODAY) == (
        PartialDate(2023, 5, 8),
        PartialDate(2024, 6),
    )


def test_a_language_without_month_names_reads_figures() -> None:
    assert find_dates("am 8 May 2023 oder 2024-01-02", NEUTRAL, TODAY) == (PartialDate(2024, 1, 2), PartialDate(2023))


@pytest.mark.parametrize(
    ("day", "named", "expected"),
    [
        ("2023-05-08", PartialDate(2023, 5, 8), 1.0),
        ("2023-05-10", PartialDate(2023, 5, 8), 0.7),
        ("2023-05-07", PartialDate(2023, 5, 8), 0.5),
        ("2023-05-17", PartialDate(2023, 5, 8), 0.5),
        ("2023-05-30", PartialDate(2023, 5, 8), 0.0),
        ("2024-05-08", PartialDate(None, 5, 8), 1.0),
        ("2023-05-30", PartialDate(2023, 5), 1.0),
        ("2023-06-02", PartialDate(2023, 5), 0.4),
        ("2023-06-20", PartialDate(2023, 5), 0.0),
        ("2024-01-03", PartialDate(None, 12), 0.4),
        ("2023-11-03", PartialDate(2023), 0.3),
        ("2024-11-03", PartialDate(2023), 0.0),
    ],
)
def test_a_day_matches_a_named_date_by_nearness(day: str, named: PartialDate, expected: float) -> None:
    days = np.array([(date.fromisoformat(day) - date(1970, 1, 1)).days, NO_DAY], dtype=np.int32)
    assert date_match(days, (named,)).tolist() == [expected, 0.0]


def test_a_day_that_no_month_has_is_the_days_after_it() -> None:
    days = np.array([(date(2023, 3, 3) - date(1970, 1, 1)).days], dtype=np.int32)
    assert date_match(days, (PartialDate(2023, 2, 31),)).tolist() == [1.0]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("What did I plan last week?", "2026-02-23", "2026-03-01"),
        ("this week", "2026-03-02", "2026-03-08"),
        ("last weekend", "2026-02-28", "2026-03-01"),
        ("What did I say last month?", "2026-02-01", "2026-02-28"),
        ("two months ago", "2026-01-01", "2026-01-31"),
        ("14 months ago", "2025-01-01", "2025-01-31"),
        ("last year", "2025-01-01", "2025-12-31"),
        ("a year ago", "2025-01-01", "2025-12-31"),
        ("last March", "2025-03-01", "2025-03-31"),
        ("last January", "2026-01-01", "2026-01-31"),
        ("two weeks ago", "2026-02-13", "2026-02-19"),
        ("over the last three days", "2026-02-27", "2026-03-02"),
        ("in the past month", "2026-02-02", "2026-03-02"),
    ],
)
def test_days_are_reckoned_from_today(text: str, first: str, last: str) -> None:
    """Today is Monday, 2 March 2026."""
    assert find_dates(text, ENGLISH, TODAY) == (DateSpan(date.fromisoformat(first), date.fromisoformat(last)),)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("the day before yesterday", PartialDate(2026, 2, 28)),
        ("last Monday", PartialDate(2026, 2, 23)),
        ("last Sunday", PartialDate(2026, 3, 1)),
        ("What did I say tonight?", PartialDate(2026, 3, 2)),
    ],
)
def test_a_single_day_is_reckoned_as_that_day(text: str, day: PartialDate) -> None:
    assert find_dates(text, ENGLISH, TODAY) == (day,)


def test_the_end_of_a_month_is_kept_where_the_other_month_is_shorter() -> None:
    assert find_dates("in the last month", ENGLISH, date(2026, 3, 31)) == (
        DateSpan(date(2026, 2, 28), date(2026, 3, 31)),
    )


@pytest.mark.parametrize("text", ["999 years ago", "the last time", "last but not least", "a few ago", "this is it"])
def test_what_cannot_be_reckoned_names_no_date(text: str) -> None:
    assert find_dates(text, ENGLISH, date(600, 3, 31)) == ()


def test_a_day_inside_a_span_matches_and_one_soon_after_it_in_part() -> None:
    span = DateSpan(date(2026, 2, 23), date(2026, 3, 1))
    given = ["2026-02-22", "2026-02-23", "2026-03-01", "2026-03-03", "2026-03-05"]
    days = np.array([(date.fromisoformat(day) - date(1970, 1, 1)).days for day in given], dtype=np.int32)
    assert date_match(days, (span,)).tolist() == [0.0, 1.0, 1.0, 0.4, 0.0]
    year = DateSpan(date(2025, 1, 1), date(2025, 12, 31))
    assert date_match(np.array([20100], dtype=np.int32), (year,)).tolist() == [0.3]
