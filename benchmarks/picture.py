"""Look of the pictures of the documents: colours of a light page that a dark one swaps, and SVG without a date.

A style inside the file swaps the colours where the reader's system prefers dark, so that any program that knows no such
style shows the light ones.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

INK, FAINT, PAPER = "#1f2328", "#d1d9e0", "#ffffff"
OURS = ("#9ec5fe", "#3d8bfd", "#084298")
THEIRS = ("#c9ced4", "#8b949e", "#4c535b")
_DARK = {
    INK: "#e6edf3",
    FAINT: "#3d444d",
    PAPER: "#0d1117",
    OURS[0]: "#1f4e8c",
    OURS[2]: "#a5d0ff",
    THEIRS[0]: "#4c535b",
    THEIRS[2]: "#c9ced4",
}
SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tellback",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Helvetica", "Arial"],
    "font.size": 8.5,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def matplotlib() -> tuple[Any, Any]:
    """Return (matplotlib, its Figure); raise ``ModuleNotFoundError`` naming the extra where it is missing."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("the plot needs matplotlib: pip install '.[bench]'") from error
    return mpl, Figure


def plain_axes(axes: Any) -> None:
    """Take frame and ticks off, and put faint lines behind what is drawn."""
    axes.set_facecolor(PAPER)
    axes.grid(axis="x", color=FAINT, linewidth=0.6)
    axes.tick_params(which="both", length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def save(figure: Any, path: Path) -> None:
    """Write *figure* as SVG, in colours for both lights, with no number longer than it need be."""
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    rules = "".join(
        f'[style*="{name}: {light}"]{{{name}:{dark}!important}}'
        for light, dark in _DARK.items()
        for name in ("fill", "stroke")
    )
    style = f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>"
    shortened = re.sub(r"(\d+\.\d{2})\d+", r"\1", written.getvalue())
    path.write_text(re.sub(r"(<svg[^>]*>)", lambda found: found.group(1) + style, shortened, count=1), "utf-8")
