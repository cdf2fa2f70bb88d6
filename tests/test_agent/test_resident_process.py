"""The resident as a process of its own: started by the first hook, killed, replaced and stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tellback.agent.assistant.resident import wire

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not wire.available(), reason="this system has no sockets for it")]
ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = "from tellback.agent.assistant.cli.launcher import main; main()"


class Machine:
    """Commands in processes of their own, on one memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environment = {**os.environ, "TELLBACK_RESIDENT_IDLE": "60", "PYTHONPATH": str(ROOT)}

    def __call__(self, *arguments: str, text: str = "", **variables: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", LAUNCHER, "--memory", str(self.path), *arguments],
            cwd=self.path.parent,
            env={**self.environment, **variables},
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def prompt(self, prompt: str, session: str = "s", **variables: str) -> str:
        payload = {"session_id": session, "cwd": str(self.path.parent), "prompt": prompt}
        return self("hook", "claude-code", "UserPromptSubmit", text=json.dumps(payload), **variables)

    def residents(self) -> list[dict[str, Any]]:
        residents: list[dict[str, Any]] = json.loads(self("resident", "status", "--json"))["residents"]
        return residents


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    running = Machine(tmp_path / "m.db")
    yield running
    running("resident", "stop")
    assert running.residents() == []


def test_concurrent_hooks_start_one_resident_that_is_replaced_when_killed(machine: Machine) -> None:
    machine("remember", "The boiler was serviced on 3 May 2026.")
    with ThreadPoolExecutor(4) as threads:
        replies = [*threads.map(lambda n: machine.prompt("When was the boiler serviced?", f"s{n}"), range(4))]
    assert all("3 May 2026" in reply for reply in replies)
    (resident,) = machine.residents()
    machine.prompt("When was the boiler serviced?", "s4")  # now it is there: some of the four may not have waited
    (asked_again,) = machine.residents()
    assert asked_again["pid"] == resident["pid"]
    assert (asked_again["served"], asked_again["memories"]) == (resident["served"] + 1, [str(machine.path)])
    asked = ("recall", "Who serviced the boiler?", "--json", "--explain")
    assert machine(*asked) == machine(*asked, TELLBACK_RESIDENT_IDLE="0")

    os.kill(resident["pid"], signal.SIGKILL)
    assert machine.prompt("Tomorrow I fly to Faro from gate 12.") is not None
    assert "gate 12" in machine.prompt("From which gate do I fly to Faro?", "later")
    (successor,) = machine.residents()
    assert successor["pid"] != resident["pid"]
    texts = [found["text"] for found in json.loads(machine("memories", "list", "--json"))["memories"]]
    assert texts.count("Tomorrow I fly to Faro from gate 12.") == 1

    log = Path(os.environ["HOME"]) / ".local" / "state" / "tellback" / "resident.log"
    assert log.stat().st_mode & 0o777 == 0o600
    assert not any(word in log.read_text() for word in ("boiler", "Faro", "gate"))


def test_no_resident_process_runs_where_the_settings_disable_it(machine: Machine, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("resident_idle = 0\n")
    machine.environment = {**machine.environment, "TELLBACK_CONFIG": str(config)}
    del machine.environment["TELLBACK_RESIDENT_IDLE"]
    machine("remember", "The boiler was serviced on 3 May 2026.")
    for session in ("first", "second"):  # the second does not even try
        assert "3 May 2026" in machine.prompt("When was the boiler serviced?", session)
    assert machine.residents() == []
