"""Extent of the fault campaign, and its counts."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import apsw
import numpy as np
import pytest

from tests.test_faults.isolated import isolated


@dataclass
class Campaign:
    """One run: *full* or reduced, from a seed; what each tool counted is printed at its end."""

    full: bool
    seed: int
    counted: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def size(self, reduced: int, full: int) -> int:
        """Number of rounds to make."""
        return full if self.full else reduced

    def seeds(self, full: int) -> list[int]:
        """The seeds to run; one, unless all of it is run."""
        return [self.seed + turn for turn in range(self.size(1, full))]

    def run(self, tool: Callable[..., dict[str, Any]], **arguments: Any) -> dict[str, Any]:
        """Run *tool* in a process of its own, and remember what it counted."""
        values = {name: value for name, value in arguments.items() if name != "folder"}
        print(tool.__name__, values)
        report: dict[str, Any] = isolated(tool, timeout=self.size(1200, 3600), **arguments)
        print(report)
        counts = {name: value for name, value in report.items() if name not in values}
        self.counted.append((f"{tool.__name__} {values}", counts))
        return report


_campaigns: list[Campaign] = []


@pytest.fixture(scope="session")
def campaign(request: pytest.FixtureRequest) -> Campaign:
    config = request.config
    _campaigns.append(Campaign(config.getoption("--faults") == "full", config.getoption("--fault-seed")))
    return _campaigns[-1]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what was counted, with the machine and the versions, where all of it is run."""
    if not _campaigns or config.getoption("--faults") != "full":
        return
    machine = f"{platform.machine()}, {platform.system()} {platform.release()}"
    versions = f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}, numpy {np.__version__}"
    terminalreporter.section(f"fault campaign, {datetime.now(UTC):%Y-%m-%d}, {machine}, {versions}")
    for name, counts in _campaigns[-1].counted:
        terminalreporter.write_line(f"{name}: {counts}")
