"""The picture of a results file: a panel a measure, a line a store, a dot a size; readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.picture import OURS, PAPER, SETTINGS, THEIRS, matplotlib, plain_axes, save
from benchmarks.stores import measures as m
from benchmarks.stores.contenders import CONTENDERS
from benchmarks.stores.figures import Figures
from benchmarks.stores.report import marks_of, title_of
from benchmarks.stores.results import Measurement

_FILTER = "filter 10 %"
_PANELS = {
    m.SEARCH: "search, k = 10",
    _FILTER: "search where 10 % pass the filter",
    m.MANY: "64 searches at once",
    m.TEXT: "text search, six words",
    m.SEEN: "write one row, then find it",
    m.COLD: "new process to first answer",
}
_COLUMNS = 3
_WIDE = 40
"""A panel whose ends are further apart than this has ticks at powers of ten alone."""
_SHOWN = [contender for contender in CONTENDERS if contender.key not in ("sqlite-rows", "tellback-numpy-faster")]


def draw(found: Sequence[Measurement], path: Path) -> None:
    """Write the picture to *path*; raise ``ModuleNotFoundError`` naming the extra where matplotlib is missing."""
    mpl, figure_class = matplotlib()
    figures = Figures(found)
    sizes = sorted({n for data, n in figures.sizes() if data == "clustered"})[-3:]
    with mpl.rc_context(SETTINGS):
        figure = figure_class(figsize=(10.4, 6.6), facecolor=PAPER, layout="constrained")
        figure.get_layout_engine().set(rect=(0.01, 0, 0.98, 1))
        axes = figure.subplots(2, _COLUMNS, sharey=True)
        for place, (measure, title) in zip(axes.flat, _PANELS.items(), strict=True):
            _panel(place, figures, measure, title, sizes)
        for place in axes[:, 0]:
            place.set_yticks(range(len(_SHOWN)), [title_of(item.key) + marks_of(item.key) for item in reversed(_SHOWN)])
            for label, contender in zip(place.get_yticklabels(), reversed(_SHOWN), strict=True):
                label.set_fontweight("bold" if contender.ours else "normal")
        _legend(figure, sizes)
        save(figure, path)


def _panel(axes: Any, figures: Figures, measure: str, title: str, sizes: Sequence[int]) -> None:
    from matplotlib.ticker import LogLocator

    axes.set_title(title, fontsize=9.5, loc="left")
    plain_axes(axes)
    axes.set_xscale("log")
    for row, contender in enumerate(reversed(_SHOWN)):
        measured = [(position, figures.get(contender.key, measure, "clustered", n)) for position, n in enumerate(sizes)]
        dots = [(position, item.p50) for position, item in measured if item is not None]
        if not dots:
            continue
        colours = OURS if contender.ours else THEIRS
        times = [time for _, time in dots]
        axes.plot([min(times), max(times)], [row, row], color=colours[1], linewidth=1.4, alpha=0.55, zorder=2)
        for position, time in dots:
            axes.scatter([time], [row], s=30, color=colours[position - len(sizes)], zorder=3)
    axes.set_ylim(-0.6, len(_SHOWN) - 0.4)
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high / low > _WIDE else (1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(lambda *_: "")
    axes.set_xlabel("ms, median (less is better)", fontsize=8)


def _legend(figure: Any, sizes: Sequence[int]) -> None:
    from matplotlib.lines import Line2D

    shades = range(-len(sizes), 0)
    handles = [
        Line2D([], [], linestyle="", marker="o", markersize=5.5, color=THEIRS[shade], label=f"{n:,} rows")
        for shade, n in zip(shades, sizes, strict=True)
    ]
    ours = Line2D([], [], linestyle="", marker="o", markersize=5.5, color=OURS[1], label="Tellback")
    figure.supxlabel(
        "ᵐ in memory, on disk only when it is saved    ⁱ returns ids alone", fontsize=8, x=0.99, ha="right"
    )
    figure.legend(handles=[ours, *handles], loc="outside upper right", ncols=len(sizes) + 1, frameon=False)
