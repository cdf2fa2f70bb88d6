"""A process that is killed at any moment loses nothing that was acknowledged, and leaves nothing half done."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.slow import first_fast
from tests.test_faults.conftest import Campaign
from tests.test_faults.interrupting import interrupt
from tests.test_faults.isolated import isolated
from tests.test_faults.killing import kill_rounds

ROUNDS = {"everything": (20, 800), "upsert": (10, 300), "delete": (20, 500), "switch": (10, 400)}


@pytest.mark.slow
@pytest.mark.parametrize("schedule", first_fast([*ROUNDS, "compaction"]))
def test_a_killed_process_keeps_acknowledged_writes_and_tears_no_unfinished_write(
    schedule: str, campaign: Campaign, tmp_path: Path
) -> None:
    reduced, full = ROUNDS.get(schedule, (10, 300))
    for seed in campaign.seeds(5):
        rounds = campaign.size(reduced, full // 5)
        folder = tmp_path / str(seed)
        folder.mkdir()
        report = campaign.run(kill_rounds, folder=str(folder), seed=seed, rounds=rounds, schedule=schedule)
        assert report["broken"] == []
        assert report["rounds"] == rounds
        assert report["acknowledged"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(("store", "schedule"), [("splitting", "everything"), ("hurrying", "delete")])
def test_a_planted_store_tearing_batches_or_acknowledging_early_is_caught(
    store: str, schedule: str, tmp_path: Path
) -> None:
    report = isolated(
        kill_rounds, timeout=1200, folder=str(tmp_path), seed=1, rounds=400, schedule=schedule, store=store
    )
    assert "nor the one before" in report["broken"][0]


OPERATIONS = ["switch", "migration", "backup", "save", "compaction"]


@pytest.mark.slow
@pytest.mark.parametrize("what", first_fast(OPERATIONS))
def test_a_killed_long_operation_is_whole_or_absent(what: str, campaign: Campaign, tmp_path: Path) -> None:
    rounds = campaign.size(10, 300)
    report = campaign.run(interrupt, folder=str(tmp_path), seed=campaign.seed, rounds=rounds, what=what)
    assert report["broken"] == []
    assert report["rounds"] == report["old"] + report["new"] == rounds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "store"),
    [
        ("switch", "half switching"),
        ("migration", "stepwise"),
        ("save", "overwriting"),
        ("compaction", "rewriting"),
    ],
)
def test_a_planted_long_operation_in_several_steps_is_caught(what: str, store: str, tmp_path: Path) -> None:
    report = isolated(interrupt, timeout=1200, folder=str(tmp_path), seed=1, rounds=40, what=what, store=store)
    assert any(line.startswith("round") for line in report["broken"])
