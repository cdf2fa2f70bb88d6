"""The package ``tellback`` beside a program's own ``agent``, ``memory`` and ``vectorstore``, and in a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tellback

ROOT = Path(tellback.__file__).parent
pytestmark = pytest.mark.slow
CHECKOUT = pytest.mark.skipif(not (ROOT / "tellback.py").exists(), reason="the installed package has no other names")


def run_beside(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in *folder*, whose modules come before ours on the path."""
    above = ROOT if (ROOT / "tellback.py").exists() else ROOT.parent
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{above}"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize("form", ["{}.py", "{}/__init__.py"])
def test_a_programs_own_modules_of_our_folders_names_change_nothing(form: str, tmp_path: Path) -> None:
    for name in ("agent", "memory", "vectorstore"):
        path = tmp_path / form.format(name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"MINE = {name!r}\n")
    (tmp_path / "program.py").write_text(
        "import agent, memory, vectorstore\n"
        "from tellback import Agent, open_memory, open_store, tool\n"
        "print(agent.MINE, memory.MINE, vectorstore.MINE, Agent.__module__, open_memory.__module__)\n"
    )
    run = run_beside(tmp_path, "program.py")
    assert (run.stdout, run.stderr) == ("agent memory vectorstore tellback.agent.agent tellback.memory.open\n", "")
    assert run_beside(tmp_path, "-m", "tellback", "--version").returncode == 0


def test_the_package_has_four_names_and_says_so_of_others(tmp_path: Path) -> None:
    from tellback import agent, memory, vectorstore

    assert dir(tellback) == ["Agent", "open_memory", "open_store", "tool"] == sorted(tellback.__all__)
    own = (agent.Agent, memory.open_memory, vectorstore.open_store, agent.tool)
    assert own == (tellback.Agent, tellback.open_memory, tellback.open_store, tellback.tool)
    with pytest.raises(AttributeError, match="module 'tellback' has no attribute 'open_agent'"):
        tellback.open_agent  # noqa: B018


@CHECKOUT
@pytest.mark.parametrize(("face", "name"), [("agent", "Agent"), ("memory", "open_memory"), ("vectorstore", "Entry")])
def test_a_face_imported_by_its_folder_has_the_same_objects_and_no_modules(
    face: str, name: str, tmp_path: Path
) -> None:
    same = (
        f"import {face}, tellback.{face}; print({face}.{name} is tellback.{face}.{name}, {face}.__all__ == dir({face}))"
    )
    run = run_beside(tmp_path, "-W", "error", "-c", same.replace("__all__ ==", "__dir__() =="))
    assert (run.stdout, run.stderr) == ("True True\n", "")
    run = run_beside(tmp_path, "-c", f"import {face}.errors")
    assert run.stderr.splitlines()[-1].startswith("ModuleNotFoundError: ")


@pytest.mark.parametrize("program", ["import tellback.agent", "from tellback import open_memory", "import tellback"])
def test_a_python_that_is_too_old_is_named_in_one_sentence(program: str, tmp_path: Path) -> None:
    run = run_beside(tmp_path, "-c", f"import sys; sys.version_info = (3, 10, 13, 'final', 0); {program}")
    assert run.returncode == 1
    assert "Tellback needs Python 3.11 or newer; this is " in run.stderr.splitlines()[-1]


def test_the_command_runs_as_a_module(tmp_path: Path) -> None:
    run = run_beside(tmp_path, "-m", "tellback", "--version")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("tellback ")
