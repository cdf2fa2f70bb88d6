"""Every code block of the README and of docs/ runs as it is printed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.slow import first_fast
from tests.support.snippets import ROOT, Block, blocks

RUNNABLE = {"python", "console", "bash"}
GATE = ROOT / ".ci" / "run"
SHOWN = {"text", "json", "toml", "yaml"}


BLOCKS = list(blocks())


def of(language: str) -> list[Block]:
    return [block for block in BLOCKS if block.language == language]


def test_every_code_block_of_the_documentation_names_its_language() -> None:
    assert {block.language for block in BLOCKS} <= RUNNABLE | SHOWN
    assert len(of("python")) > 3


@pytest.mark.first_install
@pytest.mark.parametrize("block", of("python"), ids=str)
def test_python_blocks_run(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block.code, f"{block.page}.md", "exec"), {"__name__": "__main__"})


@pytest.mark.first_install
@pytest.mark.parametrize("page", first_fast(sorted({block.page for block in of("console")})))
def test_console_blocks_run_in_order(page: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "README.md", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    lines = [line for block in of("console") if block.page == page for line in block.code.splitlines()]
    commands = [line[2:] for line in lines if line.startswith("$ ")]
    assert commands
    script = "set -euo pipefail\n" + "\n".join(commands)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "HOME": str(tmp_path / "home")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_the_readme_s_commands_are_one_line_each_and_ci_has_their_extras() -> None:
    setup, tests = [block.code.strip() for block in of("bash") if block.page == "README"]
    assert "\n" not in setup + tests
    extras = [re.findall(r"'\.\[([\w,]+)\]'", text)[0].split(",") for text in (tests, GATE.read_text("utf-8"))]
    assert {*extras[0]} <= {*extras[1]}
