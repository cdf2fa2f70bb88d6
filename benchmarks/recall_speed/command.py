"""Command ``python -m benchmarks recall-speed``: one recall, its index, remembering, and commands in new processes."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks import about
from benchmarks.child import Started, in_turns, printed
from benchmarks.figure import Figure, keep, short, show, times
from benchmarks.recall_speed.texts import own_turns, questions, require_locomo

_SIZES = (1_000, 10_000, 100_000)
_ROUNDS = 7
_RECALL = {1_000: 10.0, 10_000: 14.0, 100_000: 25.0}
_PASSAGES, _READ, _READ_AGAIN, _FORGET = 40.0, 15_000.0, 1_000.0, 300.0
_REMEMBERED = _FILES = 1_000
_PARTS = ("recall", "remember", "documents", "commands")
_COMMAND = {10_000: 3.0, 100_000: 10.0}
_INDEX = {100_000: 150.0}
_HELD = {100_000: 400.0}
_FIRST = {100_000: 2_000.0}
"""Limits by number of turns: CPU ms beside the encoder, times of the imports, MB, MB, ms."""
_PACKAGES = ("tellback", "numpy", "wordllama", "apsw", "pydantic", "typer")
_TELLBACK = (sys.executable, "-c", "from tellback.agent.assistant.cli import main; main()")
_NOTE = (
    "Turns are LoCoMo's {own:,}; beyond these they are repeated, in sessions of their own, with a new word in every "
    "second one. Memory is what is private to the process."
)
Say = Callable[[str], None]


def add_command(commands: Any) -> None:
    """Put ``recall-speed`` among the *commands* of the command line."""
    parser = commands.add_parser("recall-speed", help="speed of one recall, and size of its index")
    about.add_data_option(parser)
    parser.add_argument("--sizes", type=int, nargs="+", default=_SIZES, help="numbers of turns")
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=_PARTS, help="what to measure")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="runs of each new process")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, help="folder for the memories' files, on a real disk (default: temporary)")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace, words: Sequence[str], say: Say) -> int:
    """Measure what *given* asks for; return the exit code."""
    require_locomo(given.data)
    if min(given.sizes) < 1_000:
        raise ValueError(f"--sizes: 1000 turns or more are needed, not {min(given.sizes)}")
    parts, own = given.parts, own_turns(given.data)
    made = {**about.circumstances(words, _PACKAGES), "seed": given.seed, "own_turns": own}
    figures: list[Figure] = []
    with TemporaryDirectory(dir=given.work, prefix="tellback-speed-") as folder:

        def measured(figures_of: Iterator[Figure]) -> None:
            for figure in figures_of:
                figures.append(figure)
                say(f"    {figure.what}: {short(figure.p50)} {figure.unit}")

        if "remember" in parts:
            measured(_remembered(Path(folder) / "remember.db", given, say))
        if "documents" in parts:
            measured(_of_documents(Path(folder), given, say))
        for size in sorted(given.sizes) if {"recall", "commands"}.intersection(parts) else ():
            file = Path(folder) / f"{size}.db"
            measured(_of_size(file, given, size, parts, say))
            file.unlink()
        if "commands" in parts:
            say("new processes without a memory")
            measured(_starts(given))
    show("Speed of recall", "turns", figures, made, _NOTE.format(own=own))
    keep(given.json, figures, made)
    return 0


def _measured(measure: str, file: Path, size: int, given: argparse.Namespace, say: Say) -> Any:
    """Return what the worker measures in a process of its own."""
    say(f"{size:,} turns: {measure}")
    return printed("benchmarks.recall_speed.worker", measure, file, given.data.resolve(), size, given.seed)


def _remembered(file: Path, given: argparse.Namespace, say: Say) -> Iterator[Figure]:
    found = _measured("remember", file, _REMEMBERED, given, say)
    if found["embedder"] is not None:
        share = found["embedder"] / found["seconds"]
        yield Figure("remember_many, of the encoder alone, CPU", _REMEMBERED, "×", share, bound=0.5, least=True)


def _of_documents(folder: Path, given: argparse.Namespace, say: Say) -> Iterator[Figure]:
    found = _measured("passages", folder / "passages.db", 0, given, say)
    yield times("one recall over passages, CPU", found["passages"], found["times"], _PASSAGES)
    read = _measured("files", folder / "files.db", _FILES, given, say)
    yield times("reading Markdown files, CPU", _FILES, [read["first"]], _READ)
    yield times("- again, unchanged, CPU", _FILES, [read["unchanged"]], _READ_AGAIN)


def _of_size(file: Path, given: argparse.Namespace, size: int, parts: Sequence[str], say: Say) -> Iterator[Figure]:
    def measured(measure: str, path: Path = file) -> Any:
        return _measured(measure, path, size, given, say)

    filled = measured("fill")
    yield Figure("remember_many beside the encoder", size, "turns/s", size / filled["seconds"])
    yield Figure("remember_many, the last thousand of the first", size, "×", filled["last"] / filled["first"])
    yield Figure("file", size, "MB", filled["mb"])
    warm = measured("warm")
    yield times("one recall, warm, CPU beside the encoder", size, warm["times"], _RECALL.get(size))
    yield times("- the encoder", size, warm["encoder"])
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
    yield times("one remember, durable", size, single["remember"])
    yield Figure(
        "one remember, of one upsert and embedding", size, "×", float(np.median(single["remember"])) / bare, bound=2.5
    )
    forgotten = measured("forget", copy)["times"]
    yield times("the first forget, CPU", size, forgotten[:1])
    yield times("each further one, CPU", size, forgotten[1:], _FORGET)
    copy.unlink()
    say(f"{size:,} turns: tellback recall in new processes")
    question = questions(given.data, 1, given.seed)[0]
    commands = {
        "imports": _imports("numpy, pydantic, apsw, typer"),
        "recall": (*_TELLBACK, "--memory", str(file), "recall", question, "--json"),
    }
    started = in_turns(commands, rounds=given.rounds, seed=given.seed)
    recall = started["recall"]
    yield times("tellback recall, a new process", size, recall.seconds)
    yield _ratio("- of importing numpy, pydantic, apsw, typer", size, recall, started["imports"], _COMMAND.get(size))
    yield Figure("- the most memory it held", size, "MB", recall.mb, bound=_HELD.get(size))


def _starts(given: argparse.Namespace) -> Iterator[Figure]:
    commands = {
        "typer": _imports("typer"),
        "version": (*_TELLBACK, "--version"),
        "help": (*_TELLBACK, "--help"),
        "libraries": _imports("numpy, pydantic, httpx"),
        "agent": _imports("tellback.agent"),
        "loop": (sys.executable, "-c", "from tellback.agent import Agent"),
    }
    started = in_turns(commands, rounds=given.rounds, seed=given.seed)
    yield _ratio("tellback --version, of importing typer", 0, started["version"], started["typer"], 2.0)
    yield _ratio("tellback --help, of importing typer", 0, started["help"], started["typer"], 2.0)
    yield _ratio("import tellback.agent, of numpy, pydantic, httpx", 0, started["agent"], started["libraries"], 1.35)
    yield _ratio("from tellback.agent import Agent, of the same", 0, started["loop"], started["libraries"], 1.35)


def _imports(names: str) -> tuple[str, ...]:
    """Return the command that imports *names* and ends."""
    return (sys.executable, "-c", f"import {names}")


def _ratio(what: str, rows: int, upper: Started, lower: Started, bound: float | None) -> Figure:
    """Return the median of the ratios of each round, which ran side by side; of CPU time, which neighbours disturb
    less."""
    each = np.asarray(upper.cpu) / np.asarray(lower.cpu)
    return Figure(what, rows, "×", float(np.median(each)), float(np.percentile(each, 95)), bound)
