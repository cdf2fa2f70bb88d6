"""Ids of memories: in the order of time, or of an idempotency key.

Inner parts, on no face: ``tellback.memory.tables.idempotency_keys``.
"""

import random
from datetime import UTC, datetime, timedelta

from tellback.memory.tables.idempotency_keys import TimeOrderedIds, keyed_id

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_ids_are_short_and_rise_with_time():
    now = [NOW]
    ids = TimeOrderedIds(clock=lambda: now[0])
    given = []
    for _ in range(50):
        given.append(ids())
        now[0] += timedelta(milliseconds=random.Random(len(given)).choice([0, 1, 500]))
    assert given == sorted(set(given))
    assert {len(item) for item in given} == {16}


def test_ids_rise_when_the_clock_steps_back():
    moments = iter([NOW, NOW - timedelta(days=1), NOW + timedelta(days=1)])
    ids = TimeOrderedIds(clock=lambda: next(moments))
    given = [ids(), ids(), ids()]
    assert given == sorted(set(given))


def test_time_ordered_ids_of_two_processes_differ_in_the_random_part():
    item = TimeOrderedIds(clock=lambda: NOW, token=lambda count: b"\x00" * count)()
    other = TimeOrderedIds(clock=lambda: NOW, token=lambda count: b"\xff" * count)()
    assert item[:9] == other[:9]
    assert item[9:] == "0000000"
    assert other[9:] == "zzzzzzz"


def test_a_keyed_id_depends_only_on_file_key_namespace_and_idempotency_key():
    assert keyed_id(b"s" * 32, "n", "k") == keyed_id(b"s" * 32, "n", "k")
    others = [(b"t" * 32, "n", "k"), (b"s" * 32, "m", "k"), (b"s" * 32, "n", "l"), (b"s" * 32, "nk", "")]
    assert len({keyed_id(b"s" * 32, "n", "k"), *(keyed_id(*item) for item in others)}) == 5
