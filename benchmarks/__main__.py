"""The command line of the benchmarks: ``python -m benchmarks memory run`` and the other commands."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from benchmarks import loop, round_trip
from benchmarks.documents import command as documents
from benchmarks.memory import command as memory
from benchmarks.personal import hands_command, train
from benchmarks.recall_speed import command as recall_speed
from benchmarks.scale import command as scale
from benchmarks.stores import command as stores

_PARTS = (memory, hands_command, train, documents, recall_speed, scale, round_trip, loop, stores)


def main(arguments: list[str] | None = None) -> int:
    """Run what *arguments* ask for; return the exit code."""
    asked = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    commands = parser.add_subparsers(dest="command", required=True)
    for part in _PARTS:
        part.add_command(commands)
    given = parser.parse_args(asked)
    console = Console(width=None if sys.stdout.isatty() else 110)

    def say(line: str) -> None:
        console.print(line, style="dim", markup=False, highlight=False)

    try:
        return int(given.run(given, asked, say))
    except (ValueError, OSError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    raise SystemExit(main())
