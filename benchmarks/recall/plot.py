"""The picture of a run: a panel a task, a line a system; the dot is R@10 with its interval, the ring R@1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.picture import INK, OURS, PAPER, SETTINGS, THEIRS, matplotlib, plain_axes, save
from benchmarks.recall.summary import Summary

_COLUMNS = 3
_PANELS = ("locomo-turns", "locomo-turns-sessions", "locomo-pooled", "locomo-assistant", "squad", "cranfield")
_WIDEST = 9
"""Panels at most."""


def draw(summary: Summary, path: Path) -> None:
    """Write the picture to *path*; raise ``ModuleNotFoundError`` naming the extra where matplotlib is missing."""
    mpl, figure_class = matplotlib()
    measured = {line.task for line in summary.lines if line.questions}
    usual = [task for task in _PANELS if task in measured]
    tasks = (usual or [task for task in summary.about["tasks"] if task in measured])[:_WIDEST]
    systems = [key for key in summary.about["systems"] if any(line.system == key for line in summary.lines)]
    rows = max(1, -(-len(tasks) // _COLUMNS))
    with mpl.rc_context(SETTINGS):
        figure = figure_class(
            figsize=(10.4, 0.5 + rows * (0.7 + 0.24 * len(systems))), facecolor=PAPER, layout="constrained"
        )
        figure.get_layout_engine().set(rect=(0.01, 0, 0.98, 1))
        axes = figure.subplots(rows, _COLUMNS, sharey=True, squeeze=False)
        for place in axes.flat[len(tasks) :]:
            place.set_visible(False)
        for place, task in zip(axes.flat, tasks, strict=False):
            _panel(place, summary, task, systems)
        for place in axes[:, 0]:
            titles = [summary.about["systems"][key]["title"] for key in reversed(systems)]
            place.set_yticks(range(len(systems)), titles)
            for label, key in zip(place.get_yticklabels(), reversed(systems), strict=True):
                label.set_fontweight("bold" if key.startswith("tellback") and key != "mnemosyne" else "normal")
        _legend(figure)
        save(figure, path)


def _panel(axes: Any, summary: Summary, task: str, systems: Sequence[str]) -> None:
    about = summary.about["tasks"][task]
    axes.set_title(about["title"].removeprefix("- "), fontsize=9.5, loc="left")
    plain_axes(axes)
    for row, key in enumerate(reversed(systems)):
        line = summary.line(key, task)
        if line is None or not line.questions:
            continue
        colours = OURS if key.startswith("tellback") else THEIRS
        low, high = line.intervals["R@10"]
        axes.plot([low, high], [row, row], color=colours[0], linewidth=3.2, zorder=2, solid_capstyle="round")
        axes.scatter([line.figures["R@10"]], [row], s=30, color=colours[1], zorder=3)
        axes.scatter([line.figures["R@1"]], [row], s=22, facecolor="none", edgecolor=colours[1], zorder=3)
    axes.set_ylim(-0.6, len(systems) - 0.4)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel(f"share found, by {about['unit']}; {about['status']}", fontsize=8)


def _legend(figure: Any) -> None:
    from matplotlib.lines import Line2D

    def dot(label: str, **style: Any) -> Any:
        return Line2D([], [], linestyle="", marker="o", markersize=5.5, label=label, **style)

    handles = [
        dot("Tellback", color=OURS[1]),
        dot("R@10, 95 per cent interval", color=THEIRS[1]),
        dot("R@1", markerfacecolor="none", markeredgecolor=THEIRS[1]),
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles), frameon=False, labelcolor=INK)
