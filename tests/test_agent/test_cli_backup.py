"""``tellback backup`` and ``restore``, the backup of each day, and doctor's report on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tellback.agent.assistant.synced_folder import syncing_service
from tests.support.command_line import CommandLine
from tests.support.waiting import wait_until


def folder_of(tellback: CommandLine) -> Path:
    return tellback.path.with_name(tellback.path.name + ".backups")


def test_backup_and_restore_move_a_memory_to_another_place(tellback: CommandLine, tmp_path: Path) -> None:
    assert tellback("remember", "Ana lives in Porto.").code == 0
    made = tellback.json("backup", tmp_path / "copy.db")
    assert set(made) == {"path", "at", "bytes", "automatic", "note"}
    assert tellback("backup", tmp_path / "copy.db").err.startswith("tellback: path: a path where nothing is yet")
    (tmp_path / "usb").mkdir()
    assert Path(tellback.json("backup", tmp_path / "usb")["path"]).parent == tmp_path / "usb"
    assert Path(tellback.json("backup")["path"]).parent == folder_of(tellback)
    assert tellback("remember", "Ana lives in Faro now.").code == 0
    report = tellback.json("restore", tmp_path / "copy.db")
    assert set(report) == {"path", "source", "entries", "kept"}
    assert [found["text"] for found in tellback.json("memories")["memories"]] == ["Ana lives in Porto."]
    listed = tellback.json("restore")["backups"]
    assert {backup["path"] for backup in listed} >= {report["kept"], *map(str, folder_of(tellback).glob("*.db"))}
    tellback.path = tmp_path / "other machine" / "memory.db"
    assert tellback("restore", tmp_path / "copy.db").code == 0
    assert tellback.json("memories")["total"] == 1


def test_migrate_copies_a_memory_to_another_home_and_refuses_one_that_is_taken(
    tellback: CommandLine, tmp_path: Path
) -> None:
    assert tellback("remember", "Ana lives in Porto.").code == 0
    rows = tellback.json("memories", "migrate", tellback.path, tmp_path / "new.db")["rows"]
    assert rows["entries"] == 1
    refused = tellback("migrate", tellback.path, tmp_path / "new.db")
    assert (refused.code, refused.err.count("\n"), "a new place is needed" in refused.err) == (2, 1, True)
    tellback.path = tmp_path / "new.db"
    assert [found["text"] for found in tellback.json("memories")["memories"]] == ["Ana lives in Porto."]


def test_restore_refuses_a_damaged_file_in_one_line_and_lists_backups_of_a_memory_that_is_gone(
    tellback: CommandLine, tmp_path: Path
) -> None:
    assert tellback("remember", "Ana lives in Porto.").code == 0
    kept = Path(tellback.json("backup")["path"])
    (bad := tmp_path / "bad.db").write_bytes(kept.read_bytes()[:50_000])
    refused = tellback("restore", bad)
    assert (refused.code, refused.err.count("\n"), str(bad) in refused.err or "damaged" in refused.err) == (3, 1, True)
    assert tellback.json("memories")["total"] == 1
    tellback.path.unlink()
    assert [backup["path"] for backup in tellback.json("restore")["backups"]] == [str(kept)]
    assert tellback("restore", kept).code == 0
    assert tellback.json("memories")["total"] == 1


def test_a_command_that_wrote_starts_the_backup_of_the_day_and_a_setting_turns_it_off(
    tellback: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tellback("remember", "Ana lives in Porto.").code == 0
    assert not folder_of(tellback).exists()
    monkeypatch.setenv("TELLBACK_AUTOMATIC_BACKUPS", "yes")
    assert tellback("remember", "Ana has a cat.").code == 0
    assert wait_until(lambda: [*folder_of(tellback).glob("*.db")])
    (made,) = folder_of(tellback).glob("*.db")
    checks = {check["name"]: check for check in tellback.json("doctor", "--offline")["checks"]}
    assert checks["backups"]["seen"].startswith("the last of ")
    made.write_bytes(made.read_bytes()[:50_000])
    damaged = json.loads(tellback("doctor", "--offline", "--json").out)
    assert [check["fine"] for check in damaged["checks"] if check["name"] == "backup"] == [False]
    fixed = tellback("doctor", "--offline", "--fix")
    assert "removed, it was damaged" in fixed.out
    assert "made: " in fixed.out


def test_a_cloud_synced_folder_is_recognised_by_its_name_or_marker_file(tmp_path: Path) -> None:
    (marked := tmp_path / "shared").mkdir()
    (marked / ".stfolder").mkdir()
    (tmp_path / ".dropbox").mkdir()
    services = {
        "Dropbox/notes/m.db": "Dropbox",
        "OneDrive - Contoso/m.db": "OneDrive",
        "Library/Mobile Documents/com~apple~CloudDocs/m.db": "iCloud Drive",
        "Library/CloudStorage/GoogleDrive-ana@x.org/My Drive/m.db": "Google Drive",
        "shared/deep/m.db": "Syncthing",
        "plain/m.db": None,
    }
    assert {name: syncing_service(tmp_path / name, home=tmp_path) for name in services} == services
