"""Cold starts of every store in turns, timed from outside: process start, imports, opening, the first answer."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from benchmarks.stores import measures as m
from benchmarks.stores.asking import PROJECT, environment
from benchmarks.stores.contenders import Contender

_BASELINE = "import numpy, apsw, pydantic; print(1, flush=True)"


@dataclass(slots=True)
class ColdStarts:
    """Seconds by (store, measure) and round; MB after vector searches and after text searches too."""

    times: dict[tuple[str, str], list[list[float]]] = field(default_factory=dict)
    memory: dict[str, tuple[float, float]] = field(default_factory=dict)
    baseline: list[list[float]] = field(default_factory=list)


def baseline() -> str:
    """Return the command of the base line."""
    return f"python -c {_BASELINE!r}"


def cold_starts(
    contenders: Sequence[Contender],
    folder_of: Callable[[str], Path],
    data: str,
    dimension: int,
    rows: int,
    *,
    rounds: int,
    rng: random.Random,
    failed: Callable[[Contender, str, str], None],
) -> ColdStarts:
    """Start each store *rounds* times for a vector, and for a text where it can; the first round is not counted.

    Peers, whose start takes seconds, take part in every third round only.
    """
    found = ColdStarts()
    out: set[tuple[str, str]] = set()

    def command(item: Contender, what: str) -> list[str]:
        numbers = (str(dimension), str(rows))
        module = "benchmarks.stores.cold"
        return [sys.executable, "-m", module, what, item.adapter, str(folder_of(item.key)), *numbers, data]

    turns: list[tuple[Contender | None, str, list[str]]] = [(None, m.COLD, [sys.executable, "-c", _BASELINE])]
    for item in contenders:
        turns.append((item, m.COLD, command(item, "vector")))
        if "text" in item.measures:
            turns.append((item, m.COLD_TEXT, command(item, "text")))
    for number in range(rounds + 1):
        for contender, measure, words in rng.sample(turns, len(turns)):
            if contender is not None and ((contender.key, measure) in out or (number % 3 != 1 and not contender.ours)):
                continue
            seconds, answer, complaint = _timed(words)
            if contender is None:
                found.baseline += [[seconds]] if number else []
            elif not answer:
                failed(contender, measure, complaint)
                out.add((contender.key, measure))
            elif number:
                found.times.setdefault((contender.key, measure), []).append([seconds])
    for item in contenders:
        _, answer, complaint = _timed(command(item, "memory"))
        report = json.loads(answer) if answer else {"vectors": None}
        if report["vectors"] is None:
            failed(item, m.MEMORY, complaint or "this system does not tell it")
        else:
            found.memory[item.key] = (report["vectors"], report["both"])
    return found


def _timed(words: list[str]) -> tuple[float, str, str]:
    """Return the seconds until the first line, that line, and the last line of complaint where there is none."""
    start = perf_counter()
    with subprocess.Popen(
        words, cwd=PROJECT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        seconds = perf_counter() - start
        complaint = process.stderr.read().strip().splitlines()
    return seconds, line.strip(), "" if line else (complaint or ["it ended without an answer"])[-1][:300]
