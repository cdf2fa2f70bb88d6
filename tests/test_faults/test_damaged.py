"""Damaged files: right answers or a typed error; the damage is named, and what can be read is saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_faults.conftest import Campaign
from tests.test_faults.damaging import damage
from tests.test_faults.isolated import isolated
from tests.test_faults.memory_damage import damage_memory


@pytest.mark.slow
def test_file_damage_is_refused_or_harmless_and_readable_entries_are_salvaged(
    campaign: Campaign, tmp_path: Path
) -> None:
    for seed in campaign.seeds(5):
        rounds = campaign.size(50, 600)
        folder = tmp_path / str(seed)
        folder.mkdir()
        report = campaign.run(damage, folder=str(folder), seed=seed, rounds=rounds)
        assert report["broken"] == []
        assert report.get("hidden", 0) <= rounds / 50
        assert min(report["refused"], report["named"], report["saved"], report["right"]) > rounds / 10


@pytest.mark.slow
@pytest.mark.parametrize("plant", ["checksums are not looked at", "verify finds nothing"])
def test_a_planted_store_without_checksum_or_verify_checks_is_caught(plant: str, tmp_path: Path) -> None:
    report = isolated(damage, timeout=1200, folder=str(tmp_path), seed=1, rounds=60, plant=plant)
    assert report["broken"] != []


@pytest.mark.slow
def test_memory_damage_is_refused_or_harmless_and_every_part_is_salvaged(campaign: Campaign, tmp_path: Path) -> None:
    for seed in campaign.seeds(5):
        folder = tmp_path / f"memory-{seed}"
        folder.mkdir()
        rounds = campaign.size(12, 120)
        report = campaign.run(damage_memory, folder=str(folder), seed=seed, rounds=rounds)
        assert report["broken"] == []
        assert min(report["refused"], report["saved"], report["right"]) > rounds / 10
