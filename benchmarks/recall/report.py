"""Tables of a run as Markdown: goals, each task with all systems, groups, refusals, differences, speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.recall.goals import outcomes
from benchmarks.recall.summary import Line, Summary

_SHOWN = ("R@1", "R@3", "R@5", "R@10", "R@20", "R@50", "any@10", "all@10", "MRR", "nDCG@10")
_DEPTHS = (
    "any@1",
    "any@3",
    "any@5",
    "any@10",
    "any@20",
    "any@50",
    "all@1",
    "all@3",
    "all@5",
    "all@10",
    "all@20",
    "all@50",
)


def goals_text(summary: Summary) -> str:
    """Return the goals that were measured: floor, goal, reached."""
    rows = []
    for outcome in outcomes(summary):
        goal = outcome.goal
        sign = "≥" if goal.least else "≤"
        floor = (
            "" if goal.floor is None else f"{sign} {goal.floor:.3f}" + ("" if outcome.above_floor else " **broken**")
        )
        met = {True: "yes", False: "**no**", None: "–"}[outcome.met]
        rows.append((goal.what, floor, f"{sign} {goal.goal:.3f}", f"{outcome.reached:.3f}", met))
    return table(("what", "floor", "goal", "reached", "met"), rows)


def tasks_text(summary: Summary, columns: Sequence[str] = _SHOWN) -> str:
    """Return a table for each task: a line a system. Memories of a few statements are asked for doubt alone."""
    return "\n".join(
        f"### {about['title']}\n\n{_told(about)}\n\n{task_table(summary, task, columns)}"
        for task, about in summary.about["tasks"].items()
        if not task.startswith("few-") and any(line.task == task and line.questions for line in summary.lines)
    )


def task_table(summary: Summary, task: str, columns: Sequence[str] = _SHOWN) -> str:
    """Return one task: every system's headline, with the interval of R@10 and the milliseconds of one recall."""
    lines = [line for line in summary.lines if line.task == task and not line.group and line.questions]
    heads = ("system", "n", *columns, "R@10, 95 %", "ms p50", "ms p95")
    return table(heads, [_cells(summary, line, columns) for line in lines])


def groups_text(summary: Summary) -> str:
    """Return the groups of each task that has several, for Tellback alone."""
    rows = [
        (
            _task_title(summary, line.task),
            line.group,
            str(line.questions),
            *(_three(line.figures[name]) for name in _SHOWN),
        )
        for line in summary.lines
        if line.system == "tellback" and line.group and line.questions
    ]
    return table(("task", "group", "n", *_SHOWN), rows)


def refusals_text(summary: Summary) -> str:
    """Return the shares of questions that were refused, rightly and wrongly."""
    rows = [
        (
            _title(summary, refusal.system),
            _task_title(summary, refusal.task),
            refusal.group,
            "no" if refusal.answerable else "yes",
            str(refusal.questions),
            _three(refusal.nothing),
            _three(refusal.other),
            _three(refusal.refused),
            "–" if refusal.by_confidence is None else _three(refusal.by_confidence),
        )
        for refusal in summary.refusals
        if any(other.task == refusal.task and not other.answerable for other in summary.refusals)
    ]
    heads = ("system", "task", "asked", "to be refused", "n", "“nothing”", "“other”", "refused", "by confidence")
    return table(heads, rows)


def cost_text(summary: Summary) -> str:
    """Return items a second and memory of each system."""
    memory = summary.about["settings"].get("memory", {})
    rows = []
    for system, rates in summary.fills.items():
        items = [
            f"{rate:,.0f} ({summary.about['tasks'][task]['title']})"
            for task, rate in rates.items()
            if task in _RATED and rate < _NOTHING_DONE
        ]
        cost = memory.get(system)
        used = "–" if cost is None else f"{cost['mb']:.0f}"
        rows.append((_title(summary, system), "; ".join(items) or "–", used))
    return table(("system", "items a second", "memory, MB"), rows)


_NOTHING_DONE = 1e6
"""Items a second above which a system only stores their names."""
_RATED = ("locomo-pooled", "squad", "cranfield")


def systems_text(about: Mapping[str, Any]) -> str:
    """Return the systems that took part, with their settings, and those that did not."""
    rows = [
        (item["title"], item["version"] or "–", item["settings"], item["vectors"] or "none")
        for item in about["systems"].values()
    ]
    text = table(("system", "version", "settings", "its vectors"), rows)
    return text + "".join(f"\n- {name}: not run: {why}" for name, why in about["not_run"].items()) + "\n"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; a line saying so where there are no rows."""
    if not rows:
        return "Not measured in this run.\n"
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _told(about: Mapping[str, Any]) -> str:
    note = f" {about['note'][:1].upper()}{about['note'][1:]}." if about["note"] else ""
    return f"Data: {about['status']}. Unit found: {about['unit']}.{note}"


def _cells(summary: Summary, line: Line, columns: Sequence[str]) -> list[str]:
    low, high = line.intervals["R@10"]
    failed = f" ({line.errors} failed)" if line.errors else ""
    return [
        _title(summary, line.system),
        f"{line.questions}{failed}",
        *(_three(line.figures[name]) for name in columns),
        f"{low:.3f}–{high:.3f}",
        f"{line.p50:.2f}",
        f"{line.p95:.2f}",
    ]


def _task_title(summary: Summary, task: str) -> str:
    about = summary.about["tasks"][task]
    return f"{about['title']} (unseen)" if about["status"] == "unseen" else str(about["title"])


def _title(summary: Summary, system: str) -> str:
    return str(summary.about["systems"][system]["title"])


def _three(value: float) -> str:
    return f"{value:.3f}".removeprefix("0") if 0 <= value < 1 else f"{value:.3f}"
