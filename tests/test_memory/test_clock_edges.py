"""Edge cases of times with a manual clock: set back, zones, ambiguous and nonexistent hours, years 1 and 9999.

Inner parts, on no face: ``tellback.memory.timestamps``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from tellback.memory import (
    HashingEmbedder,
    KnowledgeBase,
    LongTermMemory,
    Memory,
    Message,
    Retention,
    open_memory,
    run_sync,
)
from tellback.memory.timestamps import timestamp_to_text, to_aware
from tellback.vectorstore import LifecycleStore, open_store
from tests.support.clocks import ManualClock

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
HOUR = timedelta(hours=1)


@pytest.fixture
def memory(store: LifecycleStore) -> LongTermMemory:
    return LongTermMemory(store, clock=ManualClock(NOW), zone=BERLIN)


def homes(memory: LongTermMemory, **when: datetime) -> list[str]:
    return [hit.memory.text for hit in run_sync(memory.recall("Where does Ana live?", **when))]


def local(text: str, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(fold=fold)


# --- a clock that goes back


def test_versions_and_operations_keep_their_order_when_the_clock_goes_back(memory):
    item = run_sync(memory.remember("Ana lives in Porto.")).id
    memory.clock.now -= 100 * HOUR
    correction = run_sync(memory.correct(item, "Ana lives in Faro.")).operation
    memory.clock.now -= 100 * HOUR
    run_sync(memory.pin(item))
    run_sync(memory.undo(correction))
    history = run_sync(memory.history(item))
    assert [version.text.split()[-1] for version in history] == ["Porto.", "Faro.", "Porto."]
    assert [operation.kind for operation in history.operations] == ["undo", "pin", "correct", "remember"]
    assert history[0].recorded_at < history[1].recorded_at < history[2].recorded_at
    assert homes(memory) == ["Ana lives in Porto."]


def test_a_version_superseded_before_its_recorded_time_is_never_recalled_but_in_the_history(memory):
    item = run_sync(memory.remember("Ana lives in Porto.")).id
    memory.clock.now -= 10 * HOUR
    run_sync(memory.correct(item, "Ana lives in Faro."))
    assert homes(memory, known_at=NOW) == homes(memory, known_at=NOW - HOUR) == ["Ana lives in Faro."]
    assert homes(memory, known_at=NOW - 11 * HOUR) == []
    assert [version.text for version in run_sync(memory.history(item))] == ["Ana lives in Faro.", "Ana lives in Porto."]


def test_a_restart_with_an_earlier_clock_keeps_the_order_of_versions_and_operations(tmp_path):
    clock = ManualClock(NOW)
    with_clock = {"clock": clock, "zone": UTC}
    first = open_memory(tmp_path / "m.db", **with_clock)
    item = run_sync(first.remember("Ana lives in Porto.")).id
    run_sync(first.close())
    clock.now -= timedelta(days=4000)
    second = open_memory(tmp_path / "m.db", **with_clock)
    run_sync(second.correct(item, "Ana lives in Faro."))
    last = run_sync(second.correct(item, "Ana lives in Beja.")).operation
    assert [operation.kind for operation in run_sync(second.operations())] == ["correct", "correct", "remember"]
    run_sync(second.undo(last))
    assert [version.text.split()[-1] for version in run_sync(second.history(item))] == [
        "Faro.",
        "Beja.",
        "Faro.",
        "Porto.",
    ]
    run_sync(second.close())


def test_an_expired_memory_is_recalled_again_when_the_clock_goes_back(memory):
    item = run_sync(memory.remember("Ana lives in Porto.")).id
    run_sync(memory.expire(item, NOW))
    assert homes(memory) == []
    memory.clock.now -= timedelta(microseconds=1)
    assert homes(memory) == ["Ana lives in Porto."]


def test_a_recorded_time_given_by_the_caller_is_kept(memory):
    kept, plain = run_sync(memory.remember_many([Memory("old", recorded_at=NOW - 9 * HOUR), Memory("new")]))
    assert [item.recorded_at for item in run_sync(memory.get([kept.id, plain.id]))] == [NOW - 9 * HOUR, NOW]
    assert [item.text for item in run_sync(memory.list(known_at=NOW - HOUR))] == ["old"]


# --- zones


def test_naive_times_are_taken_in_the_configured_zone_everywhere(memory):
    noon = NOW.replace(tzinfo=None) + 2 * HOUR  # as read in Berlin in summer
    item = run_sync(memory.remember(Memory("Ana lives in Porto.", occurred_at=noon, expires_at=noon))).id
    (kept,) = run_sync(memory.get([item]))
    assert kept.occurred_at == kept.expires_at == NOW
    assert kept.occurred_at.utcoffset() == 2 * HOUR
    run_sync(memory.expire(item, noon + HOUR))
    run_sync(memory.correct(item, "Ana lives in Faro.", valid_from=noon - HOUR))
    run_sync(memory.end(item, noon + HOUR))
    (kept,) = run_sync(memory.get([item]))
    assert (kept.expires_at, kept.valid_from, kept.valid_to) == (NOW + HOUR, NOW - HOUR, NOW + HOUR)
    assert homes(memory, as_of=noon - HOUR) == homes(memory, known_at=noon) == ["Ana lives in Faro."]
    assert len(run_sync(memory.list(between=(noon, noon + HOUR)))) == 1
    assert len(run_sync(memory.list(between=(noon - HOUR, noon)))) == 0


def test_a_naive_clock_is_read_in_the_configured_zone(tmp_path):
    memory = LongTermMemory(open_store("numpy:"), clock=lambda: local("2026-06-01T14:00"), zone=BERLIN)
    report = run_sync(memory.remember("Ana lives in Porto."))
    (kept,) = run_sync(memory.get([report.id]))
    assert kept.recorded_at == run_sync(memory.operations())[0].at == NOW


@pytest.mark.parametrize("retention", [None, Retention(messages=9, unremembered="keep")])
def test_a_naive_clock_gives_messages_passages_and_tombstones_the_same_time(tmp_path, retention):
    clock = {"clock": lambda: local("2026-06-01T14:00"), "zone": BERLIN}
    memory = open_memory(tmp_path / "m.db", retention=retention, embedder=HashingEmbedder(), **clock)
    knowledge, notes = KnowledgeBase(memory), tmp_path / "notes.md"
    notes.write_text("The lantern hangs over the harbour.")
    run_sync(memory.remember_turn("s", [Message.user("Ana lives in Porto.")]))
    run_sync(knowledge.ingest([notes]))
    (stated,), (passage,) = run_sync(memory.conversations.load("s")), run_sync(knowledge.retrieve("lantern"))
    (recorded_at,) = (item.recorded_at for item in run_sync(memory.get([passage.id])))
    assert stated.at == recorded_at == NOW
    run_sync(knowledge.remove("notes.md"))
    documents = next(name for name in memory.tombstones.partitions() if "documents" in name)
    ((_, forgotten),) = memory.tombstones.ids(documents)[:1]
    assert forgotten == NOW
    run_sync(memory.close())


def test_an_ambiguous_local_hour_is_the_first_unless_its_fold_is_set(memory):
    first, second = local("2026-10-25T02:30"), local("2026-10-25T02:30", fold=1)
    assert timestamp_to_text(to_aware(first, BERLIN)) == "2026-10-25T00:30:00.000000Z"
    assert timestamp_to_text(to_aware(second, BERLIN)) == "2026-10-25T01:30:00.000000Z"
    ids = [run_sync(memory.remember(Memory("tea", valid_from=moment))).id for moment in (first, second)]
    kept = run_sync(memory.get(ids))
    assert kept[1].valid_from - kept[0].valid_from == HOUR
    assert [item.valid_from.utcoffset() for item in kept] == [2 * HOUR, HOUR]
    assert [item.id for item in run_sync(memory.list(as_of=second, order="oldest"))] == sorted(ids)
    assert [item.id for item in run_sync(memory.list(as_of=first))] == ids[:1]


def test_a_nonexistent_local_hour_is_read_with_the_offset_before_it():
    assert timestamp_to_text(to_aware(local("2026-03-29T02:30"), BERLIN)) == "2026-03-29T01:30:00.000000Z"


# --- the ends of the calendar


@pytest.mark.parametrize("zone", [UTC, timezone(14 * HOUR), timezone(-14 * HOUR)])
def test_the_first_and_last_possible_times_can_be_stored_and_recalled(memory, zone):
    first, last = datetime(1, 1, 1, tzinfo=zone), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=zone)
    item = run_sync(memory.remember(Memory("Ana lives in Porto.", valid_from=first, valid_to=last))).id
    run_sync(memory.expire(item, last))
    (kept,) = run_sync(memory.get([item]))
    assert (kept.valid_from.year, kept.valid_to.year, kept.expires_at.year) == (1, 9999, 9999)
    for moment in (first, last):
        run_sync(memory.list(as_of=moment, known_at=moment, between=(first, last)))
        homes(memory, as_of=moment, known_at=moment)
    assert homes(memory, as_of=datetime(1, 1, 2, 12, tzinfo=UTC)) == ["Ana lives in Porto."]
    assert homes(memory, as_of=datetime(9999, 12, 30, tzinfo=UTC)) == ["Ana lives in Porto."]
    correction = run_sync(memory.correct(item, "Ana lives in Faro.")).operation
    run_sync(memory.undo(correction))
    assert homes(memory, as_of=datetime(1, 1, 2, 12, tzinfo=UTC)) == ["Ana lives in Porto."]


@pytest.mark.parametrize("year", [1, 9999])
def test_remember_correct_and_undo_work_with_a_clock_at_the_end_of_the_calendar(memory, year):
    memory.clock.now = datetime(year, 1, 1, tzinfo=UTC)
    item = run_sync(memory.remember("Ana lives in Porto.")).id
    correction = run_sync(memory.correct(item, "Ana lives in Faro.")).operation
    assert homes(memory) == ["Ana lives in Faro."]
    run_sync(memory.undo(correction))
    assert homes(memory) == ["Ana lives in Porto."]
    assert run_sync(memory.stats()).first == memory.clock.now
