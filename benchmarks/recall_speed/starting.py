"""New processes in turns, measured from outside: start to end, CPU time, and the most memory that each held."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from benchmarks.stores.asking import PROJECT, environment

TELLBACK = (sys.executable, "-c", "from tellback.agent.assistant.cli import main; main()")


def imports(names: str) -> tuple[str, ...]:
    """Return the command that imports *names* and ends."""
    return (sys.executable, "-c", f"import {names}")


_BY_HAND = """
import apsw, numpy, sqlite_vec
file = apsw.Connection({file!r}, flags=apsw.SQLITE_OPEN_READONLY)
file.enable_load_extension(True)
file.load_extension(sqlite_vec.loadable_path())
(key,) = file.execute("SELECT key FROM namespaces WHERE name = ?", ({namespace!r},)).fetchone()
(vector,) = file.execute("SELECT vector FROM vectors WHERE namespace = ? LIMIT 1", (key,)).fetchone()
rows = file.execute(
    "SELECT e.id, e.text, e.metadata, d.distance FROM (SELECT key, vec_distance_cosine(vector, ?) AS distance"
    " FROM vectors WHERE namespace = ? ORDER BY distance LIMIT 10) AS d JOIN entries AS e ON e.key = d.key",
    (vector, key),
).fetchall()
assert len(rows) == 10
"""
_BY_STORE = """
from tellback.vectorstore import open_store
store = open_store("sqlite:///" + {file!r})
vector = next(store.scan(namespace={namespace!r}, embedded=True)).vector
assert len(store.search(vector, 10, namespace={namespace!r})) == 10
"""


def vector_searches(file: str, namespace: str) -> dict[str, tuple[str, ...]]:
    """Return two commands that find the ten nearest of one vector in the memory *file*: by sqlite-vec alone, and by the
    store."""
    programs = {"by hand": _BY_HAND, "store": _BY_STORE}
    return {
        name: (sys.executable, "-c", code.format(file=file, namespace=namespace)) for name, code in programs.items()
    }


@dataclass(slots=True)
class Started:
    """Seconds of each start that was counted, of CPU time too, and the peak MB of one (None where the system has
    none; then *cpu* is *seconds*)."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    mb: float | None = None


def in_turns(commands: Mapping[str, Sequence[str]], *, rounds: int, seed: int) -> dict[str, Started]:
    """Run every command once a round, in a new order each round; the first round is not counted.

    Raises ``RuntimeError`` with its last words where one fails.
    """
    rng = random.Random(seed)
    found = {name: Started() for name in commands}
    for number in range(rounds + 1):
        for name in rng.sample(list(commands), len(commands)):
            seconds, cpu, mb = _run(name, commands[name])
            if number:
                found[name].seconds.append(seconds)
                found[name].cpu.append(cpu)
                found[name].mb = mb if mb is None or found[name].mb is None else max(mb, found[name].mb or 0.0)
    return found


def _run(name: str, words: Sequence[str]) -> tuple[float, float, float | None]:
    start = perf_counter()
    with subprocess.Popen(
        words, cwd=PROJECT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        errors = process.stderr.read()
        if not hasattr(os, "wait4"):
            code, mb = process.wait(), None
            cpu = seconds = perf_counter() - start
        else:
            _, status, usage = os.wait4(process.pid, 0)
            seconds, cpu = perf_counter() - start, usage.ru_utime + usage.ru_stime
            process.returncode = code = os.waitstatus_to_exitcode(status)
            mb = usage.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    if code:
        raise RuntimeError(f"{name}: {(errors.strip().splitlines() or ['it failed'])[-1]}")
    return seconds, cpu, mb
