"""The README's first install, on a clean machine; ``python -m tests.support.first_install`` needs no package.

A bare copy of the project runs the README's first command, which makes an environment without the tools of development.
In it run every example and every code block of the documentation, with an empty home and no network.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from tests.support.snippets import EXAMPLE_OUTPUT, ROOT, blocks, console_script

_UNTRACKED = (".git", ".links", ".venv", "__pycache__", "*.db*", ".*_cache", "*.egg-info", ".coverage*", ".hypothesis")
_ACTIVE_ENVIRONMENT = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "PYTEST_CURRENT_TEST")
_NETWORK_GUARD = """
import sys

def refuse_network(event, arguments):
    address = {"socket.connect": 1, "socket.sendto": 1, "socket.getaddrinfo": 0}.get(event)
    if address is None:
        return
    host = arguments[address]
    host = host[0] if isinstance(host, tuple) else host
    host = host.decode() if isinstance(host, bytes) else host
    if isinstance(host, str) and not host.startswith(("/", "127.", "localhost", "::1", "\\0")) and host:
        with open(REPORT, "a") as report:
            print(event, host, sys.argv, file=report)
        raise ConnectionRefusedError(f"{host} was looked up, which nobody asked for")

sys.addaudithook(refuse_network)
"""
"""A module ``sitecustomize``: every Python process imports it at its start."""


def strangers_environment(home: Path) -> dict[str, str]:
    """Return the environment of a user with no environment active, no keys, and the empty *home*."""
    ours = ("TELLBACK_", "OPENAI_", "ANTHROPIC_", "OLLAMA_", "XDG_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    kept = {name: value for name, value in kept.items() if name not in _ACTIVE_ENVIRONMENT}
    return {"PIP_CACHE_DIR": str(Path.home() / ".cache" / "pip"), **kept, "HOME": str(home)}


def install(folder: Path, environment: Mapping[str, str]) -> Path:
    """Copy the project into *folder*, run the README's first command there, and return its Python."""
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*_UNTRACKED))
    command = next(block.code for block in blocks() if block.language == "bash")
    if shutil.which("python3.11") is None:
        command = command.replace("python3.11", sys.executable, 1)
    run = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    if run.returncode or not re.search(r"^\[1\] docs/", run.stdout, re.MULTILINE):
        raise SystemExit(f"the README's first command failed ({run.returncode}):\n{run.stdout}{run.stderr}")
    return folder / ".venv" / "bin" / "python"


def run_python_blocks() -> Iterator[str]:
    """Run each Python block in this process, in a folder of its own; yield a line for each that fails."""
    from tellback.vectorstore import MissingExtra

    for block in blocks():
        if block.language == "python":
            with tempfile.TemporaryDirectory() as folder, chdir(folder), redirect_stdout(io.StringIO()):
                try:
                    exec(compile(block.code, f"{block.page}.md", "exec"), {"__name__": "__main__"})
                except (MissingExtra, ModuleNotFoundError) as error:
                    if "Contract" not in block.code:  # a suite of tests says that it needs the tools of tests
                        yield f"{block}: {error}"
                except Exception:
                    yield f"{block}: {traceback.format_exc()}"


@dataclass(frozen=True)
class Job:
    """A process in a folder of its own, *with_docs* beside it; it must succeed and print *expected*."""

    name: str
    arguments: tuple[str, ...]
    expected: str = ""
    with_docs: bool = False

    def run(self, environment: Mapping[str, str]) -> str | None:
        """Run the process; return what it printed if it failed."""
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            if self.with_docs:
                shutil.copy(ROOT / "README.md", folder)
                shutil.copytree(ROOT / "docs", folder / "docs")
            run = subprocess.run(
                self.arguments,
                cwd=folder,
                env={**environment, "HOME": str(folder / "home")},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
        failed = run.returncode or self.expected not in run.stdout
        return f"{self.name}: {run.stdout}{run.stderr}" if failed else None


def run_everything(folder: Path) -> list[str]:
    """Install into *folder* and run what the documentation shows; return what failed."""
    environment = strangers_environment(folder / "home")
    clone = folder / "clone"
    python = str(install(clone, environment))
    guard, report = folder / "guard", folder / "network.txt"
    guard.mkdir()
    (guard / "sitecustomize.py").write_text(f"REPORT = {str(report)!r}\n{_NETWORK_GUARD}")
    path = f"{Path(python).parent}{os.pathsep}{environment['PATH']}"
    guarded = {**environment, "PATH": path, "PYTHONPATH": str(guard), "PYTHONIOENCODING": "utf-8"}
    guarded["TELLBACK_CACHE"] = str(folder / "cache")  # or each job, in its empty home, converts the encoder anew
    control = Job("guard", (python, "-c", "import socket; socket.create_connection(('host.invalid', 80))"))
    if control.run(guarded) is None or not report.exists():
        raise SystemExit("the guard lets the network be looked up")
    report.unlink()
    pages = sorted({block.page for block in blocks() if block.language == "console"})
    jobs = [
        Job("Python blocks", (python, "-c", _RUN_BLOCKS.format(root=str(clone)))),
        *(Job(page, ("bash", "-c", console_script(page)), with_docs=True) for page in pages),
        *(
            Job(path.name, (python, "-W", "error", str(path)), EXAMPLE_OUTPUT.get(path.name, ""))
            for path in sorted((clone / "examples").glob("*.py"))
        ),
    ]
    with ThreadPoolExecutor(2) as pool:
        failures = [failure for failure in pool.map(lambda job: job.run(guarded), jobs) if failure]
    if report.exists():
        failures.append(f"the network was looked up:\n{report.read_text()}")
    print(f"{len(jobs)} groups of examples and code blocks ran on the README's first install, {len(failures)} failed")
    return failures


_RUN_BLOCKS = """
import sys
sys.path.append({root!r})
from tests.support.first_install import run_python_blocks
failures = [*run_python_blocks()]
print(*failures, sep="\\n")
sys.exit(bool(failures))
"""


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        failed = run_everything(Path(temporary))
    print(*failed, sep="\n")
    sys.exit(bool(failed))
