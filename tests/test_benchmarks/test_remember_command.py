"""Remembering is measured beside another store, with the same turns and the same vectors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from tellback.memory.internals import local_available

pytestmark = pytest.mark.skipif(not local_available(), reason="the extra local is not installed")


@pytest.mark.slow
def test_each_system_gets_a_line_of_its_own(data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "remember.json"
    words = ["remember", "--data", str(data_dir), "--sizes", "120", "--peers", "sqlite-rows", "--json", str(out)]
    assert main(words) == 0
    parsed = json.loads(out.read_text("utf-8"))
    tellback, rows = parsed["lines"]
    assert (tellback["system"], rows["system"]) == ("Tellback", "SQLite rows")
    assert all(line["rows"] == 120 and line["rate"] > 0 and line["single"] > 0 for line in (tellback, rows))
    assert tellback["of_parts"] > 0 > (rows["of_parts"] or -1)
    assert str(data_dir) not in out.read_text("utf-8")
    assert "SQLite rows" in capsys.readouterr().out


def test_an_unknown_peer_is_named(data_dir: Path) -> None:
    with pytest.raises((ValueError, SystemExit)):
        main(["remember", "--data", str(data_dir), "--peers", "nobody"])
