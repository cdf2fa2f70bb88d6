"""Pinned memories: their order, and current after writes of any process."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tellback.memory import LongTermMemory, Memory, open_memory
from tellback.vectorstore import WrapperStore, open_store
from tests.support.data_only_store import DataOnlyStore
from tests.support.homes import HOMES, address_in_home
from tests.support.slow import first_fast

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 5, 3, 10, 30, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture(params=[*HOMES, "data-only"])
async def memory(request, tmp_path: Path):
    store = open_store(address_in_home(request, tmp_path))
    opened = LongTermMemory(DataOnlyStore(store) if request.param == "data-only" else store, clock=lambda: NOW)
    yield opened
    await opened.close()


async def texts(memory: LongTermMemory, namespace: str = "") -> list[str]:
    return [item.text for item in await memory.pinned(namespace=namespace)]


async def test_pinned_memories_are_ordered_by_importance_then_newest_first(memory) -> None:
    for place, (text, importance) in enumerate([("old", None), ("minor", 0.1), ("vital", 1.0), ("new", None)]):
        recorded = NOW - (10 - place) * DAY
        await memory.remember(Memory(text=text, importance=importance, pinned=True, recorded_at=recorded))
    assert await texts(memory) == ["vital", "new", "old", "minor"]


@pytest.mark.parametrize(
    "fields",
    [{"disabled": True}, {"expires_at": NOW}, {"valid_to": NOW - DAY}, {"valid_from": NOW + DAY}, {"pinned": False}],
)
async def test_pinned_leaves_out_unpinned_disabled_expired_and_not_currently_valid_memories(
    memory, fields: dict
) -> None:
    await memory.remember(Memory(**{"text": "x", "pinned": True, **fields}))
    assert await texts(memory) == []


async def test_pinned_follows_validity_and_expiry_by_the_clock_without_a_write(tmp_path: Path) -> None:
    now = [NOW]
    async with LongTermMemory(open_store("numpy:"), clock=lambda: now[0]) as memory:
        await memory.remember(Memory(text="soon", pinned=True, valid_from=NOW + DAY))
        await memory.remember(Memory(text="not for long", pinned=True, expires_at=NOW + DAY))
        assert await texts(memory) == ["not for long"]
        now[0] = NOW + 2 * DAY
        assert await texts(memory) == ["soon"]


async def test_pinned_memories_are_kept_apart_by_namespace(memory) -> None:
    await memory.remember(Memory(text="Ana's", pinned=True), namespace="ana")
    assert (await texts(memory, "ben"), await texts(memory), await texts(memory, "ana")) == ([], [], ["Ana's"])


@pytest.mark.parametrize("url", first_fast(["sqlite", "numpy:"]))
async def test_after_random_writes_pinned_equals_a_full_scan(url: str, tmp_path: Path) -> None:
    seed = 20260503
    print("seed", seed)
    rng = random.Random(seed)
    store = open_store(url if url == "numpy:" else f"sqlite:///{tmp_path / 'm.db'}")
    async with LongTermMemory(store, clock=lambda: NOW) as memory:
        ids: list[str] = []
        for step in range(120):
            what = rng.choice(["add", "add", "pin", "unpin", "correct", "forget", "disable", "enable", "turn"])
            hit = rng.choice(ids) if ids else None
            if what == "add" or hit is None:
                ids.append((await memory.remember(Memory(text=f"text {step}", pinned=rng.random() < 0.5))).id)
            elif what == "correct":
                await memory.correct(hit, f"corrected {step}")
            elif what == "forget":
                await memory.forget([hit])
                ids.remove(hit)
            elif what == "turn":
                await memory.remember_many([f"said {step}", f"answered {step}"])
            else:
                await getattr(memory, what)([hit])
            if rng.random() < 0.5:
                everything = [found for found in await memory.list(limit=1000) if found.pinned and not found.disabled]
                found = await memory.pinned()
                assert {(hit.id, hit.text) for hit in found} == {(hit.id, hit.text) for hit in everything}


async def test_pinned_sees_the_pins_of_another_process_at_the_next_call(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    async with open_memory(path, choose_local=False) as ours, open_memory(path, choose_local=False) as theirs:
        assert await texts(ours) == []
        report = await theirs.remember(Memory(text="theirs", pinned=True))
        assert await texts(ours) == ["theirs"]
        await theirs.unpin([report.id])
        assert await texts(ours) == []


class Counting(WrapperStore):
    """Store that counts its scans."""

    scans = 0
    scan_by, scan_holding = WrapperStore.scan_by, WrapperStore.scan_holding  # these are not counted

    def scan(self, **options):
        self.scans += 1
        return super().scan(**options)


async def test_pinned_after_a_write_does_not_scan_the_store_again() -> None:
    store = Counting(open_store("numpy:"))
    async with LongTermMemory(store) as memory:
        await memory.remember(Memory(text="one", pinned=True))
        await memory.pinned()
        scans = store.scans
        for number in range(20):
            await memory.remember(Memory(text=f"more {number}", pinned=number % 2 == 0))
            assert len(await memory.pinned()) == 2 + number // 2
        assert store.scans == scans
