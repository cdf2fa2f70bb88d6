"""New processes in turns, timed from outside: start to end, and the most memory that each held."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from benchmarks.stores.asking import PROJECT, environment

TELLBACK = (sys.executable, "-c", "from agent.assistant.cli import main; main()")


def imports(names: str) -> tuple[str, ...]:
    """Return the command that imports *names* and ends."""
    return (sys.executable, "-c", f"import {names}")


@dataclass(slots=True)
class Started:
    """Seconds of each start that was counted, and MB of the most that one held (None where nobody tells)."""

    seconds: list[float] = field(default_factory=list)
    mb: float | None = None


def in_turns(commands: Mapping[str, Sequence[str]], *, rounds: int, seed: int) -> dict[str, Started]:
    """Run every command once a round, in a new order each round; the first round is not counted.

    Raises ``RuntimeError`` with its last words where one fails.
    """
    rng = random.Random(seed)
    found = {name: Started() for name in commands}
    for at in range(rounds + 1):
        for name in rng.sample(list(commands), len(commands)):
            seconds, mb = _run(name, commands[name])
            if at:
                found[name].seconds.append(seconds)
                found[name].mb = mb if mb is None or found[name].mb is None else max(mb, found[name].mb or 0.0)
    return found


def _run(name: str, words: Sequence[str]) -> tuple[float, float | None]:
    start = perf_counter()
    with subprocess.Popen(
        words, cwd=PROJECT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        if not hasattr(os, "wait4"):
            code, mb = process.wait(), None
            seconds = perf_counter() - start
        else:
            _, status, usage = os.wait4(process.pid, 0)
            seconds = perf_counter() - start
            process.returncode = code = os.waitstatus_to_exitcode(status)
            mb = usage.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    if code:
        raise RuntimeError(f"{name}: {(said.strip().splitlines() or ['it failed'])[-1]}")
    return seconds, mb
