"""The figures of a run as tables on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.recall.goals import outcomes
from benchmarks.recall.summary import Summary

_COLUMNS = ("R@1", "R@5", "R@10", "any@10", "all@10", "MRR", "nDCG@10")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: what was measured, on how many questions, and its figures by name."""

    name: str
    questions: int
    figures: dict[str, float]


def show(summary: Summary) -> None:
    """Print Tellback's figures (or those of the first), all systems beside each other, refusals, and the goals."""
    systems = summary.about["systems"]
    if not systems:
        return
    first = "tellback" if "tellback" in systems else next(iter(systems))
    rows = [
        Row(_name(summary, one.task, one.group), one.questions, {**one.figures, "ms": one.p50, "p95": one.p95})
        for one in summary.lines
        if one.system == first and one.questions
    ]
    show_rows(rows, title=f"{systems[first]['title']}: share of the evidence found", columns=(*_COLUMNS, "ms", "p95"))
    if len(summary.about["systems"]) > 1:
        _beside(summary)
    _refusals(summary)
    if summary.about["settings"]["limit"] is None:
        _goals(summary)
    console = _console()
    for system, why in summary.about["not_run"].items():
        console.print(f"{system}: not run: {why}", markup=False, highlight=False)
    for task, told in summary.about["tasks"].items():
        console.print(f"{task}: {told['status']}, by {told['unit']}", style="dim", markup=False, highlight=False)


def show_rows(rows: Sequence[Row], *, title: str = "Recall", columns: Sequence[str] | None = None) -> None:
    """Print one table."""
    table = Table(title=title)
    table.add_column("what", no_wrap=True, min_width=29)
    table.add_column("n", justify="right", no_wrap=True)
    names = columns or tuple(dict.fromkeys(name for row in rows for name in row.figures))
    for name in names:
        table.add_column(name, justify="right", overflow="fold")
    for row in rows:
        table.add_row(
            row.name, str(row.questions), *(f"{row.figures[name]:.3f}" if name in row.figures else "" for name in names)
        )
    _console().print(table)


def _beside(summary: Summary) -> None:
    systems = summary.about["systems"]
    rows = []
    for task, told in summary.about["tasks"].items():
        lines = [(one, summary.line(one, task)) for one in systems]
        figures = {systems[one]["title"]: line.figures["R@10"] for one, line in lines if line is not None}
        asked = [line.questions for _, line in lines if line is not None]
        if figures and max(asked):
            rows.append(Row(told["title"], max(asked), figures))
    show_rows(rows, title="R@10 of all systems", columns=tuple(one["title"] for one in systems.values()))


def _refusals(summary: Summary) -> None:
    table = Table(title="Said to be nowhere here")
    for head in ("task", "asked", "n", "nothing", "other", "refused", "by confidence"):
        table.add_column(head, no_wrap=True)
    for one in summary.refusals:
        if one.system == "tellback":
            sure = "" if one.by_confidence is None else f"{one.by_confidence:.3f}"
            shares = (f"{one.nothing:.3f}", f"{one.other:.3f}", f"{one.refused:.3f}", sure)
            table.add_row(one.task, one.group, str(one.questions), *shares)
    if table.row_count:
        _console().print(table)


def _goals(summary: Summary) -> None:
    table = Table(title="Goals on this data")
    for head in ("what", "floor", "goal", "reached", "met"):
        table.add_column(head, no_wrap=True)
    for one in outcomes(summary):
        sign = "≥" if one.goal.least else "≤"
        floor = "" if one.goal.floor is None else f"{one.goal.floor:.3f}" + ("" if one.above_floor else " broken")
        table.add_row(
            one.goal.what, floor, f"{sign} {one.goal.goal:.3f}", f"{one.reached:.3f}", "yes" if one.met else "no"
        )
    if table.row_count:
        _console().print(table)


def _name(summary: Summary, task: str, group: str) -> str:
    return f"  {group}" if group else str(summary.about["tasks"][task]["title"])


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 150)
