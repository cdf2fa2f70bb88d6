"""Power loss: acknowledged writes are on the disk, whatever happened to unflushed ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_faults.conftest import Campaign
from tests.test_faults.isolated import isolated
from tests.test_faults.power import PLANTS, power_losses


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
