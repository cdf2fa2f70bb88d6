"""Workers: processes with limits of time and memory that parse one file after another for a registry.

A crafted file meets a small process without keys and without the memory. It is reused, and killed and replaced when it
reaches a limit. Several parse at once, no more than there are cores. Where the platform has no limits of memory for a
process (Windows, macOS), time is the only one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess  # only our own worker is run, by absolute path
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final
from weakref import finalize

from tellback.memory.documents.loaders.base import LoadedDocument, LoadLimits
from tellback.memory.documents.loaders.ocr import RECOGNISED_FORMATS, ocr_installed
from tellback.memory.errors import LoadError

_SCRIPT: Final = Path(__file__).with_name("worker_process.py")
_PASSED_VARIABLES: Final = (
    *("PATH", "PYTHONPATH", "PYTHONHOME", "HOME", "USERPROFILE", "APPDATA", "SYSTEMROOT", "TMPDIR", "TEMP", "TMP"),
    "TESSDATA_PREFIX",
)
"""The worker sees these variables of the environment and no others: no keys."""
_MAX_FILES: Final = 500
"""Files that one process parses before another takes over, so that what a parser leaks does not add up."""
_CPU_SIGNAL: Final = getattr(signal, "SIGXCPU", 0)
_STARTING_SECONDS: Final = 30
MEMORY_LIMITED: Final = sys.platform == "linux"
"""True where the memory of a worker is limited; elsewhere only its time is."""


class WorkerPool:
    """Pool of at most ``count`` worker processes, each started when all others are busy. Any thread may call."""

    def __init__(self, limits: LoadLimits, *, script: Path = _SCRIPT) -> None:
        self.count = min(limits.processes, os.cpu_count() or 1)
        self._free = threading.BoundedSemaphore(self.count)
        self._workers = [LoaderWorker(limits, script=script) for _ in range(self.count)]
        self._idle = list(self._workers)

    def load(self, format: str, data: bytes, source: str, *, packed: bool = False) -> LoadedDocument:
        """As ``LoaderWorker.load``, by the idle worker that was used last; wait for one where all are busy."""
        with self._free:
            worker = self._idle.pop()
            try:
                return worker.load(format, data, source, packed=packed)
            finally:
                self._idle.append(worker)

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.close()


class LoaderWorker:
    """Worker process; started with the first file. Any thread may call, one file is parsed at a time."""

    def __init__(self, limits: LoadLimits, *, script: Path = _SCRIPT) -> None:
        self._limits = limits
        self._script = script
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._files = 0
        self._closing = False
        self._finalizer: finalize[Any, Any] | None = None

    def load(self, format: str, data: bytes, source: str, *, packed: bool = False) -> LoadedDocument:
        """Return what the loader of *format* makes of *data*; raises ``LoadError`` as it does.

        A file on which the process dies or reaches a limit is a ``LoadError``, too.
        """
        with self._lock:
            reused = self._process is not None
            answer = self._answer(format, data, source, packed=packed)
            if (
                reused and not self._closing and answer.get("error") in ("memory", "died")
            ):  # earlier files may have used it up
                answer = self._answer(format, data, source, packed=packed)
        return _document(answer, source)

    def close(self) -> None:
        """End the process, and with it what it is parsing."""
        self._closing = True
        process = self._process
        if process is not None:
            _kill(process)
        with self._lock:
            self._stop()
            self._closing = False

    def _answer(self, format: str, data: bytes, source: str, *, packed: bool) -> dict[str, Any]:
        process = self._started()
        request = {"format": format, "source": source, "packed": packed, "size": len(data)}
        seconds = self._limits.seconds + (_STARTING_SECONDS if not self._files else 0)
        seconds += self._limits.scan_seconds if format in RECOGNISED_FORMATS and ocr_installed() else 0
        overdue = threading.Event()

        def give_up() -> None:
            overdue.set()
            _kill(process)

        timer = threading.Timer(seconds, give_up)
        timer.start()
        try:
            answer = _exchange(process, request, data)
        except (OSError, ValueError):  # it was killed, or answered nonsense
            self._stop()
            late = overdue.is_set() or (_CPU_SIGNAL and process.returncode == -_CPU_SIGNAL)
            return {"error": "time" if late else "died", "seconds": self._limits.seconds}
        except BaseException:  # interrupted: its answer would be taken for that of the next file
            self._stop()
            raise
        finally:
            timer.cancel()
        self._files += 1
        if answer.get("error") == "memory" or self._files >= _MAX_FILES:
            self._stop()
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._stop()
        environment = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and script, no shell
            [sys.executable, "-P", str(self._script), json.dumps(asdict(self._limits))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the program that ingests; it ends the worker itself
        )
        self._process, self._files = process, 0
        self._finalizer = finalize(self, _end, process)
        return process

    def _stop(self) -> None:
        if self._finalizer is not None:
            self._finalizer()
        self._process = self._finalizer = None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill *process* and the programs that it runs, which are of its session."""
    if process.returncode is None and hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _end(process: subprocess.Popen[bytes]) -> None:
    _kill(process)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _exchange(process: subprocess.Popen[bytes], request: dict[str, Any], data: bytes) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request).encode("ascii") + b"\n")
    process.stdin.write(data)
    process.stdin.flush()
    answer = json.loads(_read_exactly(process.stdout, int(process.stdout.readline())))
    if not isinstance(answer, dict):
        raise ValueError(answer)
    return answer


def _read_exactly(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) != size:
        raise ValueError("the answer ends too early")
    return data


def _document(answer: dict[str, Any], source: str) -> LoadedDocument:
    error = answer.get("error")
    if error == "load":
        raise LoadError(source, answer["reason"])
    if error == "time":
        raise LoadError(source, f"took more than {answer['seconds']} seconds to parse; not read")
    if error == "memory":
        raise LoadError(source, "needs too much memory to parse; not read")
    if error is not None:
        raise LoadError(source, "the parser gave up on it; not read")
    return LoadedDocument(**{name: _tuples(value) for name, value in answer["document"].items()})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
