"""True deletion: as soon as no reader is in the way, what was erased is in no byte of any file of the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_faults.conftest import Campaign
from tests.test_faults.forgetting import WAYS, forget
from tests.test_faults.forgotten_life import forgotten_life
from tests.test_faults.isolated import isolated
from tests.test_faults.planted import ERASURE_PLANTS


def test_an_erased_entry_is_in_no_byte_of_the_store_files(campaign: Campaign, tmp_path: Path) -> None:
    rounds = campaign.size(8, 60)
    report = campaign.run(forget, folder=str(tmp_path), seed=campaign.seed, rounds=rounds)
    assert report["broken"] == []
    assert report["pending"] == rounds // len(WAYS)


@pytest.mark.slow
def test_no_word_of_forgotten_texts_is_left_in_a_long_life(campaign: Campaign, tmp_path: Path) -> None:
    texts = campaign.size(170, 1700)
    report = campaign.run(forgotten_life, folder=str(tmp_path), seed=campaign.seed, texts=texts)
    assert (report["broken"], report["unverified"]) == ([], 0)
    assert report["forgotten"] >= texts


@pytest.mark.slow
def test_planted_remains_between_the_rows_of_pages_are_caught(tmp_path: Path) -> None:
    report = isolated(forgotten_life, timeout=1200, folder=str(tmp_path), seed=1, texts=1700, planted=True)
    assert any("words left" in line for line in report["broken"])


@pytest.mark.slow
@pytest.mark.parametrize("plant", [name for name in ERASURE_PLANTS if name])
def test_a_planted_store_leaving_erased_bytes_is_caught(plant: str, tmp_path: Path) -> None:
    report = isolated(forget, timeout=1200, folder=str(tmp_path), seed=1, rounds=4, plant=plant)
    assert any("secret" in line or "b'" in line for line in report["broken"])
