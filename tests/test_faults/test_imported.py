"""A process killed during an import loses nothing, and the import can be repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_faults.conftest import Campaign
from tests.test_faults.importing import import_rounds
from tests.test_faults.isolated import isolated


@pytest.mark.slow
def test_a_killed_import_loses_nothing_and_can_be_repeated(campaign: Campaign, tmp_path: Path) -> None:
    rounds = campaign.size(12, 120)
    report = campaign.run(import_rounds, folder=str(tmp_path), seed=campaign.seed, rounds=rounds)
    assert report["broken"] == []
    assert report["rounds"] == report["old"] + report["new"] == rounds


@pytest.mark.slow
@pytest.mark.parametrize("plant", ["batches in pieces"])
def test_a_planted_import_without_transactions_is_caught(tmp_path: Path, plant: str) -> None:
    report = isolated(import_rounds, timeout=1200, folder=str(tmp_path), seed=1, rounds=60, plant=plant)
    assert "neither" in report["broken"][0]
