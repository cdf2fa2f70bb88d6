"""The picture of the questions over documentation: a panel a figure, a line a documentation, both halves of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.documents.technical import HALVES
from benchmarks.picture import FAINT, INK, OURS, PAPER, SETTINGS, matplotlib, plain_axes, save

_PANELS = {"sentence first": 0.6, "passage first": 0.6, "passage in ten": 0.9}
"""The figures that are drawn, with their goals."""


def draw(lines: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the picture of *lines* to *path*; raise ``ModuleNotFoundError`` naming the extra without matplotlib."""
    mpl, figure_class = matplotlib()
    shown = list(reversed(lines))
    with mpl.rc_context(SETTINGS):
        figure = figure_class(figsize=(10.4, 1.1 + 0.26 * len(shown)), facecolor=PAPER, layout="constrained")
        panels = figure.subplots(1, len(_PANELS), sharey=True, squeeze=False)[0]
        for axes, (name, goal) in zip(panels, _PANELS.items(), strict=True):
            plain_axes(axes)
            axes.set_title(name, fontsize=9.5, loc="left")
            axes.set_xlabel("share of questions answered right", fontsize=8)
            axes.axvline(goal, color=OURS[0], linewidth=1.6, zorder=1)
            for row, line in enumerate(shown):
                values = [line[half][name] for half in HALVES]
                axes.plot(values, [row, row], color=FAINT, linewidth=2.4, zorder=2, solid_capstyle="round")
                axes.scatter(values[:1], [row], s=22, facecolor=PAPER, edgecolor=OURS[1], zorder=3)
                axes.scatter(values[1:], [row], s=30, color=OURS[1], zorder=4)
            axes.set_xlim(-0.02, 1.02)
            axes.set_ylim(-0.6, len(shown) - 0.4)
        panels[0].set_yticks(range(len(shown)), [line["documentation"] or "all" for line in shown])
        _legend(figure)
        save(figure, path)


def _legend(figure: Any) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], linestyle="", marker="o", markersize=5.5, color=OURS[1], label="held-out half"),
        Line2D([], [], linestyle="", marker="o", markersize=5, mfc="none", mec=OURS[1], label="half that chose"),
        Line2D([], [], color=OURS[0], linewidth=1.6, label="goal"),
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=len(handles), frameon=False, labelcolor=INK)
