"""The resident server: its answers are those of a process of one's own, its bounds, and its end.

Inner parts, on no face: ``tellback.agent.assistant.resident``, ``tellback.agent.assistant.server.resident``,
``tellback.agent.http_listener``.
"""

from __future__ import annotations

import asyncio
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

pytest.importorskip("uvicorn", reason="the extra 'web' is not installed")

from tellback.agent.assistant.config import CONFIG_VARIABLE, ENVIRONMENT_VARIABLES
from tellback.agent.assistant.resident import client, wire
from tellback.agent.assistant.resident.client import hook_parts
from tellback.agent.assistant.resident.memory_pool import MOST_OPEN
from tellback.agent.assistant.server.resident import ResidentServer
from tellback.agent.http_listener import serve_application
from tests.support.command_line import CommandLine
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.skipif(not wire.available(), reason="this system has no sockets for it"), pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]


class Resident:
    """A resident server in a thread of the test, asked over its socket."""

    def __init__(self, idle: float = 60.0) -> None:
        path = wire.socket_path(os.environ)
        assert path is not None
        self.path = path
        self.withdrawn = 0
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(64)
        self.server = ResidentServer(path, on_withdrawn=self._withdraw, idle=idle)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(listener)))
        self._thread.start()

    async def _serve(self, listener: socket.socket) -> None:
        watching = asyncio.ensure_future(self.server.watch())
        await serve_application(self.server, listener, watching, admits=wire.peer_is_own)

    def _withdraw(self) -> None:
        self.withdrawn += 1

    def ask(self, target: str, **request: Any) -> tuple[int, dict[str, Any]]:
        connection = wire.connect(self.path, seconds=30)
        assert connection is not None
        return wire.ask(connection, target, request)

    def recall(self, memory: object, question: str, **others: Any) -> tuple[int, dict[str, Any]]:
        asker = {"environment": {}, "identity": wire.identity(os.environ), "folder": str(Path.cwd())}
        asked = {"flags": {"memory": str(memory)}, "question": question, "k": 5, "options": {}}
        return self.ask("/recall", **{**asker, **asked, **others})

    def texts(self, *asked: Any, **others: Any) -> list[str]:
        status, answer = self.recall(*asked, **others)
        assert status == 200
        return [hit["text"] for hit in answer["found"]["hits"]]

    def stop(self) -> str:
        self.server.stop("the test is over")
        reason = self.wait()
        self.server.pool.release()
        return reason

    def wait(self) -> str:
        self._thread.join(60)
        return self.server.ended


