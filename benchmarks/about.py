"""Circumstances of a run: versions, machine, time, and the command without the paths of this machine."""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def circumstances(words: Sequence[str], packages: Iterable[str]) -> dict[str, Any]:
    """Return command, time, machine, load and the versions of *packages*: what stands above figures."""
    return {
        "command": command(words), "at": moment(), "machine": machine(), "load": load(), "versions": versions(packages)
    }  # fmt: skip


def add_data_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--data``, the folder of the data sets; ``TELLBACK_BENCH_DATA`` names it, too."""
    default = os.environ.get("TELLBACK_BENCH_DATA")
    parser.add_argument("--data", type=Path, default=Path(default) if default else None, help="folder of the data sets")


def version_of(package: str) -> str:
    """Return the version of an installed package, ``-`` where there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "-"


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the version of each of *packages*."""
    return {name: version_of(name) for name in packages}


def moment() -> str:
    """Return the present time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def machine() -> str:
    """Return the machine in a line: processor, cores, memory, system."""
    name = platform.processor() or platform.machine()
    memory = ""
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        memory = f", {pages / 2**30:.0f} GiB"
    except (OSError, ValueError, AttributeError):
        pass
    return f"{name}, {os.cpu_count()} cores{memory}, {platform.system()}, Python {platform.python_version()}"


def load() -> float | None:
    """Return the load average of the last minute; None where the system has none."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def command(words: Sequence[str], *, places: Sequence[str] = ("--data", "--work")) -> str:
    """Return the command of *words* with DIR for the values of the options *places* and names for other files."""
    kept = []
    for option, word in zip(["", *words], words, strict=False):
        place = Path(word)
        kept.append("DIR" if option in places else place.name if place.is_absolute() else word)
    return "python -m benchmarks " + shlex.join(kept)


def commit() -> str:
    """Return the commit of the checkout, with a mark where files were changed since; empty outside of one."""
    asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=8"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
