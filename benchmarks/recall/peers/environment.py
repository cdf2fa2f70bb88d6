"""An environment of its own for a package, made once by pip and kept in the user's cache."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import platformdirs

from benchmarks.recall.system import NotAvailable

_PATIENCE = 900


def python_with(package: str) -> Path:
    """Return the interpreter of an environment that has *package* (with its version); raise ``NotAvailable``."""
    folder = platformdirs.user_cache_path("tellback") / "benchmarks" / package.replace("==", "-")
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    done = folder / "installed"
    if not done.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        _run([sys.executable, "-m", "venv", "--clear", str(folder)], package)
        _run([str(python), "-m", "pip", "install", "--quiet", package], package)
        done.touch()
    return python


def _run(words: list[str], package: str) -> None:
    try:
        run = subprocess.run(words, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired as error:
        raise NotAvailable(f"{package} was not installed within {_PATIENCE} s") from error
    if run.returncode:
        errors = [line for line in run.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
        raise NotAvailable(f"{package} cannot be installed here: {errors[-1][:200]}")