@pytest.fixture
def resident(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resident]:
    monkeypatch.setenv(wire.IDLE_VARIABLE, "60")
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
        ("recall", "When was the boiler serviced?", "-k", "1", "--full"),
        ("recall", "Where does Ana live?", "--around", "1", "--as-of", "2027-01-01"),
        ("search", "a submarine"),
        ("ask", "Where does Ana live?"),
        ("ask", "When was the boiler serviced?", "--json"),
    ],
)
def test_a_question_prints_the_same_bytes_as_in_a_process_of_its_own(
    arguments: tuple[str, ...], told: CommandLine, resident: Resident, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_server = told(*arguments)
    assert resident.server.served == 1
    monkeypatch.setenv(wire.IDLE_VARIABLE, "0")
    assert told(*arguments) == by_server
    assert resident.server.served == 1


def test_a_question_that_fails_or_belongs_to_another_home_is_left_to_its_own_process(
    told: CommandLine, resident: Resident
) -> None:
    other = [*wire.identity(os.environ), "HOME=/elsewhere"]
    refused = [
        resident.recall("missing.db", "Ana"),
        resident.recall(told.path, "Ana", options={"as_of": "never"}),
        resident.recall(told.path, "Ana", options={"unknown": 1}),
        resident.recall(told.path, "Ana", identity=other),
        resident.ask("/nothing", identity=wire.identity(os.environ)),
    ]
    assert [status for status, _ in refused] == [404] * 5
    assert not Path("missing.db").exists()
    missing = told("--memory", "missing.db", "recall", "Ana")
    assert "no memory is here yet" in missing.err


def test_concurrent_requests_see_their_own_namespace_settings_and_folder(told: CommandLine, resident: Resident) -> None:
    for number in range(4):
        assert told("--namespace", f"n{number}", "remember", f"The code of door {number} is red.").code == 0
    Path("config.toml").write_text('namespace = "n3"\n')
    requests: list[dict[str, Any]] = [{"environment": {"TELLBACK_NAMESPACE": f"n{number}"}} for number in range(3)]
    requests += [{"environment": {CONFIG_VARIABLE: "config.toml"}}]
    with ThreadPoolExecutor(8) as threads:
        asked = [requests[number % 4] for number in range(24)]
        doors = [*threads.map(lambda own: resident.texts("m.db", "What is the code of the door?", **own), asked)]
    assert doors == [[f"The code of door {number % 4} is red."] for number in range(24)]


def test_the_next_request_sees_writes_and_file_replacements_of_other_processes(
    told: CommandLine, resident: Resident, tmp_path: Path
) -> None:
    asked = (told.path, "Where does Ana live?")
    assert "Porto" in resident.texts(*asked)[0]
    assert told("remember", "My sister Ana lives in Braga now.").code == 0
    assert any("Braga" in text for text in resident.texts(*asked)[:2])
    assert told("--memory", "other.db", "remember", "My sister Ana lives in Faro.").code == 0
    log = Path(f"{told.path}-wal")
    assert wait_until(lambda: not log.exists() or not log.stat().st_size), "the file cannot be moved while it has a log"
    Path("other.db").replace(told.path)
    assert "Faro" in resident.texts(*asked)[0]
    assert resident.ask("/status")[1]["memories"] == [str(told.path)]


def test_open_memories_of_a_resident_are_limited(tellback: CommandLine, resident: Resident) -> None:
    for number in range(MOST_OPEN + 2):
        tellback("--memory", f"m{number}.db", "remember", f"The number is {number}.")
        assert resident.texts(f"m{number}.db", "What is the number?") == [f"The number is {number}."]
    assert len(resident.server.pool.open_paths()) == MOST_OPEN


def test_an_invalid_or_too_long_request_does_not_stop_the_resident(resident: Resident) -> None:
    length = wire.REQUEST_LIMIT + 1
    messages = (
        b"",
        b"no HTTP\r\n\r\n",
        b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /status HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]",
        b"POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (length, b"x" * length),
    )
    for message in messages:
        connection = wire.connect(resident.path, seconds=30)
        assert connection is not None
        with connection, suppress(OSError):
            connection.sendall(message)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65536)
            assert not answer or b" 4" in answer[:13] or b" 5" in answer[:13]
    assert resident.ask("/status")[1]["pid"] == os.getpid()


def test_a_resident_of_another_version_withdraws_at_once(resident: Resident) -> None:
    assert resident.ask("/status", protocol=0)[0] == 409
    assert (resident.withdrawn, Path(resident.path).exists()) == (1, False)
    assert resident.stop() == "its code was changed"


def test_a_resident_of_changed_code_is_in_no_report(resident: Resident, monkeypatch: pytest.MonkeyPatch) -> None:
    from tellback.agent.assistant.cli.resident import resident_reports

    assert [report["pid"] for report in resident_reports()] == [os.getpid()]
    monkeypatch.setattr("tellback.agent.assistant.server.resident.file_stamp", lambda file: "another")
    assert [*resident_reports()] == []


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
    ("line", "parts"),
    [
        ("hook claude-code Stop", ({}, ["claude-code", "Stop"])),
        ("--memory hook recall x", None),
        ("--memory=m.db --offline --json hook x", ({"memory": "m.db", "offline": True}, ["x"])),
        ("--memory m.db hook x y", ({"memory": "m.db"}, ["x", "y"])),
        ("remember hook", None),
        ("--debug hook claude-code Stop", None),
        ("--memory", None),
        ("", None),
    ],
)
def test_a_hook_is_found_among_global_options(line: str, parts: object) -> None:
    assert hook_parts(line.split()) == parts


def test_the_client_of_the_resident_imports_no_heavy_library(tmp_path: Path) -> None:
    heavy = ["argparse", "numpy", "pathlib", "platformdirs", "pydantic", "shutil", "subprocess", "tempfile", "typer"]
    program = f"import sys, {client.__name__}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
