"""Listing: filters, orders, stable pages, ``as_of`` and ``known_at``, counts and stats.

Inner parts, on no face: ``tellback.memory.tables.idempotency_keys``.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from tellback.memory import ArgumentError, HashingEmbedder, LongTermMemory, Memory, Trust, run_sync
from tellback.memory.internals import DOCUMENTS, store_namespace
from tellback.memory.tables.idempotency_keys import TimeOrderedIds
from tellback.vectorstore import Entry, LifecycleStore, open_store
from tellback.vectorstore.sqlite import entry_reader
from tests.support.clocks import ManualClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def memory(store: LifecycleStore) -> LongTermMemory:
    return LongTermMemory(store, clock=ManualClock(NOW), zone=UTC)


def keep(memory: LongTermMemory, text: str, **fields: Any) -> str:
    return run_sync(memory.remember(Memory(text, **fields))).id


def texts(memory: LongTermMemory, **options: Any) -> list[str]:
    return [item.text for item in run_sync(memory.list(**options))]


FILTERS = [
    ({"kinds": ["note", "event"]}, "kept", {"kind": "note"}, {"kind": "fact"}),
    ({"tags": ["home", "away"]}, "any of them", {"tags": ("x", "away")}, {"tags": ("x",)}),
    ({"scopes": {"project": "a"}}, "one scope", {"scopes": {"project": "a"}}, {"scopes": {"project": "b"}}),
    ({"session": "s"}, "one session", {"session": "s"}, {"session": "s2"}),
    ({"trust": ["tool", Trust.DOCUMENT]}, "trust", {"trust": Trust.DOCUMENT}, {"trust": Trust.USER}),
    ({"pinned": True}, "pinned", {"pinned": True}, {}),
    ({"pinned": False}, "not pinned", {}, {"pinned": True}),
    ({"disabled": True}, "disabled", {"disabled": True}, {}),
    ({"disabled": False}, "not disabled", {}, {"disabled": True}),
    ({"expired": True}, "expired", {"expires_at": NOW}, {"expires_at": NOW + timedelta(microseconds=1)}),
    ({"expired": False}, "not expired", {"expires_at": NOW + DAY}, {"expires_at": NOW}),
    ({"between": (NOW - DAY, NOW)}, "said then", {"occurred_at": NOW - DAY}, {"occurred_at": NOW}),
    ({"between": (NOW, None)}, "written since", {}, {"occurred_at": NOW - DAY}),
    ({"between": (None, NOW)}, "said before", {"occurred_at": NOW - DAY}, {}),
    ({"where": {"meta.mood": "glad"}}, "a filter", {"metadata": {"mood": "glad"}}, {"metadata": {"mood": "sad"}}),
]


@pytest.mark.parametrize(("options", "text", "fits", "fits_not"), FILTERS)
def test_list_and_count_agree_on_matches_of_each_filter(memory, options, text, fits, fits_not):
    keep(memory, text, **fits)
    keep(memory, "not this one", **fits_not)
    assert texts(memory, **options) == [text]
    assert run_sync(memory.count(**options)) == 1


def test_the_contains_filter_ignores_case_and_combines_with_other_filters(memory):
    keep(memory, "The STRASSE is closed.", kind="note")
    keep(memory, "The straße is open.", kind="fact")
    assert texts(memory, contains="straße") == ["The STRASSE is closed.", "The straße is open."]
    assert texts(memory, contains="Straße", kinds=["fact"]) == ["The straße is open."]
    assert run_sync(memory.count(contains="closed")) == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"kinds": "note"}, "kinds"),
        ({"tags": [5]}, "tags"),
        ({"session": " "}, "session"),
        ({"trust": ["nobody"]}, "trust"),
        ({"trust": "user"}, "trust"),
        ({"pinned": 1}, "pinned"),
        ({"expired": "no"}, "expired"),
        ({"between": NOW}, "between"),
        ({"between": ("a", None)}, "between"),
        ({"contains": 5}, "contains"),
        ({"as_of": "then"}, "as_of"),
        ({"known_at": 5}, "known_at"),
        ({"order": "random"}, "order"),
        ({"limit": -1}, "limit"),
        ({"after": 5}, "after"),
        ({"order": "newest", "after": "an id"}, "after"),
        ({"order": "newest", "after": "oldest/2026-01-01T00:00:00.000000Z/a"}, "after"),
    ],
)
def test_list_refuses_an_invalid_option_by_name(options, named):
    with pytest.raises(ArgumentError, match=named):
        run_sync(LongTermMemory(open_store("numpy:")).list(**options))


def test_an_unknown_filter_is_refused(memory):
    with pytest.raises(TypeError, match="colour"):
        run_sync(memory.list(colour="red"))


def test_list_orders_by_occurred_at_else_recorded_at_and_newest_is_oldest_reversed(memory):
    keep(memory, "written today", id="b")
    keep(memory, "said long ago", id="z", occurred_at=NOW - 9 * DAY)
    keep(memory, "said at the same time", id="a", occurred_at=NOW - 9 * DAY)
    memory.clock.now -= DAY
    keep(memory, "written when the clock had gone back", id="c")
    oldest = ["said at the same time", "said long ago", "written when the clock had gone back", "written today"]
    assert texts(memory, order="oldest") == oldest
    assert texts(memory, order="newest") == oldest[::-1]
    assert texts(memory) == ["said at the same time", *oldest[:1:-1], "said long ago"]


@pytest.mark.slow
@pytest.mark.parametrize("order", ["id", "oldest", "newest"])
def test_a_page_reads_as_many_rows_in_a_large_memory_as_in_a_small_one(tmp_path, monkeypatch, order):
    parsed = []
    entry_of = entry_reader.checked_entry
    monkeypatch.setattr(entry_reader, "checked_entry", lambda row: parsed.append(row) or entry_of(row))
    counts = []
    for size in (400, 4000):
        memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / f'{size}.db'}"), clock=ManualClock(NOW))
        stated = (NOW - (number * 7919 % size) * DAY for number in range(size))
        run_sync(memory.remember_many(Memory(f"m{position}", occurred_at=position) for position in stated))
        page = run_sync(memory.list(order=order, limit=20))
        parsed.clear()
        again = run_sync(memory.list(order=order, limit=20))
        behind = run_sync(memory.list(order=order, limit=20, after=page.next))
        counts.append(len(parsed))
        assert [item.id for item in again] == [item.id for item in page]
        days = [item.occurred_at for item in (*page, *behind)]
        if order != "id":
            assert days == [
                NOW - day * DAY for day in (range(40) if order == "newest" else range(size - 1, size - 41, -1))
            ]
        run_sync(memory.close())
    assert counts[0] == counts[1] <= 600


@pytest.mark.parametrize("order", ["id", "oldest", "newest"])
def test_list_pages_repeat_and_miss_no_entry_under_concurrent_writes(memory, order):
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    present = set()
    for _ in range(40):
        memory.clock.now = NOW + timedelta(days=chance.randrange(20))
        present.add(keep(memory, f"m{chance.random()}", id=f"{chance.randrange(10**9)}/x"))
    stays, seen, after = set(present), [], None
    while True:
        page = run_sync(memory.list(order=order, after=after, limit=7))
        seen += [item.id for item in page]
        assert len(page) == 7 or page.next is None
        if page.next is None:
            break
        after = page.next
        gone = chance.choice(sorted(stays))  # the place of the last one itself included
        run_sync(memory.undo(run_sync(memory.history(gone)).operations[-1].id))
        stays.discard(gone)
        last = page[-1].id
        if last in stays:
            run_sync(memory.undo(run_sync(memory.history(last)).operations[-1].id))
            stays.discard(last)
        memory.clock.now = NOW + timedelta(days=chance.randrange(20))
        keep(memory, "new", id=f"{chance.randrange(10**9)}/y")
    assert len(seen) == len(set(seen))
    assert stays <= set(seen)


def test_a_full_last_page_has_no_next_cursor(memory):
    for i in range(4):
        keep(memory, f"m{i}", id=f"id{i}")
    first = run_sync(memory.list(limit=2, order="oldest"))
    last = run_sync(memory.list(limit=2, order="oldest", after=first.next))
    assert (len(last), last.next) == (2, None)
    assert run_sync(memory.list(limit=0)).next is None
    assert run_sync(memory.list(after="id3")) == []


def test_list_and_count_follow_as_of_and_known_at(memory):
    item = keep(memory, "I live in Lisbon.")
    keep(memory, "I had a cat.", valid_from=NOW - 9 * DAY, valid_to=NOW - DAY, kind="event")
    memory.clock.now += 10 * DAY
    run_sync(memory.correct(item, "I live in Porto."))
    mistake = run_sync(memory.remember("I live in Rome.")).operation
    memory.clock.now += DAY
    run_sync(memory.undo(mistake))
    assert texts(memory) == ["I live in Porto.", "I had a cat."]
    assert sorted(texts(memory, as_of=NOW + DAY)) == ["I live in Lisbon."]
    assert sorted(texts(memory, as_of=NOW - 2 * DAY)) == ["I had a cat.", "I live in Lisbon."]
    assert sorted(texts(memory, known_at=NOW + 10 * DAY)) == ["I live in Porto.", "I live in Rome."]
    assert sorted(texts(memory, known_at=NOW, as_of=NOW - 2 * DAY)) == ["I had a cat.", "I live in Lisbon."]
    assert run_sync(memory.count(known_at=NOW - DAY)) == 0
    assert run_sync(memory.list(as_of=NOW - 2 * DAY, kinds=["event"]))[0].text == "I had a cat."


def test_known_at_lists_earlier_versions_in_their_place_in_every_order(memory):
    for day, id in enumerate("acbed"):
        keep(memory, f"old {id}", id=id, occurred_at=NOW + day * DAY)
    memory.clock.now += DAY
    for id in "cd":
        run_sync(memory.correct(id, f"new {id}"))
    expected = {"id": "a b c@2 d@5 e", "oldest": "a c@2 b e d@5", "newest": "d@5 e b c@2 a"}
    for order, limit in product(expected, (1, 2, 9)):
        present, after = [], None
        while True:
            page = run_sync(memory.list(order=order, known_at=NOW, limit=limit, after=after))
            present += [item.id for item in page]
            if (after := page.next) is None:
                break
        assert present == expected[order].split(), (order, limit)


def test_stats_are_exact_and_of_one_namespace(memory):
    keep(memory, "I live in Lisbon.", tags=("home", "city"), pinned=True)
    keep(memory, "A tool said é.", kind="note", trust=Trust.TOOL, tags=("home",), expires_at=NOW, disabled=True)
    keep(memory, "I had a cat.", occurred_at=NOW - 9 * DAY, valid_to=NOW, sensitive=True)
    corrected = keep(memory, "xx")
    run_sync(memory.correct(corrected, "yyy"))
    memory.store.upsert([Entry("c", text="chunk", no_vector="why")], namespace=store_namespace("", DOCUMENTS, "x"))
    alone = run_sync(memory.stats())
    run_sync(memory.remember_many(["theirs"] * 3, namespace="other"))
    stats = run_sync(memory.stats())
    assert stats == alone
    assert stats.memories == 4
    assert stats.lanes == {"conversation": 4, "documents": 1, "archive": 1}
    assert stats.collections == {"x": 1}
    assert (stats.kinds, stats.trust) == ({"fact": 3, "note": 1}, {"tool": 1, "user": 3})
    assert stats.tags == {"city": 1, "home": 2}
    assert (stats.pinned, stats.disabled, stats.sensitive, stats.expired, stats.ended) == (1, 1, 1, 1, 1)
    assert stats.pending == 5
    assert (stats.first, stats.last) == (NOW - 9 * DAY, NOW)
    assert (stats.text_bytes, stats.vector_bytes) == (17 + 15 + 12 + 3 + 2 + 5, 0)
    embedded = LongTermMemory(memory.store, embedder=HashingEmbedder())
    run_sync(embedded.flush())
    assert run_sync(memory.stats()).vector_bytes == 5 * 4 * embedded.embedder.dimension
    assert run_sync(memory.stats()).pending == 0


def test_list_count_and_stats_of_an_empty_namespace_are_empty(memory):
    keep(memory, "here")
    stats = run_sync(memory.stats(namespace="nobody"))
    assert (stats.memories, stats.first, stats.last, stats.lanes["archive"], stats.kinds) == (0, None, None, 0, {})
    assert run_sync(memory.list(namespace="nobody")) == []


def test_ids_of_one_process_stay_in_order_when_the_clock_goes_back():
    clock = ManualClock(NOW)
    ids = TimeOrderedIds(clock=clock)
    first = ids()
    clock.now -= 9 * DAY
    assert first < ids() < ids()


def test_stats_of_a_scope_or_a_tag_count_that_alone(memory: LongTermMemory) -> None:
    keep(memory, "The roses need water.", scopes={"project": "garden"}, tags=("plants",))
    keep(memory, "The report is late.", scopes={"project": "work"}, tags=("paper", "plants"))
    garden = run_sync(memory.stats(scopes={"project": "garden"}))
    assert (garden.memories, garden.tags, garden.text_bytes) == (1, {"plants": 1}, len("The roses need water."))
    assert run_sync(memory.stats(tags=("paper",))).memories == 1
    assert run_sync(memory.stats(where={"kind": "event"})).memories == 0
    assert run_sync(memory.stats()).memories == 2
