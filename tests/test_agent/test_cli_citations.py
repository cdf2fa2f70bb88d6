"""Citations of the command line: paths relative to the working folder, and ``tellback show``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine

GUIDE = """\
# Guide

The harbour is open all year.

## Mooring

Boats moor at the north pier. The fee is 12 euros a night.

It is paid at the office.
"""


@pytest.fixture
def guide(tellback: CommandLine, tmp_path: Path) -> Path:
    path = tmp_path / "docs" / "guide.md"
    path.parent.mkdir()
    path.write_text(GUIDE)
    tellback.json("ingest", path.parent)
    return path


def test_a_citation_is_a_path_from_the_working_folder_and_show_prints_the_passage(
    tellback: CommandLine, guide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tellback("ask", "How much is the mooring fee?").out
    assert asked.splitlines()[-1] == "[1] docs/guide.md:7 § Guide > Mooring"
    shown = tellback("show", "docs/guide.md:7").out
    assert shown.startswith("docs/guide.md:7 § Guide > Mooring\n\n")
    assert "> Boats moor at the north pier. The fee is 12 euros a night.\n" in shown
    assert "  It is paid at the office.\n" in shown
    monkeypatch.chdir(guide.parent)
    place = tellback.json("show", "guide.md:9")
    assert (place["path"], place["line"], place["quote"]) == (str(guide), 9, "It is paid at the office.")
    assert tellback("show", place["id"]).out.startswith("guide.md:5 § Guide > Mooring\n")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert f"\x1b]8;;{guide.as_uri()}\x1b\\guide.md:7" in tellback("show", "guide.md:7").out


def test_show_prints_all_fields_of_a_memory_and_fails_for_an_unknown_citation(tellback: CommandLine) -> None:
    id = tellback.json("remember", "The cat is called Miso.")["id"]
    assert tellback("show", id).out.startswith("The cat is called Miso.\n")
    assert tellback("show", "nothing.md:3").code != 0


def test_a_named_collection_is_ingested_listed_asked_shown_and_forgotten(
    tellback: CommandLine, guide: Path, tmp_path: Path
) -> None:
    manual = tmp_path / "manuals" / "crane.md"
    manual.parent.mkdir()
    manual.write_text("# Crane\n\nThe crane lifts twelve tonnes.\n")
    tellback.json("ingest", manual.parent, "--collection", "manuals")
    listed = {info["source"]: info["collection"] for info in tellback.json("documents")["documents"]}
    assert listed == {"guide.md": "default", "crane.md": "manuals"}
    assert [info["source"] for info in tellback.json("documents", "--collection", "manuals")["documents"]] == [
        "crane.md"
    ]
    asked = tellback("ask", "How many tonnes does the crane lift?").out
    assert asked.splitlines()[-1] == "[1] manuals/crane.md:3 § Crane"
    assert "> The crane lifts twelve tonnes." in tellback("show", "manuals/crane.md:3").out
    place = tellback.json("show", "manuals/crane.md:3", "--collection", "manuals")
    assert tellback.json("show", place["id"])["path"] == str(manual)
    assert tellback("show", "manuals/crane.md:3", "--collection", "default").code != 0
    assert tellback.json("documents", "forget", manual.parent, "--yes")["removed"] == ["crane.md"]
    assert tellback.json("documents")["total"] == 1
