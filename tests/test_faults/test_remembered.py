"""A process that is killed while it remembers, corrects, forgets or embeds anew loses nothing that was acknowledged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_faults.conftest import Campaign
from tests.test_faults.isolated import isolated
from tests.test_faults.remembering import life_rounds


def test_what_a_memory_acknowledged_is_there_and_what_was_under_way_is_whole(
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
def test_a_memory_that_works_in_pieces_is_caught(life: str, tmp_path: Path) -> None:
    report = isolated(life_rounds, timeout=1200, folder=str(tmp_path), seed=1, rounds=300, life=life)
    assert "nor the one before" in report["broken"][0]
