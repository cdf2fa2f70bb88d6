"""An opening that migrates: stopped anywhere it leaves the older file or the newer, and no copy that nobody names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_faults.conftest import Campaign
from tests.test_faults.isolated import isolated
from tests.test_faults.migrating import power_lost, raced, stopped_at_each_step


@pytest.mark.parametrize("how", ["killed", "full", "broken", "full for good", "broken for good"])
def test_a_migration_stopped_at_any_step_is_made_or_not_and_leaves_no_copy_behind(
    how: str, campaign: Campaign, tmp_path: Path
) -> None:
    report = campaign.run(stopped_at_each_step, folder=str(tmp_path), seed=campaign.seed, how=how, each=campaign.full)
    assert report["broken"] == []
    assert report["old"] > 10
    assert report["new"] > 10


def test_a_migration_during_which_the_power_goes_is_made_or_not(campaign: Campaign, tmp_path: Path) -> None:
    moments = campaign.size(12, 300)
    report = campaign.run(power_lost, folder=str(tmp_path), seed=campaign.seed, moments=moments)
    assert report["broken"] == []
    assert report["losses"] == 5 * moments


def test_processes_that_open_an_older_file_at_once_make_one_copy(campaign: Campaign, tmp_path: Path) -> None:
    rounds = campaign.size(3, 60)
    report = campaign.run(raced, folder=str(tmp_path), seed=campaign.seed, rounds=rounds, openers=4)
    assert report["broken"] == []
    assert report["copies"] == rounds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        ("records a copy with the migration, and not before", "is not named"),
        ("leaves what a crash has left", "left"),
        ("keeps the copy of what is right", "is left"),
    ],
)
def test_a_copy_that_nobody_names_or_clears_away_is_caught(plant: str, complaint: str, tmp_path: Path) -> None:
    report = isolated(stopped_at_each_step, timeout=1200, folder=str(tmp_path), seed=1, how="killed", plant=plant)
    assert complaint in report["broken"][0]


@pytest.mark.slow
def test_a_private_name_that_a_power_loss_brings_back_is_caught(tmp_path: Path) -> None:
    plant = "forgets to flush the folder after the copy"
    report = isolated(power_lost, timeout=1200, folder=str(tmp_path), seed=1, moments=40, plant=plant)
    assert ".part is left" in report["broken"][0]
