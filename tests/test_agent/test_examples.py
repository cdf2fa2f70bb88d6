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


@pytest.mark.slow
def test_mypy_knows_the_type_of_an_output(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from typing import assert_type\n"
        "from pydantic import BaseModel\n"
        "from agent import Agent, RunResult\n"
        "class City(BaseModel):\n"
        "    name: str\n"
        "async def ask(agent: Agent) -> None:\n"
        "    assert_type(await agent.run('Which city?', result_type=City), RunResult[City])\n"
        "    assert_type(agent.run_sync('Which city?', result_type=City).output, City | None)\n"
        "    assert_type(agent.run_sync('Hello'), RunResult[None])\n"
        "    assert_type(agent.run_sync('How many?', result_type=int).output, int | None)\n"
        "    assert_type(agent.run_sync('Which?', result_type=list[City]).output, list[City] | None)\n",
        encoding="utf-8",
    )
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stdout
