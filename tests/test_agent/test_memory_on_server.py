"""The command line on a memory in PostgreSQL: the commands of a file, but for those that are about a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback.agent.assistant.config import AssistantSettings
from tests.support.command_line import CommandLine
from tests.support.postgres import PostgresServer


@pytest.fixture
def tellback(
    postgres: PostgresServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    return CommandLine(postgres.address(tmp_path), capsys, monkeypatch)


def test_the_journey_of_the_readme_runs_on_a_server(tellback: CommandLine, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "library.md").write_text("# Library\n\nThe library closes at seven in the evening.\n")
    assert tellback.json()["memories"] == 0
    id = tellback.json("remember", "My sister Ana lives in Porto.")["id"]
    assert tellback("ingest", notes).code == 0
    assert "seven" in tellback("ask", "When does the library close?").out
    assert tellback.json("recall", "Where does Ana live?")["hits"][0]["id"] == id
    assert tellback("correct", id, "My sister Ana lives in Braga.").code == 0
    assert "Braga" in tellback("ask", "Where does Ana live?").out
    assert tellback("chat", text="I keep bees.\nWhat do I keep?\n").code == 0
    assert tellback("export", tmp_path / "all.jsonl").code == 0
    assert tellback("forget", id, "--yes").code == 0
    assert "Braga" not in tellback("memories").out
    assert tellback("doctor").code == 0
    assert tellback.json()["memories"] > 0


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_a_command_about_a_file_names_the_server(tellback: CommandLine, command: str) -> None:
    done = tellback(command)
    assert done.code == 3
    assert "is no file; its server has backups of its own" in done.err


def test_a_password_of_an_address_is_not_shown(tellback: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    address = "postgresql://me:s3cret@localhost:1/db?password=s3cret&schema=a&busy_timeout=0.1"
    shown = AssistantSettings(memory=address).shown_memory
    assert shown == "postgresql://localhost:1/db?schema=a&busy_timeout=0.1"
    tellback.path = address
    for command in ([], ["doctor"], ["recall", "x"], ["config", "get", "memory"], ["backup"]):
        done = tellback(*command)
        assert "s3cret" not in done.out + done.err, command
