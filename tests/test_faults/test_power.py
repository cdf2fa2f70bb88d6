"""Power loss: acknowledged writes are on the disk, acknowledged erasures in no file, whatever else was unflushed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_faults.conftest import Campaign
from tests.test_faults.isolated import isolated
from tests.test_faults.power import PLANTS, memory_losses, power_losses


@pytest.mark.slow
def test_a_power_loss_loses_no_acknowledged_write(campaign: Campaign, tmp_path: Path) -> None:
    for seed in campaign.seeds(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        batches, moments, states = (200, 600, 6) if campaign.full else (12, 20, 3)
        report = campaign.run(
            power_losses, folder=str(folder), seed=seed, batches=batches, moments=moments, states=states
        )
        assert report["broken"] == []
        assert report["losses"] == moments * states


@pytest.mark.slow
@pytest.mark.parametrize("plant", [name for name in PLANTS if name])
def test_a_store_that_does_not_flush_is_caught(plant: str, tmp_path: Path) -> None:
    report = isolated(
        power_losses, timeout=1200, folder=str(tmp_path), seed=1, batches=8, moments=16, states=3, plant=plant
    )
    assert report["broken"] != []


@pytest.mark.slow
def test_after_a_power_loss_a_memory_has_what_was_acknowledged_and_no_file_has_forgotten_words(
    campaign: Campaign, tmp_path: Path
) -> None:
    for seed in campaign.seeds(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        steps, moments = (200, 600) if campaign.full else (24, 30)
        report = campaign.run(memory_losses, folder=str(folder), seed=seed, steps=steps, moments=moments, states=6)
        assert report["broken"] == []


@pytest.mark.slow
def test_words_that_the_recovery_of_a_log_writes_are_caught(tmp_path: Path) -> None:
    report = isolated(
        memory_losses, timeout=1200, folder=str(tmp_path), seed=1, steps=24, moments=30, states=6, planted=True
    )
    assert any("memory.db-shm" in line for line in report["broken"])
