"""Workers of a server: processes that answer requests at one address, over one memory on a database server.

Each takes connections from the same listening socket. One that is killed is replaced; one that ends by itself, such as
where the memory cannot be opened, ends the server.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_SHORTEST_LIFE: Final = 1.0
"""Seconds between the beginnings of a worker and of its replacement, so that none is started in a loop."""
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


def run_workers(count: int, work: Callable[[int], int]) -> int:
    """Run *work*, with its place, in *count* processes until a signal comes or one ends by itself; return a code.

    The caller has no other thread yet.
    """
    alive, own = os.pipe()  # its other end is closed when this process ends, however it does
    begun: dict[int, tuple[int, float]] = {}
    ended: list[int] = []

    def end(number: int, frame: object = None) -> None:
        ended.append(number)
        for pid in begun:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def start(place: int) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)  # no child misses one while it is not known yet
        try:
            if (pid := os.fork()) == 0:
                os.close(own)
                _become_worker(place, work, alive)
            begun[pid] = place, time.monotonic()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)

    before = {number: signal.signal(number, end) for number in _ENDING}
    code = 0
    try:
        for place in range(count):
            start(place)
        while begun:
            pid, status = os.wait()
            if pid not in begun:
                continue
            place, since = begun.pop(pid)
            code = code or max(os.waitstatus_to_exitcode(status), 0)
            if ended:
                continue
            if os.WIFSIGNALED(status):
                time.sleep(max(since + _SHORTEST_LIFE - time.monotonic(), 0))
                start(place)
            else:
                end(signal.SIGTERM)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(alive)
        os.close(own)
    return code


def _become_worker(place: int, work: Callable[[int], int], alive: int) -> None:
    code = 1
    try:
        threading.Thread(target=_end_with_parent, args=(alive,), daemon=True).start()
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        code = work(place)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end_with_parent(alive: int) -> None:
    os.read(alive, 1)
    os.kill(os.getpid(), signal.SIGTERM)
