"""Command ``python -m benchmarks personal``: questions of a person about own notes, stories of change and chat."""

from __future__ import annotations

import argparse
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import about
from benchmarks.personal.cases import HALVES, MADE, STATEMENTS, Case, cases_of
from benchmarks.personal.figures import outcomes, rules_by_label
from benchmarks.recall.system import BY_KEY, NotAvailable, Options, System, missing, opened
from benchmarks.recall.task import Asked, Corpus
from benchmarks.stores.results import machine
from tellback.memory.internals import bootstrap

DEPTH = 50
_LOST = "statements lost"
Values = dict[str, dict[str, float]]
"""The value of each question, by figure and question."""


def add_command(commands: Any) -> None:
    """Add the command to the subparsers of ``python -m benchmarks``."""
    default = os.environ.get("TELLBACK_BENCH_DATA")
    command = commands.add_parser("personal", help="a person's notes, stories of change and a month of chat")
    command.add_argument("--data", type=Path, default=Path(default) if default else None, help="folder of `notes`")
    command.add_argument("--sets", default=",".join(["notes"] * (default is not None) + list(MADE)))
    command.add_argument("--systems", default="tellback,tellback-words,cosine,bm25s,fts5")
    command.add_argument("--out", type=Path, help="write the value of every question to this file, JSON")
    command.add_argument("--against", type=Path, help="a file of --out: print differences with their intervals")
    command.add_argument("--wrong", choices=HALVES, help="print the questions of this half whose first hit is wrong")
    command.set_defaults(run=run_personal)


def run_personal(given: argparse.Namespace, words: Sequence[str], say: Callable[[str], None]) -> int:
    """Measure, print the tables; return the exit code."""
    cases = list(cases_of([name for name in given.sets.split(",") if name], given.data))
    measured: dict[str, Values] = {}
    for key in given.systems.split(","):
        if key not in BY_KEY:
            raise ValueError(f"no system {key}; known are {', '.join(BY_KEY)}")
        reason = missing(BY_KEY[key])
        if reason is not None:
            say(f"{key}: {reason}")
            continue
        measured[key] = _measured(key, cases, given.wrong, say)
    before = json.loads(given.against.read_text("utf-8"))["values"] if given.against else {}
    for name in dict.fromkeys(case.set for case in cases):
        _print(name, measured, before)
    if any(case.labels for case in cases):
        _print_rules(cases)
    if given.out is not None:
        reported = {"command": about.command(words), "machine": machine(), "values": measured}
        given.out.write_text(json.dumps(reported, ensure_ascii=False, indent=1), "utf-8")
    return 0


def _measured(key: str, cases: Sequence[Case], wrong: str | None, say: Callable[[str], None]) -> Values:
    values: Values = defaultdict(dict)
    for case in cases:
        with TemporaryDirectory() as folder:
            try:
                system = opened(BY_KEY[key], Path(folder), Options())
            except NotAvailable as error:
                say(f"{key}: {error}")
                return values
            try:
                for figure, question, value in _asked(system, case, wrong, say):
                    values[figure][question] = value
            finally:
                system.close()
    return values


def _asked(
    system: System, case: Case, wrong: str | None, say: Callable[[str], None]
) -> Iterator[tuple[str, str, float]]:
    system.fill(Corpus(case.name, case.items, (), now=case.now))
    texts = {item.id: item.text for item in case.items}
    for question in case.questions:
        answered = system.ask(_question(question.id, question.text), DEPTH)
        for figure, value in outcomes(case, question, answered):
            yield f"{case.set}/{question.half}/{figure}", question.id, value
        if question.half == wrong and question.gold and not question.gold & {id for id, _ in answered.hits[:1]}:
            first = texts[answered.hits[0][0]] if answered.hits else "nothing"
            gold = "; ".join(texts[id] for id in question.gold)
            say(f"{question.kind}: {question.text}\n    first:  {first}\n    wanted: {gold}")
    for number, item in enumerate(case.items):
        if case.labels.get(item.id, " ") in STATEMENTS:
            top_ids = [id for id, _ in system.ask(_question(item.id, item.text), DEPTH).hits[:10]]
            yield f"{case.set}/{HALVES[number % 2]}/{_LOST}", item.id, float(item.id not in top_ids)


def _question(id: str, text: str) -> Asked:
    return Asked(id, text, "", {})


def _print(name: str, measured: Mapping[str, Values], before: Mapping[str, Values]) -> None:
    table = Table(title=name, title_justify="left")
    table.add_column("figure")
    columns = [(system, half) for system in measured for half in HALVES]
    for system, half in columns:
        table.add_column(f"{system}\n{half}", justify="right")
    keys = dict.fromkeys(figure for values in measured.values() for figure in values if figure.startswith(f"{name}/"))
    for figure in dict.fromkeys(key.split("/", 2)[2] for key in keys):
        cells = [_cell(f"{name}/{half}/{figure}", measured[system], before.get(system)) for system, half in columns]
        table.add_row(figure, *cells)
    Console(width=None if os.isatty(1) else 40 + 26 * len(columns)).print(table)


def _print_rules(cases: Sequence[Case]) -> None:
    """Print precision and recall of the rules alone, which see one line and no model."""
    table = Table(title="kinds of utterances by the rules alone", title_justify="left")
    for heading in ("half", "label", "lines", "precision", "recall"):
        table.add_column(heading, justify="right")
    for half, label, named, labelled, both in rules_by_label(cases):
        table.add_row(half, label, str(labelled), f"{both / named:.2f}" if named else "", f"{both / labelled:.2f}")
    Console(width=None if os.isatty(1) else 80).print(table)


def _cell(key: str, values: Values, before: Values | None) -> str:
    now = values.get(key, {})
    if not now:
        return ""
    mean = f"{sum(now.values()) / len(now):.3f} ({len(now)})"
    earlier = (before or {}).get(key, {})
    both = [question for question in now if question in earlier]
    if not both:
        return mean
    change = bootstrap([now[question] - earlier[question] for question in both])
    return f"{mean} {change}{'*' if change.excludes_zero else ''}"
