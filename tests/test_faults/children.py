"""Child processes that work on a store and acknowledge each step; they can be killed at any moment."""

from __future__ import annotations

import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Say = Callable[[str], None]


@dataclass(frozen=True)
class Ended:
    """Output of a child, line by line, and its ending: its exit code, or minus the signal."""

    said: tuple[str, ...]
    code: int


class Sign:
    """Gate at which forked processes wait: it opens when all that have it, the one that made it included, gave it."""

    def __init__(self) -> None:
        self._waiting, self._giving = os.pipe()

    def give(self) -> None:
        """Give it for this process, once."""
        os.close(self._giving)

    def wait(self) -> None:
        """Wait until all have given it or have ended."""
        os.read(self._waiting, 1)


class Child:
    """Forked process that runs *work* with a function that prints lines to the parent."""

    def __init__(self, work: Callable[[Say], Any]) -> None:
        self._pipe, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._pipe)
            _run(work, write)
        os.close(write)

    def kill_after(self, seconds: float, *, lines: int = 0) -> Ended:
        """Kill the child *seconds* after it has printed so many *lines*, or when it ends by itself."""
        output = b""
        while output.count(b"\n") < lines and (more := os.read(self._pipe, 65536)):
            output += more
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and select.select([self._pipe], [], [], left)[0]:
            if not (more := os.read(self._pipe, 65536)):
                break
            output += more
        os.kill(self.pid, signal.SIGKILL)
        return self._ended(output)

    def wait_beside(self, fault: Callable[[], None], *, lines: int, pause: float) -> Ended:
        """Have *fault* happen *pause* seconds after the child has printed so many *lines*; wait until it ends."""
        output = b""
        while output.count(b"\n") < lines and (more := os.read(self._pipe, 65536)):
            output += more
        time.sleep(pause)
        fault()
        return self._ended(output)

    def wait(self) -> Ended:
        """Wait until the child ends."""
        return self._ended(b"")

    def _ended(self, output: bytes) -> Ended:
        while more := os.read(self._pipe, 65536):
            output += more
        os.close(self._pipe)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return Ended(tuple(output.decode().splitlines()), code)


def _run(work: Callable[[Say], Any], write: int) -> None:
    try:
        work(lambda text: _write(write, text))
    except BaseException:
        _write(write, "failed " + repr(traceback.format_exc()[-700:]))
        os._exit(1)
    os._exit(0)  # nothing is closed on the way out: the process is gone as if it were killed


def _write(pipe: int, text: str) -> None:
    os.write(pipe, text.encode() + b"\n")
