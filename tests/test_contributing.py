"""The table "what belongs where" names every module, and none that is gone."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_table_has_a_line_for_each_module() -> None:
    named = re.findall(
        r"^\| `([\w/]+\.py)` \| \S", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    there = [
        path.relative_to(ROOT).as_posix()
        for package in ("vectorstore", "memory", "agent")
        for path in (ROOT / package).rglob("*.py")
    ]
    assert sorted(named) == sorted(there)
