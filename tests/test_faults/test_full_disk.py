"""A disk that fails or is full: the right error, what was there is there, and the next write works."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_faults.conftest import Campaign
from tests.test_faults.failing_disk import every_operation, limited_size, may_mount, small_disk
from tests.test_faults.isolated import isolated


@pytest.mark.slow
def test_a_failure_of_each_disk_operation_raises_a_typed_error_and_is_rolled_back(
    campaign: Campaign, tmp_path: Path
) -> None:
    steps = campaign.size(1, 17)
    report = campaign.run(every_operation, folder=str(tmp_path), seed=campaign.seed, steps=steps)
    assert report["broken"] == []
    assert report["failures"] > 20 * steps


@pytest.mark.slow
def test_a_write_beyond_the_file_size_limit_raises_storage_full(campaign: Campaign, tmp_path: Path) -> None:
    rounds = campaign.size(8, 60)
    report = campaign.run(limited_size, folder=str(tmp_path), seed=campaign.seed, rounds=rounds)
    assert report["broken"] == []
    assert report["failures"] > rounds / 5


@pytest.mark.slow
def test_a_write_on_a_full_file_system_raises_storage_full(campaign: Campaign, tmp_path: Path) -> None:
    if not may_mount(str(tmp_path)):
        pytest.skip("this user may not mount a small file system")
    rounds = campaign.size(8, 60)
    report = campaign.run(small_disk, folder=str(tmp_path), seed=campaign.seed, rounds=rounds)
    assert report["broken"] == []
    assert report["failures"] > rounds / 5


@pytest.mark.slow
@pytest.mark.parametrize("store", ["splitting", "swallowing", "untyped"])
def test_a_store_that_hides_or_tears_a_failed_write_is_caught(store: str, tmp_path: Path) -> None:
    report = isolated(every_operation, timeout=1200, folder=str(tmp_path), seed=1, steps=1, first=4, store=store)
    assert report["broken"] != []
