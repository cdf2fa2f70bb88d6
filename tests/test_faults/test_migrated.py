"""An opening that migrates: stopped anywhere it leaves the older or the newer file, and no unrecorded copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_faults.conftest import Campaign
from tests.test_faults.isolated import isolated
from tests.test_faults.migrating import power_lost, raced, stopped_at_each_step


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "right"),
    [
        ("killed", True),
        ("killed", False),
        ("full", False),
        ("broken", True),
        ("full for good", True),
        ("broken for good", False),
    ],
)
def test_a_migration_stopped_at_any_step_is_whole_or_absent_and_records_every_copy(
    how: str, right: bool, campaign: Campaign, tmp_path: Path
) -> None:
    report = campaign.run(
        stopped_at_each_step, folder=str(tmp_path), seed=campaign.seed, how=how, right=right, each=campaign.full
    )
    assert report["broken"] == []
    assert report["old"] > 10
    assert report["new"] > 10


@pytest.mark.slow
def test_a_migration_interrupted_by_power_loss_is_whole_or_absent(campaign: Campaign, tmp_path: Path) -> None:
    moments = campaign.size(12, 300)
    report = campaign.run(power_lost, folder=str(tmp_path), seed=campaign.seed, moments=moments)
    assert report["broken"] == []
    assert report["losses"] == 5 * moments


@pytest.mark.slow
def test_processes_migrating_one_file_at_once_make_one_migration_copy(campaign: Campaign, tmp_path: Path) -> None:
    rounds = campaign.size(3, 60)
    report = campaign.run(raced, folder=str(tmp_path), seed=campaign.seed, rounds=rounds, openers=4)
    assert report["broken"] == []
    assert report["copies"] == rounds


@pytest.mark.slow
def test_a_planted_unrecorded_migration_copy_is_caught(tmp_path: Path) -> None:
    plant = "records a copy with the migration, and not before"
    report = isolated(
        stopped_at_each_step, timeout=1200, folder=str(tmp_path), seed=1, how="killed", right=False, plant=plant
    )
    assert "is not named" in report["broken"][0]
