"""The command line of the benchmarks: ``python -m benchmarks recall --data DIR`` and the other commands."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from benchmarks import fast_search, forget_speed, hooks, secret_screen, structure, vector_table
from benchmarks.documents import command as documents
from benchmarks.memory import command as memory_bench
from benchmarks.personal import answers, calibration, hands_command, life, manual, page, train
from benchmarks.personal import command as personal
from benchmarks.recall import command as recall
from benchmarks.recall_speed import command as recall_speed
from benchmarks.remember import command as remember
from benchmarks.stores.command import add_parsers, run_report, run_stores


def main(arguments: list[str] | None = None) -> int:
    """Run what *arguments* ask for; return the exit code."""
    asked = sys.argv[1:] if arguments is None else arguments
    if asked[:1] == ["loop"]:  # it needs none of the data sets
        from benchmarks.loop import main as loop

        return loop(asked[1:])
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure Tellback; see also `loop --help`."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    recall.add_commands(commands)
    memory_bench.add_command(commands)
    personal.add_command(commands)
    manual.add_command(commands)
    for part in (life, answers, page, documents, hands_command, train):
        part.add_command(commands)
    calibration.add_command(commands)
    recall_speed.add_command(commands)
    remember.add_command(commands)
    add_parsers(commands)
    hooks.add_command(commands)
    for measured in (fast_search, forget_speed, secret_screen, structure, vector_table):
        measured.add_command(commands)
    given = parser.parse_args(asked)
    console = Console(width=None if sys.stdout.isatty() else 110)

    def say(line: str) -> None:
        console.print(line, style="dim", markup=False, highlight=False)

    if given.command == "stores":
        return run_stores(given, list(asked), say)
    if given.command == "stores-report":
        return run_report(given, say)
    if given.command in ("fast-search", "vectors-table", "secrets"):
        return int(given.run(given))
    try:
        return int(given.run(given, asked, say))
    except (ValueError, OSError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    raise SystemExit(main())
