"""Command ``python -m benchmarks recall-speed``: one recall, its index, remembering, and commands in new processes."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import about
from benchmarks.recall_speed.starting import TELLBACK, Started, imports, in_turns, vector_searches
from benchmarks.recall_speed.texts import LANE, own_turns, questions
from benchmarks.stores.asking import PROJECT, environment
from benchmarks.stores.results import machine

_SIZES = (1_000, 10_000, 100_000)
_ROUNDS = 7
_RECALL = {1_000: 10.0, 10_000: 14.0, 100_000: 25.0}
_CALLS, _MODULES, _PASSAGES = 900.0, 45.0, 40.0
_REMEMBERED = 1_000
_PARTS = ("recall", "remember", "passages", "commands")
_COMMAND = {10_000: 3.0, 100_000: 10.0}
_INDEX = {100_000: 150.0}
_HELD = {100_000: 400.0}
_FIRST = {100_000: 2_000.0}
"""Limits by number of turns: CPU ms beside the encoder, times of the imports, MB, MB, ms."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Figure:
    """One line: *what* at so many turns (0: of none), *p50* and *p95* in *unit*, and what is to be reached.

    *bound* is the most that may be, or the least where *least*; None where nothing is asked for.
    """

    what: str
    rows: int
    unit: str
    p50: float
    p95: float | None = None
    bound: float | None = None
    least: bool = False

    @property
    def met(self) -> bool | None:
        """True if the bound is kept."""
        if self.bound is None:
            return None
        return self.p50 >= self.bound if self.least else self.p50 <= self.bound


def add_command(commands: Any) -> None:
    """Put ``recall-speed`` among the *commands* of the command line."""
    parser = commands.add_parser("recall-speed", help="speed of one recall, and size of its index")
    default = os.environ.get("TELLBACK_BENCH_DATA")
    parser.add_argument("--data", type=Path, default=Path(default) if default else None, help="folder of the data sets")
    parser.add_argument("--sizes", default=",".join(map(str, _SIZES)), help="numbers of turns, comma-separated")
    parser.add_argument("--parts", default=",".join(_PARTS), help="what to measure, comma-separated")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="runs of each new process")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, help="folder for the memories' files, on a real disk (default: temporary)")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace, words: Sequence[str], say: Say) -> int:
    """Measure what *given* asks for; return the exit code."""
    if given.data is None or not (given.data / "locomo").is_dir():
        raise ValueError(
            f"no data set locomo in {given.data}: --data (or TELLBACK_BENCH_DATA) names the folder of the data sets"
        )
    sizes = sorted({int(size) for size in given.sizes.split(",")})
    if sizes[0] < 1_000:
        raise ValueError(f"--sizes: 1000 turns or more are needed, not {sizes[0]}")
    parts = given.parts.split(",")
    if unknown := [part for part in parts if part not in _PARTS]:
        raise ValueError(f"--parts: {unknown[0]!r} is none of {', '.join(_PARTS)}")
    made = {
        "command": about.command(words),
        "at": about.moment(),
        "machine": machine(),
        "load": about.load(),
        "seed": given.seed,
        "own_turns": own_turns(given.data),
        "versions": about.versions(("tellback", "numpy", "wordllama", "apsw", "pydantic", "typer")),
    }
    figures: list[Figure] = []
    with TemporaryDirectory(dir=given.work, prefix="tellback-speed-") as folder:

        def measured(figures_of: Iterator[Figure]) -> None:
            for figure in figures_of:
                figures.append(figure)
                say(f"    {figure.what}: {_short(figure.p50)} {figure.unit}")

        if "remember" in parts:
            measured(_remembered(Path(folder) / "remember.db", given, say))
        if "passages" in parts:
            measured(_of_passages(Path(folder) / "passages.db", given, say))
        for size in sizes if {"recall", "commands"}.intersection(parts) else ():
            file = Path(folder) / f"{size}.db"
            measured(_of_size(file, given, size, parts, say))
            file.unlink()
        if "commands" in parts:
            say("new processes without a memory")
            measured(_starts(given))
    _show(figures, made)
    if given.json is not None:
        kept = {"about": made, "figures": [asdict(figure) for figure in figures]}
        given.json.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    return 0


