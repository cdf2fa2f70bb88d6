"""The examples run as they are printed, in processes of their own, without a warning."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.snippets import EXAMPLE_OUTPUT, ROOT


def test_every_example_of_the_agent_is_run_here() -> None:
    assert {path.name for path in (ROOT / "examples").glob("agent_*.py")} == set(EXAMPLE_OUTPUT)


@pytest.mark.first_install
@pytest.mark.parametrize("name", EXAMPLE_OUTPUT)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / name)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert EXAMPLE_OUTPUT[name] in run.stdout
    assert run.stderr == ""
