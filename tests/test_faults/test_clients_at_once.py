"""MCP servers, hooks and commands on one memory file, killed at any moment: nothing lost or stale, never locked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_faults.clients_at_once import mixed_work
from tests.test_faults.conftest import Campaign

pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")


@pytest.mark.slow
def test_clients_of_all_kinds_share_a_file_and_are_killed(campaign: Campaign, tmp_path: Path) -> None:
    report = campaign.run(
        mixed_work,
        folder=str(tmp_path),
        seconds=campaign.size(30, 3000),
        servers=campaign.size(4, 8),
        seed=campaign.seed,
    )
    assert report["broken"] == []
    assert report["facts"] > 0
    assert set(report["private MB"]) == {"server", "resident"}
