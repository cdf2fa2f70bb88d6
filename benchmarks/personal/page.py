"""Page of the personal sets: a table a set in Markdown, a column a system, cells "choose / report".

``python -m benchmarks personal-report NOW --before BEFORE --page FILE`` renders it from files of ``personal --out``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.personal.cases import HALVES

Values = Mapping[str, Mapping[str, float]]
_TITLES = {
    "notes": "Notes of another person (`data/notes`: 80 notes, 132 questions)",
    "own-notes": "Notes of one person over three years (168 notes, 356 questions)",
    "stories": "Stories of a fact and its change (100 stories)",
    "chat": "A month of chat (50 questions)",
}
_INTRODUCTION = """\
# Personal sets, measured

Rendered by `python -m benchmarks personal-report` from a run of `python -m benchmarks personal`; what the sets are is
told in the [README](../README.md#notes-stories-and-chat-of-a-person). Each cell is the half `choose`, on which settings
were chosen, then the half `report`. An empty cell: the system has no such figure. *Before* is Tellback with static
vectors, before it had a sentence encoder, profiles, kinds of utterances, statements of now and then, and people, which
came together; the other columns are of one state. `cosine-onnx` is the cosine of all-MiniLM-L6-v2 (int8), by which
Chroma ranks by default too (Chroma itself was not run), and `tellback-onnx` Tellback with that model as an embedder
that it does not know. `para` are questions in other words, `update` about what changed since, `past` about what was so
then, `xling` across languages, `other` about another person's attribute, `neg` with a negation, `multi` over several
notes. Systems that never doubt have nothing in the lines on doubt but zeros.
"""


def add_command(commands: Any) -> None:
    """Add the command to the subparsers of ``python -m benchmarks``."""
    command = commands.add_parser("personal-report", help="tables in Markdown from files of `personal --out`")
    command.add_argument("now", type=Path, help="a file of `personal --out`")
    command.add_argument(
        "--before", type=Path, help="file of an earlier run, whose system `tellback` is the first column"
    )
    command.add_argument("--page", type=Path, help="write the page to this file")
    command.set_defaults(run=run_report)


def run_report(given: argparse.Namespace, words: Sequence[str], say: Callable[[str], None]) -> int:
    """Render the page; print it where no file is named; return the exit code."""
    read = json.loads(given.now.read_text("utf-8"))
    systems: dict[str, Values] = read["values"]
    if given.before:
        systems = {"before": json.loads(given.before.read_text("utf-8"))["values"]["tellback"], **systems}
    page = render(systems, command=read["command"], machine=read["machine"])
    if given.page is None:
        say(page)
    else:
        given.page.write_text(page, "utf-8")
    return 0


def render(systems: Mapping[str, Values], *, command: str, machine: object) -> str:
    """Return the page of the values of each question, by system and figure."""
    tables = [table for name in _TITLES if (table := _table(name, systems))]
    return "\n".join([_INTRODUCTION, *tables, f"Measured with `{command}` on {machine}.", ""])


def _table(name: str, systems: Mapping[str, Values]) -> str:
    keys = [key for values in systems.values() for key in values if key.startswith(f"{name}/")]
    figures = list(dict.fromkeys(key.split("/", 2)[2] for key in keys))
    if not figures:
        return ""
    columns = [system for system, values in systems.items() if any(key.startswith(f"{name}/") for key in values)]
    rows = [
        f"| {figure} | " + " | ".join(_cell(systems[c], name, figure) for c in columns) + " |" for figure in figures
    ]
    header = [f"| | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    return "\n".join([f"## {_TITLES[name]}", "", *header, *rows, ""])


def _cell(values: Values, name: str, figure: str) -> str:
    halves = [values.get(f"{name}/{half}/{figure}", {}) for half in HALVES]
    if not any(halves):
        return ""
    return " / ".join(f"{sum(half.values()) / len(half):.2f}" if half else "–" for half in halves)
