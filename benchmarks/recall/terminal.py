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
        Row(_name(summary, item.task, item.group), item.questions, {**item.figures, "ms": item.p50, "p95": item.p95})
        for item in summary.lines
        if item.system == first and item.questions
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
    for task, given in summary.about["tasks"].items():
        console.print(f"{task}: {given['status']}, by {given['unit']}", style="dim", markup=False, highlight=False)


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
    for task, given in summary.about["tasks"].items():
        lines = [(item, summary.line(item, task)) for item in systems]
        figures = {systems[item]["title"]: line.figures["R@10"] for item, line in lines if line is not None}
        asked = [line.questions for _, line in lines if line is not None]
        if figures and max(asked):
            rows.append(Row(given["title"], max(asked), figures))
    show_rows(rows, title="R@10 of all systems", columns=tuple(item["title"] for item in systems.values()))


def _refusals(summary: Summary) -> None:
    table = Table(title="Said to be nowhere here")
    for head in ("task", "asked", "n", "nothing", "other", "refused", "by confidence"):
        table.add_column(head, no_wrap=True)
    for refusal in summary.refusals:
        if refusal.system == "tellback":
            sure = "" if refusal.by_confidence is None else f"{refusal.by_confidence:.3f}"
            shares = (f"{refusal.nothing:.3f}", f"{refusal.other:.3f}", f"{refusal.refused:.3f}", sure)
            table.add_row(refusal.task, refusal.group, str(refusal.questions), *shares)
    if table.row_count:
        _console().print(table)


def _goals(summary: Summary) -> None:
    table = Table(title="Goals on this data")
    for head in ("what", "floor", "goal", "reached", "met"):
        table.add_column(head, no_wrap=True)
    for outcome in outcomes(summary):
        sign = "≥" if outcome.goal.least else "≤"
        floor = (
            ""
            if outcome.goal.floor is None
            else f"{outcome.goal.floor:.3f}" + ("" if outcome.above_floor else " broken")
        )
        table.add_row(
            outcome.goal.what,
            floor,
            f"{sign} {outcome.goal.goal:.3f}",
            f"{outcome.reached:.3f}",
            "yes" if outcome.met else "no",
        )
    if table.row_count:
        _console().print(table)


def _name(summary: Summary, task: str, group: str) -> str:
    return f"  {group}" if group else str(summary.about["tasks"][task]["title"])


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 150)
