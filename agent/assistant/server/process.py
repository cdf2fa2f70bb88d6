"""Socket of the resident server, and its process: it leaves the terminal, and serves the socket until it is idle.

``tellback serve`` takes the socket over while it runs, so that one process has the memory.

Its log (``resident.log`` in the state folder, 0600, at most two files of 200 kB) records its beginning and end, and the
type and place of errors; never words of a request, an answer or an error.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from tellback.agent.assistant.resident import wire
from tellback.agent.assistant.resident.client import file_stamp

if TYPE_CHECKING:
    from tellback.agent.assistant.server.resident import ResidentServer

EXIT_SWITCHED_OFF: Final = 3
_SECONDS_FOR_LOCK: Final = 0.5
_LOG_BYTES: Final = 200_000
_OBJECTS_PER_COLLECTION: Final = 100_000
_log = logging.getLogger("tellback.agent.assistant.resident")


def main() -> None:
    """Run the resident; end at once where another one has the lock, or where the settings want none."""
    _leave_terminal()
    taken = take_socket()  # requests wait there until everything is imported
    if taken is None:
        return
    if _is_switched_off(taken.path):
        Path(taken.path).unlink()
        sys.exit(EXIT_SWITCHED_OFF)
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    _serve(taken)


@dataclass(frozen=True, slots=True)
class TakenSocket:
    """Socket at *path* that listens for hooks and commands, by the *lock* that one process has."""

    path: str
    listener: socket.socket
    lock: int


def take_socket() -> TakenSocket | None:
    """Return the socket of this environment's hooks; None where another process has it, or there can be none."""
    path = wire.socket_path(os.environ) if wire.available() else None
    lock = None if path is None else _take_lock(path + ".lock")
    return None if path is None or lock is None else TakenSocket(path, _listen(path), lock)


def _leave_terminal() -> None:
    """Keep nothing of the process that started this one: no session, folder or open file."""
    with suppress(PermissionError):  # a shell has given it a group of its own
        os.setsid()
    os.closerange(3, 1024)
    os.umask(0o077)
    os.chdir("/")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _take_lock(path: str) -> int | None:
    """Return the descriptor that holds the lock; None where another resident has held it for half a second."""
    import fcntl

    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + _SECONDS_FOR_LOCK
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > until:
                return None
            time.sleep(0.01)
        else:
            return descriptor


def _listen(path: str) -> socket.socket:
    """Return a socket that listens at *path*; the socket file of a killed resident is removed."""
    Path(path).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    Path(path).chmod(0o600)
    listener.listen(64)
    return listener


def _is_switched_off(path: str) -> bool:
    """Return whether the settings want no resident; where the configuration file says so, write a mark for clients."""
    from tellback.agent.assistant.config import ConfigurationError, load_configuration

    if find_spec("uvicorn") is None:
        packages = str(Path(str(typer.__file__)).parents[1])  # another package there, and the mark holds no more
        Path(path + ".off").write_text(f"{file_stamp(packages)} {packages}", encoding="utf-8")
        return True
    try:
        configuration = load_configuration(flags={}, environ=os.environ)
    except ConfigurationError:  # the command itself reports the error
        return False
    if configuration.settings.resident_idle:
        return False
    if configuration.origins["resident_idle"] == str(configuration.path):
        mark = f"{file_stamp(str(configuration.path))} {configuration.path}"
        Path(path + ".off").write_text(mark, encoding="utf-8")
    return True


def _serve(taken: TakenSocket) -> None:
    from tellback.agent.assistant.server.resident import ResidentServer

    _begin_log()
    _log.info("begins")
    server = ResidentServer(taken.path, on_withdrawn=lambda: os.close(taken.lock))
    asyncio.run(_serve_until_end(server, taken))
    server.pool.release()
    _log.info("ends: %s; %d requests", server.ended, server.served)


async def _serve_until_end(server: ResidentServer, taken: TakenSocket) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.stop, "terminated")
    await serve_socket(server, taken)


async def serve_socket(server: ResidentServer, taken: TakenSocket) -> None:
    """Answer what comes to the socket by *server*, until it has ended."""
    from tellback.agent.http_listener import serve_application

    await serve_application(server, taken.listener, asyncio.ensure_future(server.watch()), admits=wire.peer_is_own)


def _begin_log() -> None:
    import platformdirs

    folder = platformdirs.user_state_path("tellback")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handler = RotatingFileHandler(folder / "resident.log", maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(message)s"))
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    _log.propagate = False
    logging.getLogger().addHandler(logging.NullHandler())  # what libraries log may hold words of a memory
