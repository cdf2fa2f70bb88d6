"""A system in a process of its own, and the environments that foreign packages have."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import platformdirs

from benchmarks.child import Child, ChildEnded
from benchmarks.memory.protocol import Item, Question, Settings, Unavailable

_WORKER = Path(__file__).parent / "worker.py"
_PATIENCE = 1_800.0
"""Seconds that one answer may take; a whole corpus is ingested within one."""
_INSTALL_PATIENCE = 900
_QUIET = {
    "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False", "DO_NOT_TRACK": "1",
    "MEM0_TELEMETRY": "False", "TOKENIZERS_PARALLELISM": "false",
}  # fmt: skip
"""Nothing is downloaded and nothing is reported home while a system is measured."""


class SystemFailed(Exception):
    """A system raised, or its process ended; the message says what it said."""


class SystemProcess:
    """A running system. Each call returns what the worker measured of it beside its answer."""

    def __init__(self, place: str, python: Path, settings: Settings) -> None:
        folder = settings.folder
        environment = {"OPENAI_API_KEY": "none", **os.environ, **_QUIET}
        if python != Path(sys.executable):  # what a foreign package keeps in its user's home is not kept in theirs
            environment["HOME"] = str(folder.parent)
        environment.pop("PYTHONPATH", None)
        words = [str(python), "-P", str(_WORKER), place]
        self._child = Child(words, environment=environment, patience=_PATIENCE)
        try:
            self._ask({"open": {**asdict(settings), "folder": str(folder)}})
        except Exception:
            self._child.stop()
            raise

    def ingest(self, items: Sequence[Item]) -> dict[str, Any]:
        return self._ask({"ingest": [asdict(item) for item in items]})

    def search(self, question: Question, k: int, tokens: int) -> dict[str, Any]:
        return self._ask({"search": asdict(question), "k": k, "tokens": tokens})

    def call(self, name: str) -> dict[str, Any]:
        """Call ``reset``, ``ready`` or ``usage``."""
        return self._ask({name: 1})

    def close(self) -> None:
        with suppress(SystemFailed, Unavailable):
            self._ask({"close": 1})
        self._child.stop()

    def _ask(self, words: Mapping[str, Any]) -> dict[str, Any]:
        self._child.say(words)
        try:
            answer = self._child.answer()
        except ChildEnded as error:
            raise SystemFailed(str(error)) from error
        if "unavailable" in answer:
            raise Unavailable(str(answer["unavailable"]))
        if "error" in answer:
            raise SystemFailed(str(answer["error"]))
        return answer


def python_with(packages: Sequence[str]) -> Path:
    """Return the interpreter of an environment with *packages*, made once in the user's cache; ours for none."""
    if not packages:
        return Path(sys.executable)
    name, folder = "_".join(packages), _folder_of(packages)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if not is_installed(packages):
        folder.parent.mkdir(parents=True, exist_ok=True)
        if shutil.which("uv"):
            _install(["uv", "venv", "-q", "--clear", "-p", sys.executable, str(folder)], name)
            _install(["uv", "pip", "install", "-q", "--link-mode", "copy", "-p", str(python), *packages], name)
        else:
            _install([sys.executable, "-m", "venv", "--clear", str(folder)], name)
            _install([str(python), "-m", "pip", "install", "--quiet", *packages], name)
        (folder / "installed").touch()
    return python


def is_installed(packages: Sequence[str]) -> bool:
    """Return whether the environment with *packages* was made."""
    return (_folder_of(packages) / "installed").exists()


def _folder_of(packages: Sequence[str]) -> Path:
    folder = os.environ.get("BENCH_ENVIRONMENTS") or platformdirs.user_cache_path("tellback") / "benchmarks"
    return Path(folder, "_".join(packages).replace("==", "-"))


def _install(words: Sequence[str], name: str) -> None:
    try:
        run = subprocess.run(words, capture_output=True, text=True, timeout=_INSTALL_PATIENCE, check=False)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{name} was not installed within {_INSTALL_PATIENCE} s") from error
    if run.returncode:
        lines = [line.strip() for line in run.stderr.splitlines() if line.strip()] or ["the installer failed"]
        raise Unavailable(f"{name} cannot be installed here: {lines[-1][:200]}")
