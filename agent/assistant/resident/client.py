"""Client of the resident process: a command is handed over, and its output printed as if it had run here.

The command runs here where no resident can be reached or started, it takes too long, it ends in the middle, or the
command fails there. So only commands that may run twice are handed over. Only the standard library is imported.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence

from tellback.agent.assistant.resident import wire

STARTING_COMMANDS = frozenset({"hook"})
"""Commands that start a resident where none runs."""
SERVED_COMMANDS = STARTING_COMMANDS | {"recall", "search", "why-not"}
PATIENCE = 7.0
"""Seconds after which a command runs here instead; clients wait ten for the hook of a prompt."""
_VALUE_OPTIONS = frozenset({"--memory", "--namespace", "--language", "--model"})
_SECONDS_BETWEEN_LOOKS = 0.005
_ATTEMPTS = 3
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from tellback.agent.assistant.cli.resident_process import main; main()"
)


def run_by_resident(arguments: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Let the resident run the command of *arguments*, and print its output; return whether it did.

    Where it did not, the standard input that was read is put back for the command that runs here.
    """
    command = command_name(arguments)
    if command not in SERVED_COMMANDS or environ.get(wire.IDLE_VARIABLE) == "0" or not wire.available():
        return False
    starts = command in STARTING_COMMANDS
    path = wire.socket_path(environ)
    if path is None or not (starts or os.path.exists(path)) or not _speaks_utf8() or {"-", "--help"} & {*arguments}:
        return False
    if starts and _is_switched_off(path):
        return False
    data = sys.stdin.buffer.read(wire.REQUEST_LIMIT) if starts else b""
    done = None
    try:
        if _fits(data):
            done = _exchange(path, _request(arguments, environ), data, starts=starts)
    except OSError:  # no working directory, no process can be started, …: the command itself reports it
        pass
    if done is not None:
        return _print(*done) or starts
    if starts:
        _put_back(data)
    return False


def _print(output: bytes, notes: bytes) -> bool:
    """Write what the command printed; return False where a stream takes no more, such as a file on a full disk."""
    for stream, text in ((sys.stderr, notes), (sys.stdout, output)):
        if text:
            try:
                stream.buffer.write(text)
                stream.buffer.flush()
            except BrokenPipeError:
                return True
            except OSError:
                return False
    return True


def command_name(arguments: Sequence[str]) -> str:
    """Return the name of the command in *arguments*; "" where an option that residents do not know comes before it."""
    position = 0
    while position < len(arguments) and arguments[position].startswith("-"):
        if arguments[position] in _VALUE_OPTIONS:
            position += 1
        elif arguments[position] not in ("--offline", "--json") and "=" not in arguments[position]:
            return ""
        position += 1
    return arguments[position] if position < len(arguments) else ""


def _fits(data: bytes) -> bool:
    return len(data) < wire.REQUEST_LIMIT - 65536


def _put_back(data: bytes) -> None:
    import io

    rest = b"" if _fits(data) else sys.stdin.buffer.read()
    sys.stdin = io.TextIOWrapper(io.BytesIO(data + rest), encoding="utf-8", errors="surrogateescape")


def _speaks_utf8() -> bool:
    return all(
        stream is not None and stream.encoding.lower() in ("utf-8", "utf8") for stream in (sys.stdout, sys.stderr)
    )


def _request(arguments: Sequence[str], environ: Mapping[str, str]) -> dict[str, object]:
    return {
        "kind": "run",
        "arguments": list(arguments),
        "environment": wire.configuring_environment(environ),
        "identity": wire.identity(environ),
        "folder": os.getcwd(),
        "terminals": [stream.isatty() for stream in (sys.stdout, sys.stderr)],
        "terminal": wire.terminal_name(),
        "columns": _columns(environ),
    }


def _columns(environ: Mapping[str, str]) -> int:
    """Return the width of the screen, as ``shutil`` does, which is slow to import."""
    setting = environ.get("COLUMNS", "")
    if setting.isdecimal() and int(setting):
        return int(setting)
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


def _exchange(path: str, request: Mapping[str, object], data: bytes, *, starts: bool) -> tuple[bytes, bytes] | None:
    """Return the command's output and notes, None for failure; a resident that ended or is outdated is replaced."""
    until = time.monotonic() + PATIENCE
    for _ in range(_ATTEMPTS):
        connection = wire.connect(path, seconds=PATIENCE)
        if connection is None:
            connection = _started(path, until) if starts else None
        if connection is None or (left := until - time.monotonic()) <= 0:
            return None
        connection.settimeout(left)
        try:
            head, rest = wire.exchange(connection, request, data)
        except wire.WireError:
            if time.monotonic() >= until or not starts:
                return None
            continue
        if head.get("outcome") == "done":
            size = head["stdout"]
            return rest[:size], rest[size:]
        if head.get("outcome") != "outdated":
            return None
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
