"""Importing is cheap and harmless: in any order, without the extras, no file, socket or thread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tellback
from tellback.memory import open_memory, run_sync

ROOT = Path(tellback.__file__).parent
PACKAGES = ("vectorstore", "memory", "agent")
EXTRAS = ("wordllama", "safetensors", "tokenizers", "pypdfium2", "openpyxl", "hypothesis", "pytest")

PROBE = """
import sys, threading, importlib

extras = set({extras!r})


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in extras:
            raise ModuleNotFoundError("extra " + name + " is not installed here", name=name)
        return None


sys.meta_path.insert(0, Absent())
importlib.import_module("numpy"), importlib.import_module("pydantic"), importlib.import_module("apsw")
importlib.import_module("httpx"), importlib.import_module("typer"), importlib.import_module("rich.console")
importlib.import_module("qdrant_client")  # which tries a socket when it is imported; only its engine does so
seen = []


def audit(event, args):
    if event in ("socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen", "os.mkdir"):
        seen.append((event, args))
    if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        seen.append((event, args))


sys.addaudithook(audit)
sys.dont_write_bytecode = True
for names in ({names!r}, {names!r}[::-1]):
    for known in [known for known in sys.modules if known.startswith("tellback.")]:
        del sys.modules[known]
    for name in names:
        importlib.import_module(name)
assert not seen, seen
assert threading.active_count() == 1, threading.enumerate()
print("fine")
"""


def module_names() -> list[str]:
    names = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = ("tellback", *path.relative_to(ROOT).with_suffix("").parts)
            if parts[-1].endswith("_contract") or parts[-1] == "suite" or parts[1:3] == ("memory", "testing"):
                continue  # suites are written for pytest, which a user's machine may lack
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_modules_imported_forwards_and_backwards_do_nothing_but_define(package: str) -> None:
    """None depends on another that came before: that no import goes in a circle is proved in ``test_layers``."""
    names = [name for name in module_names() if name.split(".")[1] == package]
    assert names
    run = subprocess.run(
        [sys.executable, "-c", PROBE.format(extras=EXTRAS, names=names)],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.stdout == "fine\n", run.stderr


@pytest.mark.parametrize("face", ["memory", "vectorstore"])
def test_an_error_can_be_caught_without_arrays_and_databases(face: str) -> None:
    code = f"import sys; from tellback.{face} import ArgumentError; print([*sys.modules])"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600, check=True
    )
    assert not [name for name in ("apsw", "numpy", "Stemmer", "pydantic") if f"'{name}'" in run.stdout]


@pytest.mark.slow
def test_an_agent_can_be_imported_without_arrays_clients_and_databases() -> None:
    code = "import sys; from tellback.agent import Agent; print(sorted({name.split('.')[0] for name in sys.modules}))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600, check=True
    )
    assert "pydantic" in run.stdout
    assert not [name for name in ("apsw", "httpx", "numpy", "rich", "Stemmer", "typer") if f"'{name}'" in run.stdout]


@pytest.mark.slow
def test_a_plain_recall_needs_neither_pydantic_nor_the_library_for_command_lines(tmp_path: Path) -> None:
    memory = open_memory(tmp_path / "m.db", choose_local=False)
    run_sync(memory.remember("We adopted a cat called Miso."))
    run_sync(memory.close())
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    code = """
import sys
from tellback.agent.assistant.cli.plain_recall import run_plain_recall
assert run_plain_recall(["--memory", sys.argv[1], "recall", "Miso"]) == 0
print([name for name in ("typer", "pydantic", "rich") if name in sys.modules])
"""
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "m.db")],
        cwd=ROOT,
        env={**os.environ, **home},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    assert run.stdout.splitlines()[0] == "1. We adopted a cat called Miso."
    assert run.stdout.splitlines()[-1] == "[]"
