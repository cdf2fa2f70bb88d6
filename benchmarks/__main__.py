"""The command line of the benchmarks: ``python -m benchmarks recall --data DIR`` and what stands beside it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import fast_search, secret_screen, vector_table
from benchmarks.ablation import run_ablation
from benchmarks.datasets import fingerprint
from benchmarks.recall import Row, Settings, run
from benchmarks.stores.command import add_parsers, run_report, run_stores

SETS = ("locomo", "squad", "cranfield", "updates")
_GENERATED = ("updates",)
_COLUMNS = ("R@1", "R@5", "R@10", "all@10", "adversarial", "MRR", "nDCG@10", "ms")
_PACKAGES = ("mneme", "numpy", "wordllama", "PyStemmer", "apsw", "sqlite-vec")


def main(arguments: list[str] | None = None) -> int:
    """Run what *arguments* ask for; return the exit code."""
    asked = sys.argv[1:] if arguments is None else arguments
    if asked[:1] == ["loop"]:  # it needs none of the data sets
        from benchmarks.loop import main as loop

        return loop(asked[1:])
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure Mneme; see also `loop --help`.")
    commands = parser.add_subparsers(dest="command", required=True)
    recall = commands.add_parser("recall", help="how much of the evidence is found")
    recall.add_argument("--data", type=Path, default=os.environ.get("MNEME_BENCH_DATA"), help="folder of the data sets")
    recall.add_argument("--sets", default=",".join(SETS), help="which of them, comma-separated")
    recall.add_argument("--no-vectors", action="store_true", help="as if the extra `local` were not installed")
    recall.add_argument("--store", choices=("sqlite", "numpy"), default="sqlite")
    recall.add_argument("--limit", type=int, help="only the first questions of each conversation or library")
    recall.add_argument("--ablate", action="store_true", help="what each signal is worth: each one left out in turn")
    recall.add_argument("--json", type=Path, help="write the figures to this file too")
    add_parsers(commands)
    for measured in (fast_search, secret_screen, vector_table):
        measured.add_command(commands)
    given = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 110)

    def say(line: str) -> None:
        console.print(line, style="dim", markup=False, highlight=False)

    if given.command == "stores":
        return run_stores(given, list(sys.argv[1:] if arguments is None else arguments), say)
    if given.command == "stores-report":
        return run_report(given, say)
    if given.command != "recall":
        return int(given.run(given))
    if given.data is None or not given.data.is_dir():
        parser.error("--data (or MNEME_BENCH_DATA) must name the folder of the data sets")
    sets = tuple(given.sets.split(","))
    missing = [name for name in sets if name not in SETS or not (name in _GENERATED or (given.data / name).is_dir())]
    if missing:
        parser.error(f"no data set {', '.join(missing)} in {given.data}; known are {', '.join(SETS)}")
    settings = Settings(sets, not given.no_vectors, given.store, given.limit)
    measure = run_ablation if given.ablate else run
    rows = measure(given.data, settings, say)
    about = _about(given.data, settings)
    console.print(_table(rows, about))
    if given.json is not None:
        given.json.write_text(json.dumps({"about": about, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    return 0


def _table(rows: list[Row], about: dict[str, Any]) -> Table:
    table = Table(title="Recall: share of the evidence found", caption="; ".join(f"{k} {v}" for k, v in about.items()))
    table.add_column("what", no_wrap=True, min_width=29)
    table.add_column("n", justify="right", no_wrap=True)
    columns = [name for name in _COLUMNS if any(name in row.figures for row in rows)]
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        shown = (f"{row.figures[name]:.3f}" if name in row.figures else "" for name in columns)
        table.add_row(row.name, str(row.questions), *shown)
    return table


def _about(data: Path, settings: Settings) -> dict[str, Any]:
    return {
        "vectors": settings.vectors,
        "store": settings.store,
        "limit": settings.limit,
        "data": fingerprint(data, [name for name in settings.sets if name not in _GENERATED]),
        "versions": " ".join(f"{name} {_version(name)}" for name in _PACKAGES),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "-"


if __name__ == "__main__":
    raise SystemExit(main())
