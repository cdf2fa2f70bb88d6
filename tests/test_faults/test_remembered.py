"""A process that is killed while it remembers, corrects, forgets or embeds anew loses nothing that was acknowledged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_faults.conftest import Campaign
from tests.test_faults.isolated import isolated
from tests.test_faults.remembering import life_rounds


@pytest.mark.slow
def test_a_killed_memory_keeps_acknowledged_calls_and_tears_no_unfinished_call(
    campaign: Campaign, tmp_path: Path
) -> None:
    for seed in campaign.seeds(5):
        rounds = campaign.size(15, 200)
        folder = tmp_path / str(seed)
        folder.mkdir()
        report = campaign.run(life_rounds, folder=str(folder), seed=seed, rounds=rounds)
        assert report["broken"] == []
        assert report["rounds"] == rounds
        assert report["acknowledged"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("life", ["piece by piece", "out of hand"])
def test_a_planted_memory_writing_in_several_steps_is_caught(life: str, tmp_path: Path) -> None:
    report = isolated(life_rounds, timeout=1200, folder=str(tmp_path), seed=1, rounds=300, life=life)
    assert "nor the one before" in report["broken"][0]
