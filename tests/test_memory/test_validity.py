"""Bounds of validity, knowledge and expiry to the microsecond, in recall, list and counts.

With clocks and times without a zone, which are taken in the zone of the memory.

Inner parts, on no face: ``tellback.memory.write.provenance``.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from tellback.memory import LongTermMemory, Memory, Message, RecallSettings, run_sync
from tellback.memory.internals import ARCHIVE, CONVERSATION, store_namespace
from tellback.memory.write.provenance import retired_entry
from tellback.vectorstore import open_store
from tests.support.data_only_store import DataOnlyStore
from tests.support.homes import HOMES, address_in_home

ZONE = timezone(timedelta(hours=5, minutes=45))
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
INSTANT = timedelta(microseconds=1)
HOUR = timedelta(hours=1)


class Hand:
    """Manual clock; *naive*: without a zone."""

    def __init__(self, *, naive: bool) -> None:
        self.now = NOW
        self.naive = naive

    def __call__(self) -> datetime:
        return self.now.astimezone(ZONE).replace(tzinfo=None) if self.naive else self.now


@pytest.fixture(params=[*HOMES, "naive clock"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LongTermMemory]:
    store = open_store(address_in_home(request, tmp_path))
    kept = LongTermMemory(store, clock=Hand(naive=request.param == "naive clock"), zone=ZONE)
    yield kept
    run_sync(kept.close())


def shown(memory: LongTermMemory, **when: datetime) -> list[str]:
    """Return what recall finds, having seen that list and count say the same."""
    found = run_sync(memory.recall("Where does Ana live?", **when))
    recalled = sorted(hit.memory.text for hit in found)
    if when:
        listed = run_sync(memory.list(disabled=False, expired=False, **when))
        assert sorted(item.text for item in listed) == recalled
        assert run_sync(memory.count(disabled=False, expired=False, **when)) == len(recalled)
    return recalled


def put(memory: LongTermMemory, now: datetime) -> None:
    memory.clock.now = now


def naive(moment: datetime) -> datetime:
    return moment.astimezone(ZONE).replace(tzinfo=None)


@pytest.mark.parametrize("told", [lambda moment: moment, naive])
def test_a_memory_is_recalled_from_valid_from_inclusive_to_valid_to_exclusive(memory, told):
    start, end = NOW + HOUR, NOW + 2 * HOUR
    run_sync(memory.remember(Memory("Ana lives in Porto.", valid_from=told(start), valid_to=told(end))))
    for moment, present in ((start - INSTANT, 0), (start, 1), (end - INSTANT, 1), (end, 0)):
        put(memory, NOW)
        assert len(shown(memory, as_of=told(moment))) == present
        put(memory, moment)
        assert len(shown(memory)) == present
    stats = run_sync(memory.stats())
    assert (stats.ended, stats.first) == (1, NOW)
    put(memory, end - INSTANT)
    assert run_sync(memory.stats()).ended == 0


@pytest.mark.parametrize("told", [lambda moment: moment, naive])
def test_a_version_is_known_from_its_recording_until_its_correction(memory, told):
    item = run_sync(memory.remember("Ana lives in Porto.")).id
    put(memory, NOW + HOUR)
    run_sync(memory.correct(item, "Ana lives in Faro."))
    put(memory, NOW + 9 * HOUR)
    assert shown(memory, known_at=told(NOW - INSTANT)) == []
    assert shown(memory, known_at=told(NOW)) == ["Ana lives in Porto."]
    assert shown(memory, known_at=told(NOW + HOUR - INSTANT)) == ["Ana lives in Porto."]
    assert shown(memory, known_at=told(NOW + HOUR)) == ["Ana lives in Faro."]
    assert shown(memory, as_of=told(NOW + HOUR - INSTANT)) == ["Ana lives in Porto."]
    assert shown(memory, as_of=told(NOW + HOUR)) == ["Ana lives in Faro."]


@pytest.mark.parametrize("told", [lambda moment: moment, naive])
def test_an_expiring_memory_is_absent_from_every_call_from_its_expiry_on(memory, told):
    item = run_sync(memory.remember("Ana lives in Porto.")).id
    run_sync(memory.expire(item, told(NOW + HOUR)))
    for moment, present in ((NOW + HOUR - INSTANT, 1), (NOW + HOUR, 0)):
        put(memory, moment)
        assert len(shown(memory)) == len(shown(memory, as_of=told(NOW + HOUR))) == present
        assert run_sync(memory.count(expired=False)) == present
        assert run_sync(memory.count(expired=True)) == run_sync(memory.stats()).expired == 1 - present
    run_sync(memory.pin(item))
    assert run_sync(memory.pinned()) == []
    put(memory, NOW)
    assert len(run_sync(memory.pinned())) == 1


def test_every_operation_has_the_moment_of_the_clock_in_its_zone(memory):
    item = run_sync(memory.remember("Ana lives in Porto.")).id
    other = run_sync(memory.remember_many(["Ana has a boat."]))[0].id
    run_sync(memory.remember_turn("s", [Message.user("Where is it?")]))
    run_sync(memory.pin(item))
    correction = run_sync(memory.correct(item, "Ana lives in Faro.")).operation
    run_sync(memory.undo(correction))
    run_sync(memory.end(item, NOW + HOUR))
    run_sync(memory.merge([item, other], "Ana lives in Faro and has a boat."))
    run_sync(memory.forget([item], grace=HOUR))
    log = run_sync(memory.operations())
    assert [operation.kind for operation in log] == [
        *["forget", "merge", "end", "undo", "correct", "pin", "remember", "remember", "remember"]
    ]
    assert {operation.at for operation in log} == {NOW}
    run_sync(memory.restore_forgotten(log[0].id))
    history = run_sync(memory.history(item))
    assert {version.recorded_at for version in history} == {NOW}
    assert {version.retired_at for version in history} == {None, NOW}
    assert run_sync(memory.operations(limit=1))[0].at == NOW


def test_forget_older_than_reads_a_naive_time_in_the_zone_of_the_memory(memory):
    run_sync(memory.remember(Memory("Ana lives in Porto.", occurred_at=NOW)))
    assert run_sync(memory.forget(older_than=naive(NOW), dry_run=True)).memories == ()
    assert len(run_sync(memory.forget(older_than=naive(NOW + INSTANT), dry_run=True)).memories) == 1
    put(memory, NOW + HOUR)
    assert run_sync(memory.forget(older_than=HOUR, dry_run=True)).memories == ()
    assert len(run_sync(memory.forget(older_than=HOUR - INSTANT, dry_run=True)).memories) == 1


def test_validity_bounds_are_the_same_on_a_store_with_the_data_part_alone():
    memory = LongTermMemory(DataOnlyStore(open_store("numpy:")), clock=Hand(naive=False))
    items = [
        Memory("Ana lives in Porto.", expires_at=NOW + HOUR),
        Memory("Ana lives in Faro.", valid_from=NOW + HOUR),
        Memory("Ana lives in Beja.", valid_to=NOW + HOUR),
        Memory("Ana lives in Evora.", disabled=True),
    ]
    run_sync(memory.remember_many(items))
    for moment, present in ((NOW + HOUR - INSTANT, ["Beja", "Porto"]), (NOW + HOUR, ["Faro"])):
        put(memory, moment)
        found = run_sync(memory.recall("Where does Ana live?"))
        assert sorted(hit.memory.text.split()[-1].rstrip(".") for hit in found) == present


def test_a_version_without_valid_to_is_valid_until_it_was_retired(memory):
    """As a file that another program has written may have it."""
    lane, archive = store_namespace("", CONVERSATION), store_namespace("", ARCHIVE)
    kept = run_sync(memory.remember("Ana lives in Porto.")).id
    (entry,) = memory.store.get([kept], namespace=lane)
    memory.store.upsert([retired_entry(entry, NOW + HOUR)], namespace=archive)
    memory.store.delete([kept], namespace=lane)
    assert shown(memory, as_of=NOW + HOUR - INSTANT) == ["Ana lives in Porto."]
    assert shown(memory, as_of=NOW + HOUR) == []


NOT_STANDING = [{"expires_at": NOW}, {"disabled": True}, {"valid_from": NOW + HOUR}, {"valid_to": NOW}]


@pytest.mark.parametrize("fields", NOT_STANDING)
@pytest.mark.parametrize("kind", ["whole", "data only"])
def test_expired_disabled_and_invalid_memories_take_no_candidate_places(fields, kind):
    """More than the searches name as candidates, and each nearer to the question than what is to be found."""
    store, few = open_store("numpy:"), RecallSettings(candidates=3)
    memory = LongTermMemory(store if kind == "whole" else DataOnlyStore(store), clock=lambda: NOW, recall_settings=few)
    lines = run_sync(memory.remember_many(Memory(f"Ana lives in house {n}.", **fields) for n in range(100)))
    rumour = Memory("Where Ana sleeps nobody ever knew, but there is a rumour about a barge.", tags=("this",))
    run_sync(memory.remember(rumour))
    assert [hit.memory.text for hit in run_sync(memory.recall("Where does Ana live?", 1))] == [rumour.text]
    if kind == "whole":
        stage = run_sync(memory.why_not("Where does Ana live?", lines[7].id)).stage
        assert stage == {"expires_at": "expired", "disabled": "disabled"}.get(next(iter(fields)), "validity")


def test_memories_recorded_after_known_at_take_no_candidate_places():
    """Nothing here has a bound of its own: it is the time asked about that leaves them out."""
    clock = Hand(naive=False)
    few = RecallSettings(candidates=3)
    memory = LongTermMemory(open_store("numpy:"), clock=clock, recall_settings=few)
    rumour = run_sync(memory.remember("Where Ana sleeps nobody ever knew, but there is a rumour about a barge."))
    clock.now = NOW + HOUR
    run_sync(memory.remember_many(f"Ana lives in house {n}." for n in range(9)))
    found = run_sync(memory.recall("Where does Ana live?", 1, known_at=NOW))
    assert [hit.memory.id for hit in found] == [rumour.id]


@pytest.mark.parametrize("kind", ["whole", "data only"])
def test_memories_outside_the_tag_or_scope_filter_take_no_candidate_places(kind):
    store, few = open_store("numpy:"), RecallSettings(candidates=3)
    memory = LongTermMemory(store if kind == "whole" else DataOnlyStore(store), clock=lambda: NOW, recall_settings=few)
    run_sync(memory.remember_many(Memory(f"Ana lives in house {n}.", tags=("other",)) for n in range(100)))
    rumour = Memory("Where Ana sleeps nobody knew.", tags=("this", "x"), scopes={"project": "ana"})
    run_sync(memory.remember(rumour))
    for options in ({"tags": ["this", "that"]}, {"scopes": {"project": "ana"}}, {"where": {"scope.project": "ana"}}):
        found = run_sync(memory.recall("Where does Ana live?", 1, **options))
        assert [hit.memory.text for hit in found] == [rumour.text]
