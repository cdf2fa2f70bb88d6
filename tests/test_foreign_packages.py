"""A module of another origin in the place of one of our packages is named in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def run_beside(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in *folder*, whose modules come before ours on the path."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize(
    ("foreign", "face"), [("memory", "agent"), ("vectorstore", "agent"), ("vectorstore", "memory")]
)
@pytest.mark.parametrize("form", ["{}.py", "{}/__init__.py"])
def test_a_face_names_the_module_in_the_place_of_a_lower_package(
    foreign: str, face: str, form: str, tmp_path: Path
) -> None:
    path = tmp_path / form.format(foreign)
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    run = run_beside(tmp_path, "-c", f"import {face}")
    assert run.stderr.splitlines()[-1] == (
        f"ImportError: Python finds {path} in the place of Tellback's package '{foreign}': "
        "rename it, or take its folder from the path"
    )


def test_a_lower_package_ignores_a_foreign_module_named_like_an_upper_package(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("from tellback.memory import Message\nfrom vectorstore import Entry\n")
    assert run_beside(tmp_path, "agent.py").returncode == 0


@pytest.mark.parametrize("foreign", ["agent", "memory", "vectorstore"])
def test_the_command_names_a_foreign_module_that_shadows_a_package_in_one_line(foreign: str, tmp_path: Path) -> None:
    path = tmp_path / f"{foreign}.py"
    path.write_text("")
    run = run_beside(tmp_path, "-m", "tellback", "--version")
    assert run.returncode == 1
    assert run.stdout == ""
    (line,) = run.stderr.splitlines()
    assert line.startswith(f"tellback: Python finds {path} in the place of Tellback's package '{foreign}': ")


@pytest.mark.parametrize(
    "program", ["import agent", "import memory", "import vectorstore", "import tellback; tellback.main()"]
)
def test_a_python_that_is_too_old_is_named_in_one_sentence(program: str, tmp_path: Path) -> None:
    run = run_beside(tmp_path, "-c", f"import sys; sys.version_info = (3, 10, 13, 'final', 0); {program}")
    assert run.returncode == 1
    last = run.stderr.splitlines()[-1]
    assert "Tellback needs Python 3.11 or newer; this is " in last


def test_the_command_runs_as_a_module(tmp_path: Path) -> None:
    run = run_beside(tmp_path, "-m", "tellback", "--version")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("tellback ")
