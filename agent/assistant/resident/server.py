"""Server of the resident process: takes requests from its socket, runs each in a thread, and ends when it is idle.

Commands at once, request size and waiting times are bounded. The server ends when it is idle, its code was changed, its
socket is gone, or a command never ends; the next client starts another one.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tellback.agent.assistant.resident import wire
from tellback.agent.assistant.resident.client import file_stamp

COMMANDS_AT_ONCE: Final = 8
_SECONDS_TO_SEND: Final = 10.0
_LONGEST_COMMAND: Final = 300.0
_SECONDS_BETWEEN_LOOKS: Final = 0.25
_SECONDS_TO_END: Final = 10.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """Output of a command that succeeded, and its notes on standard error."""

    stdout: bytes
    stderr: bytes


class Commands(Protocol):
    """Runner of commands for a server; any thread may call."""

    idle: float
    """Seconds without a request after which the server ends."""

    def run(self, request: Mapping[str, Any], data: bytes) -> CommandOutput | None:
        """Return the output of *request*, given its standard input; None, or an error, makes the client run it."""
        ...

    def open_paths(self) -> list[str]:
        """Return the memory files that are open."""
        ...

    def pause(self, seconds: float) -> int:
        """Use a pause, *seconds* after the last request, for upkeep; return how many memories were closed.

        It is called a few times a second.
        """
        ...


class ResidentServer:
    """Serves *listener*, bound to *path*, until it is idle or stopped.

    *on_withdrawn* is called once, when another resident may take the socket.
    """

    def __init__(
        self, listener: socket.socket, path: str, *, commands: Commands, on_withdrawn: Callable[[], object]
    ) -> None:
        self.served = 0
        self._listener, self._path = listener, path
        self._commands, self._on_withdrawn = commands, on_withdrawn
        self._began = self._asked = time.monotonic()
        self._active: dict[int, float] = {}
        self._lock = threading.RLock()  # a signal may come while it is held
        self._slots = threading.BoundedSemaphore(COMMANDS_AT_ONCE)
        self._stopping = ""
        self._code: dict[str, str] = {}
        self._socket = file_stamp(path)

    def serve(self) -> str:
        """Serve until the end, and return its reason; commands that still run get ten seconds."""
        self._listener.settimeout(_SECONDS_BETWEEN_LOOKS)
        looked = 0.0
        while not self._stopping:
            if time.monotonic() - looked >= _SECONDS_BETWEEN_LOOKS:
                looked = time.monotonic()
                if reason := self._reason_to_end():
                    self.stop(reason)
                continue
            if not self._slots.acquire(timeout=_SECONDS_BETWEEN_LOOKS):
                continue
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                self._slots.release()
                if not isinstance(error, TimeoutError):
                    _log.warning("no connection: %s", error.strerror)
                    time.sleep(_SECONDS_BETWEEN_LOOKS)
                continue
            threading.Thread(target=self._answer, args=(connection,), name="tellback-request", daemon=True).start()
        self._listener.close()
        until = time.monotonic() + _SECONDS_TO_END
        while self._active and time.monotonic() < until:
            time.sleep(0.01)
        return self._stopping

    def stop(self, reason: str) -> None:
        """Release the socket to another resident at once, and end soon."""
        with self._lock:
            if self._stopping:
                return
            self._stopping = reason
        if file_stamp(self._path) == self._socket:  # otherwise another resident listens there by now
            os.unlink(self._path)
        self._on_withdrawn()

    def _reason_to_end(self) -> str:
        now = time.monotonic()
        with self._lock:
            oldest = min(self._active.values(), default=now)
        if now - oldest > _LONGEST_COMMAND:
            return "a command does not end"
        if file_stamp(self._path) != self._socket:
            return "the socket is gone"
        pause = 0.0 if self._active else now - self._asked
        try:
            if closed := self._commands.pause(pause):
                _log.info("closed %d unused memories", closed)
        except Exception as error:  # a full disk, a file that is gone: the next command reports it
            _log.warning("upkeep failed: %s", failure_place(error))
        return "idle" if pause > self._commands.idle else ""

    def _answer(self, connection: socket.socket) -> None:
        thread = threading.get_ident()
        with self._lock:
            self._active[thread] = time.monotonic()
        try:
            with connection:
                connection.settimeout(_SECONDS_TO_SEND)
                if wire.peer_is_own(connection):
                    request, data = wire.receive_message(connection, limit=wire.REQUEST_LIMIT)
                    head, *bodies = self._reply(request, data)
                    wire.send_message(connection, head, *bodies)
        except wire.WireError as error:
            _log.info("a request was not answered: %s", error)
        finally:
            with self._lock:
                del self._active[thread]
            self._slots.release()

    def _reply(self, request: Mapping[str, Any], data: bytes) -> tuple[Mapping[str, Any], bytes, bytes]:
        if request.get("protocol") != wire.PROTOCOL or self._is_code_changed():
            self.stop("its code was changed")
            return {"outcome": "outdated", "pid": os.getpid()}, b"", b""
        kind = request.get("kind")
        if kind == "stop":
            self.stop("stopped on request")
        if kind in ("stop", "status"):
            return {"outcome": "done", **self._figures()}, b"", b""
        self._asked = time.monotonic()
        try:
            outcome = self._commands.run(request, data)
        except Exception as error:  # the border: the client runs the command itself, and shows the error
            _log.warning("a command failed: %s", failure_place(error))
            outcome = None
        if outcome is None:
            return {"outcome": "not here"}, b"", b""
        self.served += 1
        head = {"outcome": "done", "stdout": len(outcome.stdout)}
        return head, outcome.stdout, outcome.stderr

    def _is_code_changed(self) -> bool:
        """Return whether a file of our code differs from when it was first seen here, after an upgrade or an edit."""
        modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "tellback"]
        stamps = {file: file_stamp(file) for module in modules if (file := getattr(module, "__file__", None))}
        with self._lock:
            return any(self._code.setdefault(file, stamp) != stamp for file, stamp in stamps.items())

    def _figures(self) -> dict[str, Any]:
        now = time.monotonic()
        return {
            "pid": os.getpid(),
            "age": round(now - self._began, 1),
            "idle": round(now - self._asked, 1),
            "ends_after": self._commands.idle,
            "served": self.served,
            "bytes": resident_bytes(),
            "memories": self._commands.open_paths(),
            "folder": wire.PACKAGES,
        }


def failure_place(error: BaseException) -> str:
    """Return the type of *error* and the line that raised it; never its message, which may quote a memory."""
    import traceback

    place = traceback.extract_tb(error.__traceback__)[-1:]
    return type(error).__name__ + "".join(f" at {os.path.basename(frame.filename)}:{frame.lineno}" for frame in place)


def resident_bytes() -> int:
    """Return the resident set size of this process in bytes; its peak on systems that report no more."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
