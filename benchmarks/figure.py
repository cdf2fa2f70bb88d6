"""A figure of a benchmark in a line, with what is to be reached; the table of many, and the file that keeps them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

_QUIET = 1.5
"""Load average above which times are provisional."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line: *what* at a *size* (0: of none), *p50* and *p95* in *unit*, and what is to be reached.

    *bound* is the most that may be, or the least where *least*; None where nothing is asked for.
    """

    what: str
    size: int
    unit: str
    p50: float
    p95: float | None = None
    bound: float | None = None
    least: bool = False

    @property
    def met(self) -> bool | None:
        """True if the bound is kept."""
        if self.bound is None:
            return None
        return self.p50 >= self.bound if self.least else self.p50 <= self.bound


def times(what: str, size: int, seconds: Sequence[float], bound: float | None = None, unit: str = "ms") -> Figure:
    """Return the median and the 95th percentile of *seconds*, in ``ms`` or ``µs``."""
    low, high = np.percentile(np.asarray(seconds) * {"ms": 1e3, "µs": 1e6}[unit], (50, 95))
    return Figure(what, size, unit, float(low), float(high), bound)


def show(title: str, sizes: str, figures: Sequence[Figure], about: Mapping[str, Any], note: str = "") -> None:
    """Print *figures*; *sizes* heads the column of their sizes, *note* and the circumstances *about* stand below."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    load = about["load"]
    noisy = " PROVISIONAL: the machine was not quiet." if load is not None and load > _QUIET else ""
    caption = f"{about['machine']}; load {load} before it.{noisy}"
    table = Table(title=title, caption=f"{caption}\n{note}" if note else caption)
    table.add_column("what", no_wrap=True)
    for head in (sizes, "p50", "p95", "unit", "goal", "met"):
        table.add_column(head, justify="right", no_wrap=True)
    for figure in figures:
        goal = "" if figure.bound is None else f"{'≥' if figure.least else '≤'} {figure.bound:g}"
        met = {True: "yes", False: "no", None: ""}[figure.met]
        p95 = "" if figure.p95 is None else short(figure.p95)
        size = f"{figure.size:,}" if figure.size else ""
        table.add_row(figure.what, size, short(figure.p50), p95, figure.unit, goal, met)
    console.print(table)


def keep(path: Path | None, figures: Sequence[Figure], about: Mapping[str, Any]) -> None:
    """Write *figures* and their circumstances to *path*, if it is given: ``{"about": …, "figures": […]}``."""
    if path is not None:
        kept = {"about": about, "figures": [asdict(figure) for figure in figures]}
        path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")


def short(value: float) -> str:
    """Return a number in about three figures, as people write it."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
