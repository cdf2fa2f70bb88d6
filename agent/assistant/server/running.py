"""Running server of a memory: one process serves it, and another that is started says where that one is."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class ServerRuns(Exception):
    """The memory is served already, at *address*."""

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(f"it is served at {address}")


@contextmanager
def sole_server(folder: Path, memory: str) -> Iterator[RunningServer]:
    """Hold the place of the server of *memory* in *folder*; ``ServerRuns`` where another process has it.

    A process that is killed leaves it free. Where files cannot be locked, any number may run.
    """
    try:
        import fcntl
    except ImportError:
        yield RunningServer(None)
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"server-{hashlib.sha256(memory.encode()).hexdigest()[:16]}.json"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ServerRuns(_address(os.pread(descriptor, 4096, 0))) from None
        os.ftruncate(descriptor, 0)
        yield RunningServer(descriptor)
    finally:
        os.close(descriptor)


class RunningServer:
    """Place of this process among servers, in the file *descriptor*."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def announce(self, address: str) -> None:
        """Say to others where this server is."""
        if self._descriptor is not None:
            os.pwrite(self._descriptor, json.dumps({"address": address, "pid": os.getpid()}).encode(), 0)


def _address(record: bytes) -> str:
    try:
        return str(json.loads(record)["address"])
    except (ValueError, KeyError):
        return "an address that it has not said yet"
