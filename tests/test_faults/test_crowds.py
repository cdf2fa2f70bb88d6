"""Many processes and many threads on one store: nothing lost, nothing torn, nothing stale, no deadlock."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.slow import first_fast
from tests.test_faults.conftest import Campaign
from tests.test_faults.crowding import crowd, hand_over
from tests.test_faults.isolated import isolated
from tests.test_faults.sharing import threads

BUSY_TIMEOUT = 10.0


@pytest.mark.slow
def test_writers_and_readers_in_many_processes_agree(campaign: Campaign, tmp_path: Path) -> None:
    sizes = {"rounds": campaign.size(1, 6), "writers": 8, "readers": 4, "batches": campaign.size(20, 60)}
    report = campaign.run(crowd, folder=str(tmp_path), **sizes)
    assert report["broken"] == []
    assert report["looks"] > sizes["rounds"] * sizes["readers"]


def test_a_write_of_one_process_is_visible_to_the_next_call_of_another(campaign: Campaign, tmp_path: Path) -> None:
    assert campaign.run(hand_over, folder=str(tmp_path), times=campaign.size(20, 100))["broken"] == []


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sound", "numpy"])
def test_threads_share_a_store(store: str, campaign: Campaign, tmp_path: Path) -> None:
    for seed in campaign.seeds(5):
        calls = campaign.size(40, 300)
        folder = tmp_path / str(seed)
        folder.mkdir()
        report = campaign.run(threads, folder=str(folder), seed=seed, count=12, calls=calls, store=store)
        assert report["broken"] == []
        assert report["calls"] == 12 * calls


@pytest.mark.parametrize("store", first_fast(["sound", "numpy"]))
def test_a_store_is_closed_under_load(store: str, campaign: Campaign, tmp_path: Path) -> None:
    for seed in campaign.seeds(5):
        folder = tmp_path / str(seed)
        folder.mkdir()
        report = campaign.run(threads, folder=str(folder), seed=seed, count=12, calls=3000, store=store, close=True)
        assert report["broken"] == []


@pytest.mark.slow
def test_a_planted_store_tearing_batches_is_caught_by_readers(tmp_path: Path) -> None:
    sizes = {"rounds": 1, "writers": 4, "readers": 3, "batches": 20}
    report = isolated(crowd, timeout=1200, folder=str(tmp_path), store="splitting", **sizes)
    assert any("a part of a batch" in line for line in report["broken"])


@pytest.mark.slow
def test_a_planted_store_with_stale_reads_of_other_processes_is_caught(tmp_path: Path) -> None:
    report = isolated(hand_over, timeout=1200, folder=str(tmp_path), times=5, store="deaf")
    assert any("stale ['search'" in line for line in report["broken"])


@pytest.mark.slow
def test_a_planted_store_mixing_up_the_results_of_threads_is_caught(tmp_path: Path) -> None:
    report = isolated(
        threads, timeout=1200, folder=str(tmp_path), seed=1, count=12, calls=40, store="one for all threads"
    )
    assert report["broken"] != []
