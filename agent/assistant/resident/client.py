"""Client of the resident server: a hook is answered there, and a question of a command.

They are answered here where no server can be reached or started, it takes too long, it ends in the middle, or they fail
there: both may be done twice. Only the standard library is imported.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tellback.agent.assistant.resident import wire

_OK, _OUTDATED = 200, 409
PATIENCE = 7.0
"""Seconds after which a command runs here instead; clients wait ten for the hook of a prompt."""
_VALUE_OPTIONS = frozenset({"--memory", "--namespace", "--language", "--model"})
_SECONDS_BETWEEN_LOOKS = 0.005
_ATTEMPTS = 3
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from tellback.agent.assistant.server.process import main; main()"
)


def answer_hook(arguments: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Let the server answer the hook of *arguments*, and print its output; return whether it did.

    Where it did not, the standard input that was read is put back for the command that runs here.
    """
    path, parts = _socket(environ), hook_parts(arguments)
    if path is None or parts is None or len(parts[1]) != 2 or _is_switched_off(path):
        return False
    data = sys.stdin.buffer.read(wire.REQUEST_LIMIT)
    answer = None
    try:
        if _fits(data):
            flags, (client, event) = parts
            hook = {"client": client, "event": event, "payload": data.decode("utf-8", "replace")}
            answer = _exchange(path, "/hook", {**_asker(environ, flags), **hook}, starts=True)
    except OSError:  # no working directory, no process can be started, …: the command itself reports it
        pass
    if answer is None:
        _put_back(data)
        return False
    try:
        sys.stdout.buffer.write(answer["output"].encode())
        sys.stdout.buffer.flush()
    except OSError:  # a full disk, or nobody who reads: what was said is kept
        pass
    return True


def ask_server(target: str, request: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the answer of a server that runs to *request*; None where none runs, or it leaves it to this process."""
    path = _socket(os.environ)
    if path is None or not os.path.exists(path):
        return None
    try:
        return _exchange(path, target, {**_asker(os.environ, flags), **request}, starts=False)
    except OSError:
        return None


def _socket(environ: Mapping[str, str]) -> str | None:
    if environ.get(wire.IDLE_VARIABLE) == "0" or not wire.available():
        return None
    return wire.socket_path(environ)


def hook_parts(arguments: Sequence[str]) -> tuple[dict[str, Any], list[str]] | None:
    """Return the global flags and the words of a hook's *arguments*; None for another command."""
    flags: dict[str, Any] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        name, assigned, value = rest.pop(0).partition("=")
        if name in _VALUE_OPTIONS and (assigned or rest):
            flags[name[2:]] = value if assigned else rest.pop(0)
        elif name == "--offline":
            flags["offline"] = True
        elif name != "--json":
            return None
    return (flags, rest[1:]) if rest[:1] == ["hook"] else None


def _fits(data: bytes) -> bool:
    return len(data) < wire.REQUEST_LIMIT - 65536


def _put_back(data: bytes) -> None:
    import io

    rest = b"" if _fits(data) else sys.stdin.buffer.read()
    sys.stdin = io.TextIOWrapper(io.BytesIO(data + rest), encoding="utf-8", errors="surrogateescape")


def _asker(environ: Mapping[str, str], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a request says of this process: its settings, its folder, and what another server would be for."""
    return {
        "environment": wire.configuring_environment(environ),
        "identity": wire.identity(environ),
        "folder": os.getcwd(),
        "flags": dict(flags),
    }


def _exchange(path: str, target: str, request: Mapping[str, Any], *, starts: bool) -> dict[str, Any] | None:
    """Return the answer to *request*, None for none; an ended or outdated server is replaced where it *starts*."""
    until = time.monotonic() + PATIENCE
    for _ in range(_ATTEMPTS):
        connection = wire.connect(path, seconds=PATIENCE)
        if connection is None:
            connection = _started(path, until) if starts else None
        if connection is None or (left := until - time.monotonic()) <= 0:
            return None
        connection.settimeout(left)
        try:
            status, answer = wire.ask(connection, target, request)
        except wire.WireError:
            if time.monotonic() >= until or not starts:
                return None
            continue
        if status != _OUTDATED:
            return answer if status == _OK else None
    return None


def _started(path: str, until: float) -> socket.socket | None:
    """Start a resident unless another command is starting one; return a connection as soon as it listens."""
    process = None if _is_locked(path) else _start()
    while time.monotonic() < until:
        connection = wire.connect(path, seconds=PATIENCE)
        if connection is not None:
            return connection
        if process is not None:
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended and status:
                return None
            process = None if ended else process
        elif not _is_locked(path):
            return None
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return None


def _start() -> int:
    """Start a resident that outlives this process and has none of its files; return its process id."""
    null = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    # Two heaps for all threads: with one for each, memory freed by one request is not reused by the next.
    environment = {"MALLOC_ARENA_MAX": "2", **os.environ}
    words = [sys.executable, "-P", "-c", _PROGRAM, wire.PACKAGES]
    return os.posix_spawn(sys.executable, words, environment, file_actions=null)


def _is_locked(path: str) -> bool:
    """Return whether a resident holds the lock of *path*: it listens, or is starting."""
    import fcntl

    try:
        descriptor = os.open(path + ".lock", os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _is_switched_off(path: str) -> bool:
    """Return whether the mark of a resident says that the configuration file, unchanged since, wants none.

    Reading the configuration here would take longer than the whole exchange.
    """
    try:
        with open(path + ".off", encoding="utf-8") as file:
            stamp, _, configuration = file.read().partition(" ")
        return stamp == file_stamp(configuration)
    except OSError:
        return False


def file_stamp(path: str) -> str:
    """Return a text that differs when the file *path* was changed; "" where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_mtime_ns}-{status.st_size}-{status.st_ino}"
