"""Tables of a run as Markdown: each task with all systems, kinds of question, refusals, systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.recall.summary import Line, Summary

_OURS = "tellback"
_OF_KINDS = ("R@1", "R@3", "R@10", "any@10", "all@10", "MRR")


def tasks_text(summary: Summary) -> str:
    """Return R@1 and R@10 of every system, a line for each task; memories of a few statements are for doubt alone."""
    systems = {key: about["title"] for key, about in summary.about["systems"].items()}
    rows = []
    for task, about in summary.about["tasks"].items():
        lines = [summary.line(system, task) for system in systems]
        asked = max((line.questions for line in lines if line is not None), default=0)
        if asked and not task.startswith("few-"):
            cells = [
                f"{_share(line.figures['R@1'])} / {_share(line.figures['R@10'])}" if line else "–" for line in lines
            ]
            rows.append((about["title"], about["status"], about["unit"], str(asked), *cells))
    return table(("task", "data", "unit", "n", *systems.values()), rows)


def groups_text(summary: Summary) -> str:
    """Return the kinds of question for Tellback alone, each of the first task that has it."""
    lines: dict[str, Line] = {}
    for line in summary.lines:
        if line.system == _OURS and line.group and line.questions and not line.task.startswith("few-"):
            lines.setdefault(line.group, line)
    rows = [
        (
            f"{summary.about['tasks'][line.task]['title']}: {group}",
            summary.about["tasks"][line.task]["status"],
            str(line.questions),
            *(_share(line.figures[name]) for name in _OF_KINDS),
        )
        for group, line in lines.items()
    ]
    return table(("task and kind", "data", "n", *_OF_KINDS), rows)


def refusals_text(summary: Summary) -> str:
    """Return the shares of questions that Tellback refused, wrongly and rightly, a line for each task."""
    rows = []
    for task, about in summary.about["tasks"].items():
        wrongly, rightly = (
            "; ".join(
                f"{refusal.group} {_share(refusal.refused)}"
                for refusal in summary.refusals
                if (refusal.system, refusal.task, refusal.answerable) == (_OURS, task, answerable)
            )
            for answerable in (True, False)
        )
        if rightly:
            rows.append((about["title"], about["status"], wrongly, rightly))
    return table(("task", "data", "refused, answerable", "refused, to be refused"), rows)


def systems_text(about: Mapping[str, Any]) -> str:
    """Return the systems that took part, with their settings, and those that did not."""
    lines = [
        f"- {item['title']} {item['version']}".rstrip() + f": {item['settings']}; vectors: {item['vectors'] or 'none'}"
        for item in about["systems"].values()
    ]
    return "\n".join([*lines, *(f"- {name}: not run: {why}" for name, why in about["not_run"].items())]) + "\n"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; a line saying so where there are no rows."""
    if not rows:
        return "Not measured in this run.\n"
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0") if 0 <= value < 1 else f"{value:.3f}"
