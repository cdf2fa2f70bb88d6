"""The resident process: its commands answer as their own processes do, its bounds, and its end.

Inner parts, on no face: ``tellback.agent.assistant.resident``, ``tellback.agent.assistant.cli.hosted_commands``.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tellback.agent.assistant.cli.hosted_commands import HostedCommands
from tellback.agent.assistant.config import CONFIG_VARIABLE, ENVIRONMENT_VARIABLES
from tellback.agent.assistant.resident import client, wire
from tellback.agent.assistant.resident.client import command_name
from tellback.agent.assistant.resident.host import route_standard_streams
from tellback.agent.assistant.resident.memory_pool import MOST_OPEN
from tellback.agent.assistant.resident.server import ResidentServer
from tests.support.command_line import CommandLine
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not wire.available(), reason="this system has no sockets for it")
ROOT = Path(__file__).resolve().parents[2]


class Resident:
    """A resident in a thread of the test, asked over its socket."""

    def __init__(self, idle: float = 60.0) -> None:
        path = wire.socket_path(os.environ)
        assert path is not None
        self.path = path
        self.commands = HostedCommands()
        self.commands.idle = idle
        self.withdrawn = 0
        self._routed = False
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(64)
        self.server = ResidentServer(listener, path, commands=self.commands, on_withdrawn=self._withdraw)
        self.ended: list[str] = []
        self._thread = threading.Thread(target=lambda: self.ended.append(self.server.serve()))
        self._thread.start()

    def _withdraw(self) -> None:
        self.withdrawn += 1

    def ask(self, **request: Any) -> tuple[dict[str, Any], bytes]:
        connection = wire.connect(self.path, seconds=30)
        assert connection is not None
        return wire.exchange(connection, request)

    def run(self, *arguments: object, **others: Any) -> tuple[dict[str, Any], bytes]:
        if not self._routed:  # in the test itself: between fixture and test pytest puts other streams there
            route_standard_streams()
            self._routed = True
        request = {
            "kind": "run",
            "arguments": [*map(str, arguments)],
            "environment": {},
            "identity": wire.identity(os.environ),
            "folder": str(Path.cwd()),
            "terminals": [False, False],
            "terminal": None,
            "columns": 80,
        }
        return self.ask(**{**request, **others})

    def stop(self) -> str:
        self.server.stop("the test is over")
        reason = self.wait()
        self.commands.close()
        return reason

    def wait(self) -> str:
        self._thread.join(60)
        return self.ended[0]


@pytest.fixture
def resident(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resident]:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    running = Resident()
    yield running
    running.stop()


@pytest.fixture
def told(tellback: CommandLine) -> CommandLine:
    for text in ("My sister Ana lives in Porto.", "The boiler was serviced on 3 May 2026.", "Zoë plays the cello."):
        assert tellback("remember", text).code == 0
    return tellback


@pytest.mark.parametrize(
    "arguments",
    [
        ("recall", "Where does Ana live?"),
        ("recall", "Zoë", "--json", "--explain"),
        ("recall", "When was the boiler serviced?", "-k", "1", "--full", "--explain"),
        ("search", "a submarine"),
    ],
)
def test_a_command_prints_the_same_bytes_as_in_a_process_of_its_own(
    arguments: tuple[str, ...], told: CommandLine, resident: Resident
) -> None:
    alone = told(*arguments)
    head, printed = resident.run("--memory", told.path, *arguments)
    assert head["outcome"] == "done"
    assert (printed[: head["stdout"]].decode(), printed[head["stdout"] :].decode()) == (alone.out, alone.err)


def test_a_command_that_fails_or_belongs_to_another_home_is_left_to_its_own_process(
    told: CommandLine, resident: Resident
) -> None:
    for arguments in (("recall",), ("--memory", "missing.db", "recall", "Ana"), ("recall", "Ana", "--as-of", "never")):
        assert resident.run(*arguments)[0] == {"outcome": "not here"}
    other = [*wire.identity(os.environ), "HOME=/elsewhere"]
    assert resident.run("--memory", told.path, "recall", "Ana", identity=other)[0] == {"outcome": "not here"}


def test_concurrent_requests_see_their_own_namespace_settings_and_folder(told: CommandLine, resident: Resident) -> None:
    for number in range(4):
        assert told("--namespace", f"n{number}", "remember", f"The code of door {number} is red.").code == 0
    Path("config.toml").write_text('namespace = "n3"\n')
    asked = ("recall", "What is the code of the door?", "--full")
    requests: list[dict[str, Any]] = [{"environment": {"TELLBACK_NAMESPACE": f"n{number}"}} for number in range(3)]
    requests += [{"environment": {CONFIG_VARIABLE: "config.toml"}}]

    def door(number: int) -> bytes:
        head, printed = resident.run("--memory", "m.db", *asked, **requests[number % 4])
        return printed[: head["stdout"]]

    with ThreadPoolExecutor(8) as threads:
        doors = [*threads.map(door, range(24))]
    for number, printed in enumerate(doors):
        assert [f"door {other}".encode() in printed for other in range(4)] == [n == number % 4 for n in range(4)]


def test_the_next_request_sees_writes_and_file_replacements_of_other_processes(
    told: CommandLine, resident: Resident, tmp_path: Path
) -> None:
    asked = ("--memory", told.path, "recall", "Where does Ana live?", "-k", "1")
    assert b"Porto" in resident.run(*asked)[1]
    assert told("remember", "My sister Ana lives in Braga now.").code == 0
    assert b"Braga" in resident.run(*asked)[1]
    assert told("--memory", "other.db", "remember", "My sister Ana lives in Faro.").code == 0
    log = Path(f"{told.path}-wal")
    assert wait_until(lambda: not log.exists() or not log.stat().st_size), "the file cannot be moved while it has a log"
    Path("other.db").replace(told.path)
    assert b"Faro" in resident.run(*asked)[1]
    assert resident.ask(kind="status")[0]["memories"] == [str(told.path)]


def test_open_memories_of_a_resident_are_limited(tellback: CommandLine, resident: Resident) -> None:
    for number in range(MOST_OPEN + 2):
        tellback("--memory", f"m{number}.db", "remember", f"The number is {number}.")
        assert str(number).encode() in resident.run("--memory", f"m{number}.db", "recall", "What is the number?")[1]
    assert len(resident.commands.open_paths()) == MOST_OPEN


def test_an_invalid_or_too_long_request_does_not_stop_the_resident(resident: Resident) -> None:
    for message in (b"", b"no JSON\n", b"[]\n", b"x" * (wire.REQUEST_LIMIT + 1)):
        connection = wire.connect(resident.path, seconds=30)
        assert connection is not None
        with connection, suppress(OSError):
            connection.sendall(message)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
    assert resident.run("nonsense")[0] == {"outcome": "not here"}
    assert resident.ask(kind="status")[0]["pid"] == os.getpid()


def test_a_resident_of_another_version_withdraws_at_once(resident: Resident) -> None:
    assert resident.ask(protocol=0)[0]["outcome"] == "outdated"
    assert (resident.withdrawn, Path(resident.path).exists()) == (1, False)
    assert resident.stop() == "its code was changed"


def test_a_resident_ends_when_idle_or_without_its_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = Resident(idle=0.0)
    assert idle.wait() == "idle"
    assert not Path(idle.path).exists()
    lonely = Resident()
    Path(lonely.path).unlink()
    assert lonely.wait() == "the socket is gone"


def test_the_socket_lies_in_a_folder_that_is_closed_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = tmp_path / "run"
    runtime.mkdir(0o700)
    environ = {"XDG_RUNTIME_DIR": str(runtime)}
    path = wire.socket_path(environ)
    assert path is not None
    assert Path(path).parent == runtime / "tellback"
    assert Path(path).parent.stat().st_mode & 0o777 == 0o700
    assert wire.socket_path({**environ, "HOME": "/elsewhere"}) != path
    (runtime / "tellback").chmod(0o755)  # others may look in
    assert not str(wire.socket_path(environ)).startswith(str(tmp_path))
    long = tmp_path / ("x" * 100)
    long.mkdir(0o700)
    assert len(os.fsencode(str(wire.socket_path({"XDG_RUNTIME_DIR": str(long)})))) < 104
    monkeypatch.setattr(os, "getuid", lambda: 54321)  # nothing here is this user's
    assert wire.socket_path(environ) in (None, f"/tmp/tellback-54321/{Path(path).name}")


def test_only_processes_of_the_same_user_are_talked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert wire.peer_is_own(ours)
        monkeypatch.setattr(os, "getuid", lambda: 54321)
        assert not wire.peer_is_own(ours)


def test_a_request_hands_over_every_variable_of_the_settings() -> None:
    environ = dict.fromkeys([*ENVIRONMENT_VARIABLES.values(), CONFIG_VARIABLE, "PATH"], "given")
    assert wire.configuring_environment(environ).keys() == environ.keys() - {"PATH"}


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("hook claude-code Stop", "hook"),
        ("--memory hook recall x", "recall"),
        ("--memory=m.db --offline --json search x", "search"),
        ("--debug hook claude-code Stop", ""),
        ("--version", ""),
        ("", ""),
    ],
)
def test_the_command_name_is_found_among_global_options(line: str, name: str) -> None:
    assert command_name(line.split()) == name


def test_the_client_of_the_resident_imports_no_heavy_library(tmp_path: Path) -> None:
    heavy = ["argparse", "numpy", "pathlib", "platformdirs", "pydantic", "shutil", "subprocess", "tempfile", "typer"]
    program = f"import sys, {client.__name__}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
