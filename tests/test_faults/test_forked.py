"""A store that is open while its process forks is the parent's alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.test_faults.conftest import Campaign
from tests.test_faults.forking import fork_with_open_store
from tests.test_faults.isolated import isolated

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def test_a_store_refuses_calls_in_a_forked_child_and_goes_on_in_the_parent(campaign: Campaign, tmp_path: Path) -> None:
    turns = campaign.size(3, 30)
    assert campaign.run(fork_with_open_store, folder=str(tmp_path), turns=turns)["broken"] == []


@pytest.mark.slow
def test_a_planted_store_usable_in_a_forked_child_is_caught(tmp_path: Path) -> None:
    report = isolated(
        fork_with_open_store, timeout=1200, folder=str(tmp_path), turns=1, plant="the process is not asked"
    )
    assert "turn 0: get worked" in report["broken"]
