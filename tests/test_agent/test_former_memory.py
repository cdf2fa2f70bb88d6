"""A memory in the data folder of the project's former name is mentioned until a new one is begun.

Inner parts, on no face: ``tellback.vectorstore.persisted_names``.
"""

from __future__ import annotations

import json
from pathlib import Path

import platformdirs
import pytest

from tellback.agent.assistant.cli.app import run_command_line
from tellback.memory import open_memory, run_sync
from tellback.vectorstore.persisted_names import FORMER_FOLDER


@pytest.fixture
def former() -> Path:
    path = platformdirs.user_data_path(FORMER_FOLDER) / "memory.db"
    memory = open_memory(path)
    run_sync(memory.remember("I moved to Lisbon."))
    run_sync(memory.close())
    return path


def test_a_memory_in_the_former_data_folder_is_announced_in_one_line(
    former: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["remember", "I moved to Porto."]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"tellback: the memory of the former version is at {former}: give it as --memory, "
        f"or move {former.parent} to {platformdirs.user_data_path('tellback')}"
    )


def test_a_former_memory_file_can_be_opened_by_path(former: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["--memory", str(former), "recall", "Where do I live?", "--json"]) == 0
    shown = capsys.readouterr()
    assert "I moved to Lisbon." in shown.out
    assert "former" not in shown.err


def test_a_moved_former_data_folder_is_used_as_the_current_one(
    former: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    former.parent.rename(platformdirs.user_data_path("tellback"))
    assert run_command_line(["recall", "Where do I live?"]) == 0
    shown = capsys.readouterr()
    assert "I moved to Lisbon." in shown.out
    assert "former" not in shown.err


def test_a_former_memory_is_not_announced_once_a_new_memory_file_exists(
    former: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_command_line(["remember", "I moved to Porto."])
    capsys.readouterr()
    assert run_command_line(["recall", "Where do I live?"]) == 0
    assert "former" not in capsys.readouterr().err


def test_doctor_reports_a_former_memory(former: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["doctor", "--json"]) == 0
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert str(former) in checks["former memory"]["seen"]
    assert f"tellback --memory {former}" in checks["former memory"]["remedy"]
