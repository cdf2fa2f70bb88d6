"""Faults of a PostgreSQL server lose nothing that was acknowledged, and are gone on after by the same objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.postgres import programs
from tests.test_faults.conftest import Campaign
from tests.test_faults.server_faults import full_disk, server_rounds

pytestmark = pytest.mark.slow

FAULTS = {"client": (10, 100), "backend": (5, 50), "connections": (5, 50), "server": (4, 40), "restart": (4, 40)}
RARE = {"pooler": (5, 50), "stranger": (1, 10)}


@pytest.mark.parametrize("fault", [*FAULTS, *RARE])
def test_a_fault_of_the_server_keeps_acknowledged_writes_and_tears_none(
    fault: str, campaign: Campaign, tmp_path: Path
) -> None:
    programs()
    rounds = campaign.size(*(FAULTS | RARE)[fault])
    report = campaign.run(server_rounds, folder=str(tmp_path), seed=campaign.seed, rounds=rounds, fault=fault)
    assert report["broken"] == []
    assert report["rounds"] == rounds
    assert report["acknowledged"] > 0


def test_a_full_disk_of_the_server_is_a_typed_error_and_writing_goes_on_when_there_is_room(
    campaign: Campaign, tmp_path: Path
) -> None:
    programs()
    report = campaign.run(full_disk, folder=str(tmp_path), seed=campaign.seed, rounds=campaign.size(3, 30))
    if report["rounds"] == 0:
        pytest.skip(report["skipped"])
    assert report["broken"] == []
    assert report["full"] > 0
