"""Child processes: one that is asked over a pipe, one that prints a JSON object, and new ones timed in turns."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from time import perf_counter
from typing import Any, TypeVar

PROJECT = Path(__file__).resolve().parents[1]
_Name = TypeVar("_Name", bound=Hashable)


class ChildEnded(Exception):
    """The process ended without an answer; the message holds its last line of stderr."""


class Child:
    """A running process, a JSON line in and a JSON line out; killed when an answer takes over *patience* seconds."""

    def __init__(
        self, words: Sequence[str], *, environment: Mapping[str, str], folder: Path | None = None, patience: float
    ) -> None:
        self._patience = patience
        self._told = TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (closed by stop)
        self._process = subprocess.Popen(
            words,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._told,
            text=True,
        )

    def say(self, words: Mapping[str, Any]) -> None:
        """Send a line; that the process ended is reported by ``answer``."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # answer() raises then, with the reason
            self._process.stdin.write(json.dumps(words) + "\n")
            self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Return the next line; raise ``ChildEnded`` where there is none any more."""
        assert self._process.stdout is not None
        limit = Timer(self._patience, self._process.kill)
        limit.start()
        line = self._process.stdout.readline()
        limit.cancel()
        if not line:
            self._told.seek(0)
            raise ChildEnded(f"its process ended: {_last_line(self._told.read())}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        """Close the pipe and wait until the process has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._told.close()


def environment() -> dict[str, str]:
    """Return the environment of a measured process: thread pools that do not spin, no telemetry.

    Compiled modules are kept, as pip keeps those of what it installs: else each start compiles ours alone anew.
    """
    quiet = {"OMP_WAIT_POLICY": "PASSIVE", "ANONYMIZED_TELEMETRY": "False", "RUST_LOG": "error"}
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**own, **quiet}


def printed(module: str, *words: object) -> Any:
    """Return the JSON that ``python -m`` *module* prints for *words*; ``RuntimeError`` where it fails."""
    command = [sys.executable, "-m", module, *map(str, words)]
    run = subprocess.run(command, cwd=PROJECT, env=environment(), capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{module}: {_last_line(run.stderr)}")
    return json.loads(run.stdout)


@dataclass(slots=True)
class Started:
    """Starts of one command that were counted: seconds to the first line that it printed, to its end, and of CPU.

    *mb* is the most memory that one held.
    """

    first: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    mb: float = 0.0


def in_turns(
    commands: Mapping[_Name, Sequence[str]],
    *,
    rounds: int,
    seed: int,
    failed: Callable[[_Name, str], None] | None = None,
) -> dict[_Name, Started]:
    """Run every command once a round, in a new order each round; the first round is not counted.

    One that fails is left out and given to *failed* with its last words, or raises ``RuntimeError`` with them.
    """
    rng, found = random.Random(seed), {name: Started() for name in commands}
    for number in range(rounds + 1):
        for name in rng.sample(list(found), len(found)):
            try:
                first, seconds, cpu, mb = _run(commands[name])
            except RuntimeError as error:
                if failed is None:
                    raise RuntimeError(f"{name}: {error}") from error
                failed(name, str(error))
                del found[name]
                continue
            if number:
                started = found[name]
                started.first.append(first)
                started.seconds.append(seconds)
                started.cpu.append(cpu)
                started.mb = max(mb, started.mb)
    return found


def _run(words: Sequence[str]) -> tuple[float, float, float, float]:
    start = perf_counter()
    with (
        TemporaryFile("w+", encoding="utf-8", errors="replace") as told,
        subprocess.Popen(words, cwd=PROJECT, env=environment(), stdout=subprocess.PIPE, stderr=told) as process,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        first = perf_counter() - start
        process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)  # not there on Windows
        seconds = perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            told.seek(0)
            raise RuntimeError(_last_line(told.read()))
    mb = usage.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    return first, seconds, usage.ru_utime + usage.ru_stime, mb


def _last_line(told: str) -> str:
    return (told.strip().splitlines() or ["without a word"])[-1][:300]


def seconds_of(work: Callable[[], object], clock: Callable[[], float] = perf_counter) -> float:
    """Return how long *work* takes by *clock*."""
    begun = clock()
    work()
    return clock() - begun


def private_bytes() -> int | None:
    """Return the memory that is this process's alone, in bytes; None where the system does not tell (not Linux)."""
    try:
        lines = Path("/proc/self/smaps_rollup").read_text("ascii").splitlines()
    except OSError:
        return None
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))
