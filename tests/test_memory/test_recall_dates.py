"""Dates in questions: days matched, questions about a time, and statements that changed between two dates.

Inner parts, on no face: ``tellback.memory.retrieval.languages.dates``, ``tellback.memory.retrieval.languages.lexicon``.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from tellback.memory import LongTermMemory, Memory
from tellback.memory import run_sync as run
from tellback.memory.retrieval.languages.dates import NO_DAY, DateSpan, PartialDate, date_match, find_dates, with_days
from tellback.memory.retrieval.languages.lexicon import NEUTRAL, lexicon_for
from tellback.vectorstore import open_store

ENGLISH = lexicon_for("english")
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
def test_find_dates_reads_each_english_date_form(text: str, named: PartialDate) -> None:
    assert find_dates(text, ENGLISH, TODAY) == (named,)


@pytest.mark.parametrize(
    "text",
    ["May I ask you something?", "she may come", "they march on", "at 10:30", "99 bottles", "v1.2023x"],
)
def test_find_dates_reads_no_date_where_none_is_named(text: str) -> None:
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


def test_a_date_beyond_the_end_of_its_month_matches_the_days_after_it() -> None:
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
def test_relative_time_spans_are_resolved_from_today(text: str, first: str, last: str) -> None:
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
def test_relative_single_days_are_resolved_from_today(text: str, day: PartialDate) -> None:
    assert find_dates(text, ENGLISH, TODAY) == (day,)


def test_a_month_span_starts_at_the_last_day_of_a_shorter_month() -> None:
    assert find_dates("in the last month", ENGLISH, date(2026, 3, 31)) == (
        DateSpan(date(2026, 2, 28), date(2026, 3, 31)),
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("We met last Thursday.", "We met last Thursday (26 February)."),
        ("We met yesterday and 3 days ago.", "We met yesterday (1 March) and 3 days ago (27 February)."),
        ("It rained last week.", "It rained last week."),
        ("We met on 3 May.", "We met on 3 May."),
    ],
)
def test_a_relative_day_is_shown_with_its_date_and_a_longer_time_stays(text: str, shown: str) -> None:
    assert with_days(text, "english", date(2026, 3, 2)) == shown
    assert with_days("gestern", "german", date(2026, 1, 1)) == "gestern (31 December 2025)"


@pytest.mark.parametrize("text", ["999 years ago", "the last time", "last but not least", "a few ago", "this is it"])
def test_an_unresolvable_relative_time_gives_no_date(text: str) -> None:
    assert find_dates(text, ENGLISH, date(600, 3, 31)) == ()


def test_a_day_inside_a_span_matches_and_one_soon_after_it_in_part() -> None:
    span = DateSpan(date(2026, 2, 23), date(2026, 3, 1))
    given = ["2026-02-22", "2026-02-23", "2026-03-01", "2026-03-03", "2026-03-05"]
    days = np.array([(date.fromisoformat(day) - date(1970, 1, 1)).days for day in given], dtype=np.int32)
    assert date_match(days, (span,)).tolist() == [0.0, 1.0, 1.0, 0.4, 0.0]
    year = DateSpan(date(2025, 1, 1), date(2025, 12, 31))
    assert date_match(np.array([20100], dtype=np.int32), (year,)).tolist() == [0.3]


NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


SAID = {
    40: ["The roof was repaired by two workers."],
    3: ["Last Sunday the cat ran away.", "The soup was too salty."],
    1: ["I bought a red kettle.", "My tooth hurts."],
    0: ["The kettle is already broken."],
}


@pytest.fixture
def talk(tmp_path):
    opened = LongTermMemory(open_store(f"sqlite:///{tmp_path}/m.db"), clock=lambda: NOW)
    for back, texts in SAID.items():
        moment = NOW - timedelta(days=back)
        run(opened.remember_many([Memory(text, speaker="Ana", occurred_at=moment) for text in texts]))
    yield opened
    run(opened.close())


def dated(talk: LongTermMemory, question: str, k: int = 2) -> list[str]:
    return [hit.memory.text for hit in run(talk.recall(question, k))]


def test_a_query_naming_only_a_time_finds_the_turns_of_that_time_latest_first(talk):
    answer = run(talk.recall("What did I say yesterday?", 2))
    assert [hit.memory.text for hit in answer] == ["My tooth hurts.", "I bought a red kettle."]
    assert answer.abstain is None
    assert dated(talk, "What happened last month?", 3)[-1:] != ["The roof was repaired by two workers."]
    assert dated(talk, "What did we talk about in January?", 1) == ["The roof was repaired by two workers."]


def test_a_time_in_a_query_decides_between_matches_of_its_other_words(talk):
    assert dated(talk, "What about the kettle yesterday?", 1) == ["I bought a red kettle."]
    assert dated(talk, "What about the kettle today?", 1) == ["The kettle is already broken."]


def test_a_memory_about_another_day_is_found_by_the_date_of_that_day(talk):
    """Said on Friday, 27 February; last Sunday was the 22nd."""
    assert dated(talk, "What happened on 22 February 2026?", 1) == ["Last Sunday the cat ran away."]


def test_a_query_about_a_time_without_turns_abstains(talk):
    answer = run(talk.recall("What did I say on 5 June 2025?", 2))
    assert answer.abstain == "nothing"


def test_yesterday_in_a_query_is_resolved_in_the_configured_zone(tmp_path):
    zone = ZoneInfo("Pacific/Auckland")
    talk = LongTermMemory(open_store(f"sqlite:///{tmp_path}/z.db"), clock=lambda: NOW, zone=zone)
    late = datetime(2026, 3, 2, 23, 30, tzinfo=zone)  # the day before, where it is already the 3rd
    run(talk.remember(Memory("The ferry left late.", occurred_at=late)))
    assert dated(talk, "What did I say yesterday?", 1) == ["The ferry left late."]
    run(talk.close())


def test_relative_times_in_a_query_with_as_of_are_resolved_from_that_time(talk):
    asked = run(talk.recall("What did I say yesterday?", 1, as_of=NOW - timedelta(days=2)))
    assert [hit.memory.text for hit in asked] == ["The soup was too salty."]


@pytest.fixture
def memory(tmp_path):
    opened = LongTermMemory(open_store(f"sqlite:///{tmp_path}/m.db"), clock=lambda: NOW)
    yield opened
    run(opened.close())


def told(memory: LongTermMemory, back: int, text: str, speaker: str = "Ana") -> str:
    position = NOW - timedelta(days=back)
    return run(memory.remember(Memory(text, speaker=speaker, occurred_at=position))).id


def found(memory: LongTermMemory, question: str, **options: object) -> list[str]:
    return [hit.memory.id for hit in run(memory.recall(question, **options))]


def test_recall_with_as_of_ranks_what_was_said_later_last(memory):
    old = told(memory, 50, "The choir practice of our street is on Monday.")
    new = told(memory, 10, "The choir practice of our street is on Friday now.")
    question = "On which day is the choir practice of our street?"
    assert found(memory, question, as_of=NOW - timedelta(days=30))[0] == old
    assert set(found(memory, question, as_of=NOW - timedelta(days=5))) == {old, new}


def test_statements_of_other_speakers_and_repeated_events_outdate_nothing(memory):
    mine = told(memory, 50, "My choir practice is on Monday.", "Ana")
    told(memory, 10, "My choir practice is on Friday.", "Ben")
    assert run(memory.recall("When is Ana's choir practice?"))[0].memory.id == mine
    told(memory, 40, "The ferry to the island sank in the harbour.")
    told(memory, 20, "The ferry to the harbour sank near the island.")
    hits = run(memory.recall("Why did the ferry sink?"))
    assert [hit.outdated_by for hit in hits] == [None] * len(hits)


@pytest.mark.parametrize(
    ("question", "old", "new"),
    [
        ("Where does the key of the cellar hang?", "The key of the cellar hangs in the hall.",
         "The key of the attic hangs in the kitchen."),
        ("Where does my friend Anna live?", "My friend Anna lives in Rome.", "My friend Ben lives in Oslo."),
        ("What is the number of box A7?", "The number of box A7 is 49.", "The number of box A10 is 70."),
        ("Where does the key of the cellar hang?", "The key of the cellar hangs in the hall.",
         "The key of the attic now hangs in the kitchen."),
    ],
)  # fmt: skip
def test_a_later_statement_about_another_subject_outdates_nothing(memory, question: str, old: str, new: str):
    asked_for = told(memory, 50, old)
    told(memory, 10, new)
    hits = run(memory.recall(question))
    assert hits[0].memory.id == asked_for
    assert [hit.outdated_by for hit in hits] == [None] * len(hits)


def test_a_statement_outdates_from_its_valid_from_time_not_its_occurred_at_time(memory):
    told(memory, 50, "The rent of the flat is nine hundred.")
    position = NOW - timedelta(days=5)
    late = Memory(
        "The rent of the flat is now a thousand.",
        speaker="Ana",
        occurred_at=position,
        valid_from=position - timedelta(40),
    )
    new = run(memory.remember(late)).id
    assert found(memory, "What is the rent of the flat?", as_of=NOW - timedelta(days=20))[0] == new


def test_the_order_of_writes_does_not_change_which_statement_is_current(memory):
    new = told(memory, 10, "The choir practice of our street is on Friday now.")
    old = told(memory, 50, "The choir practice of our street is on Monday.")
    assert found(memory, "On which day is the choir practice of our street?") == [new, old]


def test_a_memory_that_only_its_date_names_passes_the_filters_and_is_not_disabled(memory):
    day = datetime(2025, 8, 11, 9, tzinfo=UTC)
    kept, other, gone = run(
        memory.remember_many(
            [
                Memory("Long walk.", occurred_at=day, tags=("mine",)),
                Memory("Short swim.", occurred_at=day, tags=("theirs",)),
                Memory("Late tea.", occurred_at=day, tags=("mine",), disabled=True),
            ]
        )
    )
    question = "What happened on 11 August 2025?"
    assert {hit.memory.id for hit in run(memory.recall(question))} == {kept.id, other.id}
    assert [hit.memory.id for hit in run(memory.recall(question, tags=["mine"]))] == [kept.id]
    assert gone.id not in {hit.memory.id for hit in run(memory.recall(question, all_utterances=True))}