def _measured(measure: str, file: Path, size: int, given: argparse.Namespace, say: Say) -> dict[str, Any]:
    """Return what the worker measures in a process of its own."""
    say(f"{size:,} turns: {measure}")
    words = ["-m", "benchmarks.recall_speed.worker", measure, str(file), str(given.data.resolve())]
    run = subprocess.run(
        [sys.executable, *words, str(size), str(given.seed)],
        cwd=PROJECT, env=environment(), stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    parsed: dict[str, Any] = json.loads(run.stdout)
    return parsed


def _remembered(file: Path, given: argparse.Namespace, say: Say) -> Iterator[Figure]:
    found = _measured("remember", file, _REMEMBERED, given, say)
    if found["embedder"] is not None:
        share = found["embedder"] / found["seconds"]
        yield Figure("remember_many, of the encoder alone, CPU", _REMEMBERED, "×", share, bound=0.5, least=True)


def _of_passages(file: Path, given: argparse.Namespace, say: Say) -> Iterator[Figure]:
    found = _measured("passages", file, 0, given, say)
    yield _times("one recall over passages, CPU", found["passages"], found["times"], _PASSAGES)


def _of_size(file: Path, given: argparse.Namespace, size: int, parts: Sequence[str], say: Say) -> Iterator[Figure]:
    def measured(measure: str, path: Path = file) -> dict[str, Any]:
        return _measured(measure, path, size, given, say)

    filled = measured("fill")
    yield Figure("remember_many beside the encoder", size, "turns/s", size / filled["seconds"])
    yield Figure("remember_many, the last thousand of the first", size, "×", filled["last"] / filled["first"])
    yield Figure("file", size, "MB", filled["mb"])
    warm = measured("warm")
    yield _times("one recall, warm, CPU beside the encoder", size, warm["times"], _RECALL.get(size))
    yield _times("- the encoder", size, warm["encoder"], None)
    yield Figure("- calls of our functions", size, "", warm["calls"], bound=_CALLS)
    yield Figure("- modules", size, "", warm["modules"], bound=_MODULES)
    yield Figure("open", size, "ms", warm["opened"] * 1e3)
    yield Figure("the first recall of all", size, "ms", warm["first"] * 1e3, bound=_FIRST.get(size))
    yield Figure("the first recall of a later process", size, "ms", measured("cold")["first"] * 1e3)
    used = measured("memory")
    if used["index"] is not None:
        yield Figure("store's own core", size, "MB", used["core"])
        yield Figure("index of recall, above the core", size, "MB", used["index"], bound=_INDEX.get(size))
    if "commands" not in parts:
        return
    copy = file.with_name("single.db")
    shutil.copyfile(file, copy)
    single = measured("single", copy)
    bare = float(np.median(single["upsert"]) + np.median(single["embed"]))
    yield _times("one remember, durable", size, single["remember"], None)
    yield Figure(
        "one remember, of one upsert and embedding", size, "×", float(np.median(single["remember"])) / bare, bound=2.5
    )
    copy.unlink()
    say(f"{size:,} turns: tellback recall in new processes")
    question = questions(given.data, 1, given.seed)[0]
    started = in_turns(
        {
            "imports": imports("numpy, pydantic, apsw, typer"),
            "recall": (*TELLBACK, "--memory", str(file), "recall", question, "--json"),
            **vector_searches(str(file), LANE),
        },
        rounds=given.rounds,
        seed=given.seed,
    )
    yield _times("tellback recall, a new process", size, started["recall"].seconds, None)
    yield _ratio(
        "- of importing numpy, pydantic, apsw, typer", size, started["recall"], started["imports"], _COMMAND.get(size)
    )
    if started["recall"].mb is not None:
        yield Figure("- the most memory it held", size, "MB", started["recall"].mb, bound=_HELD.get(size))
    yield _times("one vector search of the store, a new process", size, started["store"].seconds, None)
    yield _ratio("- of sqlite-vec by hand on the same file", size, started["store"], started["by hand"], None)


def _starts(given: argparse.Namespace) -> Iterator[Figure]:
    started = in_turns(
        {
            "typer": imports("typer"),
            "version": (*TELLBACK, "--version"),
            "help": (*TELLBACK, "--help"),
            "libraries": imports("numpy, pydantic, httpx"),
            "agent": imports("tellback.agent"),
            "loop": (sys.executable, "-c", "from tellback.agent import Agent"),
        },
        rounds=given.rounds,
        seed=given.seed,
    )
    yield _ratio("tellback --version, of importing typer", 0, started["version"], started["typer"], 2.0)
    yield _ratio("tellback --help, of importing typer", 0, started["help"], started["typer"], 2.0)
    yield _ratio("import tellback.agent, of numpy, pydantic, httpx", 0, started["agent"], started["libraries"], 1.35)
    yield _ratio("from tellback.agent import Agent, of the same", 0, started["loop"], started["libraries"], 1.35)


def _times(what: str, rows: int, seconds: Sequence[float], bound: float | None) -> Figure:
    low, high = np.percentile(np.asarray(seconds) * 1e3, (50, 95))
    return Figure(what, rows, "ms", float(low), float(high), bound)


def _ratio(what: str, rows: int, upper: Started, lower: Started, bound: float | None) -> Figure:
    """Return the median of the ratios of each round, which ran side by side; of CPU time, which neighbours disturb
    less."""
    each = np.asarray(upper.cpu) / np.asarray(lower.cpu)
    return Figure(what, rows, "×", float(np.median(each)), float(np.percentile(each, 95)), bound)


def _show(figures: Sequence[Figure], made: dict[str, Any]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 120)
    load = made["load"]
    noisy = " PROVISIONAL: the machine was not quiet." if load is not None and load > about.QUIET else ""
    table = Table(title="Speed of recall", caption=f"{made['machine']}; load {load} before it.{noisy}")
    table.add_column("what", no_wrap=True)
    for head in ("turns", "p50", "p95", "unit", "goal", "met"):
        table.add_column(head, justify="right", no_wrap=True)
    for figure in figures:
        goal = "" if figure.bound is None else f"{'≥' if figure.least else '≤'} {figure.bound:g}"
        met = {True: "yes", False: "no", None: ""}[figure.met]
        p95 = "" if figure.p95 is None else f"{figure.p95:.3g}"
        table.add_row(
            figure.what, f"{figure.rows:,}" if figure.rows else "", _short(figure.p50), p95, figure.unit, goal, met
        )
    console.print(table)
    console.print(
        f"Turns are LoCoMo's {made['own_turns']:,}; beyond these they are repeated, in sessions of their own, "
        "with a new word in every second one. Memory is what is private to the process.",
        highlight=False,
    )


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"
